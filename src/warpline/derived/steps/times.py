"""The steps of a program: on the CPU, on each device, and which of them are included.

A step's time on a device is the period from the start of the first device operation launched in
the step to the start of the first one launched in the next step. The last step has none. So the
periods of consecutive steps are contiguous and add up to the elapsed time on the device. If the
streams of the device differ in pace, for example one that copies ahead, the slowest counts.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from warpline.derived import derived
from warpline.derived.steps.exclusion import Excluded, StepFacts, exclude
from warpline.derived.steps.passes import one_pass
from warpline.derived.steps.ranges import HostSteps
from warpline.derived.steps.work import (
    NO_STEP,
    FirstWork,
    first_work,
    host_steps,
    step_of_operations,
)
from warpline.derived.work.operations import operations
from warpline.lazy import lazy_pattern
from warpline.ops.arrays import I64, BoolArray
from warpline.ops.group import distinct_values, group_stats
from warpline.result import Texts
from warpline.trace import Run, Trace

__all__ = [
    "NO_STEP",
    "Excluded",
    "StepTimes",
    "Steps",
    "Windows",
    "begins_anew",
    "measure_windows",
    "step_of_operations",
    "steps",
]


INFERRED = "periodicity"
_ONE_BY_ONE = (
    "GPU time of a step ends where the next step begins, which was not recorded: record at least"
    " two steps per sample, with --steps 2 or a longer capture range"
)

# Setup calls of a program: loading code, allocating memory, instantiating graphs.
_SETS_UP = lazy_pattern(
    r"^(cu(Module|Library)Load|cu(da)?Graph\w*Instantiate|nvrtc"
    r"|cuda(Malloc|HostAlloc|MallocHost)(?!Async)|cuMem(Alloc|HostAlloc|Create)(?!Async))"
)


@dataclass(frozen=True)
class StepTimes:
    """Statistics of the included steps.

    Attributes:
        count: Number of steps; with several processes, of the one with the most.
        median_ns: Median period on the slowest device, None without a period.
        p95_ns: 95th percentile of the periods on that device, interpolated; with fewer than 20
            periods it is close to the longest one. None without a period.
        p99_ns: 99th percentile.
        jitter_ratio: Spread of the periods on that device: (p95 - p5) / median. None with fewer
            than two periods.
        host_median_ns: Median time from the start of a step to the start of the next on the CPU.
        slowest_process: The process and device with the longest median; None without a period.
        slowest_device: See above.
    """

    count: int
    median_ns: int | None = None
    p95_ns: int | None = None
    p99_ns: int | None = None
    jitter_ratio: float | None = None
    host_median_ns: int | None = None
    slowest_process: int | None = None
    slowest_device: int | None = None


@dataclass(frozen=True)
class Steps:
    """The steps of all processes: by loop, then time.

    A loop runs its steps one after another: it is a process, or one of its threads if several run
    steps concurrently.

    Attributes:
        source: ``range:step_*``, ``periodicity`` or ``none``.
        index: Shape (n,), int64, the number in the step's name, otherwise counted from 0.
        label: Shape (n,), its name; derived from the number without ranges.
        process: Shape (n,), int64, rows of the process table.
        thread: Shape (n,), int64, rows of the thread table, -1 without ranges.
        loop: Shape (n,), int64.
        host_start_ns: Shape (n,), int64, when the range began, or the first launch.
        host_end_ns: Shape (n,), int64, when the range ended, or the next step's first launch.
        window_step: Shape (m,), int64, ascending: indices of steps.
        window_device: Shape (m,), int64, rows of the device table.
        window_start_ns: Shape (m,), int64, when the step began on the device.
        window_end_ns: Shape (m,), int64, when the next step began; after the start.
        included: Shape (n,), bool, whether the step is analyzed.
        excluded: The others, each with its reason: first, warm-up, outlier, last, incomplete,
            no device work.
        notes: Caveats on step times.
        facts: What decides which steps are included; None without steps.
    """

    source: str
    index: I64
    label: Texts
    process: I64
    thread: I64
    loop: I64
    host_start_ns: I64
    host_end_ns: I64
    window_step: I64
    window_device: I64
    window_start_ns: I64
    window_end_ns: I64
    included: BoolArray
    excluded: tuple[Excluded, ...] = ()
    notes: tuple[str, ...] = ()
    facts: StepFacts | None = None

    def __len__(self) -> int:
        return len(self.index)

    @property
    def has_ranges(self) -> bool:
        """Whether the steps are ranges."""
        return self.source.startswith("range:")

    @property
    def is_inferred(self) -> bool:
        """Whether the steps are inferred from repeating launches."""
        return self.source == INFERRED

    @property
    def has_next(self) -> BoolArray:
        """Shape (n,), bool, whether another step follows in its loop."""
        return np.append(self.loop[1:] == self.loop[:-1], np.zeros(min(len(self), 1), np.bool_))

    @property
    def period_ns(self) -> I64:
        """Shape (n,), int64, the longest period of the step on a device; 0 for none."""
        longest = np.zeros(len(self), np.int64)
        np.maximum.at(longest, self.window_step, self.window_end_ns - self.window_start_ns)
        return longest

    @property
    def host_period_ns(self) -> I64:
        """Shape (n,), int64, from its start to the next step's on the CPU; 0 for the last one."""
        period = np.append(np.diff(self.host_start_ns), np.zeros(min(len(self), 1), np.int64))
        return np.where(self.has_next, period, 0)

    @property
    def slowest_window(self) -> I64:
        """Shape (n,), int64, the window with its longest period, -1 for none."""
        length = self.window_end_ns - self.window_start_ns
        slowest = np.full(len(self), -1)
        order = np.argsort(length, kind="stable")
        slowest[self.window_step[order]] = order  # the last assignment is the longest
        return slowest

    def windows(self, chosen: I64) -> Windows:
        """Return the selected windows."""
        step = self.window_step[chosen]
        return Windows(
            device=self.window_device[chosen],
            start_ns=self.window_start_ns[chosen],
            end_ns=self.window_end_ns[chosen],
            step=step,
            process=self.process[step],
        )

    def times(self) -> StepTimes:
        """Return statistics of the included steps."""
        chosen = np.flatnonzero(self.included[self.window_step])
        length = (self.window_end_ns - self.window_start_ns)[chosen]
        host = self.host_period_ns[self.included & self.has_next]
        count = int(np.bincount(self.loop, self.included).max(initial=0))
        host_median = round(float(np.median(host))) if len(host) else None
        if not len(length):
            return StepTimes(count, host_median_ns=host_median)
        n_devices = int(self.window_device.max()) + 1
        owner = self.process[self.window_step[chosen]] * n_devices + self.window_device[chosen]
        stats = group_stats(owner, length, int(owner.max()) + 1)
        slowest = int(np.argmax(stats.median))
        median, p5, p95, p99 = (float(stats.percentile(q)[slowest]) for q in (50, 5, 95, 99))
        return StepTimes(
            count=count,
            median_ns=round(median),
            p95_ns=round(p95),
            p99_ns=round(p99),
            jitter_ratio=(p95 - p5) / median if stats.count[slowest] > 1 else None,
            host_median_ns=host_median,
            slowest_process=slowest // n_devices,
            slowest_device=slowest % n_devices,
        )


