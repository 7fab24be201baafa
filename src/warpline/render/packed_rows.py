"""Rows of cells joined to lines by the native core."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from warpline import native
from warpline.ops.arrays import U8
from warpline.render.cells import Cells, PackedCells, blocks

_ROWS_PER_BLOCK = 2**15  # some MB of text, formatted by several threads


def packed_lines(columns: Sequence[Cells], count: int, separator: str) -> Iterator[str] | None:
    """Return the lines of `count` rows, in blocks that end with a line feed; None without the core.

    Args:
        columns: Cells that contain neither the separator nor a line feed, unless quoted.
        count: Number of rows.
        separator: One ASCII character, between the cells of a row.
    """
    core = native.core()
    if core is None or not columns:
        return None
    return _blocks(core, columns, count, separator)


def _blocks(
    core: native.Core, columns: Sequence[Cells], count: int, separator: str
) -> Iterator[str]:
    text = np.empty(0, np.uint8)
    for rows in blocks(count, _ROWS_PER_BLOCK):
        packed = [_contiguous(column.packed(rows)) for column in columns]
        needed = _write(core, packed, rows.stop - rows.start, separator, None)
        if needed > len(text):
            text = np.empty(needed, np.uint8)
        size = _write(core, packed, rows.stop - rows.start, separator, text)
        yield text[:size].tobytes().decode()


def _write(
    core: native.Core, packed: Sequence[PackedCells], count: int, separator: str, text: U8 | None
) -> int:
    """Write the rows and return their bytes; without a text, return how many suffice."""
    cells = (native.Cells * len(packed))(*map(_structure, packed))
    buffer = (None, 0) if text is None else (text.ctypes.data, len(text))
    size = core.wl_format_rows(cells, len(packed), count, ord(separator), *buffer)
    if size < 0:
        raise MemoryError
    return size


def _contiguous(cells: PackedCells) -> PackedCells:
    values = None if cells.values is None else np.ascontiguousarray(cells.values)
    valid = None if cells.valid is None else np.ascontiguousarray(cells.valid)
    return cells._replace(values=values, valid=valid)


def _structure(cells: PackedCells) -> native.Cells:
    values, valid, blob, offsets = (
        None if array is None else array.ctypes.data for array in cells[1:]
    )
    texts = 0 if cells.offsets is None else len(cells.offsets) - 1
    return native.Cells(values, valid, blob, offsets, texts, cells.kind)
