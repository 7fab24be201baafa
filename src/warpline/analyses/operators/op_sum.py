"""op_sum: a framework's operators by name, with their time on host and devices."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from warpline.derived.memory.operators import memory_of_calls
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
from warpline.result import Arguments, Field, Numbers, Result, Values, analysis
from warpline.trace import Trace
from warpline.units import Unit

NAME = "op_sum"
TITLE = "Operator summary"
HINT = "record with torch.profiler, and open the trace that it exports"
_ALLOCATED = "Allocated less released."
FIELDS = (
    Field("calls", Unit.COUNT, "How often it was called.", "Calls"),
    Field("self_device_ratio", Unit.RATIO, "Share of this table.", "Self Device (%)", 100.0, 1),
    Field("self_device_ns", Unit.NS, "Summed work that they launched.", "Self Device (ns)"),
    Field("device_ns", Unit.NS, "The same with calls inside.", "Device Total (ns)"),
    Field("self_host_ns", Unit.NS, "Host time without calls inside.", "Self Host (ns)"),
    Field("host_ns", Unit.NS, "Host time, with calls inside.", "Host Total (ns)"),
    Field("self_host_ratio", Unit.RATIO, "Share of this table.", "Self Host (%)", 100.0, 1),
    Field("device_mean_ns", Unit.NS, "Per call, with calls inside.", "Device Avg (ns)", digits=1),
    Field("host_mean_ns", Unit.NS, "Per call, with calls inside.", "Host Avg (ns)", digits=1),
    Field("self_device_bytes", Unit.BYTES, _ALLOCATED, "Self Device Mem (MB)", 1e-6, 3),
    Field("device_bytes", Unit.BYTES, "The same with calls inside.", "Device Mem (MB)", 1e-6, 3),
    Field("self_host_bytes", Unit.BYTES, _ALLOCATED, "Self Host Mem (MB)", 1e-6, 3),
    Field("host_bytes", Unit.BYTES, "The same with calls inside.", "Host Mem (MB)", 1e-6, 3),
    Field("flops", Unit.COUNT, "By the framework's formula, where it has one.", "FLOPs"),
    Field("kind", Unit.NONE, "Operator, or annotation of the program.", "Kind", is_detail=True),
    Field("name", Unit.NONE, "Name.", "Name"),
)
LABELS: Mapping[str, tuple[Callable[[Trace], Labels], Field]] = {
    "shape": (
        shapes_of_calls,
        Field("input_shapes", Unit.NONE, "Shapes of the inputs.", "Input Shapes"),
    ),
    "module": (
        modules_of_calls,
        Field("module", Unit.NONE, "Modules around it, outermost first.", "Module"),
    ),
    "stack": (
        stacks_of_calls,
        Field("stack", Unit.NONE, "Python functions around it, innermost first.", "Source Lines"),
    ),
}
_NOT_RECORDED = {
    "shape": "no shapes of inputs were recorded: profile with record_shapes=True",
    "module": "no modules were recorded: profile with with_stack=True or with_modules=True",
    "stack": "no source lines were recorded: profile with with_stack=True",
}


@analysis(
    name=NAME,
    title=TITLE,
    fields=FIELDS,
    needs=("op",),
    arguments={
        "shape": "a row for each name and shapes of its inputs, where they were recorded",
        "module": "a row for each name and module of the model, where modules were recorded",
        "stack": "a row for each name and place in the program, where stacks were recorded",
    },
    missing_hint=HINT,
)
def op_sum(trace: Trace, arguments: Arguments) -> Result:
    """What each operator of a framework costs, as torch.profiler's key_averages() tells it.

    What it measures: For operators such as aten::addmm, and annotations of the program, of one
        name: how often they were called, how long the host was in them and the devices were busy
        with what they launched, each with and without the calls inside, the memory that they
        took, and their floating-point operations.
    Why it matters: It names what to change in a model: the operator that keeps the device busy,
        or the one that costs the host more than its kernels take.
    How it is computed: Calls nest on a thread. Self host time is a call's time without the calls,
        annotations and CUDA calls directly inside it. Device time is the sum of the durations of
        kernels, copies and memory sets; they belong to the innermost operator around their launch
        call, outside of all to the innermost annotation. Memory is what the framework's allocator
        gave less what it took back while the call was the innermost on that thread. As in PyTorch,
        a call that only holds one of the same name is one call with it, the profiler's own helpers
        are left out, and the profiler's steps share a name. The module and stack of a backward
        operator are those of the forward operator with its sequence number. Largest self device
        time first, then largest self host time.
    Limits: Totals hold the calls inside, so they must not be added up, and an operator inside one
        of its own name counts twice there, as in PyTorch. Work on several streams at once is
        summed, not united. PyTorch counts an allocation for the calls open on any thread at that
        time; here it counts for those of its own thread. It also lists CUDA calls and kernels:
        see cuda_api_sum, cuda_gpu_kern_sum and op_kern_sum. Memory is there with
        profile_memory=True, FLOPs with with_flops=True, shapes with record_shapes=True.
    Source: Columns and definitions of torch.profiler's key_averages().table().
    """
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
    return Result(":".join((NAME, *arguments)), TITLE, fields, ordered, key, notes)


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
    found = {}
    for place, values in (("device", memory.device_bytes), ("host", memory.host_bytes)):
        for name, sums in (("self_", own(values)), ("", whole(calls.inclusive(values)))):
            valid = None if is_there else np.zeros(len(sums), np.bool_)
            found[f"{name}{place}_bytes"] = Numbers(sums, valid)
    return found


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
    found = work_of_calls(trace).found
    free = len(found) - int(np.count_nonzero(found))
    if not free:
        return ()
    why = "no operator or annotation was open when their launch call began, or it was not recorded"
    return (f"{free:,} of {len(found):,} device operations belong to no row: {why}",)
