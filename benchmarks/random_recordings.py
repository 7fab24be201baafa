"""How a random program is recorded, and what the machine says about predictions from that.

A recording may slow each call, as profilers do, contain the start of the program with its long
calls, or be a part of the run. The truth is the same program without a profiler, in the same steps.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol, TypeAlias

import numpy as np
from support.cropping import Window, crop
from support.machine import Machine
from support.rank_machine import Ranks

from warpline.derived.kernels.categories import operation_categories
from warpline.derived.steps.times import step_of_operations, steps
from warpline.derived.time_parts import TimePart
from warpline.derived.work.operations import operations
from warpline.estimate import Estimate
from warpline.ops.arrays import I64
from warpline.replay import MEASURED
from warpline.replay.graph import event_graph
from warpline.replay.steps import recorded, step_times
from warpline.result import Diagnosis, Finding
from warpline.result.changes import (
    CatchUp,
    Change,
    DropOperations,
    FuseOperations,
    OverlapCollectives,
    ScaleOperations,
    SetDurations,
)
from warpline.trace import Run, Trace

Ran: TypeAlias = Machine | Ranks
KINDS = ("plain", "cost", "start-up", "cropped")
CALL_COST_NS = Estimate(300, 2_000, 4_000)  # as declared for our agent
# What a program's first calls are, when the driver starts or code is loaded.
_FIRST = ("cudaFree_v3020", "cuDevicePrimaryCtxRetain", "cuInit", "cudaMalloc_v3020")
_LOADS = ("cuLibraryLoadData", "cuModuleLoadDataEx", "cudaMalloc_v3020")
_TOLERANCE = 0.004  # of the step


class Recording:
    """The way in which a program is recorded.

    Args:
        seed: Seed of the random numbers.
        n_steps: Number of steps of the program.
        chance: Probability of each deviation from a plain recording.
    """

    def __init__(self, seed: int, n_steps: int, chance: float) -> None:
        draw = random.Random(f"recording {seed}")
        costs, starts, crops = (draw.random() < chance for _ in range(3))
        # Most often what is declared, otherwise any cost within its bounds.
        any_ns = round(draw.uniform(CALL_COST_NS.low, CALL_COST_NS.high))
        self.cost_ns = draw.choice([round(CALL_COST_NS.central), any_ns]) if costs else 0
        self._holds = _holds(draw) if starts else []
        self._from = draw.uniform(0, n_steps / 2) if draw.random() < 0.7 else 0.0
        self._until = self._from + draw.uniform(2, n_steps) if draw.random() < 0.7 else n_steps
        self._keeps = [draw.random() < 0.5 for _ in range(3)]
        self._crops = crops
        self.kinds = [
            kind for kind, has in zip(KINDS[1:], (costs, starts, crops), strict=True) if has
        ] or ["plain"]

    def hold(self, on: Ran, step: int) -> None:
        """Make the long calls at the start of a step; of step -1, before the first one."""
        for machine in _machines(on):
            for when, name, ns in self._holds:
                if when == step:
                    machine.call(name, ns)
            if step < 0:
                machine.start()

    def trace(self, on: Ran) -> Trace:
        """Return the recording of a program that ran."""
        facts: dict[str, Any] = {"call_cost_ns": CALL_COST_NS} if self.cost_ns else {}
        if self._crops:
            window = self._window(_machines(on)[0])
            for machine in _machines(on):
                crop(machine.program, window)
            facts["span_ns"] = window[:2]
        return on.trace(meta=facts)

    def _window(self, machine: Machine) -> Window:
        times = [*machine.begun_ns, machine.now]
        last = len(times) - 1
        moments = np.interp([self._from, min(self._until, last)], range(last + 1), times)
        end_ns = int(moments[1]) if self._until < last else max(machine.done_ns)
        start_ns = int(moments[0]) if self._from else 0
        return Window(start_ns, end_ns, *self._keeps)


class Recorded(Protocol):
    """A program that can run on the machine."""

    def run(self, recording: Recording, overhead_ns: int = 0, *, bad: bool) -> Ran:
        """Run it with or without its problem, with a profiler's overhead per call."""
        ...


class Truth(NamedTuple):
    """What the machine says of the steps that predictions are about.

    Attributes:
        before_ns: The median step with the problem, without a profiler.
        after_ns: The same without the problem.
        busy_ns: How long the kernels of a step keep the busiest stream busy without the problem.
        most_ns: The longest step with the problem of which the profiler may have made the
            recorded one: the cost of a call is at least its lower bound.
        likely_ns: The same for its most likely cost, or for the true one if that is lower.
    """

    before_ns: float
    after_ns: float
    busy_ns: float
    most_ns: float
    likely_ns: float


