"""range_gpu_sum: GPU work by range name."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from warpline.derived.ranges.autograd import AUTOGRAD_ARGUMENT, BackwardWork, backward_work
from warpline.derived.ranges.names import outermost_of_name, push_pop_ranges, range_names
from warpline.derived.ranges.work import RangeWork, has_work, range_work, work_notes
from warpline.derived.texts import labelled
from warpline.ops.arrays import I32, I64, BoolArray
from warpline.ops.group import RowGroups, factorize_rows, group_stats
from warpline.result import Arguments, Field, Numbers, Result, Skipped, Values, analysis
from warpline.schema.labels import RANGE_STYLES
from warpline.trace import Trace
from warpline.units import Unit

NAME = "range_gpu_sum"
TITLE = "GPU work by range name"


def _per_call(subject: str, heading: str, what: str) -> Iterator[Field]:
    for name, short, doc in (
        ("mean", "Avg", f"Mean {what} per instance."),
        ("median", "Med", f"Median {what} per instance."),
        ("p95", "P95", f"95th percentile of the {what} per instance, interpolated."),
        ("p99", "P99", f"99th percentile of the {what} per instance, interpolated."),
    ):
        yield Field(f"{subject}_{name}_ns", Unit.NS, doc, f"{heading} {short} (ns)", digits=1)


FIELDS = (
    Field("device_busy_ns", Unit.NS, "GPU busy time of the ranges' work.", "GPU Busy (ns)"),
    Field("device_span_ns", Unit.NS, "First start to last end.", "GPU Span (ns)"),
    Field("device_idle_ns", Unit.NS, "Span minus busy time.", "GPU Idle (ns)"),
    Field("host_ns", Unit.NS, "CPU time, from start to end of the ranges.", "CPU (ns)"),
    Field("instances", Unit.COUNT, "Number of ranges.", "Instances"),
    Field("operations", Unit.COUNT, "Kernels, copies, memsets and CUDA graphs.", "GPU Ops"),
    Field("launches", Unit.COUNT, "CUDA API calls that launch them.", "Launches"),
    Field("self_busy_ns", Unit.NS, "Busy time of work outside nested ranges.", "Self Busy (ns)"),
    Field("self_operations", Unit.COUNT, "Operations outside nested ranges.", "Self Ops"),
    *_per_call("device", "GPU", "busy time"),
    *_per_call("host", "CPU", "CPU time"),
    Field("style", Unit.NONE, "PushPop or StartEnd.", "Style"),
    Field("name", Unit.NONE, "Range name, prefixed with its domain and a colon.", "Range"),
)

AUTOGRAD_FIELDS = (
    Field("backward_busy_ns", Unit.NS, "Busy time of the backward work.", "Backward Busy (ns)"),
    Field("backward_operations", Unit.COUNT, "Operations of the backward work.", "Backward Ops"),
)


@analysis(
    name=NAME,
    title=TITLE,
    fields=FIELDS,
    needs=("range",),
    arguments=AUTOGRAD_ARGUMENT,
    missing_hint="add NVTX ranges to the program and profile with --trace=cuda,nvtx",
)
def range_gpu_sum(trace: Trace, arguments: Arguments) -> Result | Skipped:
    """GPU busy and idle time of the work launched in ranges, by range name.

    What it measures: For the ranges of each name, the busy time and idle time of the GPU work
        launched in them, and their duration on the CPU.
    Why it matters: The table shows how long each part of the program takes on the GPU, while
        nvtx_sum shows its CPU time. High idle time inside a range means that the GPU waits for
        the CPU, not that the range's kernels are slow.
    How it is computed: An operation belongs to every range that is open when its launch call
        starts: push/pop ranges of the launching thread, and start/end ranges of the process,
        on whichever thread they end. For each instance, busy is the union of its operations, and
        span the time from first start to last end, each per GPU and added over GPUs. Busy, span,
        idle, CPU time, operations and launches are summed over the outermost instances: one nested
        in another of the same name and style, on the same thread (start/end ranges: in the same
        process), would count twice. The number of instances, statistics per instance, and self
        (work outside nested ranges) include all instances. Largest busy time first. With
        range_gpu_sum:autograd, backward work is the work that a function of PyTorch's backward
        pass launches on its own thread. It belongs to the operator with the same sequence number,
        and to all push/pop ranges around that, and is also summed over outermost instances.
    Limits: Instances that overlap without nesting, on several threads or as start/end ranges, each
        count their shared work. Start/end ranges do not nest and have no self columns. Filters do
        not shorten times, but the work that they remove is missing.
    Source: Warpline.
    """
    if not has_work(trace):
        return Skipped(NAME, "no GPU work was launched", "profile with --trace=cuda,nvtx")
    names, style = range_names(trace), trace.columns("range", "style")["style"].values
    groups, work = factorize_rows(names.codes, style), range_work(trace)
    backward = backward_work(trace) if "autograd" in arguments else None
    totals = _totals(trace, work, groups, backward)
    order = np.argsort(-totals["device_busy_ns"], kind="stable")
    first = groups.first[order]
    columns: dict[str, Values] = {
        **{name: Numbers(total[order]) for name, total in totals.items()},
        **_self_columns(work, groups, order, push_pop_ranges(trace)[first]),
        **_statistics("device", work.took.busy_ns, groups, order),
        **_statistics("host", _host_ns(trace), groups, order),
        "style": labelled(style[first], [RANGE_STYLES[kind] for kind in sorted(RANGE_STYLES)]),
        "name": labelled(names.codes[first], names.texts),
    }
    fields: tuple[Field, ...] = FIELDS
    notes = work_notes(trace)
    if backward is not None:
        fields, notes = (*FIELDS, *AUTOGRAD_FIELDS), (*notes, *backward.notes)
    ordered = {field.name: columns[field.name] for field in fields}
    return Result(":".join((NAME, *arguments)), TITLE, fields, ordered, ("style", "name"), notes)


def _host_ns(trace: Trace) -> I64:
    columns = trace.columns("range", "start_ns", "end_ns")
    length: I64 = columns["end_ns"].values - columns["start_ns"].values
    return length


def _totals(
    trace: Trace, work: RangeWork, groups: RowGroups, backward: BackwardWork | None
) -> dict[str, I64]:
    """Return the sums over outermost instances, and the number of all instances."""
    rows = np.flatnonzero(outermost_of_name(trace))
    codes = groups.codes[rows]
    took = work.took
    summed = {
        "device_busy_ns": took.busy_ns,
        "device_span_ns": took.span_ns,
        "device_idle_ns": took.span_ns - took.busy_ns,
        "host_ns": _host_ns(trace),
        "operations": work.operations,
        "launches": work.launches,
    }
    if backward is not None:
        summed["backward_busy_ns"] = backward.busy_ns
        summed["backward_operations"] = backward.operations
    sums = {name: _sums(codes, all_[rows], groups) for name, all_ in summed.items()}
    return {**sums, "instances": np.bincount(groups.codes, minlength=groups.n_groups)}


def _self_columns(
    work: RangeWork, groups: RowGroups, order: I64, nests: BoolArray
) -> dict[str, Values]:
    summed = {"self_busy_ns": work.self_busy_ns, "self_operations": work.self_operations}
    return {
        name: Numbers(_sums(groups.codes, values, groups)[order], nests)
        for name, values in summed.items()
    }


def _sums(codes: I32, values: I64, groups: RowGroups) -> I64:
    sums = np.zeros(groups.n_groups, np.int64)
    np.add.at(sums, codes, values)
    return sums


def _statistics(subject: str, values: I64, groups: RowGroups, order: I64) -> dict[str, Values]:
    stats = group_stats(groups.codes, values, groups.n_groups)
    return {
        f"{subject}_mean_ns": Numbers(stats.mean[order]),
        f"{subject}_median_ns": Numbers(stats.median[order]),
        f"{subject}_p95_ns": Numbers(stats.percentile(95)[order]),
        f"{subject}_p99_ns": Numbers(stats.percentile(99)[order]),
    }
