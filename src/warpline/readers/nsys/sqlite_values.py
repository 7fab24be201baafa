"""Raw columns of a SQLite file, before interpretation."""

from __future__ import annotations

from enum import Enum

import numpy as np
import numpy.typing as npt

from warpline import native
from warpline.frozen import frozen


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


Raw = RawColumn | RawText
