"""What each analyzed step consists of, for comparisons with the steps of another run.

Steps are numbered by their place in their loop: the first analyzed step of each rank is place 0.
The value of a place is the mean over the ranks that have it, so ranks that run together count once.
Without steps, each recorded window of a device has a place.
"""

from __future__ import annotations

from fractions import Fraction
from typing import NamedTuple

import numpy as np

from warpline.derived import derived
from warpline.derived.breakdown.partition import step_partition, window_segments
from warpline.derived.breakdown.segments import device_segments
from warpline.derived.breakdown.step_differences import StepItems, call_items, range_items
from warpline.derived.kernels.categories import operation_categories
from warpline.derived.steps.times import Windows, measure_windows, steps
from warpline.derived.texts import number_texts, without_version
from warpline.derived.time_parts import TimePart, is_busy
from warpline.derived.work.busy import DEVICE_TABLES
from warpline.derived.work.operations import Operations, operations
from warpline.ops.arrays import F64, I8, I64
from warpline.ops.group import factorize_rows
from warpline.result.profile import ItemName, Items
from warpline.schema.labels import COPY_KINDS, MEMORY_KINDS
from warpline.trace import Run, Trace

_SHAPE = tuple(f"{kind}_{axis}" for kind in ("grid", "block") for axis in "xyz")
_DENSE = 4  # cells per value: more are not worth an array
_DEVICE = next(value for value, label in MEMORY_KINDS.items() if label == "Device")


class Places(NamedTuple):
    """The place of each of `measure_windows` in its loop.

    Attributes:
        of_window: Shape (windows,), int64, in ``[0, count)``.
        ranks: Shape (count,), int64, the number of windows with each place, at least 1.
    """

    of_window: I64
    ranks: I64

    @property
    def weight(self) -> F64:
        """Shape (windows,), the share of each window in the mean over places; they sum to 1."""
        weight: F64 = 1.0 / (self.ranks[self.of_window] * max(len(self.ranks), 1))
        return weight


@derived
def places(run: Run) -> Places:
    """Return the place of each window in its loop."""
    windows = measure_windows(run)
    count = len(windows.device)
    if not count:
        return Places(np.zeros(0, np.int64), np.zeros(0, np.int64))
    loops = steps(run).loop
    loop = np.where(windows.step >= 0, loops[windows.step] if len(loops) else 0, -1)
    owner = factorize_rows(loop, windows.device).codes
    order = np.lexsort((windows.start_ns, owner))
    first = np.flatnonzero(np.diff(owner[order], prepend=-1))
    of_window = np.zeros(count, np.int64)
    of_window[order] = np.arange(count) - np.repeat(first, np.diff(first, append=count))
    return Places(of_window, np.bincount(of_window))


def joined(first: Items, second: Items) -> Items:
    """Return the items of two lists, which have no item in common."""
    return Items(
        (*first.names, *second.names),
        np.concatenate((first.executions, second.executions)),
        np.concatenate((first.ns, second.ns)),
        np.concatenate((first.duration_ns, second.duration_ns)),
        np.concatenate((first.bytes, second.bytes)),
        np.concatenate((first.position_ns, second.position_ns)),
        np.concatenate((first.cell_item, second.cell_item + len(first.names))),
        np.concatenate((first.cell_place, second.cell_place)),
        np.concatenate((first.cell_ns, second.cell_ns)),
    )


def step_times_ns(run: Run) -> F64:
    """Return the time of each place, shape (places,): the mean over the ranks that have it."""
    windows, at = measure_windows(run), places(run)
    sums = np.bincount(at.of_window, windows.end_ns - windows.start_ns, len(at.ranks))
    return sums / at.ranks


def mean_parts(run: Run) -> tuple[Fraction, ...]:
    """Return the exact mean time per step of each `TimePart`, in ns; they sum to the mean step."""
    parts, at = step_partition(run).ns, places(run)
    count = len(at.ranks)
    sums = [Fraction(0)] * len(TimePart)
    ranks = at.ranks[at.of_window]
    for number in np.unique(ranks).tolist():
        own = parts[ranks == number].sum(axis=0).tolist()
        sums = [total + Fraction(ns, number * count) for total, ns in zip(sums, own, strict=True)]
    return tuple(sums)


