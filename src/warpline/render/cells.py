"""Converts the columns of a Result to the texts of their cells, block by block.

Numbers have nsys's digits. Each distinct text is converted once, when a block first holds it, so
writing a table of a million rows takes little memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from warpline import native
from warpline.render import Options, TimeUnit
from warpline.result import Field, Numbers, Result, Texts
from warpline.result.plain_texts import PlainTexts
from warpline.units import Unit, binary_fixed_all, fixed_all

ROWS_PER_BLOCK = 8192
_INT64_CHARS = 21  # the longest number and its terminator
_WHOLE_KINDS = {np.dtype(np.int64): native.CELLS_INT64, np.dtype(np.int32): native.CELLS_INT32}
_MAX_PACKED_TEXTS = 2**16  # beyond, the texts of a block are packed

# nsys's factor, digits and heading for each unit of --timeunit.
_TIME_UNITS: dict[TimeUnit, tuple[float, int, str]] = {
    "us": (1e-3, 3, "us"),
    "ms": (1e-6, 4, "ms"),
    "s": (1e-9, 4, "sec"),
}


class PackedCells(NamedTuple):
    """The cells of some rows of a column as arrays, for the native core.

    Attributes:
        kind: ``CELLS_*`` of `native`.
        values: Shape (n,): numbers, or numbers of texts; None for one text per row.
        valid: Shape (n,), False for an empty cell; None if there is none.
        blob: The UTF-8 bytes of all texts, or None.
        offsets: Where each begins, and the end; or None.
    """

    kind: int
    values: npt.NDArray[Any] | None
    valid: npt.NDArray[np.bool_] | None = None
    blob: npt.NDArray[np.uint8] | None = None
    offsets: npt.NDArray[np.int64] | None = None

    @staticmethod
    def of_texts(texts: Sequence[str]) -> PackedCells:
        """Return one text per row."""
        parts = [text.encode() for text in texts]
        offsets = np.zeros(len(parts) + 1, np.int64)
        np.cumsum(np.fromiter(map(len, parts), np.int64, len(parts)), out=offsets[1:])
        blob = np.frombuffer(b"".join(parts), np.uint8)
        return PackedCells(native.CELLS_LINES, None, None, blob, offsets)


class NumberCells:
    """Cells of a column of numbers, empty for missing or nonfinite ones.

    Args:
        field: The column.
        numbers: Its values.
        time_unit: Unit for ns columns.
        is_grouped: Whether thousands are separated.
    """

    is_number = True

    def __init__(
        self,
        field: Field,
        numbers: Numbers,
        time_unit: TimeUnit | None = None,
        *,
        is_grouped: bool = False,
    ) -> None:
        self._field = field
        self._is_grouped = is_grouped
        self._values = numbers.values
        self._valid = numbers.valid
        in_ns = field.unit is Unit.NS and field.scale == 1
        self._time = _TIME_UNITS.get(time_unit) if in_ns and time_unit else None
        self.heading = self._heading()

    def _heading(self) -> str:
        heading = self._field.heading
        if self._time is None:
            return heading
        unit = self._time[2]
        if heading.endswith("_ns"):
            return heading.removesuffix("ns") + unit
        return heading.replace("(ns)", f"({unit})")

    def texts(self, rows: slice) -> list[str]:
        """Return the cells of some rows."""
        values, valid = self._values[rows], self._mask(rows)
        if valid is None or valid.all():
            return self._format(values)
        cells = np.full(len(values), "", dtype=object)
        cells[valid] = self._format(values[valid])
        return list(cells)

    def packed(self, rows: slice) -> PackedCells:
        """Return the cells of some rows as arrays: whole numbers without being formatted."""
        values, valid = self._values[rows], self._mask(rows)
        is_plain = self._time is None and self._field.digits is None and self._field.scale == 1
        kind = _WHOLE_KINDS.get(values.dtype)
        if kind is not None and is_plain and not self._is_grouped:
            return PackedCells(kind, values, valid)
        if valid is None:
            return PackedCells.of_texts(self._format(values))
        # Most rows may have none, as kernels have no bytes.
        texts = PackedCells.of_texts(self._format(values[valid]))
        codes = np.where(valid, np.cumsum(valid) - 1, -1).astype(np.int32)
        return texts._replace(kind=native.CELLS_TEXTS, values=codes)

    def width(self) -> int:
        """Return the length of the longest cell."""
        every = slice(0, len(self._values))
        valid = self._mask(every)
        values = self._values if valid is None else self._values[valid]
        if not len(values):
            return 0
        if values.dtype.kind == "f" and self._field.digits is None:
            return max(
                len(text) for rows in blocks(len(values)) for text in self._format(values[rows])
            )
        # With fixed digits, the longest is the largest or, because of its sign, the smallest.
        return max(map(len, self._format(np.array([values.min(), values.max()]))))

    def _mask(self, rows: slice) -> npt.NDArray[np.bool_] | None:
        valid = None if self._valid is None else self._valid[rows]
        if self._values.dtype.kind != "f":
            return valid
        finite: npt.NDArray[np.bool_] = np.isfinite(self._values[rows])
        return finite if valid is None else finite & valid

    def _format(self, values: npt.NDArray[Any]) -> list[str]:
        if len(values) > 1 and (values == values[0]).all():
            return self._format(values[:1]) * len(values)
        texts = self._digits(values)
        return [_group(text) for text in texts] if self._is_grouped else texts

    def _digits(self, values: npt.NDArray[Any]) -> list[str]:
        scale, digits = self._field.scale, self._field.digits
        if self._time is not None:
            return self._convert_time(values, *self._time[:2])
        if digits is None:
            return _shortest(values if scale == 1 else values * scale)
        if scale < 1:
            return binary_fixed_all(values / (1 / scale), digits)
        return fixed_all(values, digits, scale)

    def _convert_time(self, values: npt.NDArray[Any], factor: float, digits: int) -> list[str]:
        # nsys converts rounded values: a mean of 0.45 ns becomes 0.5 ns and then 0.001 us.
        if self._field.digits is not None:
            values = np.array(fixed_all(values, self._field.digits), dtype=np.float64)
        return binary_fixed_all(values * factor, digits)


def _group(text: str) -> str:
    whole, point, fraction = text.partition(".")
    return f"{int(whole):,}{point}{fraction}" if whole.lstrip("-").isdecimal() else text


def _shortest(values: npt.NDArray[Any]) -> list[str]:
    if values.dtype.kind in "iu" and len(values):
        low, high = int(values.min()), int(values.max())
        if high - low < len(values):  # such as grid sizes: each number is formatted once
            table = np.array([str(value) for value in range(low, high + 1)], dtype=object)
            texts: list[str] = table[values - low].tolist()
            return texts
        core = native.core()
        if core is not None and values.dtype == np.int64:
            whole = np.ascontiguousarray(values)
            text = np.empty(len(whole) * _INT64_CHARS, np.uint8)
            size = core.wl_format_i64(whole.ctypes.data, len(whole), text.ctypes.data)
            return text[: size - 1].tobytes().decode("ascii").split("\n")
    return list(map(str, values.tolist()))


class TextCells:
    """Cells of a column of texts.

    Args:
        field: The column.
        texts: Its values.
        convert: Escapes a text for the format.
        missing: The cell for a missing text.
        is_plain: Whether no text in a concatenation needs escaping.
    """

    is_number = False

    def __init__(
        self,
        field: Field,
        texts: Texts,
        convert: Callable[[str], str],
        missing: str = "",
        is_plain: Callable[[str], bool] = lambda _: False,
    ) -> None:
        self.heading = field.heading
        self._texts = texts
        self._convert = convert
        self._is_plain = is_plain
        # The last element is that of code -1.
        self._cells = np.full(len(texts.values) + 1, missing, dtype=object)
        self._converted = np.zeros(len(texts.values) + 1, dtype=np.bool_)
        self._converted[-1] = True
        self._packed: PackedCells | None = None

    def texts(self, rows: slice) -> list[str]:
        """Return the cells of some rows."""
        codes = self._texts.codes[rows]
        new = codes[~self._converted[codes]]
        if len(new):
            numbers = list(set(new.tolist()))
            texts = [self._texts.values[number] for number in numbers]
            if not self._is_plain("".join(texts)):
                texts = [self._convert(text) for text in texts]
            self._cells[numbers] = texts
            self._converted[new] = True
        cells: list[str] = self._cells[codes].tolist()
        return cells

    def packed(self, rows: slice) -> PackedCells:
        """Return the cells of some rows as arrays."""
        values, codes = self._texts.values, self._texts.codes[rows]
        if isinstance(values, PlainTexts):
            return PackedCells(native.CELLS_TEXTS, codes, None, values.blob, values.offsets)
        if len(values) > _MAX_PACKED_TEXTS:
            return PackedCells.of_texts(self.texts(rows))
        if self._packed is None:
            self._packed = self._pack()
        # Missing texts are packed, too, after all others.
        return self._packed._replace(values=np.where(codes < 0, len(values), codes))

    def _pack(self) -> PackedCells:
        """Return the texts in use, and empty ones in the place of others."""
        counts = np.bincount(self._texts.codes + 1, minlength=1)  # np.unique imports numpy.ma
        used = set(np.flatnonzero(counts[1:]).tolist())
        texts = [
            self._convert(text) if number in used else ""
            for number, text in enumerate(self._texts.values)
        ]
        packed = PackedCells.of_texts([*texts, self._cells[-1]])
        return packed._replace(kind=native.CELLS_TEXTS)


def used_texts(texts: Texts) -> Iterator[str]:
    """Yield the distinct texts in use."""
    counts = np.bincount(texts.codes + 1, minlength=1)
    return (texts.values[code] for code in np.flatnonzero(counts[1:]).tolist())


Cells = NumberCells | TextCells


def cells_of(
    result: Result,
    options: Options,
    convert: Callable[[str], str],
    is_plain: Callable[[str], bool] = lambda _: False,
) -> list[Cells]:
    """Return the cells of each column of a result, in its order; see TextCells."""
    columns: list[Cells] = []
    for field in result.fields:
        values = result.columns[field.name]
        if isinstance(values, Texts):
            columns.append(TextCells(field, values, convert, is_plain=is_plain))
        else:
            columns.append(NumberCells(field, values, options.time_unit))
    return columns


def blocks(count: int, rows: int = ROWS_PER_BLOCK) -> Iterator[slice]:
    """Yield slices of `rows` that together cover `count` rows."""
    for start in range(0, count, rows):
        yield slice(start, min(start + rows, count))
