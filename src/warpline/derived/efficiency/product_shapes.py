"""FLOP and bytes of GEMMs that were launched by operators with recorded shapes."""

from __future__ import annotations

import json
from functools import lru_cache
from typing import Literal, NamedTuple

import numpy as np

from warpline.derived import derived
from warpline.derived.efficiency.elementwise import memory_rates
from warpline.derived.efficiency.peaks import peaks_of_devices
from warpline.derived.efficiency.products import products
from warpline.derived.operators.annotated import operator_trace
from warpline.derived.work.operations import operations
from warpline.estimate import Estimate
from warpline.ops.arrays import F64, I64, BoolArray
from warpline.ops.tree import enclosing
from warpline.result.changes import SetDurations
from warpline.trace import Trace

Precision = Literal["own", "tf32", "half"]

# Operators that multiply matrices, with the place of the first matrix among their inputs.
_FIRST_MATRIX = {"aten::mm": 0, "aten::addmm": 1, "aten::bmm": 0, "aten::baddbmm": 1}
_LONGEST_TEXT = 4096
_MATRIX, _BATCH = 2, 3  # dimensions
_MOST = 1e18  # of a damaged recording


class ProductShapes(NamedTuple):
    """Sizes of GEMMs; 0 where unknown. Several kernels of one operator share by duration.

    Attributes:
        flop: Shape (operations,), float64.
        elements: Shape (operations,), float64, of both operands and the result.
    """

    flop: F64
    elements: F64


@derived
def product_shapes(trace: Trace) -> ProductShapes:
    """Return FLOP and elements of the GEMM kernels that PyTorch's operators launched."""
    trace = operator_trace(trace)
    work = operations(trace)
    sizes = ProductShapes(np.zeros(len(work)), np.zeros(len(work)))
    rows, flop, elements = _operators(trace)
    kernels = np.flatnonzero((products(trace).name >= 0) & (work.call >= 0))
    if not len(rows) or not len(kernels):
        return sizes
    spans = trace.columns("op", "start_ns", "end_ns", "thread_id")
    calls = trace.columns("api_call", "start_ns", "thread_id")
    start, end = spans["start_ns"].values[rows], spans["end_ns"].values[rows]
    inside = enclosing(
        calls["start_ns"].values[work.call[kernels]],
        start,
        np.maximum(start, end),
        point_group=calls["thread_id"].values[work.call[kernels]].astype(np.int64),
        group=spans["thread_id"].values[rows].astype(np.int64),
    )
    kernels, operator = kernels[inside.found], inside.row[inside.found]
    length = np.maximum(work.end_ns[kernels] - work.start_ns[kernels], 1).astype(np.float64)
    part = length / np.bincount(operator, weights=length, minlength=len(rows))[operator]
    sizes.flop[kernels] = flop[operator] * part
    sizes.elements[kernels] = elements[operator] * part
    return sizes


@derived
def least_product_ns(trace: Trace, precision: Precision = "own") -> F64:
    """Return the least time of each GEMM at the peaks of its GPU, shape (operations,).

    It is that of its FLOP or of its bytes, whichever is longer; 0 if its size or the GPU is
    unknown.

    Args:
        trace: The trace.
        precision: Of the operands: as now (FP32 without Tensor Cores counts as 16 bits), or other.
    """
    times = _least_times(trace, precision)
    least: F64 = np.where(times.computed_ns > 0, np.maximum(*times), 0.0)
    return least


def products_bound_by_memory(trace: Trace) -> BoolArray:
    """Return which GEMMs move more than they compute, by their sizes, shape (operations,).

    Their bytes take longer than their FLOP, each at the peaks of the GPU. GEMMs of unknown size are
    not among them.
    """
    times = _least_times(trace, "own")
    is_bound: BoolArray = (times.computed_ns > 0) & (times.moved_ns > times.computed_ns)
    return is_bound


