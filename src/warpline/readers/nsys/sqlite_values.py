"""Raw columns of a SQLite file, before interpretation."""

from __future__ import annotations

from enum import Enum

import numpy as np
import numpy.typing as npt

from warpline import native
from warpline.frozen import frozen
from warpline.ops.group import factorize
from warpline.ops.text import factorize_texts


class Kind(Enum):
    """The type that a column is read as. A value that does not fit is counted as invalid.

    The members' values are the native core's numbers for them.
    """

    INT64 = native.KIND_INT64
    """Integers; reals that are whole and within +-2**53, where every whole real is exact."""
    FLOAT64 = native.KIND_FLOAT64
    """Reals; integers, rounded to the nearest."""
    TEXT = native.KIND_TEXT
    """Text, as the stored UTF-8 bytes, valid or not."""
    BLOB = native.KIND_BLOB
    """Blobs and text, as their bytes."""
    INT64_CODES = native.KIND_INT64_CODES
    """As INT64, for columns with few distinct values: the number of each value."""
    TEXT_CODES = native.KIND_TEXT_CODES
    """As TEXT, likewise."""

    @property
    def uncoded(self) -> Kind:
        """The kind with values instead of their numbers."""
        return {Kind.INT64_CODES: Kind.INT64, Kind.TEXT_CODES: Kind.TEXT}.get(self, self)


@frozen
class SourceColumn:
    """A column as the file's schema declares it.

    Attributes:
        name: As stored.
        type: The declared type, as stored; may be empty.
        is_rowid: Whether it is an INTEGER PRIMARY KEY, another name of the rowid.
        default: The SQL of its default value, or None.
        position: Its index in a stored record; None if it is computed when read.
    """

    name: str
    type: str
    is_rowid: bool
    default: str | None
    position: int | None

    @property
    def is_real(self) -> bool:
        """Whether it has REAL affinity: sqlite3 may store its whole values as integers.

        Source: https://www.sqlite.org/datatype3.html, 3.1, rules 1 to 4 in their order.
        """
        declared = self.type.upper()
        if any(word in declared for word in ("INT", "CHAR", "CLOB", "TEXT", "BLOB")):
            return False
        return any(word in declared for word in ("REAL", "FLOA", "DOUB"))


@frozen
class RawColumn:
    """A column of numbers.

    Attributes:
        values: int64 or float64, one per row; 0 where there is no value.
        valid: True where there is a value; None if there is one in every row.
        mismatched: How many rows hold a value of another kind. They are not valid.
    """

    values: npt.NDArray[np.int64] | npt.NDArray[np.float64]
    valid: npt.NDArray[np.bool_] | None
    mismatched: int

    def between(self, first: int, last: int) -> RawColumn:
        """Return the rows from `first` to before `last`."""
        return RawColumn(self.values[first:last], _part(self.valid, first, last), self.mismatched)


@frozen
class RawText:
    """A column of texts or blobs: row i is ``blob[offsets[i]:offsets[i + 1]]``.

    Attributes:
        blob: The bytes of all rows, uint8.
        offsets: int64, one more than there are rows.
        valid: True where there is a value; None if there is one in every row.
        mismatched: How many rows hold a value of another kind. They are empty and not valid.
    """

    blob: npt.NDArray[np.uint8]
    offsets: npt.NDArray[np.int64]
    valid: npt.NDArray[np.bool_] | None
    mismatched: int

    def between(self, first: int, last: int) -> RawText:
        """Return the rows from `first` to before `last`."""
        begin, end = int(self.offsets[first]), int(self.offsets[last])
        offsets = self.offsets[first : last + 1] - begin
        valid = _part(self.valid, first, last)
        return RawText(self.blob[begin:end], offsets, valid, self.mismatched)


@frozen
class RawCodes:
    """A column as numbers of its distinct values.

    Attributes:
        codes: Shape (n,), int32, the number of each row's value. Without one, that of 0, or -1
            for texts.
        keys: The distinct integers, ascending; or the texts, in order of first appearance.
        valid: True where there is a value; None if there is one in every row.
        mismatched: How many rows hold a value of another kind. They are not valid.
    """

    codes: npt.NDArray[np.int32]
    keys: npt.NDArray[np.int64] | tuple[bytes, ...]
    valid: npt.NDArray[np.bool_] | None
    mismatched: int

    def between(self, first: int, last: int) -> RawCodes:
        """Return the rows from `first` to before `last`, with all keys."""
        valid = _part(self.valid, first, last)
        return RawCodes(self.codes[first:last], self.keys, valid, self.mismatched)


Raw = RawColumn | RawText | RawCodes


def _part(
    valid: npt.NDArray[np.bool_] | None, first: int, last: int
) -> npt.NDArray[np.bool_] | None:
    return None if valid is None else valid[first:last]


def coded(raw: Raw) -> RawCodes:
    """Return a column of integers or texts as numbers of its distinct values."""
    if isinstance(raw, RawCodes):
        return raw
    if isinstance(raw, RawText):
        texts = factorize_texts(raw.blob, raw.offsets, raw.valid)
        bounds = zip(raw.offsets[texts.first], raw.offsets[texts.first + 1], strict=True)
        keys = tuple(raw.blob[begin:end].tobytes() for begin, end in bounds)
        return RawCodes(texts.codes, keys, raw.valid, raw.mismatched)
    groups = factorize(raw.values.astype(np.int64, copy=False))
    return RawCodes(groups.codes, groups.uniques, raw.valid, raw.mismatched)
