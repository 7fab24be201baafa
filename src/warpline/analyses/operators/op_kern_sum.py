"""op_kern_sum: the time of kernels by the operator that launched them."""

from __future__ import annotations

import numpy as np

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
HINT = "record CPU and CUDA activities with torch.profiler"
FIELDS = (
    Field("time_ratio", Unit.RATIO, "Share of all kernels' summed time.", "Time (%)", 100.0, 1),
    Field("total_ns", Unit.NS, "Sum of their durations.", "Total Time (ns)"),
    Field("instances", Unit.COUNT, "How many kernels there were.", "Kern Inst"),
    Field("calls", Unit.COUNT, "Calls of the operator that launched one.", "Op Calls"),
    *spread_fields("", ""),
    Field("kind", Unit.NONE, "Operator, or annotation of the program.", "Kind", is_detail=True),
    Field("operator", Unit.NONE, "Operator; none if launched outside of all.", "Operator"),
    Field("name", Unit.NONE, "Kernel.", "Kernel Name"),
    *spread_fields("", "", extra=True),
)


@analysis(
    name=NAME,
    title=TITLE,
    fields=FIELDS,
    needs=("op",),
    arguments=KERNEL_NAME_ARGUMENTS,
    missing_hint=HINT,
)
def op_kern_sum(trace: Trace, arguments: Arguments) -> Result | Skipped:
    """Which operators launched which kernels, how often, and how long those ran.

    What it measures: For each pair of an operator and a kernel: in how many calls of the operator
        it was launched, how often, and how long it ran.
    Why it matters: It leads from a kernel that takes long to the operator that asked for it, and
        shows when an operator runs another kernel than expected, such as one without tensor
        cores, or many small ones in place of a fused one.
    How it is computed: A kernel belongs to the innermost operator that was open on the launching
        thread when its launch call began; outside of all operators to the innermost annotation of
        the program, else to none. Calls that are one for op_sum are one here. Largest time first.
    Limits: A kernel whose launch call was not recorded has no operator. Kernels of a graph belong
        to the call that launched the graph, not to the operators that it was captured from;
        those of graphs that were recorded as wholes are missing, and a note says so.
    Source: Warpline.
    """
    name = ":".join((NAME, *arguments))
    if not trace.has("kernel") or not trace.row_count("kernel"):
        return Skipped(name, "no kernel rows were recorded", HINT)
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
    """Return each name's place among the distinct texts, which ascend."""
    codes, distinct = number_texts(ids, len(trace.strings))
    found = trace.strings.texts(distinct.tolist())
    texts = tuple(sorted(set(found)))
    place = {text: number for number, text in enumerate(texts)}
    return np.array([place[text] for text in found], np.int64)[codes], texts


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