class _LeastTimes(NamedTuple):
    """The least time of each GEMM at the peaks, shape (operations,); 0 if unknown."""

    computed_ns: F64
    moved_ns: F64


def _least_times(trace: Trace, precision: Precision) -> _LeastTimes:
    work, names, sizes = operations(trace), products(trace), product_shapes(trace)
    if not sizes.flop.any():
        return _LeastTimes(sizes.flop, sizes.flop)
    is_tf32 = names.fact("is_tf32") > 0
    if precision != "own":
        is_tf32 = np.full(len(work), precision == "tf32")
    peak = np.full((len(peaks_of_devices(trace).model) + 1, 2), np.inf)
    for device, model in enumerate(peaks_of_devices(trace).model):
        if model is not None:
            peak[device] = model.half_flop_per_s or np.inf, model.tf32_flop_per_s or np.inf
    rates = [rate.central if rate else np.inf for rate in memory_rates(trace)]
    width = np.where(is_tf32, 4, 2)
    computed = sizes.flop / peak[work.device, is_tf32.astype(np.int64)]
    moved = sizes.elements * width / np.array([*rates, np.inf])[work.device]
    return _LeastTimes(computed * 1e9, moved * 1e9)


def at_shares(trace: Trace, places: I64, least_ns: F64, reached: Estimate) -> SetDurations:
    """Return the change that GEMMs reach a share of the peaks; none becomes slower.

    Args:
        trace: The trace.
        places: Shape (n,), indices into `operations`.
        least_ns: Shape (operations,), from `least_product_ns`, known for these places.
        reached: The share, with bounds.
    """
    work = operations(trace)
    now = (work.end_ns - work.start_ns)[places]
    low, central, high = (
        np.minimum(np.rint(least_ns[places] / share), now).astype(np.int64)
        for share in reversed(reached)
    )
    return SetDurations(places, low, central, high)


def _operators(trace: Trace) -> tuple[I64, F64, F64]:
    """Return rows of `op` with known sizes of matrices, and their FLOP and elements."""
    none = np.zeros(0, np.int64), np.zeros(0), np.zeros(0)
    if not trace.has("op"):
        return none
    columns = trace.columns("op", "name_id", "input_shapes_id")
    known = columns["input_shapes_id"].is_valid()
    found = {name: trace.strings.find(name) for name in _FIRST_MATRIX}
    numbers = {number: name for name, number in found.items() if number is not None}
    name_ids = columns["name_id"].values
    rows = np.flatnonzero(known & np.isin(name_ids, list(numbers)))
    if not len(rows):
        return none
    keys = np.stack((name_ids[rows], columns["input_shapes_id"].values[rows]), axis=1)
    distinct, which = np.unique(keys, axis=0, return_inverse=True)
    sizes = np.array(
        [
            _sizes(_FIRST_MATRIX[numbers[name]], trace.strings.text(shape))
            for name, shape in distinct.tolist()
        ]
    )[which.reshape(-1)]
    is_known = sizes[:, 0] > 0
    return rows[is_known], sizes[is_known, 0], sizes[is_known, 1]


@lru_cache(maxsize=1 << 12)
def _sizes(first: int, shapes: str) -> tuple[float, float]:
    """Return FLOP and elements of a product, given its input shapes as JSON; 0 if unknown."""
    try:
        left, right = json.loads(shapes[:_LONGEST_TEXT])[first : first + 2]
        batch = float(left[0]) if len(left) == _BATCH else 1.0
        (rows, inner), (of_right, columns) = map(float, left[-2:]), map(float, right[-2:])
    except (ValueError, TypeError, IndexError, KeyError, RecursionError):
        return 0.0, 0.0
    fits = len(left) == len(right) and len(left) in {_MATRIX, _BATCH} and inner == of_right
    flop = 2 * batch * rows * inner * columns
    if not fits or not 0 < flop < _MOST:
        return 0.0, 0.0
    return flop, batch * (rows * inner + inner * columns + rows * columns)
