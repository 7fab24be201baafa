"""How much of the busy time is in work of kinds that are usually efficient."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from warpline.derived import derived
from warpline.derived.breakdown.partition import sums_in
from warpline.derived.breakdown.segments import device_segments
from warpline.derived.efficiency.elementwise import elementwise_work
from warpline.derived.efficiency.elementwise_names import ElementwiseKind
from warpline.derived.efficiency.half_precision import near_bandwidth
from warpline.derived.efficiency.peaks import peaks_of_devices
from warpline.derived.efficiency.product_shapes import least_product_ns
from warpline.derived.efficiency.products import Arithmetic, products
from warpline.derived.kernels.categories import operation_categories
from warpline.derived.steps.times import measure_windows
from warpline.derived.time_parts import TimePart, is_busy
from warpline.derived.work.operations import operations
from warpline.ops.arrays import I8, I64, BoolArray
from warpline.trace import Run, Trace
from warpline.vocabulary import Vocabulary

# Shorter GEMMs are bound by launch latency more than by arithmetic.
_SHORTEST_GEMM_NS = 10_000
# Of the least time that the peaks allow: GEMMs of known sizes that take longer are not efficient.
_OF_LEAST_TIME = 0.4
_OF_PEAK = 0.6  # of the peak bandwidth that a copy must reach
_UNKNOWN = -1
_NOT_COUNTED = -1


class Evidence(Vocabulary):
    """Why work is taken to be efficient, as verdicts say it."""

    TENSOR_CORES = (
        "Tensor Core math",
        "GEMMs and convolutions with aligned operands, 10 us or more",
    )
    ATTENTION = "fused attention"
    BANDWIDTH = "elementwise kernels near memory bandwidth", "0.7 of it or more"
    COLLECTIVES = "collectives"
    COPIES = "copies near peak bandwidth", "0.6 of PCIe's or the memory's peak or more"


class EfficientWork(NamedTuple):
    """Busy time of all devices in the analyzed windows.

    Attributes:
        busy_ns: All of it.
        ns: The efficient time by `Evidence`, in its order.
    """

    busy_ns: int
    ns: tuple[int, ...]

    @property
    def share(self) -> float:
        """The efficient time as a share of the busy time."""
        return sum(self.ns) / self.busy_ns if self.busy_ns else 0.0

    def parts(self) -> tuple[tuple[str, float], ...]:
        """Return the shares of the kinds of evidence, the largest first, without empty ones."""
        shares = ((each.label, self.ns[int(each)] / max(self.busy_ns, 1)) for each in Evidence)
        return tuple(sorted((part for part in shares if part[1] > 0), key=lambda part: -part[1]))


@derived
def efficient_work(run: Run) -> EfficientWork:
    """Return the busy time in work of kinds that are usually efficient.

    Time is attributed as in the breakdown. GEMMs on Tensor Cores do not count if recorded shapes
    show that they take more than 2.5 times what the GPU's peaks allow. Kernels whose names and
    sizes show nothing, such as reductions and those that compilers generated, do not count.
    """
    trace = run.trace
    segments = device_segments(trace)
    if not len(segments):
        return EfficientWork(0, (0,) * len(Evidence))
    code = _evidence(trace)[segments.operation] - np.int8(_UNKNOWN)
    code[~is_busy(segments.part)] = _NOT_COUNTED
    (sums,) = sums_in(trace, measure_windows(run), code, len(Evidence) + 1)
    return EfficientWork(int(sums.sum()), tuple(sums[1:].tolist()))


def _evidence(trace: Trace) -> I8:
    """Return the evidence for each operation, members of `Evidence` or -1, shape (operations,)."""
    evidence = np.full(len(operations(trace)), _UNKNOWN, np.int8)
    for kind, chosen in _kinds(trace):
        evidence[chosen] = int(kind)
    return evidence


def _kinds(trace: Trace) -> Iterator[tuple[Evidence, BoolArray]]:
    work, category = operations(trace), operation_categories(trace)
    names, moved = products(trace), elementwise_work(trace)
    length = work.end_ns - work.start_ns
    on_tensor_cores = names.fact("arithmetic") == int(Arithmetic.TENSOR)
    on_tensor_cores &= (names.fact("alignment") == 0) & (length >= _SHORTEST_GEMM_NS)
    least_ns = least_product_ns(trace)
    on_tensor_cores &= (least_ns == 0) | (least_ns >= _OF_LEAST_TIME * length)
    yield Evidence.TENSOR_CORES, on_tensor_cores
    yield Evidence.ATTENTION, category == TimePart.ATTENTION
    is_vectorized = (moved.kind == ElementwiseKind.VECTORIZED) & (moved.bytes > 0)
    yield Evidence.BANDWIDTH, is_vectorized & near_bandwidth(trace)
    yield Evidence.COLLECTIVES, category == TimePart.COLLECTIVE
    yield Evidence.COPIES, _fast_copies(trace)


def _fast_copies(trace: Trace) -> BoolArray:
    """Return which copies reach most of the bandwidth of PCIe, or of the memory on the device."""
    work, category = operations(trace), operation_categories(trace)
    fast = np.zeros(len(work), np.bool_)
    copies = work.of_table("memcpy")
    if not len(copies):
        return fast
    limits = peaks_of_devices(trace)
    pcie = [(peaks.pcie_bytes_per_s or 0) if peaks else 0 for peaks in limits.model]
    over_pcie = np.isin(category[copies], [TimePart.COPY_H2D, TimePart.COPY_D2H])
    inside = category[copies] == TimePart.COPY_D2D
    device = work.device[copies]
    # A copy within the device reads and writes its memory.
    peak = np.where(over_pcie, np.array([*pcie, 0])[device], 0)
    peak = np.where(inside, np.append(limits.bytes_per_s, 0)[device] // 2, peak)
    size: I64 = trace.columns("memcpy", "bytes")["bytes"].values[work.row[copies]]
    rate = size * 1e9 / np.maximum(work.end_ns[copies] - work.start_ns[copies], 1)
    fast[copies] = (peak > 0) & (rate >= _OF_PEAK * peak)
    return fast
