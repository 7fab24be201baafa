"""A sentence about the lines of the program that wait in the operating system."""

from __future__ import annotations

from warpline.derived.breakdown.host_lines import blocked_lines, has_lines
from warpline.derived.breakdown.step_scope import step_scope
from warpline.derived.idle.os_waits import Waits
from warpline.ops.tiling import Grouped
from warpline.trace import Run
from warpline.units import format_ns

_SHOWN = 2
_LEAST = 0.1


def os_lines(run: Run, waits: Waits, count: int) -> str:
    """Return where threads wait, with the time per step; empty if samples do not show it.

    Args:
        run: The trace, and the choice of its steps.
        waits: Waits of one process.
        count: Number of its steps.
    """
    if not has_lines(run.trace):
        return ""
    times = Grouped(waits.start_ns, waits.end_ns, waits.thread)
    lines = blocked_lines(run.trace, times)
    each = step_scope(run).each
    most = [line for line in lines.lines[:_SHOWN] if line.ns >= _LEAST * lines.ns]
    listed = ", ".join(f"{format_ns(line.ns / count)}{each} in {line.text}" for line in most)
    return f" {listed}." if listed else ""
