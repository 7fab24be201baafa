"""The launches of each step, in order, and whether all steps launch the same operations."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import NamedTuple

import numpy as np

from warpline.derived import derived
from warpline.derived.kernels.named import names_of_operations
from warpline.derived.steps.times import step_of_operations, steps
from warpline.derived.work.busy import DEVICE_TABLES
from warpline.derived.work.operations import operations
from warpline.ops.arrays import I32, I64, Integers, is_repeated
from warpline.ops.group import distinct_values
from warpline.trace import Run, Trace

_SAME_RATIO = 0.9
_LEAST_STEPS = 3
_LEAST_LAUNCHES = 20  # per step, for a CUDA graph to be worthwhile


class LaunchSequences(NamedTuple):
    """Operations of steps, in launch order.

    Attributes:
        operation: Shape (n,), int64, indices into `operations`, by step, then by call.
        step: Shape (n,), int32, ascending.
        what: Shape (n,), int32, equal for kernels of one name, for all copies, and for all memsets.
    """

    operation: I64
    step: I32
    what: I32

    def of_steps(self) -> list[tuple[int, slice]]:
        """Return the steps, each with the slice of its operations."""
        bounds = np.append(np.flatnonzero(np.diff(self.step, prepend=-1)), len(self.step))
        lows, highs = bounds[:-1].tolist(), bounds[1:].tolist()
        places = [slice(low, high) for low, high in zip(lows, highs, strict=True)]
        return list(zip(self.step[bounds[:-1]].tolist(), places, strict=True))


@derived
def launch_sequences(run: Run) -> LaunchSequences:
    """Return the operations that each step launches, if their call is known."""
    work, step = operations(run.trace), step_of_operations(run)
    if not len(steps(run)):
        step = np.full(len(work), -1, np.int32)
    chosen = np.flatnonzero((step >= 0) & (work.call >= 0))
    keys: tuple[Integers, ...] = work.call[chosen], step[chosen]
    if not is_repeated(work.device):  # operations of one device are ordered by start
        keys = work.start_ns[chosen], *keys
    chosen = chosen[np.lexsort(keys)]
    return LaunchSequences(chosen, step[chosen], _what(run.trace)[chosen])


@derived
def step_launches(run: Run) -> tuple[I64, ...]:
    """Return the calls that launch the operations of each step, rows of api_call."""
    sequences = launch_sequences(run)
    calls = operations(run.trace).call[sequences.operation]
    return tuple(distinct_values(calls[rows]) for _, rows in sequences.of_steps())


def could_be_graphs(run: Run) -> bool:
    """Return whether steps launch the same operations, and enough to benefit from a CUDA graph."""
    if not steps_repeat(run):
        return False
    launches = [len(calls) for calls in step_launches(run)]
    return float(np.median(launches)) >= _LEAST_LAUNCHES


@derived
def steps_repeat(run: Run) -> bool:
    """Return whether 9 in 10 included steps launch the same operations in the same order.

    Each loop repeats its own: ranks may differ in their work. It needs at least three steps.
    """
    sequences, run_steps = launch_sequences(run), steps(run)
    texts: defaultdict[int, Counter[bytes]] = defaultdict(Counter)
    for step, rows in sequences.of_steps():
        if run_steps.included[step]:
            texts[int(run_steps.loop[step])][sequences.what[rows].tobytes()] += 1
    counts = [own.total() for own in texts.values()]
    most = sum(max(own.values()) for own in texts.values())
    return min(counts, default=0) >= _LEAST_STEPS and most >= _SAME_RATIO * sum(counts)


def _what(trace: Trace) -> I32:
    """Return a number for each operation, equal for kernels of one name."""
    table, names = operations(trace).table, names_of_operations(trace)
    if not len(table):
        return np.zeros(0, np.int32)
    # Numbers of names, then of the other tables that have operations.
    others = distinct_values(table[names.number == len(names.distinct)])
    behind = np.zeros(len(DEVICE_TABLES), np.int32)
    behind[others] = np.arange(len(others))
    return names.number + behind[table]
