"""Steps of a program without step ranges: repetitions in its sequence of launches."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from warpline.derived import derived
from warpline.derived.steps.periodicity import Repetitions, find_repetitions
from warpline.derived.steps.ranges import HostSteps
from warpline.derived.work.busy import DEVICE_TABLES
from warpline.derived.work.launch_order import launch_order
from warpline.derived.work.operations import operations
from warpline.ops.arrays import I64
from warpline.ops.group import factorize_rows
from warpline.trace import Trace

KERNEL_SHAPE = ("name_id", "grid_x", "grid_y", "grid_z", "block_x", "block_y", "block_z")
_NAME_ONLY = ("name_id",)
# Repetitions whose length differs more from the usual one are not steps.
_SAME_LENGTH = 0.05


class Launches(NamedTuple):
    """The launches of a process, in order; a call that launched several operations counts once.

    Attributes:
        operation: Shape (n,), int64, indices into `operations`, of the first one of each call.
        time_ns: Shape (n,), int64, ascending, launch times.
    """

    operation: I64
    time_ns: I64


class _Repeated(NamedTuple):
    """Repetitions in a sequence of launches."""

    launches: Launches
    repetitions: Repetitions

    @property
    def period(self) -> int:
        """Number of launches in a repetition."""
        return int(np.median(np.diff(self.repetitions.bounds)))


@derived
def step_periods(trace: Trace) -> HostSteps | None:
    """Return the repetitions in the launches of each process as steps; None without any.

    Launches are alike if they launch the same kernel with the same grid and block, a copy of the
    same kind and similar size, or the same graph. If nothing repeats, kernels of one name are alike
    regardless of their grid, as shapes may change between steps. A step lasts from its first launch
    to the start of the next one.
    """
    for columns in (KERNEL_SHAPE, _NAME_ONLY):
        kind = launch_kinds(trace, columns)
        loops = [
            loop
            for launches in launches_of_processes(trace)
            for loop in _loop(trace, launches, kind)
        ]
        if loops:
            return _as_steps(trace, loops)
    return None


def launch_kinds(trace: Trace, kernel_columns: tuple[str, ...]) -> I64:
    """Return equal numbers for equal operations, shape (operations,)."""
    work = operations(trace)
    kind = np.zeros(len(work), np.int64)
    base = 0
    keys = {
        "kernel": kernel_columns,
        "memcpy": ("kind", "bytes"),
        "memset": ("bytes",),
        "graph_launch": ("graph_id",),
    }
    for table in DEVICE_TABLES:
        places = work.of_table(table)
        if not len(places):
            continue
        rows = work.row[places]
        columns = trace.columns(table, *keys[table])
        values = [
            _magnitude(column.filled(-1)[rows]) if name == "bytes" else column.filled(-1)[rows]
            for name, column in columns.items()
        ]
        groups = factorize_rows(*values)
        kind[places] = groups.codes + base
        base += groups.n_groups
    return kind


def _magnitude(values: I64) -> I64:
    """Return the number of binary digits, so that similar sizes are equal."""
    return np.frexp(values.astype(np.float64))[1].astype(np.int64)


def launches_of_processes(trace: Trace) -> Iterator[Launches]:
    """Yield the launches of each process."""
    work, launched = operations(trace), launch_order(trace)
    order = launched.order
    if launched.is_known.any():
        order = order[launched.is_known[order]]
    call = work.call[order]
    order = order[np.append(True, (call[1:] != call[:-1]) | (call[1:] < 0))[: len(order)]]
    process = work.process[order]
    bounds = np.flatnonzero(np.diff(process)) + 1
    for part in np.split(order, bounds):
        yield Launches(part, launched.time_ns[part])


def _loop(trace: Trace, launches: Launches, kind: I64) -> Iterator[list[_Repeated]]:
    """Yield the repetitions of one process, if any; per sample with step sampling."""
    repeated = []
    for part in _samples(trace, launches):
        repetitions = find_repetitions(kind[part.operation], part.time_ns)
        repeated += [] if repetitions is None else [_Repeated(part, repetitions)]
    if repeated:
        usual = float(np.median([part.period for part in repeated]))
        yield [part for part in repeated if abs(part.period - usual) <= _SAME_LENGTH * usual]


def _samples(trace: Trace, launches: Launches) -> Iterator[Launches]:
    if trace.meta.windows_ns is None:
        yield launches
        return
    for start, end in trace.meta.windows_ns:
        part = slice(*np.searchsorted(launches.time_ns, (start, end)).tolist())
        yield Launches(launches.operation[part], launches.time_ns[part])


def _as_steps(trace: Trace, loops: list[list[_Repeated]]) -> HostSteps:
    start, end, process, loop, number, is_cut = ([np.zeros(0, np.int64)] for _ in range(6))
    for place, parts in enumerate(loops):
        count = 0
        for launches, (bounds, is_whole) in parts:
            # The last launch of a recording belongs to the last step.
            times = np.append(launches.time_ns, launches.time_ns[-1] + 1)
            n_steps = len(bounds) - 1
            start.append(times[bounds[:-1]])
            end.append(times[bounds[1:]])
            owner = operations(trace).process[launches.operation[0]]
            process.append(np.full(n_steps, owner))
            loop.append(np.full(n_steps, place))
            number.append(np.arange(count, count + n_steps))
            is_cut.append((np.arange(n_steps) == n_steps - 1) & (not is_whole))
            count += n_steps
    numbers = np.concatenate(number)
    return HostSteps(
        source="periodicity",
        start_ns=np.concatenate(start),
        end_ns=np.concatenate(end),
        process=np.concatenate(process),
        thread=np.full(len(numbers), -1),
        loop=np.concatenate(loop),
        number=numbers,
        label=numbers,
        labels=tuple(f"step {place}" for place in range(int(numbers.max()) + 1)),
        is_cut=np.concatenate(is_cut).astype(np.bool_),
        notes=_notes(loops),
    )


def _notes(loops: list[list[_Repeated]]) -> tuple[str, ...]:
    periods = sorted({part.period for parts in loops for part in parts})
    fewest = min(len(part.repetitions) for parts in loops for part in parts)
    lengths = " or ".join(f"{period:,}" for period in periods[:3])
    what = "one launch" if periods == [1] else f"a sequence of {lengths} launches"
    text = (
        f"steps are inferred: each is {what} that repeats, so it may be a layer rather than"
        " a step, or several steps"
    )
    if fewest < 3:
        return text, "the sequence repeats only twice, which is weak evidence of steps"
    return (text,)
