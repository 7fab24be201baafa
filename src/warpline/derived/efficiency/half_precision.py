"""What mixed precision changes in a program that computes in FP32."""

from __future__ import annotations

import re
from typing import NamedTuple

import numpy as np

from warpline.derived import derived
from warpline.derived.efficiency.elementwise import elementwise_work, memory_rates
from warpline.derived.efficiency.elementwise_names import ElementwiseKind
from warpline.derived.efficiency.products import Arithmetic, products
from warpline.derived.efficiency.stream_order import kernels_by_stream
from warpline.derived.kernels.categories import operation_categories
from warpline.derived.kernels.named import kernels_named
from warpline.derived.time_parts import TimePart
from warpline.derived.work.operations import operations
from warpline.lazy import lazy_pattern
from warpline.ops.arrays import BoolArray
from warpline.trace import Trace

# Shorter kernels are bound by memory and launch latency more than by arithmetic.
_SHORTEST_NS = 20_000
_NEAR_TRANSFORM = 3  # kernels
_NEAR_BANDWIDTH = 0.7  # of what vectorized kernels reach
_FLOATS = 4
_FLOAT = lazy_pattern(r"(?<!\w)float(?!\w)")
_HALF = lazy_pattern(r"bfloat16|half|f16", re.IGNORECASE)
_LAYOUT = lazy_pattern(r"(?:nchwToNhwc|nhwcToNchw)Kernel<float, ?float")


class FloatKernels(NamedTuple):
    """Kernels that mixed precision affects; each of shape (operations,), bool, disjoint.

    Attributes:
        gemm: FP32 GEMMs without Tensor Cores.
        convolution: Direct FP32 convolutions.
        transform: Kernels of FP32 convolutions that transform tensors.
        layout: Conversions between memory layouts, which Tensor Core kernels do not need.
        at_bandwidth: Elementwise kernels that are bound by memory.
        others: Strided elementwise kernels, reductions, and normalizations.
    """

    gemm: BoolArray
    convolution: BoolArray
    transform: BoolArray
    layout: BoolArray
    at_bandwidth: BoolArray
    others: BoolArray

    @property
    def products(self) -> BoolArray:
        """GEMMs and convolutions."""
        return self.gemm | self.convolution | self.transform


@derived
def float_kernels(trace: Trace) -> FloatKernels:
    """Return the kernels that compute in FP32, by what mixed precision changes in them.

    Products count from 20 us on. Those within three kernels of an FFT or a transform of Winograd's
    algorithm are parts of a convolution.
    """
    work, names = operations(trace), products(trace)
    category = operation_categories(trace)
    is_long = work.end_ns - work.start_ns >= _SHORTEST_NS
    arithmetic = names.fact("arithmetic")
    is_plain = arithmetic == int(Arithmetic.PLAIN)
    transform = is_long & _near_transforms(trace, arithmetic == int(Arithmetic.TRANSFORM))
    transform &= is_plain | (arithmetic == int(Arithmetic.TRANSFORM))
    is_convolution = (category == TimePart.CONVOLUTION) | (names.fact("is_convolution") > 0)
    plain = is_plain & is_long & ~transform
    is_float, is_layout = _named(trace)
    moved = elementwise_work(trace)
    is_pointwise = (moved.fact("input_bytes") == _FLOATS) & (moved.fact("output_bytes") == _FLOATS)
    is_pointwise &= category == TimePart.ELEMENTWISE
    fast = is_pointwise & (moved.kind == ElementwiseKind.VECTORIZED) & near_bandwidth(trace)
    codes = [TimePart.REDUCTION, TimePart.NORMALIZATION]
    slow = is_pointwise & (moved.kind == ElementwiseKind.STRIDED)
    slow |= is_float & np.isin(category, codes)
    return FloatKernels(
        plain & ~is_convolution, plain & is_convolution, transform, is_layout, fast, slow
    )


@derived
def near_bandwidth(trace: Trace) -> BoolArray:
    """Return which elementwise kernels reach 0.7 of the bandwidth that vectorized ones reach."""
    work, moved = operations(trace), elementwise_work(trace)
    if not moved.bytes.any():
        return np.zeros(len(work), np.bool_)
    rates = [rate.central if rate else np.inf for rate in memory_rates(trace)]
    reached = np.array([*rates, np.inf])[work.device]
    time_ns = np.maximum(work.end_ns - work.start_ns, 1)
    near: BoolArray = moved.bytes * 1e9 >= _NEAR_BANDWIDTH * reached * time_ns
    return near


def _near_transforms(trace: Trace, is_transform: BoolArray) -> BoolArray:
    """Return which kernels are transforms, or at most three kernels from one in their stream."""
    if not is_transform.any():
        return is_transform
    order, stream = kernels_by_stream(trace), operations(trace).stream
    there = is_transform[order]
    near = there.copy()
    for distance in range(1, min(_NEAR_TRANSFORM, len(order) - 1) + 1):
        same = stream[order[distance:]] == stream[order[:-distance]]
        near[distance:] |= there[:-distance] & same
        near[:-distance] |= there[distance:] & same
    of_operations = np.zeros(len(is_transform), np.bool_)
    of_operations[order] = near
    return of_operations


def _named(trace: Trace) -> tuple[BoolArray, BoolArray]:
    """Return which kernels have FP32 arguments only, and which convert layouts of FP32 tensors."""
    is_float = kernels_named(
        trace, lambda text: bool(_FLOAT.search(text) and not _HALF.search(text))
    )
    return is_float, kernels_named(trace, lambda text: _LAYOUT.search(text) is not None)
