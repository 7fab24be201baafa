"""Which rank something belongs to, and which moments of it are in its steps."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from warpline.derived.steps.times import steps
from warpline.ops.arrays import I64, BoolArray
from warpline.ops.tree import enclosing
from warpline.trace import Run


class Rank(NamedTuple):
    """A process (row of its table; -1 if unknown) on a device."""

    process: int
    device: int


def in_steps(run: Run, process: int, start: I64, thread: I64) -> tuple[BoolArray, int]:
    """Return which moments are in included steps of a process, and the number of these steps."""
    found = steps(run)
    owner = run.trace.columns("thread", "process_id")["process_id"].values[thread]
    is_own: BoolArray = owner == process if process >= 0 else np.ones(len(start), np.bool_)
    rows = np.flatnonzero(found.included & (found.process == process))
    if not len(rows):
        return is_own, 1
    inside = enclosing(start, found.host_start_ns[rows], found.host_end_ns[rows]).found
    return is_own & inside, len(rows)
