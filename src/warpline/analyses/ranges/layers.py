"""layers: ranges as a tree in model order, with what each layer costs on host and device."""

from __future__ import annotations

from typing import NamedTuple, get_args

import numpy as np

from warpline.derived.ranges.autograd import AUTOGRAD_ARGUMENT, backward_work
from warpline.derived.ranges.coverage import Coverage
from warpline.derived.ranges.names import push_pop_ranges
from warpline.derived.ranges.paths import Numbered, Paths, range_paths, warm_up
from warpline.derived.ranges.work import has_work, range_work, work_inside, work_timeline
from warpline.errors import UsageError
from warpline.ops.arrays import I64
from warpline.ops.group import GroupStats, group_stats
from warpline.ops.tree import Contents, Pairs
from warpline.result import Arguments, Field, Numbers, Result, Skipped, Texts, Values, analysis
from warpline.trace import Trace
from warpline.units import Unit, plural

NAME = "layers"
TITLE = "Layer latency"
FIELDS = (
    Field("depth", Unit.NONE, "How many ranges are around it.", "Lvl"),
    Field("calls", Unit.COUNT, "How often it ran.", "Calls"),
    Field("device_median_ns", Unit.NS, "Median busy time of a call.", "Device Med (ns)", digits=1),
    Field("device_p95_ns", Unit.NS, "95 of 100 calls at most.", "Device P95 (ns)", digits=1),
    Field("host_median_ns", Unit.NS, "Median host time of a call.", "Host Med (ns)", digits=1),
    Field("host_p95_ns", Unit.NS, "95 of 100 calls at most.", "Host P95 (ns)", digits=1),
    Field("parent_ratio", Unit.RATIO, "Share of the parent's busy time.", "Parent (%)", 100.0, 1),
    Field("total_ratio", Unit.RATIO, "Share of all layers' busy time.", "Total (%)", 100.0, 1),
    Field("kernels_per_call", Unit.NONE, "Kernels of a call.", "Kernels/Call", digits=1),
    Field("operations_per_call", Unit.NONE, "Device operations of a call.", "Ops/Call", digits=1),
    Field("device_busy_ns", Unit.NS, "Time in which its work ran.", "Device Busy (ns)"),
    Field("device_idle_ns", Unit.NS, "Gaps inside the calls' work.", "Device Idle (ns)"),
    Field("host_ns", Unit.NS, "How long it was open.", "Host (ns)"),
    Field("pid", Unit.ID, "Process.", "PID"),
    Field("tid", Unit.ID, "Thread.", "TID"),
    Field("path", Unit.NONE, "Names from the outermost range inwards.", "Path", is_detail=True),
    Field("name", Unit.NONE, "Name, indented by its depth.", "Name"),
)
AUTOGRAD_FIELDS = (
    Field(
        "backward_median_ns",
        Unit.NS,
        "Median busy time of a call's backward work.",
        "Backward Med (ns)",
        digits=1,
    ),
    Field("backward_p95_ns", Unit.NS, "95 of 100 calls at most.", "Backward P95 (ns)", digits=1),
)
ARGUMENTS = {
    "skip": "leave out warm-up: skip=N the first N instances of the outermost repeated range,"
    " 1 if no number is given",
    "merged": "let all names side by side that differ only in numbers be one row",
    "apart": "give every name a row of its own, whatever its number",
    **AUTOGRAD_ARGUMENT,
}


class _Options(NamedTuple):
    """What the arguments ask for."""

    numbered: Numbered
    skip: int
    autograd: bool


@analysis(
    name=NAME,
    title=TITLE,
    fields=FIELDS,
    needs=("range",),
    arguments=ARGUMENTS,
    missing_hint="profile with --trace=cuda,nvtx a program that marks its layers with ranges",
)
def layers(trace: Trace, arguments: Arguments) -> Result | Skipped:
    """What each layer of a model costs: ranges as a tree, in the order in which they run.

    What it measures: For each path of nested ranges, such as step, forward, layer_3: how often it
        ran, how long the device was busy with a call of it and how long the host was in it, its
        share of the device's time, the device's idle time inside it, and its kernels.
    Why it matters: It is the model's own view of the profile: which layer costs what, whether
        equal layers cost the same, and where the device waits for the host.
    How it is computed: Push/pop ranges of one thread that have the same names around them are
        calls of one row. Numbers that only count are merged: three or more names side by side
        that differ in numbers alone, and occur less than twice on average, are one row (step_*),
        while layer_0, layer_1 that come back in every step stay apart; calls that are skipped
        count there. Device time is as in range_gpu_sum: the union of what was launched inside.
        Medians and percentiles are over calls; busy is the union over all calls, so that no
        share passes its parent's; idle is added over calls, each from its first start to its
        last end.
    Limits: Work that another thread launches, such as the backward pass of PyTorch, belongs to
        that thread's ranges; it has a tree of its own or none. With PyTorch's NVTX annotation
        on, layers:autograd adds each layer's backward work, as range_gpu_sum:autograd does.
        Layers recorded in a single step look like counters: use layers:apart. Start/end ranges
        do not nest: see range_gpu_sum.
    Source: Warpline.
    """
    if not has_work(trace):
        return Skipped(NAME, "no launches of device work here", "profile with --trace=cuda,nvtx")
    if not push_pop_ranges(trace).any():
        return Skipped(NAME, "the ranges here are all start/end ranges")
    options = _options(arguments)
    paths = range_paths(trace, options.numbered, options.skip)
    fields: tuple[Field, ...] = FIELDS
    columns = {**_costs(trace, paths), **_shares(trace, paths), **_labels(trace, paths)}
    if options.autograd:
        fields = (*FIELDS, *AUTOGRAD_FIELDS)
        columns |= _backward(trace, paths)
    ordered = {field.name: columns[field.name] for field in fields}
    name = ":".join((NAME, *arguments))
    return Result(name, TITLE, fields, ordered, ("pid", "tid", "path"), _notes(trace, options))