class Windows(NamedTuple):
    """Time ranges on each GPU that an analysis covers.

    Attributes:
        device: Shape (m,), int64, rows of the device table.
        start_ns: Shape (m,), int64.
        end_ns: Shape (m,), int64.
        step: Shape (m,), int64, places in `steps`; -1 where the window is not a step.
        process: Shape (m,), int64, the process of the step; -1 where the window is not a step.
    """

    device: I64
    start_ns: I64
    end_ns: I64
    step: I64
    process: I64


@derived
def steps(run: Run) -> Steps:
    """Return the steps of a trace: step ranges, otherwise repetitions in its launches.

    Work belongs to a step if its launch call began while the step ran on the CPU, on any thread of
    the process or, if several threads run their own steps, on that thread. A step has a period on
    each device that both it and the next step launched work on.
    """
    marked = host_steps(run)
    if marked is None:
        note = one_pass(run.trace)
        return _without_steps(() if note is None else (note,))
    return _measured(run.trace, marked, first_work(run))


@derived
def measure_windows(run: Run) -> Windows:
    """Return the windows to analyze.

    These are the periods of the included steps on their devices, by step, then device. Without
    such steps, each device with work has one window, from its first operation to the end of its
    last one. With step sampling, each sample is a window; in a part of a recording, the whole part
    is. Windows of one process do not overlap on a device.
    """
    trace = run.trace
    run_steps = steps(run)
    chosen = np.flatnonzero(run_steps.included[run_steps.window_step])
    if len(chosen):
        return run_steps.windows(chosen)
    if trace.is_whole and trace.meta.windows_ns is None:
        return _worked(trace)
    recorded = np.array(_recorded(trace), np.int64).reshape(-1, 2)
    devices = distinct_values(operations(trace).device)
    count = len(recorded) * len(devices)
    no_step = np.full(count, NO_STEP, np.int64)
    return Windows(
        device=np.repeat(devices, len(recorded)),
        start_ns=np.tile(recorded[:, 0], len(devices)),
        end_ns=np.tile(recorded[:, 1], len(devices)),
        step=no_step,
        process=no_step,
    )


