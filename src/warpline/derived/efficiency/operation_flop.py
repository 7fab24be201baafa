"""FLOP of GPU operations, from the operators that launched them or that were captured with them.

All FLOP of an operator are those of its longest kernel, so that sums are exact. Each replay of a
CUDA graph computes what the captured operators do.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from warpline.derived import derived
from warpline.derived.compiled.captured import captured_nodes
from warpline.derived.efficiency.peaks import peaks_of_devices
from warpline.derived.efficiency.products import Arithmetic, products
from warpline.derived.operators.flops import CountedOperators, counted_operators
from warpline.derived.work.operations import operations
from warpline.hardware import Peaks
from warpline.lazy import lazy_pattern
from warpline.ops.arrays import F64, I8, I64, BoolArray
from warpline.ops.group import distinct_values
from warpline.ops.join import Lookup
from warpline.ops.tree import enclosing
from warpline.trace import Trace
from warpline.units import plural
from warpline.vocabulary import Vocabulary

_HALF = lazy_pattern(r"(?:c10::)?(?:BFloat16|Half)$")
_FP8 = lazy_pattern(r"(?:c10::)?Float8")
_HOW = "--pytorch=all,functions-trace-shapes"
_FIRST_TYPE = lazy_pattern(r"[A-Za-z][A-Za-z0-9_:]+")


class Precision(Vocabulary):
    """What a product is computed with."""

    UNKNOWN = "unknown"
    FP64 = "FP64"
    FP32 = "FP32"
    TF32 = "TF32"
    HALF = "BF16 or FP16"
    FP8 = "FP8"


class OperationFlop(NamedTuple):
    """What GPU operations compute; 0 for all but the longest kernel of an operator.

    Attributes:
        flop: Shape (operations,), int64.
        least_ns: Shape (operations,), float64, the time that these take at the GPU's peak; 0 if
            the precision or the peak is unknown.
        is_unknown: Shape (operations,), bool, whether the operator's FLOP are unknown.
    """

    flop: I64
    least_ns: F64
    is_unknown: BoolArray


@derived
def operation_flop(trace: Trace) -> OperationFlop:
    """Return the FLOP of each operation, and the least time that they take."""
    count = len(operations(trace))
    flop, least_ns, is_unknown = (
        np.zeros(count, np.int64),
        np.zeros(count),
        np.zeros(count, np.bool_),
    )
    counted = counted_operators(trace)
    place, operator = _longest_kernels(trace, counted)
    flop[place] = counted.flop[operator]
    is_unknown[place] = ~counted.is_known[operator]
    precision = _precisions(trace, place, counted.dtype[operator])
    rate = _peaks(trace)[operations(trace).device[place], precision]
    least_ns[place] = np.where(rate > 0, flop[place] * 1e9 / np.maximum(rate, 1), 0.0)
    return OperationFlop(flop, least_ns, is_unknown)


@derived
def flop_notes(trace: Trace) -> tuple[str, ...]:
    """Return what keeps FLOP from being complete, one sentence each."""
    counted = counted_operators(trace)
    if not len(counted.flop):
        how = f"profile with {_HOW}, or torch.profiler's record_shapes=True"
        return (f"no FLOP: input shapes were not recorded; {how}",)
    unknown = int(np.count_nonzero(~counted.is_known))
    if not unknown:
        return ()
    named = plural(unknown, "operator")
    text = (
        f"FLOP of {named} are unknown, and so are those of their modules: NVTX ranges lack strides"
    )
    return (f"{text} of convolutions; profile with {_HOW}",)


def _longest_kernels(trace: Trace, counted: CountedOperators) -> tuple[I64, I64]:
    """Return the longest operation of each operator and replay, and the operator."""
    work = operations(trace)
    inside = _operators_of_operations(trace, counted)
    at = np.flatnonzero(inside.found)
    operator = inside.row[at]
    replay = np.where(captured_nodes(trace).found[at], work.call[at], -1)
    order = np.lexsort((work.start_ns[at], work.start_ns[at] - work.end_ns[at], replay, operator))
    at, operator, replay = at[order], operator[order], replay[order]
    first = np.ones(len(at), np.bool_)
    first[1:] = (operator[1:] != operator[:-1]) | (replay[1:] != replay[:-1])
    return at[first], operator[first]


def _operators_of_operations(trace: Trace, counted: CountedOperators) -> Lookup:
    """Return the operator in which each operation was launched, or its node captured."""
    work, node = operations(trace), captured_nodes(trace)
    time, thread = np.zeros(len(work), np.int64), np.full(len(work), -1)
    for table, rows, at in (
        ("api_call", work.call, np.flatnonzero(work.call >= 0)),
        ("graph_node", node.row, np.flatnonzero(node.found)),
    ):
        if len(at):
            when = "start_ns" if table == "api_call" else "time_ns"
            columns = trace.columns(table, when, "thread_id")
            time[at] = columns[when].values[rows[at]]
            thread[at] = columns["thread_id"].values[rows[at]]
    return enclosing(
        time, counted.start_ns, counted.end_ns, point_group=thread, group=counted.thread
    )


def _precisions(trace: Trace, place: I64, dtype: I64) -> I8:
    """Return what kernels compute with: by the types of inputs, otherwise by the kernel's name."""
    names = products(trace)
    arithmetic, is_half, is_tf32 = (
        names.fact(fact)[place] for fact in ("arithmetic", "is_sixteen_bit", "is_tf32")
    )
    found = np.full(len(place), int(Precision.UNKNOWN), np.int8)
    found[arithmetic == int(Arithmetic.PLAIN)] = int(Precision.FP32)
    found[(arithmetic == int(Arithmetic.TENSOR)) & (is_tf32 > 0)] = int(Precision.TF32)
    found[(arithmetic == int(Arithmetic.TENSOR)) & (is_half > 0)] = int(Precision.HALF)
    for row in distinct_values(dtype[dtype >= 0]).tolist():
        given = _given(trace.strings.text(row))
        own = dtype == row
        if given is Precision.FP32:  # TF32 has the same type
            own &= found != int(Precision.TF32)
        if given is not Precision.UNKNOWN:
            found[own] = int(given)
    return found


def _given(dtypes: str) -> Precision:
    """Return the precision of the first type in a list of them."""
    match = _FIRST_TYPE.search(dtypes)
    text = match[0] if match else ""
    if _HALF.match(text):
        return Precision.HALF
    if _FP8.match(text):
        return Precision.FP8
    return {"float": Precision.FP32, "double": Precision.FP64}.get(text, Precision.UNKNOWN)


def _peaks(trace: Trace) -> F64:
    """Return the peak FLOP/s by device and precision, 0 if unknown."""
    models = peaks_of_devices(trace).model
    return np.array([*(_of_model(model) for model in models), [0.0] * len(Precision)])


def _of_model(model: Peaks | None) -> list[float]:
    if model is None:
        return [0.0] * len(Precision)
    rates = (
        None,
        model.fp64_flop_per_s,
        model.fp32_flop_per_s,
        model.tf32_flop_per_s,
        model.half_flop_per_s,
        model.fp8_flop_per_s,
    )
    return [float(rate or 0) for rate in rates]