def work_items(run: Run) -> Items:
    """Return the GPU operations of the analyzed windows by item.

    An operation is executed in the window in which it starts. Several windows of processes that
    share a device each have all of its work, as in the breakdown.
    """
    trace, windows, at = run.trace, measure_windows(run), places(run)
    work = operations(trace)
    item, names, size = _items_of_operations(trace)
    segments = device_segments(trace)
    pieces = window_segments(trace, windows)
    busy = np.flatnonzero(is_busy(segments.part[pieces.row]))
    owner = segments.operation[pieces.row[busy]]
    span = pieces.span[busy]
    length = (pieces.end_ns - pieces.start_ns)[busy]
    ns = _sums(item[owner], length * at.weight[span], len(names))
    cells = _cells(item[owner], at.of_window[span], length / at.ranks[at.of_window[span]], at)
    rows, window = _executions(work, windows)
    own, weight = item[rows], at.weight[window]
    count = _sums(own, weight, len(names))
    least = np.maximum(count, np.finfo(float).tiny)

    def mean(values: I64) -> F64:
        return _sums(own, values * weight, len(names)) / least

    return Items(
        names=names,
        executions=count,
        ns=ns,
        duration_ns=mean((work.end_ns - work.start_ns)[rows]),
        bytes=mean(size[rows]) * count,
        position_ns=mean(work.start_ns[rows] - windows.start_ns[window]),
        cell_item=cells[0],
        cell_place=cells[1],
        cell_ns=cells[2],
    )


def function_items(run: Run) -> Items:
    """Return the CUDA API calls of the analyzed steps by function; none without steps."""
    return _host_items(run, "call", call_items(run.trace, steps(run)))


def inner_range_items(run: Run) -> Items:
    """Return the ranges directly inside the analyzed steps by name, in CPU time."""
    return _host_items(run, "range", range_items(run.trace, steps(run)))


def _host_items(run: Run, kind: str, found: StepItems) -> Items:
    """Return what the CPU does in the analyzed steps by name."""
    run_steps, windows, at = steps(run), measure_windows(run), places(run)
    place = np.full(len(run_steps), -1)
    known = np.flatnonzero(windows.step >= 0)
    place[windows.step[known]] = at.of_window[known]
    rows = np.flatnonzero(place[found.step] >= 0) if len(found.step) else np.zeros(0, np.int64)
    texts = [name for _, _, name in found.names]
    plain = [without_version(name) for name in texts] if kind == "call" else texts
    number = {name: place for place, name in enumerate(dict.fromkeys(plain))}
    codes = np.array([number[name] for name in plain], np.int64)
    item, step, ns = codes[found.item[rows]], found.step[rows], found.ns[rows]
    # The ranks with a place, as steps: a process with several devices runs one step.
    of_step = np.bincount(place[place >= 0], minlength=len(at.ranks))
    each = 1.0 / np.maximum(of_step[place[step]], 1)
    n_items, n_places = len(number), max(len(at.ranks), 1)
    count = _sums(item, each / n_places, n_items)
    total = _sums(item, ns * each / n_places, n_items)
    cells = _cells(item, place[step], ns * each, at)
    zeros = np.zeros(n_items)
    names = tuple(ItemName(kind, name, name, "", "") for name in number)
    each_ns = total / np.maximum(count, np.finfo(float).tiny)
    return Items(names, count, total, each_ns, zeros, zeros, *cells)


def _cells(item: I64, place: I64, ns: F64, at: Places) -> tuple[I64, I64, F64]:
    """Return the sums by item and place, as three columns."""
    n_places = max(len(at.ranks), 1)
    cell = item * n_places + place
    size = int(cell.max(initial=-1)) + 1
    if size <= _DENSE * (len(cell) + 1):  # much faster than sorting
        sums = _sums(cell, ns, size)
        distinct = np.flatnonzero(sums)
        return distinct // n_places, distinct % n_places, sums[distinct]
    distinct, number = np.unique(cell, return_inverse=True)
    return distinct // n_places, distinct % n_places, _sums(number.reshape(-1), ns, len(distinct))


def _sums(codes: I64, values: F64, size: int) -> F64:
    """Return the sum of the values of each code; float64 even without any."""
    return np.bincount(codes, values, size).astype(np.float64)