def _worked(trace: Trace) -> Windows:
    """Return the time of each device from its first operation to the end of its last one.

    Loading libraries may take long before that, and a recording's clock may start at boot time.
    """
    work = operations(trace)
    first = np.flatnonzero(np.diff(work.device, prepend=-1))
    start = work.start_ns[first]
    end = np.maximum.reduceat(work.end_ns, first) if len(first) else start
    lasting = np.flatnonzero(end > start)
    no_step = np.full(len(lasting), NO_STEP, np.int64)
    return Windows(
        device=work.device[first][lasting],
        start_ns=start[lasting],
        end_ns=end[lasting],
        step=no_step,
        process=no_step,
    )


def _recorded(trace: Trace) -> list[tuple[int, int]]:
    """Return the recorded intervals."""
    low, high = trace.span()
    if trace.meta.windows_ns is None:
        return [(low, high)] if high > low else []
    cut = [(max(start, low), min(end, high)) for start, end in trace.meta.windows_ns]
    return [(start, end) for start, end in cut if end > start]


def _measured(trace: Trace, marked: HostSteps, firsts: FirstWork) -> Steps:
    follows = (np.diff(firsts.step) == 1) & (np.diff(firsts.device) == 0)
    follows &= np.diff(marked.loop[firsts.step]) == 0
    follows &= np.diff(firsts.start_ns) > 0
    breaks = begins_anew(trace, marked.loop, marked.start_ns)
    follows &= ~breaks[firsts.step[1:]]
    rows = np.flatnonzero(follows)
    rows = rows[np.lexsort((firsts.device[rows], firsts.step[rows]))]
    n = len(marked.start_ns)
    measured = Steps(
        source=marked.source,
        index=_indices(marked),
        label=Texts(marked.label.astype(np.int32), marked.labels),
        process=marked.process,
        thread=marked.thread,
        loop=marked.loop,
        host_start_ns=marked.start_ns,
        host_end_ns=marked.end_ns,
        window_step=firsts.step[rows],
        window_device=firsts.device[rows],
        window_start_ns=firsts.start_ns[rows],
        window_end_ns=firsts.start_ns[rows + 1],
        included=np.ones(n, np.bool_),
        notes=marked.notes,
    )
    has_work = np.zeros(n, np.bool_)
    has_work[firsts.step] = True
    return _with_exclusions(trace, measured, marked, has_work, breaks)