def truth(program: Recorded, recording: Recording, numbers: I64) -> Truth:
    """Return the truth about some steps.

    Args:
        program: The program.
        recording: How it is recorded.
        numbers: Shape (n,), int64, the numbers of the steps.
    """

    def step_ns(on: Ran) -> float:
        return _longest(on, [np.diff(each.done_ns, prepend=0) for each in _machines(on)], numbers)

    cost_ns, fixed = recording.cost_ns, program.run(recording, bad=False)
    before_ns = step_ns(program.run(recording, bad=True))
    most_ns, likely_ns = (
        step_ns(program.run(recording, max(round(cost_ns - least), 0), bad=True))
        if cost_ns
        else before_ns
        for least in (CALL_COST_NS.low, CALL_COST_NS.central)
    )
    busy_ns = _longest(fixed, [np.array(each.busy_ns) for each in _machines(fixed)], numbers)
    return Truth(before_ns, step_ns(fixed), busy_ns, most_ns, likely_ns)


def predicted_steps(trace: Trace) -> I64:
    """Return the numbers of the steps whose median predictions are about, shape (n,)."""
    run = Run(trace)
    graph = event_graph(run)
    numbers: I64 = np.unique(steps(run).index[step_times(run, graph, recorded(graph)).step])
    return numbers


def broken_promises(
    trace: Trace, found: Diagnosis, true: Truth, rule: str, numbers: I64
) -> list[str]:
    """Return which predictions promise more than is possible.

    A finding leaves the kernels that its changes do not name. If it is about the problem, it leaves
    those of the program without the problem. Where it replaces kernels, or may leave some, that
    work is an estimate, which the bounds of the saving judge.
    """
    slack, broken = _TOLERANCE * true.before_ns, list[str]()
    priced = [item for item in found.findings if item.saving_ns is not None]
    every = [change for item in priced for change in item.changes]
    least_ns = min(_untouched_ns(trace, every, numbers), true.busy_ns)

    def check(item: Finding, what: str, ns: float, most_ns: float) -> None:
        if ns > most_ns + slack:
            share = (ns - max(most_ns, 0)) / true.before_ns
            broken.append(f"{item.rule}: {what} {ns / 1e3:.0f} us, {share:.1%} too much")

    for item in priced:
        left_ns = least_ns
        if not item.is_generic:
            left_ns = _untouched_ns(trace, item.changes, numbers)
        if item.rule == rule and not any(_is_estimated(change) for change in item.changes):
            left_ns = true.busy_ns
        check(item, "saving", item.saving_ns or 0, true.likely_ns - left_ns)
        check(item, "at most", item.saving_high_ns or 0, true.most_ns - left_ns)
        check(item, "together", item.cumulative_saving_ns or 0, true.likely_ns - least_ns)
        step_ns, best_ns = item.predicted_step_ns or 0, item.predicted_step_low_ns or 0
        check(item, "less than the kernels", left_ns - step_ns, 0)
        at_best_ns = MEASURED.device_speed.low * left_ns
        check(item, "at best less than the kernels", at_best_ns - best_ns, 0)
    return broken


def _is_estimated(change: Change) -> bool:
    """Return whether a recording does not show how much device work a change leaves."""
    if isinstance(change, DropOperations):
        return change.remaining.high > 0
    return isinstance(change, FuseOperations | SetDurations | ScaleOperations)


def _untouched_ns(trace: Trace, changes: Sequence[Change], numbers: I64) -> float:
    """Return how long the kernels that changes do not name keep the busiest stream busy."""
    work, run = operations(trace), Run(trace)
    # Collectives may only wait for other ranks.
    kept = operation_categories(trace) != TimePart.COLLECTIVE
    kept[np.setdiff1d(np.arange(len(work)), work.of_table("kernel"))] = False
    for change in changes:
        if isinstance(change, FuseOperations):
            kept[np.concatenate(change.groups)] = False
        elif isinstance(
            change, DropOperations | ScaleOperations | SetDurations | CatchUp | OverlapCollectives
        ):
            kept[change.operations] = False
    step = step_of_operations(run)
    kept &= (step >= 0) & (work.call >= 0)
    kept[kept] = np.isin(steps(run).index[step[kept]], numbers)
    places, of_step = np.unique(step[kept], return_inverse=True)
    busy = np.zeros((int(work.stream.max(initial=0)) + 1, len(places)))
    np.add.at(busy, (work.stream[kept], of_step), (work.end_ns - work.start_ns)[kept])
    return float(np.median(busy.max(axis=0))) if busy.size else 0.0


def _longest(on: Ran, times_ns: Sequence[I64], numbers: I64) -> float:
    """Return the median of some steps, of the rank with the longest ones."""
    return max(float(np.median(of_rank[numbers])) for of_rank in times_ns)


def _machines(on: Ran) -> list[Machine]:
    return [*on] if isinstance(on, Ranks) else [on]


def _holds(draw: random.Random) -> list[tuple[int, str, int]]:
    """Return long calls: in which step they are, their function and duration."""
    before = [(-1, draw.choice(_FIRST)) for _ in range(draw.randint(0, 2))]
    inside = [(draw.choice([0, 0, 1]), draw.choice(_LOADS)) for _ in range(draw.randint(0, 3))]
    drawn = [*before, *inside] or [(0, _LOADS[0])]
    return [(step, name, int(10 ** draw.uniform(8.3, 9.3))) for step, name in drawn]
