"""layers: the layers of a model in order, with CPU and GPU time: its modules, or NVTX ranges."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple, get_args

import numpy as np

from warpline.derived.efficiency.module_table import module_table
from warpline.derived.modules.calls import module_calls
from warpline.derived.ranges.autograd import AUTOGRAD_ARGUMENT, backward_work
from warpline.derived.ranges.coverage import Coverage
from warpline.derived.ranges.names import push_pop_ranges
from warpline.derived.ranges.paths import Numbered, Paths, range_paths, warm_up
from warpline.derived.ranges.work import has_work, range_work, work_inside, work_timeline
from warpline.derived.steps.times import steps
from warpline.errors import UsageError
from warpline.ops.arrays import I64
from warpline.ops.group import GroupStats, group_stats, group_sums
from warpline.ops.tree import Contents
from warpline.result import Arguments, Field, Numbers, Result, Skipped, Texts, Values, analysis
from warpline.trace import Run, Trace
from warpline.units import Unit, plural

NAME = "layers"
TITLE = "Layer latency"
FIELDS = (
    Field("depth", Unit.NONE, "Number of enclosing ranges.", "Lvl"),
    Field("calls", Unit.COUNT, "Number of calls.", "Calls"),
    Field("device_median_ns", Unit.NS, "Median GPU busy time per call.", "GPU Med (ns)", digits=1),
    Field("device_p95_ns", Unit.NS, "95th percentile of calls.", "GPU P95 (ns)", digits=1),
    Field("host_median_ns", Unit.NS, "Median CPU time per call.", "CPU Med (ns)", digits=1),
    Field("host_p95_ns", Unit.NS, "95th percentile of calls.", "CPU P95 (ns)", digits=1),
    Field("parent_ratio", Unit.RATIO, "Share of the parent's busy time.", "Parent (%)", 100.0, 1),
    Field("total_ratio", Unit.RATIO, "Share of all layers' busy time.", "Total (%)", 100.0, 1),
    Field("kernels_per_call", Unit.NONE, "Mean kernels per call.", "Kernels/Call", digits=1),
    Field("operations_per_call", Unit.NONE, "Mean GPU operations per call.", "Ops/Call", digits=1),
    Field("device_busy_ns", Unit.NS, "Time during which its work runs.", "GPU Busy (ns)"),
    Field("device_idle_ns", Unit.NS, "GPU idle time inside calls.", "GPU Idle (ns)"),
    Field("host_ns", Unit.NS, "CPU time, from start to end of the ranges.", "CPU (ns)"),
    Field("pid", Unit.ID, "Process id.", "PID"),
    Field("tid", Unit.ID, "Thread id.", "TID"),
    Field("path", Unit.NONE, "Range names, outermost first.", "Path", is_detail=True),
    Field("name", Unit.NONE, "Range name, indented by nesting depth.", "Name"),
)
AUTOGRAD_FIELDS = (
    Field(
        "backward_median_ns",
        Unit.NS,
        "Median GPU busy time of the backward work per call.",
        "Backward Med (ns)",
        digits=1,
    ),
    Field("backward_p95_ns", Unit.NS, "95th percentile of calls.", "Backward P95 (ns)", digits=1),
)
ARGUMENTS = {
    "skip": "skip warm-up: with skip=N, the first N instances of the outermost repeated range"
    " (default: 1)",
    "ranges": "show the tree of ranges also if PyTorch modules were recorded, as skip, apart and"
    " autograd do",
    "merged": "merge all sibling ranges whose names differ only in numbers",
    "apart": "do not merge ranges whose names differ only in numbers",
    **AUTOGRAD_ARGUMENT,
}


class _Options(NamedTuple):
    """The parsed arguments about ranges."""

    numbered: Numbered
    skip: int
    autograd: bool


@analysis(
    name=NAME,
    title=TITLE,
    fields=FIELDS,
    needs=("range",),
    arguments=ARGUMENTS,
    missing_hint="mark layers with NVTX ranges and profile with --trace=cuda,nvtx",
)
def layers(trace: Trace, arguments: Arguments) -> Result | Skipped:
    """CPU and GPU time of each layer: the tree of PyTorch modules or of ranges, in order.

    What it measures: If PyTorch modules were recorded, the table modules. Otherwise, for each path
        of nested ranges, such as step, forward, layer_3: number of calls, GPU busy time and CPU
        time per call, share of the GPU time, GPU idle time, and kernels.
    Why it matters: The table follows the structure of the model: the time of each layer, whether
        equal layers take equal time, and where the GPU waits for the CPU.
    How it is computed: Push/pop ranges of one thread with the same path are calls of one row.
        Counters are merged: three or more sibling names that differ only in numbers, and occur
        less than twice on average, are one row (step_*). Names that recur in every step, such as
        layer_0 and layer_1, stay separate. Skipped calls count for this rule. GPU time is
        computed as in range_gpu_sum: the union of the work launched inside. Medians and
        percentiles are over calls. Busy is the union over all calls, so no share exceeds its
        parent's. Idle is summed over calls, each from its first start to its last end.
    Limits: Work launched by another thread, such as PyTorch's backward pass, belongs to that
        thread's ranges, in a separate tree if any. With PyTorch's NVTX annotations,
        layers:autograd adds each layer's backward work, as range_gpu_sum:autograd does. Layers
        recorded in a single step look like counters: use layers:apart. Start/end ranges do not
        nest: see range_gpu_sum.
    Source: Warpline.
    """
    if not has_work(trace):
        return Skipped(NAME, "no GPU work was launched", "profile with --trace=cuda,nvtx")
    if not push_pop_ranges(trace).any():
        return Skipped(NAME, "all recorded ranges are start/end ranges")
    name = ":".join((NAME, *arguments))
    options = _options(arguments)
    if set(arguments) <= {"merged"} and len(module_calls(trace).row):
        return module_table(Run(trace), name, TITLE, is_merged=bool(arguments))
    paths = range_paths(trace, options.numbered, options.skip)
    fields: tuple[Field, ...] = FIELDS
    columns = {**_costs(trace, paths), **_shares(trace, paths), **_labels(trace, paths)}
    if options.autograd:
        fields = (*FIELDS, *AUTOGRAD_FIELDS)
        columns |= _backward(trace, paths)
    ordered = {field.name: columns[field.name] for field in fields}
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
            f"invalid number of instances to skip: {text!r}",
            hint="use a whole number, such as layers:skip=1",
        )
    return int(text)


def _costs(trace: Trace, paths: Paths) -> dict[str, Values]:
    """Return the columns computed from single calls."""
    work = range_work(trace)
    times = trace.columns("range", "start_ns", "end_ns")
    rows, took = paths.rows, work.took

    def of_calls(values: I64) -> GroupStats:
        return group_stats(paths.of_row, values[rows], len(paths.texts))

    def sums(values: I64) -> I64:  # need no order
        return group_sums(paths.of_row, values[rows], len(paths.texts))

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
        "kernels_per_call": Numbers(sums(work.kernels) / np.maximum(device.count, 1)),
        "operations_per_call": Numbers(sums(work.operations) / np.maximum(device.count, 1)),
        "device_idle_ns": Numbers(sums(took.span_ns - took.busy_ns)),
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
    """Return the busy time of each path, and its shares of the parent's and the total."""
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
    owners = np.zeros(len(ranges), np.int32) if sets is None else sets
    return work_timeline(trace).measure_contents(contents, n_sets, owners)


def _labels(trace: Trace, paths: Paths) -> dict[str, Values]:
    """Return the columns that identify a path."""
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
        return (*notes, *_warm_up_included(trace))
    warm = warm_up(trace, options.numbered, options.skip)
    if not warm.names:
        return (*notes, "no warm-up skipped: no range repeats")
    left_out = plural(len(warm.start_ns), "instance")
    return (*notes, f"warm-up skipped: the first {left_out} of {', '.join(warm.names)}")


def _warm_up_included(trace: Trace) -> Iterator[str]:
    """Yield how to leave out the steps that other tables exclude as warm-up."""
    run_steps = steps(Run(trace))
    number = len({run_steps.index[of.step] for of in run_steps.excluded if of.is_warm_up})
    if number and run_steps.has_ranges:
        included = plural(number, "warm-up step")
        yield f"{included} included; {NAME}:skip={number} is without"