def _with_exclusions(
    trace: Trace, measured: Steps, marked: HostSteps, has_work: BoolArray, breaks: BoolArray
) -> Steps:
    """Return the steps with unrepresentative ones excluded."""
    period, notes = measured.period_ns, measured.notes
    if trace.meta.windows_ns is not None and has_work.any() and not len(measured.window_step):
        notes = (*notes, _ONE_BY_ONE)
    if not len(measured.window_step):
        period = measured.host_period_ns  # a program without GPU work has steps as well
        has_work = np.ones(len(measured), np.bool_)
    facts = StepFacts(
        loop=measured.loop,
        index=measured.index,
        period_ns=period,
        setup_calls=_setup_calls(trace, measured),
        is_last=np.append(breaks[1:], True),
        has_work=has_work,
        is_cut=marked.is_cut,
    )
    excluded = exclude(facts)
    included = np.ones(len(measured), np.bool_)
    included[[step for step, _ in excluded]] = False
    return replace(measured, included=included, excluded=excluded, notes=notes, facts=facts)


def _setup_calls(trace: Trace, measured: Steps) -> I64:
    """Return the number of setup calls in each step: of its process, on any thread."""
    count = np.zeros(len(measured), np.int64)
    if not trace.has("api_call"):
        return count
    calls = trace.columns("api_call", "start_ns", "process_id", "name_id")
    names = calls["name_id"].values
    sets_up = np.zeros(len(trace.strings), np.bool_)
    for name in distinct_values(names).tolist():
        sets_up[name] = _SETS_UP.search(trace.strings.text(name)) is not None
    rows = np.flatnonzero(sets_up[names])
    start, process = calls["start_ns"].values[rows], calls["process_id"].values[rows]
    for loop in distinct_values(measured.loop).tolist():
        steps_here = np.flatnonzero(measured.loop == loop)
        own = start[process == measured.process[steps_here[0]]]
        bounds = measured.host_start_ns[steps_here], measured.host_end_ns[steps_here]
        count[steps_here] = np.diff(np.searchsorted(own, np.stack(bounds)), axis=0)[0]
    return count


def begins_anew(trace: Trace, loop: I64, start_ns: I64) -> BoolArray:
    """Return which steps are the first of their loop or sample: no recorded step precedes them.

    Args:
        trace: The trace.
        loop: Shape (n,), int64, the loop of each step, ascending.
        start_ns: Shape (n,), int64, when each began on the CPU.
    """
    first: BoolArray = np.diff(loop, prepend=-1) != 0
    if trace.meta.windows_ns is None:
        return first
    starts = np.array([start for start, _ in trace.meta.windows_ns], np.int64)
    window = np.searchsorted(starts, start_ns, side="right")
    breaks: BoolArray = first | (np.diff(window, prepend=-1) != 0)
    return breaks


def _indices(marked: HostSteps) -> I64:
    """Return the number of each step: from names if all in a loop have one, otherwise from 0."""
    first = np.flatnonzero(np.diff(marked.loop, prepend=-1))
    place = np.arange(len(marked.loop)) - first[marked.loop]
    unnumbered = np.bincount(marked.loop[marked.number < 0], minlength=len(first)) > 0
    return np.where(unnumbered[marked.loop], place, marked.number)


def _without_steps(notes: tuple[str, ...]) -> Steps:
    none, labels = np.zeros(0, np.int64), Texts(np.zeros(0, np.int32), ())
    never = np.zeros(0, np.bool_)
    return Steps(
        source="none",
        index=none,
        label=labels,
        process=none,
        thread=none,
        loop=none,
        host_start_ns=none,
        host_end_ns=none,
        window_step=none,
        window_device=none,
        window_start_ns=none,
        window_end_ns=none,
        included=never,
        notes=notes,
    )
