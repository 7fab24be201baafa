"""The backtraces of a table, each followed frame by frame."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from warpline.trace import Trace

COLUMNS = ("symbol", "module", "line", "kind", "is_unresolved", "address")


def backtraces(
    trace: Trace, table: str, columns: Sequence[str] = COLUMNS
) -> list[list[tuple[Any, ...]] | None]:
    """Return the frames of each row's stack, innermost first; None for a row without one."""
    frames, stacks = trace["frame"].select(columns).rows(), trace["stack"].rows()
    found: list[list[tuple[Any, ...]] | None] = []
    for stack in trace[table]["stack_id"].to_list():
        row, of_row = stack, []
        while row is not None:
            row, frame, _ = stacks[row]
            of_row.append(frames[frame])
        found.append(of_row or None)
    return found
