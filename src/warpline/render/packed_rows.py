"""Rows of cells joined to lines by the native core."""

from __future__ import annotations

import io
import os
from collections.abc import Iterator, Sequence
from typing import TextIO

import numpy as np

from warpline import native
from warpline.ops.arrays import U8
from warpline.render.cells import Cells, PackedCells, blocks

_ROWS_PER_BLOCK = 2**15  # some MB of text, formatted by several threads


def write_packed(columns: Sequence[Cells], count: int, separator: str, out: TextIO) -> bool:
    """Write `count` rows as lines; return False, with nothing written, without the core.

    Args:
        columns: Cells that contain neither the separator nor a line feed, unless quoted.
        count: Number of rows.
        separator: One ASCII character, between the cells of a row.
        out: Where to.
    """
    core = native.core()
    if core is None or not columns:
        return False
    below = _below(out)
    for text in _blocks(core, columns, count, separator):
        if below is None:
            out.write(text.tobytes().decode())
        else:
            below.write(text)
    return True


def _below(out: TextIO) -> io.BufferedWriter | None:
    """Return what takes the bytes of a text stream that would change none of them.

    Decoding and encoding many MB takes as long as formatting them.
    """
    if not isinstance(out, io.TextIOWrapper) or os.linesep != "\n":
        return None
    is_utf8 = out.encoding.lower().replace("-", "").replace("_", "") == "utf8"
    below = out.buffer
    if not is_utf8 or not isinstance(below, io.BufferedWriter):
        return None  # an unbuffered one may write a part only
    out.flush()
    return below


def _blocks(
    core: native.Core, columns: Sequence[Cells], count: int, separator: str
) -> Iterator[memoryview]:
    """Yield the lines of some rows each, valid until the next ones are."""
    text = np.empty(0, np.uint8)
    for rows in blocks(count, _ROWS_PER_BLOCK):
        packed = [_contiguous(column.packed(rows)) for column in columns]
        needed = _write(core, packed, rows.stop - rows.start, separator, None)
        if needed > len(text):
            text = np.empty(needed, np.uint8)
        size = _write(core, packed, rows.stop - rows.start, separator, text)
        yield text[:size].data


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
