"""The device work of steps: the operations of each, and its start on each device."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from warpline.derived import derived
from warpline.derived.steps.passes import one_pass
from warpline.derived.steps.periods import step_periods
from warpline.derived.steps.ranges import HostSteps, has_ranges_called, step_ranges
from warpline.derived.steps.training import training_steps
from warpline.derived.work.launch_order import launch_order
from warpline.derived.work.operations import operations
from warpline.errors import UsageError
from warpline.ops.arrays import I32, I64, BoolArray, is_repeated
from warpline.ops.group import factorize_rows
from warpline.trace import Run, Trace

NO_STEP = -1
FROM_LAUNCHES = "launches"  # the choice of steps that takes repeating launches
# Streams that wait for each other run at the same pace. As they start and end at different moments
# of their first and last steps, they appear to differ by up to this much.
_SAME_PACE = 0.97


class FirstWork(NamedTuple):
    """Start of the first operation of each step on each device, by loop, device and step."""

    step: I64
    device: I64
    start_ns: I64


class _Streams(NamedTuple):
    """Start of each step on each stream.

    Attributes:
        group: Shape (k,), int64, numbers of (loop, device, stream).
        step: Shape (k,), int64.
        start_ns: Shape (k,), int64.
    """

    group: I64
    step: I64
    start_ns: I64


@derived
def host_steps(run: Run) -> HostSteps | None:
    """Return the steps on the CPU, None if there are none.

    They are step ranges, otherwise the time between steps of PyTorch's optimizer or between
    batches, otherwise repetitions in the launches that are not parts of one pass: see
    `step_ranges`, `training_steps`, `step_periods` and `one_pass`. A run may ask for the
    repetitions, whatever they are, unless ranges have that name.
    """
    if run.steps == FROM_LAUNCHES and not has_ranges_called(run.trace, run.steps):
        repeated = step_periods(run.trace)
        if repeated is None:
            raise UsageError("launches do not repeat", hint="name ranges instead")
        return repeated
    marked = step_ranges(run)
    if marked is None:
        marked = training_steps(run.trace)
    if marked is not None:
        return marked
    return None if one_pass(run.trace) is not None else step_periods(run.trace)


@derived
def step_of_operations(run: Run) -> I32:
    """Return the step in which each of `operations` was launched, NO_STEP outside steps.

    Shape (operations,), int32.
    """
    marked = host_steps(run)
    if marked is None:
        return np.full(len(operations(run.trace)), NO_STEP, np.int32)
    return _launched_in(run.trace, marked)


@derived
def first_work(run: Run) -> FirstWork:
    """Return the start of each step on the devices that it launched work on."""
    work, marked, step = operations(run.trace), host_steps(run), step_of_operations(run)
    assert marked is not None, "requires steps"
    # Operations are ordered by start on each device: the first of a key is the earliest. There, the
    # key is not that of the operation before, which is so for few operations.
    opens = np.ones(len(step), np.bool_)
    opens[1:] = step[1:] != step[:-1]
    for column in (work.device, work.stream):
        if not is_repeated(column):
            opens[1:] |= column[1:] != column[:-1]
    opens &= step != NO_STEP
    rows = np.flatnonzero(opens)
    groups = factorize_rows(marked.loop[step[rows]], work.device[rows], work.stream[rows])
    keys = factorize_rows(groups.codes, step[rows])
    first = rows[keys.first]
    of_first = step[first].astype(np.int64)
    streams = _Streams(groups.codes[keys.first].astype(np.int64), of_first, work.start_ns[first])
    paces = _pacing(streams, marked.loop[step[first]], work.device[first])
    first = first[paces]
    loop, device = marked.loop[step[first]], work.device[first]
    order = np.lexsort((work.start_ns[first], step[first], device, loop))
    first, loop, device = first[order], loop[order], device[order]
    keep = np.ones(len(first), np.bool_)
    keep[1:] = (np.diff(step[first]) != 0) | (np.diff(device) != 0) | (np.diff(loop) != 0)
    first, loop = first[keep], loop[keep]
    of_first = step[first].astype(np.int64)
    return _in_order(FirstWork(of_first, work.device[first], work.start_ns[first]), loop)


def _launched_in(trace: Trace, marked: HostSteps) -> I32:
    """Return the index of the step in which each operation was launched, NO_STEP outside."""
    work, launched = operations(trace), launch_order(trace)
    step = np.full(len(work), NO_STEP, np.int32)
    first = np.flatnonzero(np.diff(marked.loop, prepend=-1))
    last = np.append(first[1:], len(marked.loop))
    several = np.bincount(marked.process[first]) > 1
    for low, high in zip(first.tolist(), last.tolist(), strict=True):
        place = np.searchsorted(marked.start_ns[low:high], launched.time_ns, side="right")
        place += low - 1
        inside = launched.time_ns < marked.end_ns[place]  # that of -1 is looked at, and of no use
        inside &= place >= low
        inside &= work.process == marked.process[low]
        if several[marked.process[low]]:
            inside &= ~np.isin(launched.thread, np.delete(marked.thread[first], marked.loop[low]))
        if low:
            # Of the loops of threads, that of the step that began last counts, or the first loop.
            taken = np.flatnonzero(inside & (step != NO_STEP))
            inside[taken] = marked.start_ns[place[taken]] > marked.start_ns[step[taken]]
        np.copyto(step, place, where=inside, casting="same_kind")
    return _with_unknown(trace, step)


def _with_unknown(trace: Trace, step: I32) -> I32:
    """Assign operations without a known call to the step of the previous one on their stream.

    Without a previous one, an operation belongs to the step that runs on the CPU when it starts.
    """
    work, launched = operations(trace), launch_order(trace)
    if launched.is_known.all() or not launched.is_known.any():
        return step
    order = np.lexsort((work.start_ns, work.stream, work.device))
    known, stream = launched.is_known[order], work.stream[order]
    before = np.maximum.accumulate(np.where(known, np.arange(len(order)), -1))
    unknown = np.flatnonzero(~known & (before >= 0))
    unknown = unknown[stream[before[unknown]] == stream[unknown]]
    step[order[unknown]] = step[order[before[unknown]]]
    return step


def _pacing(streams: _Streams, loop: I64, device: I64) -> BoolArray:
    """Return which rows are on the stream that paces its loop's steps on its device.

    A stream with copies for later steps may run ahead of the others during the whole recording. The
    pacing stream is the one with the longest time from its first to its last step. Of streams
    within `_SAME_PACE` of it, the one on which steps begin is chosen. If no stream has work in all
    steps, all streams count.
    """
    count = np.bincount(streams.group)
    by_step = np.lexsort((streams.step, streams.group))
    ends = np.cumsum(count)
    low = streams.start_ns[by_step[ends - count]]
    high = streams.start_ns[by_step[ends - 1]]
    owner = factorize_rows(loop, device).codes.astype(np.int64)
    of_group = np.zeros(len(count), np.int64)
    of_group[streams.group] = owner
    steps_of_owner = np.zeros(int(owner.max(initial=-1)) + 1, np.int64)
    np.add.at(steps_of_owner, owner[_distinct(owner, streams.step)], 1)
    paces = np.zeros(len(count), np.bool_)
    for number, steps_here in enumerate(steps_of_owner.tolist()):
        mine = np.flatnonzero(of_group == number)
        full = mine[count[mine] == steps_here]
        if not len(full):
            paces[mine] = True
            continue
        # In floats, since times of a damaged file may differ by more than 64 bits can hold.
        span = high[full].astype(np.float64) - low[full]
        slow = full[span >= _SAME_PACE * max(span.max(), 0.0)]
        slow = slow if len(slow) else full
        paces[slow[np.argmin(low[slow])]] = True
    return paces[streams.group]


def _distinct(*columns: I64) -> I64:
    """Return the first row of each distinct tuple."""
    return factorize_rows(*columns).first


def _in_order(firsts: FirstWork, loop: I64) -> FirstWork:
    """Move each step's start to at least the previous one's, so that periods never overlap.

    A step may launch to a stream that is far behind, and the next step to an idle stream.
    """
    start = firsts.start_ns
    changes = (np.diff(loop, prepend=-1) != 0) | (np.diff(firsts.device, prepend=-1) != 0)
    for part in np.split(start, np.flatnonzero(changes)[1:]):
        np.maximum.accumulate(part, out=part)  # a view: this changes the starts themselves
    return FirstWork(firsts.step, firsts.device, start)