def _executions(work: Operations, windows: Windows) -> tuple[I64, I64]:
    """Return each operation that starts in a window, and the window."""
    rows, inside = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
    groups = factorize_rows(windows.process, windows.device)
    for group, first in enumerate(groups.first.tolist()):
        own = np.flatnonzero(groups.codes == group)
        own = own[np.argsort(windows.start_ns[own], kind="stable")]
        low, high = np.searchsorted(work.device, windows.device[first] + np.arange(2))
        start = work.start_ns[low:high]
        place = np.searchsorted(windows.start_ns[own], start, side="right") - 1
        is_inside = (place >= 0) & (start < windows.end_ns[own][place])
        rows.append(low + np.flatnonzero(is_inside))
        inside.append(own[place[is_inside]])
    return np.concatenate(rows), np.concatenate(inside)


def _items_of_operations(trace: Trace) -> tuple[I64, tuple[ItemName, ...], I64]:
    """Return the item and the copied bytes of each of `operations`, and what each item is."""
    work, category = operations(trace), operation_categories(trace)
    item = np.zeros(len(work), np.int64)
    size = np.zeros(len(work), np.int64)
    names: list[ItemName] = []
    for table in DEVICE_TABLES:
        at = work.of_table(table)
        if not len(at):
            continue
        own, labels = _items_of_table(trace, table, work.row[at], category[at])
        item[at] = own + len(names)
        names += labels
        if table in ("memcpy", "memset"):
            size[at] = trace.columns(table, "bytes")["bytes"].values[work.row[at]]
    return item, tuple(names), size


def _items_of_table(
    trace: Trace, table: str, rows: I64, category: I8
) -> tuple[I64, list[ItemName]]:
    if table == "kernel":
        return _kernel_items(trace, rows, category)
    if table == "memcpy":
        names = ("kind", "src_memory", "dst_memory")
        columns = [column.filled(-1)[rows] for column in trace.columns(table, *names).values()]
        groups = factorize_rows(*columns, category)
        kinds, sources, targets = (column[groups.first].tolist() for column in columns)
        labels = [
            ItemName("copy", text, text, _memory(source, target), TimePart.at(part).label)
            for text, source, target, part in zip(
                [COPY_KINDS.get(kind, "Unknown") for kind in kinds],
                sources,
                targets,
                category[groups.first].tolist(),
                strict=True,
            )
        ]
        return groups.codes.astype(np.int64), labels
    kind = "memset" if table == "memset" else "graph"
    label = TimePart.at(int(category[0])).label
    name = "memset" if table == "memset" else "CUDA graph"
    return np.zeros(len(rows), np.int64), [ItemName(kind, name, name, "", label)]


def _memory(source: int, target: int) -> str:
    """Return a text such as ``Pageable to Device``; empty if both are device memory or unknown."""
    if source == target and source in {-1, _DEVICE}:
        return ""
    return " to ".join(MEMORY_KINDS.get(kind, "Unknown") for kind in (source, target))


def _kernel_items(trace: Trace, rows: I64, category: I8) -> tuple[I64, list[ItemName]]:
    columns = trace.columns("kernel", "name_id", "short_name_id", *_SHAPE)
    codes, distinct = number_texts(columns["name_id"].values[rows], len(trace.strings))
    shape = [_filled(trace, name)[rows] for name in _SHAPE]
    groups = factorize_rows(codes, category, *shape)
    first = groups.first
    names = trace.strings.texts(distinct.tolist())
    short = columns["short_name_id"].filled(-1)[rows[first]].tolist()
    sizes = zip(*(column[first].tolist() for column in shape), strict=True)
    labels = []
    for code, short_id, part, size in zip(
        codes[first].tolist(), short, category[first].tolist(), sizes, strict=True
    ):
        name = names[code]
        base = name if short_id < 0 else trace.strings.text(short_id)
        kind = "collective" if TimePart.at(part) is TimePart.COLLECTIVE else "kernel"
        labels.append(ItemName(kind, name, base, launch_shape(size), TimePart.at(part).label))
    return groups.codes.astype(np.int64), labels


def _filled(trace: Trace, name: str) -> I64:
    return trace.columns("kernel", name)[name].filled(-1).astype(np.int64)


def launch_shape(size: tuple[int, ...]) -> str:
    """Return grid and block as ``132x2 of 256``, without trailing ones; -1 is unknown."""
    if all(number < 0 for number in size):
        return ""
    return f"{_extent(size[:3])} of {_extent(size[3:])}"


def _extent(size: tuple[int, ...]) -> str:
    last = max((place for place in (1, 2) if size[place] != 1), default=0)
    return "x".join(map(str, size[: last + 1]))