def _options(arguments: Arguments) -> _Options:
    numbered: Numbered = "counters"
    skip = 0
    for argument in arguments:
        word, equals, value = argument.partition("=")
        if word == "skip":
            skip = _count(value if equals else "1")
        elif equals:
            raise UsageError(f"argument {word!r} of table {NAME!r} takes no value: {argument!r}")
        elif word in get_args(Numbered):
            numbered = next(choice for choice in get_args(Numbered) if choice == word)
    return _Options(numbered, skip, "autograd" in arguments)


def _count(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) < 10):
        raise UsageError(
            f"{text!r} is not a number of instances to skip", hint="write for example layers:skip=1"
        )
    return int(text)


def _costs(trace: Trace, paths: Paths) -> dict[str, Values]:
    """Return the columns that come from single calls."""
    work = range_work(trace)
    times = trace.columns("range", "start_ns", "end_ns")
    rows, took = paths.rows, work.took

    def of_calls(values: I64) -> GroupStats:
        return group_stats(paths.of_row, values[rows], len(paths.texts))

    device, host = (
        of_calls(took.busy_ns),
        of_calls(times["end_ns"].values - times["start_ns"].values),
    )
    return {
        "calls": Numbers(device.count),
        "device_median_ns": Numbers(device.median),
        "device_p95_ns": Numbers(device.percentile(95)),
        "host_median_ns": Numbers(host.median),
        "host_p95_ns": Numbers(host.percentile(95)),
        "kernels_per_call": Numbers(of_calls(work.kernels).mean),
        "operations_per_call": Numbers(of_calls(work.operations).mean),
        "device_idle_ns": Numbers(of_calls(took.span_ns - took.busy_ns).sum),
        "host_ns": Numbers(host.sum),
    }


def _backward(trace: Trace, paths: Paths) -> dict[str, Values]:
    busy = backward_work(trace).busy_ns[paths.rows]
    stats = group_stats(paths.of_row, busy, len(paths.texts))
    return {
        "backward_median_ns": Numbers(stats.median),
        "backward_p95_ns": Numbers(stats.percentile(95)),
    }


def _shares(trace: Trace, paths: Paths) -> dict[str, Values]:
    """Return the time in which anything of a path ran, and what part of other paths' it is."""
    busy, tree = _busy_ns(trace, paths), paths.tree
    whole = _measure(trace, paths.rows[tree.depth[paths.of_row] == 0], None, 1).busy_ns
    around = busy[tree.parent]
    return {
        "device_busy_ns": Numbers(busy),
        "parent_ratio": Numbers(busy / np.maximum(around, 1), tree.has_parent & (around > 0)),
        "total_ratio": Numbers(busy / max(int(whole[0]), 1), np.full(len(busy), whole[0] > 0)),
    }


def _busy_ns(trace: Trace, paths: Paths) -> I64:
    """Return the union of all work of each path, one level after the other to save memory."""
    n_paths = len(paths.texts)
    busy = np.zeros(n_paths, np.int64)
    depth = paths.tree.depth[paths.of_row]
    for level in range(int(depth.max(initial=-1)) + 1):
        chosen = depth == level
        busy += _measure(trace, paths.rows[chosen], paths.of_row[chosen], n_paths).busy_ns
    return busy


def _measure(trace: Trace, ranges: I64, sets: I64 | None, n_sets: int) -> Coverage:
    """Return the time of sets of ranges; one set without `sets`."""
    inside = work_inside(trace)
    contents = Contents(inside.order, inside.first[ranges], inside.last[ranges])
    everything = int((contents.last - contents.first).sum())
    blocks = [
        Pairs(np.zeros_like(pairs.point) if sets is None else sets[pairs.interval], pairs.point)
        for pairs in contents.pairs(max(everything, 1))
    ]
    return work_timeline(trace).measure(blocks, n_sets)


def _labels(trace: Trace, paths: Paths) -> dict[str, Values]:
    """Return the columns that say which path it is."""
    depth = paths.tree.depth.astype(np.int64)
    full: list[str] = []
    rows = zip(paths.texts, paths.tree.parent.tolist(), depth.tolist(), strict=True)
    for text, parent, level in rows:
        full.append(f"{full[parent]} > {text}" if level else text)
    indented = [
        "  " * level + text for text, level in zip(paths.texts, depth.tolist(), strict=True)
    ]
    codes = np.arange(len(full), dtype=np.int32)
    threads = trace.columns("thread", "tid", "process_id")
    process = threads["process_id"].values[paths.thread]
    return {
        "depth": Numbers(depth),
        "pid": Numbers(trace.columns("process", "pid")["pid"].values[process]),
        "tid": Numbers(threads["tid"].values[paths.thread]),
        "path": Texts(codes, full),
        "name": Texts(codes, indented),
    }


def _notes(trace: Trace, options: _Options) -> tuple[str, ...]:
    notes = backward_work(trace).notes if options.autograd else ()
    if not options.skip:
        return notes
    warm = warm_up(trace, options.numbered, options.skip)
    if not warm.names:
        return (*notes, "no range repeats, so that nothing was left out as warm-up")
    left_out = plural(len(warm.start_ns), "instance")
    return (*notes, f"warm-up left out: the first {left_out} of {', '.join(warm.names)}")
