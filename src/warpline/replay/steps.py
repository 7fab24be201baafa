"""Step times in a simulation.

A step is done when its range has ended on the CPU and the last operation launched in it has ended
on the GPU. Its time counts from the moment when the previous step is done.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from warpline.derived import derived
from warpline.derived.idle.causes import launch_latency_ns
from warpline.derived.idle.kinds import CallKind
from warpline.derived.kernels.categories import operation_categories
from warpline.derived.steps.slow import slow_steps
from warpline.derived.steps.times import begins_anew, step_of_operations, steps
from warpline.derived.time_parts import OF_KERNELS, TimePart
from warpline.ops.arrays import I64, INT64_MAX, BoolArray
from warpline.ops.group import distinct_values
from warpline.ops.tiling import by_group
from warpline.replay.edges import NEVER
from warpline.replay.graph import EventGraph, Timing, event_graph
from warpline.replay.host import NONE
from warpline.replay.waits import call_costs
from warpline.replay.window import replay_window
from warpline.trace import Run

_COMPUTE = [*(part for part in OF_KERNELS if part != TimePart.COLLECTIVE), TimePart.GRAPH]


class ReplayedSteps(NamedTuple):
    """Simulated step times.

    Attributes:
        step: Shape (k,), int64, places in `steps`; empty where there are none.
        length_ns: Shape (k,), int64, step times.
        step_ns: The step of the loop with the longest ones: the median or, where slow steps take a
            measurable part of the time, the mean. Without steps, the time from the launch of the
            first operation to the end of the last one.
        typical_ns: The same without slow steps.
        n_steps: Number of counted steps in that loop.
        loop: That loop, or NONE without steps.
    """

    step: I64
    length_ns: I64
    step_ns: int
    typical_ns: int
    n_steps: int
    loop: int


class _Anchors(NamedTuple):
    """The calls and items that determine the ends of steps.

    Attributes:
        call: Shape (k,), int64, the last call that returned before the end of the step's range.
        rest_ns: Shape (k,), int64, the time from its return to the end of the range.
        of_item: Shape (items,), int64, the step in which the item was launched; NONE outside.
    """

    call: I64
    rest_ns: I64
    of_item: I64


def recorded(graph: EventGraph) -> Timing:
    """Return the recorded times."""
    return Timing(graph.call_start_ns, graph.call_end_ns, graph.item_start_ns, graph.item_end_ns)


def step_times(run: Run, graph: EventGraph, at: Timing) -> ReplayedSteps:
    """Return the times of the included steps."""
    none = np.zeros(0, np.int64)
    counted = _counted(run)
    if not len(counted):
        alone_ns = _alone_ns(run, graph, at)
        return ReplayedSteps(none, none, alone_ns, alone_ns, 0, NONE)
    done, chosen = done_ns(run, graph, at), replay_window(run).step
    length, loop = done[counted] - done[counted - 1], steps(run).loop[chosen[counted]]
    slow, before = slow_steps(run), _recorded_lengths(run)
    slowest, typical, n, longest = 0, 0, 0, int(loop[0])
    for each in distinct_values(loop).tolist():
        own = loop == each
        step_ns = slow.mean_of(each, chosen[counted[own]], length[own], before[own])
        if round(step_ns) >= slowest:
            slowest, n, longest = round(step_ns), int(own.sum()), each
            typical = round(slow.typical_of(chosen[counted[own]], length[own]))
    return ReplayedSteps(chosen[counted], length, slowest, typical, n, longest)


@derived
def _recorded_lengths(run: Run) -> I64:
    """Return the recorded times of the steps that count."""
    graph, counted = event_graph(run), _counted(run)
    done = done_ns(run, graph, recorded(graph))
    lengths: I64 = done[counted] - done[counted - 1]
    return lengths


def _alone_ns(run: Run, graph: EventGraph, at: Timing) -> int:
    """Return the time of the work of a step without another one before it; without steps, of all.

    The median of the steps, if none has a preceding one.
    """
    of_item = _anchors(run).of_item
    spans = [
        _span_ns(run, graph, at, np.flatnonzero(of_item == place)) for place in _alone(run).tolist()
    ]
    if spans:
        return round(float(np.median(spans)))
    return _span_ns(run, graph, at, np.arange(len(graph.queued)))


def _alone(run: Run) -> I64:
    """Return the places in the window of the included steps that launched work."""
    included = np.flatnonzero(steps(run).included[replay_window(run).step] & _is_whole(run))
    launched: I64 = included[np.isin(included, _anchors(run).of_item)]
    return launched


def step_busy_ns(run: Run, graph: EventGraph, at: Timing, loop: int) -> int:
    """Return how long the kernels of a step keep the busiest stream of a loop busy.

    The median or the mean, as for step times. A step cannot take less. Without steps, this is the
    time of the whole trace. Copies and collectives do not count: they may run beside other work,
    and collectives may wait for others.
    """
    queue = graph.queued
    items = np.flatnonzero((queue.operation >= 0) & (at.item_start_ns != NEVER))
    items = items[np.isin(operation_categories(run.trace)[queue.operation[items]], _COMPUTE)]
    chosen = replay_window(run).step
    places = _counted(run) if loop != NONE else _alone(run)
    step = _anchors(run).of_item[items] if len(places) else np.zeros(len(items), np.int64)
    items, step = items[step >= 0], step[step >= 0]
    most = np.zeros(len(chosen) or 1, np.int64)
    for rows in by_group(queue.stream[items]):
        busy_ns = np.zeros_like(most)
        np.add.at(busy_ns, step[rows], (at.item_end_ns - at.item_start_ns)[items[rows]])
        most = np.maximum(most, busy_ns)
    if loop != NONE:
        places = places[steps(run).loop[chosen[places]] == loop]
        return round(slow_steps(run).mean_of(loop, chosen[places], most[places]))
    return round(float(np.median(most[places] if len(places) else most[:1])))


@derived
def _counted(run: Run) -> I64:
    """Return the places in the window of the steps whose times count; none without steps."""
    chosen = replay_window(run).step
    run_steps = steps(run)
    loop = run_steps.loop[chosen]
    # A step that begins a sample would include the pause since the previous one.
    begins = begins_anew(run.trace, run_steps.loop, run_steps.host_start_ns)[chosen]
    follows = np.flatnonzero((np.diff(chosen) == 1) & ~begins[1:]) + 1
    # The last step of the window may have no period on a device, but its end is known.
    ends = np.append(loop[1:] != loop[:-1], True)[: len(loop)]
    included = run_steps.included[chosen]
    counts = follows[(included | ends)[follows]]
    follows, counts = (places[_is_whole(run)[places]] for places in (follows, counts))
    if included.any() and not included[counts].any():
        return np.zeros(0, np.int64)
    # The first step may still include earlier work.
    second = counts[(counts >= 2) & (loop[counts - 2] == loop[counts])]
    second = second[chosen[second - 2] == chosen[second] - 2]
    chosen_steps: I64 = second if len(second) else counts if len(counts) else follows
    return chosen_steps


def done_ns(run: Run, graph: EventGraph, at: Timing) -> I64:
    """Return when each step of the window is done, shape (steps,)."""
    anchors = _anchors(run)
    done = np.full(len(anchors.call), NEVER)
    has = anchors.call >= 0
    ended = at.call_end_ns[anchors.call[has]]
    done[has] = np.where(ended == NEVER, NEVER, ended + anchors.rest_ns[has])
    items = np.flatnonzero(anchors.of_item >= 0)
    np.maximum.at(done, anchors.of_item[items], at.item_end_ns[items])
    return done


def _span_ns(run: Run, graph: EventGraph, at: Timing, items: I64) -> int:
    """Return the time from the launch of the first operation to the end of the last one.

    Shares without steps are of the time between operations, too: what a program does before its
    first one, such as loading libraries, does not count. Not even in that launch.
    """
    items = items[graph.queued.operation[items] >= 0]
    if not len(items):
        return 0
    first = items[np.argmin(graph.item_start_ns[items])]
    calls = graph.queued.call[items]
    calls = calls[calls >= 0]
    # A launch counts even if a change removes its work.
    end = max(int(at.item_end_ns[items].max()), int(at.call_end_ns[calls].max(initial=NEVER)))
    return max(end - _launched_ns(run, graph, at, int(first)), 0)


def _launched_ns(run: Run, graph: EventGraph, at: Timing, item: int) -> int:
    """Return when an operation was launched, no longer before its start than usual."""
    call, start = int(graph.queued.call[item]), int(at.item_start_ns[item])
    if call < 0:
        return int(graph.item_start_ns[item])
    if start == NEVER:
        return int(at.call_start_ns[call])
    latency_ns = int(graph.item_start_ns[item] - graph.call_start_ns[call])
    return start - min(max(latency_ns, 0), launch_latency_ns(run.trace))


@derived
def _is_whole(run: Run) -> BoolArray:
    """Return in which steps of the window all operations are recorded, shape (steps,).

    If the GPU is behind when the recording ends, the last steps lack those that had not ended.
    """
    graph, run_steps, chosen = event_graph(run), steps(run), replay_window(run).step
    host, whole = graph.host, np.ones(len(chosen), np.bool_)
    idle = np.isin(np.arange(len(host)), graph.queued.call, invert=True)
    lost = np.flatnonzero((host.kind == CallKind.LAUNCH) & idle)
    for loop in distinct_values(run_steps.loop[chosen]).tolist():
        mine = np.flatnonzero(run_steps.loop[chosen] == loop)
        own = host.start_ns[lost[host.process[lost] == run_steps.process[chosen[mine[0]]]]]
        ends = np.append(run_steps.host_start_ns[chosen[mine]], INT64_MAX)
        number = np.diff(np.searchsorted(own, ends))
        # Calls of some kinds never have operations: they are as many in each step.
        lacks = number > number.min()
        whole[mine] = ~np.logical_and.accumulate(lacks[::-1])[::-1]
    return whole


def _launched_before(graph: EventGraph) -> BoolArray:
    """Return which items were launched before the recording, shape (items,).

    Their calls are unknown, and the calls of later items of their stream are known. If the GPU is
    behind, they start during later steps, and are no part of those.
    """
    stream, known = graph.queued.stream, graph.queued.call >= 0
    first = np.full(int(stream.max(initial=-1)) + 1, NONE)
    places = np.flatnonzero(known)[::-1]
    first[stream[places]] = places  # the last assignment is the first place
    before: BoolArray = np.arange(len(stream)) < first[stream]
    return before


@derived
def _anchors(run: Run) -> _Anchors:
    graph, run_steps, costs = event_graph(run), steps(run), call_costs(run)
    chosen = replay_window(run).step
    of_step = np.full(len(run_steps) + 1, NONE)
    of_step[chosen] = np.arange(len(chosen))
    operation = graph.queued.operation
    step = np.where(operation >= 0, step_of_operations(run)[operation], NONE)
    step[_launched_before(graph)] = NONE
    of_item = np.where(step >= 0, of_step[step], NONE)
    call, rest = np.full(len(chosen), NONE), np.zeros(len(chosen), np.int64)
    for process in distinct_values(run_steps.process[chosen]).tolist():
        own = np.flatnonzero(graph.host.process == process)
        if not len(own):
            continue
        own = own[np.argsort(graph.host.end_ns[own], kind="stable")]
        mine = np.flatnonzero(run_steps.process[chosen] == process)
        ends = run_steps.host_end_ns[chosen[mine]]
        place = np.searchsorted(graph.host.end_ns[own], ends, side="right") - 1
        mine, place, ends = mine[place >= 0], place[place >= 0], ends[place >= 0]
        call[mine] = own[place]
        rest[mine] = ends - graph.host.end_ns[call[mine]] + costs.preempted_ns[call[mine]]
    return _Anchors(call, rest, of_item)
