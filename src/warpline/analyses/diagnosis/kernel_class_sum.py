"""kernel_class_sum: kernels by category and library."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from warpline.derived.kernels.categories import (
    kernel_class,
    operation_categories,
    operation_origins,
)
from warpline.derived.kernels.rules import Origin
from warpline.derived.texts import labelled
from warpline.derived.time_parts import TimePart
from warpline.derived.work.busy import DeviceWork
from warpline.derived.work.graphs import graph_notes
from warpline.derived.work.operations import operations
from warpline.ops.arrays import F64, I64
from warpline.ops.group import factorize_rows, group_stats
from warpline.result import Arguments, Field, Numbers, Result, Values, analysis
from warpline.trace import Trace
from warpline.units import Unit, plural

NAME = "kernel_class_sum"
TITLE = "Kernels by category and library"
_SHARE = "Share of the total time of all kernels."
FIELDS = (
    Field("time_ratio", Unit.RATIO, _SHARE, "Time (%)", 100.0, 1),
    Field("total_ns", Unit.NS, "Sum of durations.", "Total Time (ns)"),
    Field("busy_ns", Unit.NS, "Time during which at least one ran.", "Busy (ns)"),
    Field("instances", Unit.COUNT, "Number of instances.", "Instances"),
    Field("mean_ns", Unit.NS, "Mean duration.", "Avg (ns)", digits=1),
    Field("names", Unit.COUNT, "Number of distinct kernels.", "Kernels"),
    Field("category", Unit.NONE, "Category, such as gemm.", "Category"),
    Field("origin", Unit.NONE, "Library that the kernel belongs to.", "Origin"),
)
_NAMED = (
    Field("rule", Unit.NONE, "The rule that set the category; empty if none did.", "Rule"),
    Field("name", Unit.NONE, "Name of the kernel.", "Name"),
)


@analysis(
    name=NAME,
    title=TITLE,
    fields=FIELDS,
    needs=("kernel",),
    arguments={"name": "One row per kernel, with the rule that set its category."},
    missing_hint="profile with --trace=cuda, and --cuda-graph-trace=node for CUDA graphs",
)
def kernel_class_sum(trace: Trace, arguments: Arguments) -> Result:
    """Kernels by category and library.

    What it measures: The time of kernels by category (GEMM, attention, convolution, normalization,
        elementwise, reduction, layout conversion, cast, ...) and by origin (cuBLAS, cuDNN, Triton,
        the framework, user code, ...).
    Why it matters: GEMMs near peak throughput need other optimizations than elementwise kernels
        that a compiler could fuse, or unnecessary copies.
    How it is computed: The first rule in kernel_rules.json that matches a kernel's name sets its
        category and origin. :name shows which rule. An unmatched kernel is a collective if it was
        launched inside an NCCL call; otherwise its category is "other" and its origin "user". The
        environment variable WARPLINE_KERNEL_RULES names a file with further rules.
    Limits: Names show the purpose of a kernel, not what it does with its arguments. A fused kernel
        counts as its most expensive operator. Kernels that overlap all count in total_ns. Kernels
        of CUDA graphs traced at graph level are missing, and a note reports this.
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
    # Order equal totals by name: the numbers of strings depend on the file.
    order = np.lexsort(
        (_ranks(texts), origin[rows.first], category[rows.first], -times["total_ns"])
    )
    count = np.bincount(rows.codes[named.first], minlength=rows.n_groups)
    columns: dict[str, Values] = {
        "time_ratio": Numbers(times["total_ns"][order] / max(times["total_ns"].sum(), 1)),
        **{name: Numbers(values[order]) for name, values in times.items()},
        "names": Numbers(count[order]),
        "category": labelled(category[rows.first][order], TimePart.labels()),
        "origin": labelled(origin[rows.first][order], Origin.labels()),
    }
    fields: tuple[Field, ...] = FIELDS
    key: tuple[str, ...] = ("category", "origin")
    if is_named:
        rules = [kernel_class(text).category_rule or None for text in texts]
        columns["rule"] = labelled(order, rules)
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
    """Return the rank of each string in sorted order."""
    return np.argsort(np.argsort(np.array(texts, np.str_), kind="stable"), kind="stable")


def _unknown_note(columns: Mapping[str, Values]) -> Sequence[str]:
    """Return a note on unclassified kernels, if there are any."""
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
    return (f"{whose} match no rule; add rules in the file named by WARPLINE_KERNEL_RULES",)
