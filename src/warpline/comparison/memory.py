"""The peak of GPU memory on both sides."""

from __future__ import annotations

from collections.abc import Sequence

from warpline.result.comparison import MemoryChange
from warpline.result.profile import Profile


def memory_changes(before: Sequence[Profile], after: Sequence[Profile]) -> tuple[MemoryChange, ...]:
    """Return the peak by allocator, of those that a side has: the mean over its runs."""
    names = sorted({name for run in (*before, *after) for name in run.memory_peak_bytes})
    return tuple(MemoryChange(name, _mean(name, before), _mean(name, after)) for name in names)


def _mean(name: str, runs: Sequence[Profile]) -> int | None:
    known = [run.memory_peak_bytes[name] for run in runs if name in run.memory_peak_bytes]
    return round(sum(known) / len(known)) if known else None
