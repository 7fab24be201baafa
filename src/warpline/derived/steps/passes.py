"""Repetitions in the launches that are parts of one pass, such as the layers of a model, not steps.

A program's launches repeat at several levels. If a recording holds one pass through a model, the
longest repetitions are its layers. They differ from steps by these signs, in this order:

1. A module of the model (a range of PyTorch's domain ``nn.Module``) that is not part of another
   one encloses several repetitions: they are its layers. If each repetition makes a call of its
   own, they are steps.
2. One range named like a step encloses all repetitions, and they are not all of its work.
3. One kernel, copy, or memset repeats, or a sequence repeats only twice, and most of the GPU's time
   goes to other work: a few copies, or two test runs before the main one.
4. Launches of other kinds, as of an embedding, lead without a synchronization to short repetitions
   that neither synchronize nor copy from or to the host.
"""

from __future__ import annotations

import numpy as np

from warpline.derived import derived
from warpline.derived.steps.candidates import lone_step_range
from warpline.derived.steps.periods import (
    KERNEL_SHAPE,
    Launches,
    launch_kinds,
    launches_of_processes,
    step_periods,
)
from warpline.derived.steps.ranges import HostSteps
from warpline.derived.texts import number_texts
from warpline.derived.work.busy import DEVICE_TABLES
from warpline.derived.work.launch_order import launch_order
from warpline.derived.work.operations import operations
from warpline.lazy import lazy_pattern
from warpline.ops.arrays import I64, BoolArray
from warpline.ops.group import distinct_values
from warpline.ops.tree import enclosing, nest
from warpline.schema.ranges import MODULE_DOMAIN
from warpline.trace import Trace
from warpline.units import format_ns, format_ratio

_MOST = 0.5
# Without ranges, repetitions are layers only if they are this short and this many, and if at least
# this many launches lead to them, with at least this many kinds of kernels that they lack. Work
# that has this share of a repetition's launches is another repetition, such as a first step.
_LAYER_NS = 5_000_000
_LEAST_LAYERS = 4
_LEAST_BEFORE = 5
_LEAST_NEW_KINDS = 3
_ANOTHER = 0.5
_WEAK = 2  # repetitions
_KERNEL = DEVICE_TABLES.index("kernel")
_MEMCPY = DEVICE_TABLES.index("memcpy")
_GRAPH_LAUNCH = DEVICE_TABLES.index("graph_launch")
_HOST_COPIES = (1, 2)  # CUPTI's kinds: host to device, device to host
_WAITS = lazy_pattern(r"Synchronize|^(cuda|hip)Memcpy(?!Async|\w*Async)|^cuMemcpy(?!\w*Async)")


@derived
def one_pass(trace: Trace) -> str | None:
    """Return what repeats within one pass, in a sentence; None if repetitions count as steps."""
    repeated = step_periods(trace)
    if repeated is None or trace.meta.windows_ns is not None:
        return None
    count = int(np.bincount(repeated.loop).max())
    times = "launches repeat twice" if count == _WEAK else f"launches repeat {count:,} times"
    usual = format_ns(float(np.median(repeated.end_ns - repeated.start_ns)))
    what = f"{times} ({usual} each)"
    in_modules = _are_in_one_module_call(trace, repeated)
    if in_modules is not None:
        return (
            f"{what} within one module call: parts of one pass, not steps" if in_modules else None
        )
    name = lone_step_range(trace)
    if name is not None and _are_part_of_work(trace, repeated):
        return f"{what} within the only {name}: parts of a step"
    held = _share_of_weak(trace, repeated)
    if held < _MOST:
        return f"{times}, but take only {format_ratio(held)} of GPU time: probably not steps"
    if all(_follow_a_beginning(trace, repeated, loop) for loop in distinct_values(repeated.loop)):
        return f"{what} after work that occurs once: probably parts of one pass, not steps"
    return None


def _are_in_one_module_call(trace: Trace, repeated: HostSteps) -> bool | None:
    """Return whether calls of outermost modules hold several repetitions; None without modules."""
    if not trace.has("range"):
        return None
    columns = trace.columns("range", "start_ns", "end_ns", "thread_id", "domain_id")
    start, end, thread, domain = (column.filled(-1) for column in columns.values())
    domains = distinct_values(domain[domain >= 0])
    own = [row for row in domains.tolist() if trace.strings.text(row) == MODULE_DOMAIN]
    rows = np.flatnonzero(np.isin(domain, own))
    if not len(rows):
        return None
    start, end, thread = start[rows], np.maximum(start, end)[rows], thread[rows].astype(np.int64)
    outer = ~nest(start, end, thread).has_parent
    launched = launch_order(trace)
    call = enclosing(
        launched.time_ns,
        *(start[outer], end[outer]),
        point_group=launched.thread,
        group=thread[outer],
    )
    inside = lone = 0
    for launches, bounds in _repetitions(trace, repeated):
        of_call = np.where(call.found, call.row, -1)[launches.operation]
        first, last = of_call[bounds[:-1]], of_call[bounds[1:] - 1]
        counted = of_call[bounds[0] : bounds[-1]]
        if float(np.mean(counted >= 0)) < _MOST:
            return None
        whole = first[(first >= 0) & (first == last)]
        shares = np.bincount(whole, minlength=1)[whole] > 1
        inside += int(shares.sum())
        lone += len(first) - int(shares.sum())
    return inside > lone


