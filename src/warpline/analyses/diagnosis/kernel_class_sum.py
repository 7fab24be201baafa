"""kernel_class_sum: what kernels compute, and whose they are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from warpline.derived.kernels.categories import (
    BUSY_CATEGORIES,
    ORIGINS,
    kernel_class,
    operation_categories,
    operation_origins,
)
from warpline.derived.texts import labelled
from warpline.derived.work.busy import DeviceWork
from warpline.derived.work.graphs import graph_notes
from warpline.derived.work.operations import operations
from warpline.ops.arrays import F64, I64
from warpline.ops.group import factorize_rows, group_stats
from warpline.result import Arguments, Field, Numbers, Result, Values, analysis
from warpline.trace import Trace
from warpline.units import Unit, plural

NAME = "kernel_class_sum"
TITLE = "Kernels by what they compute"
_SHARE = "Share of the summed time of all kernels."
FIELDS = (
    Field("time_ratio", Unit.RATIO, _SHARE, "Time (%)", 100.0, 1),
    Field("total_ns", Unit.NS, "Sum of their durations.", "Total Time (ns)"),
    Field("busy_ns", Unit.NS, "Time in which at least one of them ran.", "Busy (ns)"),
    Field("instances", Unit.COUNT, "How many there were.", "Instances"),
    Field("mean_ns", Unit.NS, "Mean duration.", "Avg (ns)", digits=1),
    Field("names", Unit.COUNT, "How many different kernels they are.", "Kernels"),
    Field("category", Unit.NONE, "What they compute.", "Category"),
    Field("origin", Unit.NONE, "Whose code they are.", "Origin"),
)
_NAMED = (
    Field("rule", Unit.NONE, "The rule that told the category; none if no rule did.", "Rule"),
    Field("name", Unit.NONE, "Kernel.", "Name"),
)


@analysis(
    name=NAME,
    title=TITLE,
    fields=FIELDS,
    needs=("kernel",),
    arguments={"name": "One row per kernel, with the rule that told its category."},
    missing_hint="profile with --trace=cuda, and --cuda-graph-trace=node if it launches graphs",
)
def kernel_class_sum(trace: Trace, arguments: Arguments) -> Result:
    """What kernels compute, and whose they are.

    What it measures: The time of kernels by category (products, attention, convolutions,
        normalizations, pointwise operators, reductions, copies in another layout or type ...) and
        by origin (cuBLAS, cuDNN, Triton, the framework, the program itself ...).
    Why it matters: Products near the peak of the device need other remedies than pointwise kernels
        that a compiler could fuse, or than copies that nobody wanted.
    How it is computed: The first of the rules in kernel_rules.json that knows a kernel's name
        gives its category and its origin; :name shows which one. A kernel that no rule knows and
        that was launched inside a call of NCCL is a collective; else it is "other", and of the
        "user". The environment variable WARPLINE_KERNEL_RULES names a file of further rules.
    Limits: Names tell what a kernel was written for, not what it does with its arguments. A kernel
        into which a compiler fused several operators counts for the one that costs most. Kernels
        that ran at the same time are both counted in total_ns. Kernels of graphs that were
        recorded as wholes are missing; a note says so.
    Source: Warpline; docs/kernel-classes.md describes the rules.
    """
    kernels = operations(trace).of_table("kernel")
    is_named = "name" in arguments
    names = trace.columns("kernel", "name_id")["name_id"].values[operations(trace).row[kernels]]
    category = operation_categories(trace)[kernels].astype(np.int64)
    origin = operation_origins(trace)[kernels].astype(np.int64)
    named = factorize_rows(category, origin, names)
    rows = named if is_named else factorize_rows(category, origin)
    times = _times(trace, kernels, rows.codes.astype(np.int64), rows.n_groups)
    texts = trace.strings.texts(names[rows.first].tolist())
    # Of equal totals the order is that of the texts: their numbers depend on the file.
    order = np.lexsort(
        (_ranks(texts), origin[rows.first], category[rows.first], -times["total_ns"])
    )
    count = np.bincount(rows.codes[named.first], minlength=rows.n_groups)
    columns: dict[str, Values] = {
        "time_ratio": Numbers(times["total_ns"][order] / max(times["total_ns"].sum(), 1)),
        **{name: Numbers(values[order]) for name, values in times.items()},
        "names": Numbers(count[order]),
        "category": labelled(category[rows.first][order], BUSY_CATEGORIES),
        "origin": labelled(origin[rows.first][order], ORIGINS),
    }
    fields: tuple[Field, ...] = FIELDS
    key: tuple[str, ...] = ("category", "origin")
    if is_named:
        told = [kernel_class(text).category_rule or None for text in texts]
        columns["rule"] = labelled(order, told)
        columns["name"] = labelled(order, texts)
        fields, key = (*FIELDS, *_NAMED), (*key, "name")
    notes = (*_unknown_note(columns), *graph_notes(trace))
    return Result(":".join((NAME, *arguments)), TITLE, fields, columns, key, notes)


def _times(trace: Trace, kernels: I64, group: I64, n_groups: int) -> Mapping[str, I64 | F64]:
    listed = operations(trace)
    work = DeviceWork(listed.start_ns[kernels], listed.end_ns[kernels], listed.device[kernels])
    stats = group_stats(group, work.end_ns - work.start_ns, n_groups)
    return {
        "total_ns": stats.sum,
        "busy_ns": work.busy_ns(group, n_groups),
        "instances": stats.count,
        "mean_ns": stats.mean,
    }


def _ranks(texts: Sequence[str]) -> I64:
    """Return the place of each text among them in order."""
    return np.argsort(np.argsort(np.array(texts, np.str_), kind="stable"), kind="stable")


def _unknown_note(columns: Mapping[str, Values]) -> Sequence[str]:
    """Return a note on kernels that no rule knows, if there are any."""
    rows = zip(
        columns["category"].to_list(),
        columns["time_ratio"].to_list(),
        columns["instances"].to_list(),
        strict=True,
    )
    unknown = [(ratio, count) for category, ratio, count in rows if category == "other"]
    if not unknown:
        return ()
    ratio, count = sum(ratio for ratio, _ in unknown), sum(count for _, count in unknown)
    whose = f"{plural(count, 'kernel')} ({100 * ratio:.1f}% of the time)"
    return (f"no rule knows {whose}; a file of rules in WARPLINE_KERNEL_RULES can name them",)
