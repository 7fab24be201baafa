"""A report: one HTML file that opens offline and cannot reach the network."""

from __future__ import annotations

from collections.abc import Sequence

from warpline.errors import UsageError
from warpline.result import Diagnosis
from warpline.trace import Trace
from warpline.units import format_bytes
from warpline.viewer.pack import TableOfStats, pack, report_bytes
from warpline.viewer.page import assets, page

__all__ = ["TableOfStats", "pack", "report"]


def report(
    trace: Trace,
    diagnosis: Diagnosis,
    tables: Sequence[TableOfStats] = (),
    *,
    steps: str | None = None,
    max_bytes: int | None = None,
) -> list[str]:
    """Return the pieces of a report.

    Args:
        trace: What to show.
        diagnosis: Of that trace.
        tables: Tables to show beside it.
        steps: What the ranges that are steps are called; None finds them.
        max_bytes: How large the file may be. Where it would be larger, short events are left
            out, and the page says which.

    Raises:
        UsageError: The file is larger than that whatever is left out.
        InputError: The viewer's script is not installed.
    """
    parts = assets()
    container = pack(trace, diagnosis, tables, steps=steps)
    pieces = list(page(diagnosis, container, parts, "inline"))
    if max_bytes is None or _size(pieces) <= max_bytes:
        return pieces
    frame = _size(pieces) - report_bytes(container)
    container = pack(trace, diagnosis, tables, steps=steps, max_bytes=max_bytes - frame)
    pieces = list(page(diagnosis, container, parts, "inline"))
    size = _size(pieces)
    if size > max_bytes:
        raise UsageError(
            f"the report takes at least {format_bytes(size)}, more than {format_bytes(max_bytes)}",
            hint="allow more, or choose a part with --filter-time",
        )
    return pieces


def _size(pieces: Sequence[str]) -> int:
    return sum(len(piece.encode()) for piece in pieces)
