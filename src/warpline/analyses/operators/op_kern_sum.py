"""op_kern_sum: kernel time by the operator that launched the kernels."""

from __future__ import annotations

import numpy as np

from warpline.derived.operators.annotated import (
    OPERATOR_TABLES,
    has_operators,
    operator_trace,
)
from warpline.derived.operators.calls import CALL_KINDS, operator_calls, work_of_calls
from warpline.derived.summaries.kernel_names import (
    KERNEL_NAME_ARGUMENTS,
    kernel_name_column,
    kernel_name_ids,
)
from warpline.derived.summaries.summary import spread, spread_fields
from warpline.derived.texts import labelled, number_texts
from warpline.derived.work.graphs import graph_notes
from warpline.derived.work.operations import operations
from warpline.ops.arrays import F64, I32, I64
from warpline.ops.group import factorize_rows, group_stats
from warpline.result import Arguments, Field, Numbers, Result, Skipped, Values, analysis
from warpline.trace import Trace
from warpline.units import Unit

NAME = "op_kern_sum"
TITLE = "Operator kernel summary"
HINT = "profile with --pytorch=functions-trace, or open a trace of torch.profiler"
FIELDS = (
    Field(
        "time_ratio", Unit.RATIO, "Share of the total time of all kernels.", "Time (%)", 100.0, 1
    ),
    Field("total_ns", Unit.NS, "Sum of the kernel durations.", "Total Time (ns)"),
    Field("instances", Unit.COUNT, "Number of kernels.", "Kern Inst"),
    Field(
        "calls", Unit.COUNT, "Operator calls that launch at least one of the kernels.", "Op Calls"
    ),
    *spread_fields("", ""),
    Field(
        "kind",
        Unit.NONE,
        "Operator, or Annotation (record_function range).",
        "Kind",
        is_detail=True,
    ),
    Field("operator", Unit.NONE, "Operator; empty outside all operators.", "Operator"),
    Field("name", Unit.NONE, "Kernel name.", "Kernel Name"),
    *spread_fields("", "", extra=True),
)


@analysis(
    name=NAME,
    title=TITLE,
    fields=FIELDS,
    needs=OPERATOR_TABLES,
    arguments=KERNEL_NAME_ARGUMENTS,
    missing_hint=HINT,
)
def op_kern_sum(trace: Trace, arguments: Arguments) -> Result | Skipped:
    """GPU time of kernels, by the operator that launched them.

    What it measures: For each pair of operator and kernel, the operator calls that launch the
        kernel, the number of kernels and their duration.
    Why it matters: The table leads from a slow kernel to its operator. It also shows unexpected
        kernels, such as one that does not use Tensor Cores, or many small ones instead of a
        fused one.
    How it is computed: A kernel belongs to the innermost operator open on the launching thread
        when its launch call starts. Outside all operators, it belongs to the innermost
        annotation, if any. Calls that op_sum merges count as one here too. Largest time first.
    Limits: A kernel without a recorded launch call has no operator. Kernels of a CUDA graph belong
        to the call that launches the graph, not to the captured operators. With graph-level
        tracing they are missing; a note gives their time.
    Source: Warpline.
    """
    name = ":".join((NAME, *arguments))
    if not trace.has("kernel") or not trace.row_count("kernel"):
        return Skipped(name, "no kernels were recorded", HINT)
    if not has_operators(trace):
        return Skipped(name, "no operators were recorded", HINT)
    trace = operator_trace(trace)
    calls, work = operator_calls(trace), operations(trace)
    places = work.of_table("kernel")
    owner = work_of_calls(trace)
    call = np.where(owner.found, calls.counted[owner.row] if len(calls) else 0, -1)[places]
    ids = kernel_name_ids(trace, kernel_name_column(arguments), ordered=True)[work.row[places]]
    kernel, texts = _by_text(trace, ids)
    operator, kind = _of_call(calls.name, call), _of_call(calls.kind, call)
    groups = factorize_rows(operator, kind, kernel)
    stats = group_stats(groups.codes, (work.end_ns - work.start_ns)[places], groups.n_groups)
    order = np.argsort(-stats.sum, kind="stable")
    first = groups.first[order]
    values: dict[str, Values] = {
        "time_ratio": Numbers(_shares(stats.sum)[order]),
        "total_ns": Numbers(stats.sum[order]),
        "instances": Numbers(stats.count[order]),
        "calls": Numbers(_distinct_calls(groups.codes, call, groups.n_groups)[order]),
        **spread(stats, "", order),
        "kind": labelled(np.maximum(kind[first], 0), CALL_KINDS, kind[first] >= 0),
        "operator": labelled(
            np.maximum(operator[first], 0), calls.names or ("",), operator[first] >= 0
        ),
        "name": labelled(kernel[first], texts),
        **spread(stats, "", order, extra=True),
    }
    return Result(name, TITLE, FIELDS, values, ("kind", "operator", "name"), graph_notes(trace))


def _by_text(trace: Trace, ids: I32) -> tuple[I64, tuple[str, ...]]:
    """Return each name's place among the distinct texts, and these in ascending order."""
    codes, distinct = number_texts(ids, len(trace.strings))
    names = trace.strings.texts(distinct.tolist())
    texts = tuple(sorted(set(names)))
    place = {text: number for number, text in enumerate(texts)}
    return np.array([place[text] for text in names], np.int64)[codes], texts


def _of_call(values: np.ndarray, call: I64) -> I64:
    of_kernel = np.full(len(call), -1)
    known = call >= 0
    of_kernel[known] = values[call[known]]
    return of_kernel


def _distinct_calls(group: np.ndarray, call: I64, n_groups: int) -> I64:
    known = call >= 0
    pairs = factorize_rows(group[known], call[known])
    return np.bincount(group[known][pairs.first], minlength=n_groups)


def _shares(totals: I64) -> F64:
    whole = max(sum(totals.tolist()), 1)
    share: F64 = totals / whole
    return share
