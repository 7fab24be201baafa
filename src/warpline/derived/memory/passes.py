"""When a process was in a forward pass, a backward pass, or the step of an optimizer.

They follow from ranges of modules, of autograd's functions and of optimizers on any of its threads.
Phases without ranges follow from the Python stacks of allocations: a pass lasts from the first one
to the last one in a row. Stacks of frees do not count, because they may be those of the allocation.
Autograd works on threads without Python frames, so allocations without any between a forward pass
and an optimizer's step are of the backward pass.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from warpline.derived import derived
from warpline.derived.memory.stack_meanings import BACKWARD, FORWARD, OPTIMIZER, stack_meanings
from warpline.derived.modules.places import Phase, spans_of_phases
from warpline.derived.ranges.optimizer_steps import optimizer_ranges
from warpline.ops.arrays import I8, I64, BoolArray
from warpline.schema.labels import MEMORY_OPERATIONS
from warpline.trace import Trace

_NONE = -1
_ALLOCATION = next(v for v, label in MEMORY_OPERATIONS.items() if label == "Allocation")
# What a checkpoint repeats has frames of a backward function and of modules: the last one counts.
_BITS = {FORWARD: Phase.FORWARD, OPTIMIZER: Phase.OPTIMIZER, BACKWARD: Phase.BACKWARD}


class Passes(NamedTuple):
    """The passes of one process, in the order of their starts. They may overlap.

    Attributes:
        start_ns: Shape (n,), int64.
        end_ns: Shape (n,), int64.
        phase: Shape (n,), int8, members of `Phase`: forward, backward or optimizer.
    """

    start_ns: I64
    end_ns: I64
    phase: I8

    def of(self, phase: Phase) -> tuple[I64, I64]:
        """Return start and end of the passes of one phase."""
        chosen = self.phase == phase
        return self.start_ns[chosen], self.end_ns[chosen]

    def inside(self, phase: Phase, time_ns: I64) -> BoolArray:
        """Return which times are in a pass of the phase."""
        start, end = self.of(phase)
        if not len(start):
            return np.zeros(len(time_ns), np.bool_)
        before = np.searchsorted(start, time_ns, side="right") - 1
        found: BoolArray = (before >= 0) & (time_ns <= end[np.maximum(before, 0)])
        return found


@derived
def passes_of(trace: Trace, process: int) -> Passes:
    """Return the passes of a process, a row of its table; none if nothing is known."""
    ranges = _of_ranges(trace, process)
    stacks = _of_stacks(trace, process, ranges)
    chosen = ~np.isin(stacks.phase, np.unique(ranges.phase))
    start = np.append(ranges.start_ns, stacks.start_ns[chosen])
    end = np.append(ranges.end_ns, stacks.end_ns[chosen])
    phase = np.append(ranges.phase, stacks.phase[chosen]).astype(np.int8)
    order = np.argsort(start, kind="stable")
    return Passes(start[order], end[order], phase[order])


def step_starts(passes: Passes) -> I64:
    """Return where training steps begin: at the first forward pass after another phase."""
    is_forward = passes.phase == Phase.FORWARD
    before = np.append(False, is_forward[:-1])
    starts: I64 = passes.start_ns[is_forward & ~before]
    return starts if (~is_forward).any() else starts[:0]


def _of_ranges(trace: Trace, process: int) -> Passes:
    spans, steps = spans_of_phases(trace), optimizer_ranges(trace, only_steps=True)
    of_thread = trace.columns("thread", "process_id")["process_id"].values
    own = (of_thread[spans.thread] == process) & (spans.phase != Phase.OPTIMIZER)
    steps_own = of_thread[steps.thread] == process
    start = np.concatenate((spans.start_ns[own], steps.start_ns[steps_own]))
    end = np.concatenate((spans.end_ns[own], steps.end_ns[steps_own]))
    step = np.full(int(steps_own.sum()), int(Phase.OPTIMIZER), np.int8)
    phase = np.concatenate((spans.phase[own], step))
    order = np.argsort(start, kind="stable")
    return _joined(Passes(start[order], end[order], phase[order]), Phase.BACKWARD)


def _of_stacks(trace: Trace, process: int, known: Passes) -> Passes:
    """Return the passes that follow from stacks, and known ones."""
    if not trace.has("allocator_event") or not trace.row_count("allocator_event"):
        return known
    names = ("time_ns", "process_id", "operation", "is_existing")
    columns = trace.columns("allocator_event", *names)
    is_new = (columns["operation"].values == _ALLOCATION) & ~(columns["is_existing"].filled(0) > 0)
    rows = np.flatnonzero(is_new & (columns["process_id"].values == process))
    stacks = stack_meanings(trace)
    code = stacks.code[rows]
    if not stacks.is_known[code].any():
        return known
    time = np.append(columns["time_ns"].values[rows], known.start_ns)
    phase = np.append(_meant(stacks.means[code]), known.phase).astype(np.int64)
    is_bare = np.append(~stacks.is_known[code], np.zeros(len(known.phase), np.bool_))
    order = np.argsort(time, kind="stable")
    time, phase = time[order], _with_backward(phase[order], is_bare[order])
    time, phase = time[phase >= 0], phase[phase >= 0]
    return _joined(Passes(time, time, phase.astype(np.int8)), *_BITS.values())


def _meant(means: I64) -> I64:
    """Return the phase that stacks mean; -1 for none."""
    phase = np.full(len(means), _NONE)
    for bit, value in _BITS.items():
        phase[(means & bit) > 0] = int(value)
    return phase


def _with_backward(phase: I64, is_bare: BoolArray) -> I64:
    """Return phases in order of time, with those of allocations without Python frames."""
    at = np.flatnonzero(phase >= 0)
    before = np.searchsorted(at, np.arange(len(phase)), side="right") - 1
    bare = np.flatnonzero(is_bare & (phase < 0) & (before >= 0))
    if not len(bare):
        return phase
    last, later = phase[at[before[bare]]], np.append(phase[at], _NONE)[before[bare] + 1]
    ends = (later == Phase.OPTIMIZER) | (later == Phase.BACKWARD)
    found = phase.copy()
    is_backward = (last == Phase.BACKWARD) | ((last == Phase.FORWARD) & ends)
    found[bare[is_backward]] = int(Phase.BACKWARD)
    return found


def _joined(passes: Passes, *phases: Phase) -> Passes:
    """Return passes in which those in a row are one, if they are of given phases."""
    if not len(passes.start_ns):
        return passes
    joins = np.isin(passes.phase, [int(phase) for phase in phases])
    same = (np.diff(passes.phase, prepend=_NONE) == 0) & joins
    first = np.flatnonzero(~same)
    end = np.maximum.reduceat(passes.end_ns, first)
    return Passes(passes.start_ns[first], end, passes.phase[first])