def _are_part_of_work(trace: Trace, repeated: HostSteps) -> bool:
    """Return whether a process launches anything but repetitions, beside a single operation."""
    return any(
        len(launches.operation) - int(bounds[-1] - bounds[0]) > 1
        for launches, bounds in _repetitions(trace, repeated)
    )


def _share_of_weak(trace: Trace, repeated: HostSteps) -> float:
    """Return the share of the GPU's time that repetitions take; 1 unless they are weak evidence.

    The last one counts as much as the others do on average: it includes what ends the program.
    """
    work, launched = operations(trace), launch_order(trace)
    length, held, total = work.end_ns - work.start_ns, 0.0, 0
    processes = work.process[launched.order]
    for launches, bounds in _repetitions(trace, repeated):
        first, count = launches.operation[bounds[0]], len(bounds) - 1
        is_one = count == bounds[-1] - bounds[0] and work.table[first] != _GRAPH_LAUNCH
        if not is_one and count > _WEAK:
            return 1.0
        process = work.process[first] + np.array([0, 1])
        own = launched.order[slice(*np.searchsorted(processes, process).tolist())]
        inside = np.searchsorted(launched.time_ns[own], launches.time_ns[bounds[[0, -2]]])
        held += float(length[own[slice(*inside.tolist())]].sum()) * count / (count - 1)
        total += int(length[own].sum())
    return held / total if total else 1.0


def _follow_a_beginning(trace: Trace, repeated: HostSteps, loop: int) -> bool:
    own = repeated.loop == loop
    duration = repeated.end_ns[own] - repeated.start_ns[own]
    if len(duration) < _LEAST_LAYERS or float(np.median(duration)) > _LAYER_NS:
        return False
    process = int(repeated.process[own][0])
    span = int(repeated.start_ns[own][0]), int(repeated.end_ns[own][-1])
    for launches, bounds in _repetitions(trace, repeated):
        if operations(trace).process[launches.operation[0]] == process:
            return _is_beginning(trace, launches, bounds) and not _waits(trace, process, span)
    return False


def _is_beginning(trace: Trace, launches: Launches, bounds: I64) -> bool:
    """Return whether other work than that of the repetitions leads to them."""
    work, kind = operations(trace), launch_kinds(trace, KERNEL_SHAPE)
    first, last = int(bounds[0]), int(bounds[-1])
    if not _LEAST_BEFORE <= first < int(np.median(np.diff(bounds))):
        return False
    before, repeating = launches.operation[:first], launches.operation[first:last]
    if _copies_from_or_to_host(trace, repeating).any():
        return False
    new = before[(work.table[before] == _KERNEL) & ~np.isin(kind[before], kind[repeating])]
    one = kind[launches.operation[bounds[0] : bounds[1]]]
    kinds, counts = np.unique(one, return_counts=True)
    done = np.array([np.count_nonzero(kind[before] == value) for value in kinds])
    is_another = np.minimum(done, counts).sum() >= _ANOTHER * len(one)
    return len(distinct_values(kind[new])) >= _LEAST_NEW_KINDS and not is_another


def _copies_from_or_to_host(trace: Trace, places: I64) -> BoolArray:
    work = operations(trace)
    copies = places[work.table[places] == _MEMCPY]
    kind = trace.columns("memcpy", "kind")["kind"].filled(-1) if len(copies) else np.zeros(0)
    return np.isin(kind[work.row[copies]], _HOST_COPIES)


def _waits(trace: Trace, process: int, span: tuple[int, int]) -> bool:
    """Return whether a process calls a function that waits for the GPU in a time."""
    if not trace.has("api_call"):
        return True
    calls = trace.columns("api_call", "start_ns", "process_id", "name_id")
    codes, distinct = number_texts(calls["name_id"].values, len(trace.strings))
    waits = [_WAITS.search(text) is not None for text in trace.strings.texts(distinct.tolist())]
    start, owner = calls["start_ns"].values, calls["process_id"].values
    # The end of the last repetition is not known: the program may wait after it.
    inside = (owner == process) & (start >= span[0]) & (start < span[1])
    return bool((np.array(waits, np.bool_)[codes] & inside).any())


def _repetitions(trace: Trace, repeated: HostSteps) -> list[tuple[Launches, I64]]:
    """Return the launches of each process with repetitions, and their bounds in these."""
    found = []
    for launches in launches_of_processes(trace):
        if not len(launches.operation):
            continue
        own = repeated.process == operations(trace).process[launches.operation[0]]
        if own.any():
            times = np.append(repeated.start_ns[own], repeated.end_ns[own][-1])
            found.append((launches, np.searchsorted(launches.time_ns, times)))
    return found
