"""The instructions of a function, each with the places in the source that it was made from."""

from __future__ import annotations

import posixpath
from bisect import bisect_right
from collections.abc import Iterator

from warpline.cubins.elf import Cubin
from warpline.cubins.line_table import Place
from warpline.frozen import frozen

INSTRUCTION_BYTES = 16  # since compute capability 7.0, the oldest that Nsight Compute supports

_MOST_LINE = 1 << 31


@frozen
class Instruction:
    """One machine instruction.

    Attributes:
        offset: Bytes from the start of the function.
        bits: The instruction.
        place: File and line; None if unknown. Of inlined code, in the innermost function.
        caller: File and line of the nearest call of inlined code that is not in a library; None
            for code that was not inlined.
        ptx_line: Line of the PTX, from 1; None if unknown.
    """

    offset: int
    bits: bytes
    place: Place | None
    caller: Place | None
    ptx_line: int | None


class FunctionCode:
    """The instructions of the functions of a cubin, one function at a time.

    Args:
        cubin: The cubin.

    Raises:
        CubinError: Its line tables are damaged.
    """

    def __init__(self, cubin: Cubin) -> None:
        self._cubin = cubin
        self._lines = cubin.lines()
        self._ptx_lines = cubin.ptx_lines()

    def of(self, function: bytes) -> Iterator[Instruction]:
        """Yield the instructions of a function; none if the cubin does not have it."""
        code = self._cubin.code(function) or b""
        lines, ptx_lines = self._lines.get(function, []), self._ptx_lines.get(function, [])
        starts, ptx_starts = ([row[0] for row in rows] for rows in (lines, ptx_lines))
        for offset in range(0, len(code) - INSTRUCTION_BYTES + 1, INSTRUCTION_BYTES):
            # Of several rows for one place, the last is the innermost of inlined functions.
            at, ptx_at = (bisect_right(of, offset) - 1 for of in (starts, ptx_starts))
            _, place, caller = lines[at] if at >= 0 else (0, None, None)
            ptx = _known(ptx_lines[ptx_at][1]) if ptx_at >= 0 else None
            yield Instruction(
                offset,
                code[offset : offset + INSTRUCTION_BYTES],
                _known(place),
                _known(caller),
                ptx[1] if ptx is not None else None,
            )


def _known(place: Place | None) -> Place | None:
    """Return a place with a path that is the same for all ways to write it."""
    if place is None or not 0 < place[1] < _MOST_LINE:
        return None
    file, line = place
    return posixpath.normpath(file) if file else b"", line
