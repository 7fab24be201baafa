"""op_sum: a framework's operators by name, with CPU and GPU time."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from warpline.derived.memory.operators import memory_of_calls
from warpline.derived.operators.annotated import (
    OPERATOR_TABLES,
    has_operators,
    operator_trace,
)
from warpline.derived.operators.calls import (
    CALL_KINDS,
    OPERATOR,
    OperatorCalls,
    device_time_of_calls,
    operator_calls,
    work_of_calls,
)
from warpline.derived.operators.labels import (
    Labels,
    modules_of_calls,
    shapes_of_calls,
    stacks_of_calls,
)
from warpline.derived.texts import labelled
from warpline.ops.arrays import F64, I64
from warpline.ops.group import RowGroups, factorize_rows
from warpline.result import Arguments, Field, Numbers, Result, Skipped, Values, analysis
from warpline.trace import Trace
from warpline.units import Unit

NAME = "op_sum"
TITLE = "Operator summary"
HINT = "profile with --pytorch=functions-trace-shapes, or open a trace of torch.profiler"
_ALLOCATED = "Bytes allocated minus bytes freed, excluding nested calls."
FIELDS = (
    Field("calls", Unit.COUNT, "Number of calls.", "Calls"),
    Field("self_device_ratio", Unit.RATIO, "Share of the table's total.", "Self GPU (%)", 100.0, 1),
    Field(
        "self_device_ns",
        Unit.NS,
        "GPU time of the work launched, excluding nested calls.",
        "Self GPU (ns)",
    ),
    Field("device_ns", Unit.NS, "GPU time, including nested calls.", "GPU Total (ns)"),
    Field("self_host_ns", Unit.NS, "CPU time, excluding nested calls.", "Self CPU (ns)"),
    Field("host_ns", Unit.NS, "CPU time, including nested calls.", "CPU Total (ns)"),
    Field("self_host_ratio", Unit.RATIO, "Share of the table's total.", "Self CPU (%)", 100.0, 1),
    Field("device_mean_ns", Unit.NS, "Mean GPU time per call.", "GPU Avg (ns)", digits=1),
    Field("host_mean_ns", Unit.NS, "Mean CPU time per call.", "CPU Avg (ns)", digits=1),
    Field("self_device_bytes", Unit.BYTES, _ALLOCATED, "Self GPU Mem (MB)", 1e-6, 3),
    Field("device_bytes", Unit.BYTES, "Including nested calls.", "GPU Mem (MB)", 1e-6, 3),
    Field("self_host_bytes", Unit.BYTES, _ALLOCATED, "Self CPU Mem (MB)", 1e-6, 3),
    Field("host_bytes", Unit.BYTES, "Including nested calls.", "CPU Mem (MB)", 1e-6, 3),
    Field(
        "flops", Unit.COUNT, "Floating-point operations, from the framework's formulas.", "FLOPs"
    ),
    Field(
        "kind",
        Unit.NONE,
        "Operator, or Annotation (record_function range).",
        "Kind",
        is_detail=True,
    ),
    Field("name", Unit.NONE, "Operator or annotation.", "Name"),
)
LABELS: Mapping[str, tuple[Callable[[Trace], Labels], Field]] = {
    "shape": (
        shapes_of_calls,
        Field("input_shapes", Unit.NONE, "Input shapes.", "Input Shapes"),
    ),
    "module": (
        modules_of_calls,
        Field("module", Unit.NONE, "Enclosing modules, outermost first.", "Module"),
    ),
    "stack": (
        stacks_of_calls,
        Field("stack", Unit.NONE, "Enclosing Python functions, innermost first.", "Source Lines"),
    ),
}
_NOT_RECORDED = {
    "shape": "no input shapes were recorded: profile with --pytorch=functions-trace-shapes",
    "module": "no modules were recorded: profile with --pytorch=modules",
    "stack": "no source lines were recorded: profile with --pytorch=functions-trace",
}


@analysis(
    name=NAME,
    title=TITLE,
    fields=FIELDS,
    needs=OPERATOR_TABLES,
    aliases=("ops",),
    arguments={
        "shape": "group by name and input shapes, if recorded",
        "module": "group by name and module, if recorded",
        "stack": "group by name and Python stack, if recorded",
    },
    missing_hint=HINT,
)
def op_sum(trace: Trace, arguments: Arguments) -> Result | Skipped:
    """CPU time, GPU time and memory by operator, like torch.profiler's key_averages().

    What it measures: For each operator, such as aten::addmm, and each annotation: number of calls,
        CPU time and GPU time with and without nested calls, memory, and FLOPs.
    Why it matters: The table names the operators to optimize: those with the most GPU time, and
        those whose CPU time exceeds the time of their kernels.
    How it is computed: Calls nest on a thread. Self CPU time is a call's time minus that of the
        calls, annotations and CUDA API calls directly inside it. GPU time is the sum of the
        durations of kernels, copies and memsets. They belong to the innermost operator around
        their launch call, or outside all operators to the innermost annotation. Memory is bytes
        allocated minus bytes freed by the framework's allocator while the call is the innermost
        on that thread. As in PyTorch, a call whose only child has the same name is merged with
        it, the profiler's own helpers are excluded, and the profiler's steps share a name. The
        module and stack of a backward operator are those of the forward operator with its
        sequence number. Largest self GPU time first, then largest self CPU time.
    Limits: Totals include nested calls, so do not add them. As in PyTorch, an operator inside one
        of the same name counts twice there. Concurrent work on several streams is summed. PyTorch
        counts an allocation for the calls open on any thread at that time, Warpline only for
        those of the allocating thread. PyTorch also lists CUDA API calls and kernels: see
        cuda_api_sum, cuda_gpu_kern_sum and op_kern_sum. Shapes require
        --pytorch=functions-trace-shapes, autograd-shapes-nvtx, or torch.profiler with
        record_shapes=True. Memory requires profile_memory=True and FLOPs with_flops=True of
        torch.profiler. NVTX ranges name operators like ranges of record_function: those without
        "::" and without a sequence number or shapes are annotations.
    Source: Columns and definitions of torch.profiler's key_averages().table().
    """
    name = ":".join((NAME, *arguments))
    if not has_operators(trace):
        return Skipped(name, "no operators were recorded", HINT)
    trace = operator_trace(trace)
    calls = operator_calls(trace)
    by = [argument for argument in LABELS if argument in arguments]
    labels = [LABELS[argument][0](trace) for argument in by]
    groups = factorize_rows(
        calls.name[calls.counted],
        calls.kind[calls.counted].astype(np.int32),
        *(label.codes[calls.counted] for label in labels),
    )
    columns = _columns(trace, calls, groups)
    order = np.lexsort((-_numbers(columns, "self_host_ns"), -_numbers(columns, "self_device_ns")))
    first = calls.counted[groups.first]
    shown: dict[str, Values] = {name: _take(column, order) for name, column in columns.items()}
    shown["kind"] = labelled(calls.kind[first][order], CALL_KINDS)
    shown["name"] = labelled(calls.name[first][order], calls.names)
    for argument, label in zip(by, labels, strict=True):
        codes = label.codes[first][order]
        shown[LABELS[argument][1].name] = labelled(
            np.maximum(codes, 0), label.texts or ("",), codes >= 0
        )
    missing = [argument for argument, label in zip(by, labels, strict=True) if not label.texts]
    fields = (*FIELDS, *(LABELS[argument][1] for argument in by))
    key = ("kind", "name", *(LABELS[argument][1].name for argument in by))
    ordered = {field.name: shown[field.name] for field in fields}
    notes = (*_notes(trace), *(_NOT_RECORDED[argument] for argument in missing))
    return Result(name, TITLE, fields, ordered, key, notes)


def _columns(trace: Trace, calls: OperatorCalls, groups: RowGroups) -> dict[str, Numbers]:
    own_device = device_time_of_calls(trace)
    counted = np.flatnonzero(calls.counted == np.arange(len(calls)))

    def own(values: I64) -> I64:
        return _sums(groups, np.arange(len(calls)), values)

    def whole(values: I64) -> I64:
        return _sums(groups, counted, values)

    number = np.bincount(groups.codes[counted], minlength=groups.n_groups)
    host, device = whole(calls.host_ns), whole(calls.inclusive(own_device))
    self_host, self_device = own(calls.self_host_ns), own(own_device)
    has_work = None if (own_device > 0).any() else np.zeros(groups.n_groups, np.bool_)
    return {
        "self_device_ratio": _shares(self_device),
        "self_device_ns": Numbers(self_device, has_work),
        "device_ns": Numbers(device, has_work),
        "device_mean_ns": Numbers(_ratio(device, number), has_work),
        "self_host_ratio": _shares(self_host),
        "self_host_ns": Numbers(self_host),
        "host_ns": Numbers(host),
        "host_mean_ns": Numbers(_ratio(host, number)),
        "calls": Numbers(number),
        **_memory(trace, calls, own, whole),
        "flops": _flops(trace, calls, own),
    }


def _memory(
    trace: Trace, calls: OperatorCalls, own: Callable[[I64], I64], whole: Callable[[I64], I64]
) -> dict[str, Numbers]:
    memory = memory_of_calls(trace)
    is_there = trace.has("allocator_event") and trace.row_count("allocator_event") > 0
    columns = {}
    for place, values in (("device", memory.device_bytes), ("host", memory.host_bytes)):
        for name, sums in (("self_", own(values)), ("", whole(calls.inclusive(values)))):
            valid = None if is_there else np.zeros(len(sums), np.bool_)
            columns[f"{name}{place}_bytes"] = Numbers(sums, valid)
    return columns


def _flops(trace: Trace, calls: OperatorCalls, own: Callable[[I64], I64]) -> Numbers:
    column = trace.columns("op", "flops")["flops"]
    operators = np.flatnonzero(calls.kind == OPERATOR)
    counts, known = np.zeros(len(calls), np.int64), np.zeros(len(calls), np.int64)
    counts[operators] = column.filled(0)[calls.row[operators]]
    known[operators] = column.is_valid()[calls.row[operators]]
    return Numbers(own(counts), own(known) > 0)


def _sums(groups: RowGroups, rows: I64, values: I64) -> I64:
    sums = np.zeros(groups.n_groups, np.int64)
    np.add.at(sums, groups.codes[rows], values[rows])
    return sums


def _ratio(total: I64, number: I64) -> F64:
    mean: F64 = total / np.maximum(number, 1)
    return mean


def _shares(totals: I64) -> Numbers:
    whole = sum(totals.tolist())
    if whole <= 0:
        return Numbers(np.zeros(len(totals)), np.zeros(len(totals), np.bool_))
    return Numbers(totals / whole)


def _numbers(columns: Mapping[str, Numbers], name: str) -> I64:
    values: I64 = columns[name].values
    return values


def _take(column: Numbers, order: I64) -> Numbers:
    return Numbers(column.values[order], None if column.valid is None else column.valid[order])


def _notes(trace: Trace) -> tuple[str, ...]:
    has_row = work_of_calls(trace).found
    free = len(has_row) - int(np.count_nonzero(has_row))
    if not free:
        return ()
    why = "launched outside all operators and annotations, or the launch call was not recorded"
    return (f"{free:,} of {len(has_row):,} GPU operations belong to no row: {why}",)
