"""GPU time by module and by phase of training, in the windows of the analyzed steps.

Each moment of a GPU belongs to one operation, as in the breakdown: the running one or, for idle
time, the one that ends the gap. So the busy times of modules, and what is outside them, sum to the
GPUs' busy time, and phases to the length of the windows.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from warpline.derived import derived
from warpline.derived.breakdown.partition import sums_in
from warpline.derived.breakdown.segments import device_segments
from warpline.derived.modules.attribution import attribution
from warpline.derived.modules.places import Phase
from warpline.derived.steps.times import Windows, measure_windows, steps
from warpline.derived.steps.work import step_of_operations
from warpline.derived.time_parts import TimePart, is_busy
from warpline.derived.work.operations import operations
from warpline.ops.arrays import I32, I64
from warpline.ops.tree import enclosing
from warpline.trace import Run

TAIL = len(Phase)  # the row of the time after the last operation

_NOT_COUNTED = -1


class Slots(NamedTuple):
    """Windows that belong together: those of a step on all devices or, without steps, all.

    Attributes:
        windows: The windows.
        slot: Shape (windows,), int64.
        n_slots: Number of slots.
        steps: Shape (slots,), int64, places in `steps`; -1 for the whole recording.
    """

    windows: Windows
    slot: I64
    n_slots: int
    steps: I64


@derived
def step_slots(run: Run) -> Slots:
    """Return the windows to analyze, by step."""
    windows = measure_windows(run)
    steps, slot = np.unique(windows.step, return_inverse=True)
    return Slots(windows, slot.reshape(-1).astype(np.int64), len(steps), steps)


@derived
def phase_times(run: Run) -> I64:
    """Return the time of each phase and part, shape (phases + 1, `TimePart`), int64 ns.

    The last row, `TAIL`, is the time after the last operation. All cells sum to the length of the
    windows, of all devices.
    """
    trace = run.trace
    segments = device_segments(trace)
    # Operation -1, of the tail, is one behind the last.
    row = np.append(attribution(trace).phase, np.int8(TAIL)).astype(np.int32)
    cell = row[segments.operation]
    cell *= len(TimePart)
    cell += segments.part
    windows = step_slots(run).windows
    sums = sums_in(trace, windows, cell, (TAIL + 1) * len(TimePart)).reshape(TAIL + 1, -1)
    whole = int((windows.end_ns - windows.start_ns).sum())
    sums[TAIL, int(TimePart.UNKNOWN)] += whole - int(sums.sum())
    return sums


def module_busy_ns(run: Run, group: I32, n_groups: int, phase: Phase) -> I64:
    """Return the busy time of the work of modules themselves, without modules inside them.

    Shape (n_groups + 1, slots), int64 ns; the last row is outside modules.

    Args:
        run: The trace and its steps.
        group: Shape (modules,), the group of each module.
        n_groups: Number of groups.
        phase: The phase that counts.
    """
    slots, segments, placed = step_slots(run), device_segments(run.trace), attribution(run.trace)
    row = np.append(group, n_groups).astype(np.int32)[placed.module]
    row[placed.phase != phase] = _NOT_COUNTED
    code = np.append(row, np.int32(_NOT_COUNTED))[segments.operation]
    code[~is_busy(segments.part)] = _NOT_COUNTED
    sums = sums_in(
        run.trace, slots.windows, code, n_groups + 1, slot=slots.slot, n_slots=slots.n_slots
    )
    return np.ascontiguousarray(sums.T)


def slots_at(run: Run, time_ns: I64, process: I64) -> I64:
    """Return the slot in which processes were at some times on the CPU, -1 outside steps.

    Args:
        run: The trace and its steps.
        time_ns: Shape (n,), int64.
        process: Shape (n,), int64, rows of the process table.
    """
    slots, run_steps = step_slots(run), steps(run)
    chosen = np.flatnonzero(slots.steps >= 0)
    if not len(chosen):
        return np.full(len(time_ns), 0 if slots.n_slots else _NOT_COUNTED)
    step = slots.steps[chosen]
    around = enclosing(
        time_ns,
        run_steps.host_start_ns[step],
        run_steps.host_end_ns[step],
        point_group=process,
        group=run_steps.process[step],
    )
    return np.where(around.found, chosen[around.row], _NOT_COUNTED)


def slots_of_operations(run: Run) -> I64:
    """Return the slot in which each operation was launched, -1 outside steps."""
    slots = step_slots(run)
    if not (slots.steps >= 0).any():
        return np.full(len(operations(run.trace)), 0 if slots.n_slots else _NOT_COUNTED)
    of_step = np.full(len(steps(run)) + 1, _NOT_COUNTED)  # the last one is of no step
    of_step[slots.steps[slots.steps >= 0]] = np.flatnonzero(slots.steps >= 0)
    found: I64 = of_step[step_of_operations(run)]
    return found
