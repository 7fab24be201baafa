"""Operations and calls of the included steps, and the duration of a step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from warpline.derived import derived
from warpline.derived.breakdown.host_pauses import host_pauses
from warpline.derived.breakdown.partition import step_partition
from warpline.derived.idle.host_calls import device_of_thread, launch_period_ns
from warpline.derived.severity import MEASURABLE_RATIO
from warpline.derived.steps.times import measure_windows, step_of_operations, steps
from warpline.derived.time_parts import IDLE, TimePart
from warpline.derived.work.busy import DEVICE_TABLES
from warpline.derived.work.operations import operations
from warpline.derived.work.owners import owner_of
from warpline.ops.arrays import I32, I64, BoolArray
from warpline.ops.group import factorize_rows, group_stats
from warpline.ops.tree import enclosing
from warpline.result import Evidence, OnDevice
from warpline.trace import Run
from warpline.units import format_ns, format_ratio

_SHOWN = 5
_GAP_NS = 1_000  # between two operations of a stream
_LEAST_PAUSED = 0.15  # of a step, including CPU gaps
_LEAST_WITH_PAUSES = 2  # steps


class Weight(NamedTuple):
    """Time of a set of included operations, per step of the rank with the most of it.

    Attributes:
        number: Number of operations.
        ns: Sum of their durations.
        share: That time as a share of the step.
        around_share: CPU time for their launches while the device waits for it, plus gaps between
            the operations on the device, as a share of the step.
        on_devices: The sums per process and device.
    """

    number: float
    ns: float
    share: float
    around_share: float
    on_devices: tuple[OnDevice, ...]

    @property
    def is_measurable(self) -> bool:
        """Whether removing them would save more than the run-to-run variation."""
        return self.share >= MEASURABLE_RATIO

    @property
    def is_measurable_with_launches(self) -> bool:
        """Whether removing them and their launches would save more than that."""
        return self.share + self.around_share >= MEASURABLE_RATIO

    @property
    def digits(self) -> str:
        """Their number as text."""
        return f"{self.number:,.0f}"

    @property
    def most(self) -> str:
        """Their share as text; with their launches, ``up to ...``, if it is small without."""
        if self.is_measurable:
            return format_ratio(self.share)
        return f"up to {format_ratio(min(self.share + self.around_share, 1.0))}"

    @property
    def launching(self) -> str:
        """The share with their launches as text to append to `time`; empty if `most` is without."""
        return "" if self.is_measurable else f", with their launches {self.most}"

    @property
    def time(self) -> str:
        """Their time and share as text."""
        return f"{format_ns(self.ns)} ({format_ratio(self.share)})"


@dataclass(frozen=True)
class StepScope:
    """The included steps or, without steps, the whole recording.

    Times and numbers per step are those of one rank (a process on a device): the one with the most.
    A mean over ranks would describe none of them where they differ.

    Attributes:
        run: The trace, and the choice of its steps.
        operations: Shape (operations,), bool, launched in included steps.
        calls: Shape (rows of api_call,), bool, begun in included steps.
        step: Shape (operations,), int32, the index of the step that launched it, -1 for none;
            without steps, 0 for all.
        count: Number of included steps of all processes; at least 1.
        step_ns: Duration of a step on the slowest device: the median, or the mean without CPU gaps
            if that is longer. If some steps have much more work, shares refer to the mean. If a
            program launches nothing for a while in some steps, for example to write a checkpoint,
            shares exclude that time. Without steps, the whole duration.
        with_pauses_ns: The median or the mean with CPU gaps, whichever is longer.
        paused_ns: Idle time of a device in CPU gaps per step; 0 if short, or in one step only.
        has_steps: Whether there are steps.
    """

    run: Run
    operations: BoolArray
    calls: BoolArray
    step: I32
    count: int
    step_ns: float
    with_pauses_ns: float
    paused_ns: float
    has_steps: bool

    @property
    def each(self) -> str:
        """Text to append to numbers: ``per step``, or nothing."""
        return " per step" if self.has_steps else ""

    def ns_of(self, places: I64 | BoolArray) -> float:
        """Return the time per step of the included ones of some operations."""
        chosen = np.zeros(len(self.operations), np.bool_)
        chosen[places] = True
        return _most(self.on_devices(chosen))

    def call_ns_of(self, calls: I64, ns: I64 | None = None) -> float:
        """Return the CPU time per step in the included ones of some calls, rows of api_call.

        Args:
            calls: Shape (n,), int64, rows of api_call.
            ns: Shape (n,), int64, their times; by default, from their starts to their ends.
        """
        chosen = self.calls[calls]
        return self._of_process(
            calls[chosen], self._durations(calls[chosen]) if ns is None else ns[chosen]
        )

    def number_of_calls(self, calls: I64) -> float:
        """Return the number per step of the included ones of some calls, rows of api_call."""
        chosen = calls[self.calls[calls]]
        return self._of_process(chosen, np.ones(len(chosen), np.int64))

    def number_of(self, places: BoolArray) -> float:
        """Return the number per step of the included ones of some operations."""
        facts = self.on_devices(places)
        return max((_each(item, item.number or 0) for item in facts), default=0.0)

    def weigh(self, places: BoolArray) -> Weight:
        """Return number and time per step of the included ones of some operations."""
        facts = self.on_devices(places)
        number, ns = max(
            ((_each(item, item.number or 0), _each(item, item.ns)) for item in facts),
            key=lambda pair: pair[1],
            default=(0.0, 0.0),
        )
        launching = min(
            number * launch_period_ns(self.run.trace), self.idle_ns(TimePart.LAUNCH_BOUND)
        )
        around = self.share(launching + number * _GAP_NS)
        return Weight(
            number=number,
            ns=ns,
            share=self.share(ns),
            around_share=around,
            on_devices=facts,
        )

    def on_devices(self, places: BoolArray) -> tuple[OnDevice, ...]:
        """Return the sums of the included ones of some operations, per process and device."""
        work, chosen = operations(self.run.trace), np.flatnonzero(places & self.operations)
        return self.operations_on_devices(chosen, work.end_ns[chosen] - work.start_ns[chosen])

    def operations_on_devices(self, places: I64, ns: I64) -> tuple[OnDevice, ...]:
        """Return the sums of the included ones of some operations, with times of their own.

        Args:
            places: Shape (n,), int64, places in `operations`.
            ns: Shape (n,), int64, the time of each.
        """
        work, counted = operations(self.run.trace), self.operations[places]
        chosen, each = places[counted], np.ones(int(np.count_nonzero(counted)), np.int64)
        if not len(chosen):
            return ()
        return self._summed(work.process[chosen], work.device[chosen], ns[counted], each)

    def calls_on_devices(
        self, calls: I64, ns: I64 | None = None, counted: BoolArray | None = None
    ) -> tuple[OnDevice, ...]:
        """Return the CPU time in the included ones of some calls, per process and device.

        A call belongs to the device of its thread, see `device_of_thread`. Empty if one has none:
        the facts would not be about all calls.

        Args:
            calls: Shape (n,), int64, rows of api_call.
            ns: Shape (n,), int64, their times; by default, from their starts to their ends.
            counted: Shape (n,), bool, which of them are counted; by default, all.
        """
        chosen = self.calls[calls]
        rows = calls[chosen]
        if not len(rows):
            return ()
        columns = self.run.trace.columns("api_call", "thread_id", "process_id")
        device = device_of_thread(self.run.trace)[columns["thread_id"].values[rows]]
        if (device < 0).any():
            return ()
        length = self._durations(rows) if ns is None else ns[chosen]
        each = np.ones(len(rows), np.bool_) if counted is None else counted[chosen]
        process = columns["process_id"].values[rows].astype(np.int64)
        return self._summed(process, device, length, each.astype(np.int64))

    def _of_process(self, calls: I64, values: I64) -> float:
        """Return the sum of values per step, of the process with the largest."""
        if not len(calls):
            return 0.0
        process = self.run.trace.columns("api_call", "process_id")["process_id"].values[calls]
        sums = np.bincount(process, values)
        return float((sums / np.maximum(self._steps_of_processes(len(sums)), 1)).max())

    def _steps_of_processes(self, count: int) -> I64:
        """Return the number of included steps of each process, at least `count` processes."""
        run_steps = steps(self.run)
        number: I64 = np.bincount(run_steps.process[run_steps.included], minlength=count)[:count]
        return number

    def _durations(self, calls: I64) -> I64:
        columns = self.run.trace.columns("api_call", "start_ns", "end_ns")
        start, end = (columns[key].values[calls] for key in ("start_ns", "end_ns"))
        durations: I64 = np.maximum(end - start, 0)
        return durations

    def _summed(self, process: I64, device: I64, ns: I64, number: I64) -> tuple[OnDevice, ...]:
        """Return the sums of times and numbers per process and device."""
        ranks = factorize_rows(process, device)
        sums = (group_stats(ranks.codes, values, ranks.n_groups).sum for values in (ns, number))
        facts = zip(process[ranks.first], device[ranks.first], *sums, strict=True)
        return tuple(self.on_device(*map(int, each)) for each in facts)

    def idle_on_devices(self, *causes: TimePart) -> tuple[OnDevice, ...]:
        """Return the idle time per process and device, for some causes or all, where there is any.

        The largest one per step is `idle_ns`.
        """
        return self.windows_on_devices(step_partition(self.run).ns[:, list(causes or IDLE)])

    def launch_bound_on_devices(self) -> tuple[OnDevice, ...]:
        """Return the idle time per process and device that is `launch_bound_ns` per step."""
        return self.windows_on_devices(self.launch_bound_windows_ns)

    def windows_on_devices(self, ns: I64) -> tuple[OnDevice, ...]:
        """Return times of windows summed per process and device, where there is any.

        Args:
            ns: Shape (windows of `measure_windows`, ...), int64.
        """
        ranks = step_partition(self.run).ranks
        sums = ((rank, int(ns[rank.windows].sum())) for rank in ranks)
        return tuple(
            self.on_device(rank.process, rank.device, total) for rank, total in sums if total
        )

    def on_device(self, process: int, device: int, ns: int, number: int | None = None) -> OnDevice:
        """Return a fact about a process (row of its table; -1 if unknown) on a device."""
        owner = owner_of(self.run.trace, process, device)
        run_steps = steps(self.run)
        count = int(np.count_nonzero(run_steps.included & (run_steps.process == process)))
        return OnDevice(
            process=owner.pid,
            rank=owner.rank,
            device=owner.gpu_index,
            steps=count,
            ns=ns,
            number=number,
        )

    def share(self, ns: float) -> float:
        """Return a time per step as a share of the step."""
        return ns / self.step_ns if self.step_ns else 0.0

    def share_of_all(self, ns: float) -> float:
        """Return a time per step as a share of the step including CPU gaps."""
        return ns / self.with_pauses_ns if self.with_pauses_ns else 0.0

    def idle_ns(self, *causes: TimePart) -> float:
        """Return the idle time of a device per step, for some causes or all."""
        return _most(self.idle_on_devices(*causes))

    @property
    def launch_bound_windows_ns(self) -> I64:
        """Launch-bound idle time by window, without CPU gaps if these are long."""
        idle: I64 = step_partition(self.run).ns[:, TimePart.LAUNCH_BOUND]
        return idle - host_pauses(self.run).idle_ns if self.paused_ns else idle

    @property
    def launch_bound_ns(self) -> float:
        """Launch-bound idle time of a device per step, without CPU gaps if these are long."""
        return _most(self.launch_bound_on_devices())

    def affected(self, windows: BoolArray) -> tuple[int, int]:
        """Return how many steps of a rank have a problem, and how many it has.

        Of the rank with the most of them.

        Args:
            windows: Shape (windows of `measure_windows`,), whether each has the problem.
        """
        ranks = step_partition(self.run).ranks
        counts = (
            (int(np.count_nonzero(windows[rank.windows])), len(rank.windows)) for rank in ranks
        )
        return max(counts, default=(0, 0))

    def show_operations(self, text: str, places: BoolArray) -> Evidence:
        """Return included operations as evidence, of the table with the most of them."""
        work = operations(self.run.trace)
        chosen = np.flatnonzero(places & self.operations)
        if not len(chosen):
            return Evidence(text)
        table = int(np.bincount(work.table[chosen]).argmax())
        chosen = chosen[work.table[chosen] == table]
        first = chosen[np.argsort(work.start_ns[chosen], kind="stable")][:_SHOWN]
        windows = zip(work.start_ns[first].tolist(), work.end_ns[first].tolist(), strict=True)
        return Evidence(
            text, DEVICE_TABLES[table], tuple(work.row[first].tolist()), len(chosen), tuple(windows)
        )

    def show_calls(self, text: str, calls: I64) -> Evidence:
        """Return included calls, rows of api_call, as evidence."""
        chosen = calls[self.calls[calls]]
        first = np.sort(chosen)[:_SHOWN]
        columns = self.run.trace.columns("api_call", "start_ns", "end_ns")
        start, end = (columns[key].values[first].tolist() for key in ("start_ns", "end_ns"))
        windows = tuple(zip(start, end, strict=True))
        return Evidence(text, "api_call", tuple(first.tolist()), len(chosen), windows)


@derived
def step_scope(run: Run) -> StepScope:
    """Return the operations and calls of the included steps."""
    trace = run.trace
    run_steps = steps(run)
    n_calls = trace.row_count("api_call") if trace.has("api_call") else 0
    median = run_steps.times().median_ns
    if median is None or not run_steps.included.any():
        everything = np.ones(len(operations(trace)), np.bool_)
        every_call = np.ones(n_calls, np.bool_)
        step = np.zeros(len(everything), np.int32)
        whole = _of_whole(run)
        return StepScope(
            run=run,
            operations=everything,
            calls=every_call,
            step=step,
            count=1,
            **whole._asdict(),
            has_steps=False,
        )
    rows = np.flatnonzero(run_steps.included)
    times = _of_steps(run, float(median))
    step = step_of_operations(run)
    of_step = np.append(run_steps.included, np.zeros(1, np.bool_))  # index -1 means no step
    calls = np.zeros(n_calls, np.bool_)
    if n_calls:
        columns = trace.columns("api_call", "start_ns", "process_id")
        calls = enclosing(
            columns["start_ns"].values,
            run_steps.host_start_ns[rows],
            run_steps.host_end_ns[rows],
            point_group=columns["process_id"].values.astype(np.int64),
            group=run_steps.process[rows],
        ).found
    return StepScope(
        run=run,
        operations=of_step[step],
        calls=calls,
        step=step,
        count=len(rows),
        **times._asdict(),
        has_steps=True,
    )


def _each(item: OnDevice, value: float) -> float:
    return value / max(item.steps, 1)


def _most(facts: Sequence[OnDevice]) -> float:
    """Return the longest time per step of any rank."""
    return max((_each(item, item.ns) for item in facts), default=0.0)


class _Times(NamedTuple):
    """Duration of a step without and with CPU gaps, and the idle time in them."""

    step_ns: float
    with_pauses_ns: float
    paused_ns: float


def _of_whole(run: Run) -> _Times:
    """Return the times of the whole recording, which has no steps: its first to last operation."""
    length = _rank_sums(run, _lengths(run) - step_partition(run).ns[:, TimePart.TAIL])
    whole = max((total for total, _ in length), default=0.0)
    paused = max((total for total, _ in _rank_sums(run, host_pauses(run).idle_ns)), default=0.0)
    return _Times(whole, whole, _if_much(paused, whole))


def _of_steps(run: Run, median_ns: float) -> _Times:
    """Return the times of a step."""
    pauses, length = host_pauses(run), _lengths(run)
    worked, whole = (
        max(median_ns, *(total / number for total, number in _rank_sums(run, ns)))
        for ns in (length - pauses.with_waits_ns, length)
    )
    is_once = np.count_nonzero(pauses.is_much) < _LEAST_WITH_PAUSES
    sums = (total / number for total, number in _rank_sums(run, pauses.idle_ns))
    paused = 0.0 if is_once else _if_much(max(sums, default=0.0), whole)
    return _Times(worked, whole, paused)


def _lengths(run: Run) -> I64:
    windows = measure_windows(run)
    return windows.end_ns - windows.start_ns


def _rank_sums(run: Run, ns: I64) -> list[tuple[float, int]]:
    """Return the sum over the windows of each rank, and their number."""
    ranks = step_partition(run).ranks
    return [(float(ns[rank.windows].sum()), len(rank.windows)) for rank in ranks]


def _if_much(paused_ns: float, whole_ns: float) -> float:
    return paused_ns if paused_ns >= _LEAST_PAUSED * whole_ns else 0.0
