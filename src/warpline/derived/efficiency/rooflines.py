"""FLOP, bytes and ceilings of profiled launches, by the metrics of Nsight Compute's rooflines.

FLOP of CUDA cores are instructions of threads that are not predicated off: an addition or a
multiplication is one, an FMA two, and each FP16 instruction counts for both numbers of a half2.
Bytes at L1 are what it returns to the SM for loads, 128 per cycle; bytes at L2 what its slices
return, 32 per cycle; bytes at DRAM are read and written. Ceilings are the counters' own peaks per
cycle times the measured clock of their unit, or else those of the vendor's data sheet.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

import numpy as np

from warpline.derived import derived
from warpline.derived.counters import metric_numbers
from warpline.derived.counters.known import (
    Known,
    first_known,
    multiplied,
    ratio,
    scaled,
    summed,
    total,
    total_of_known,
)
from warpline.derived.efficiency.peaks import peaks_of_devices
from warpline.frozen import frozen
from warpline.ops.arrays import F64, BoolArray, Integers
from warpline.trace import Trace

DURATION = "gpu__time_duration.sum"
SM_CLOCK = "sm__cycles_elapsed.avg.per_second"
_SMSP_CLOCK = "smsp__cycles_elapsed.avg.per_second"

Counted = Literal["FLOP", "operations", "bytes"]


@frozen
class Roof:
    """A precision or a level of memory: what launches did there, and could have done.

    Attributes:
        name: ``FP32``, ``BF16 Tensor Core``, ``DRAM``...
        counts: What is counted: FLOP, operations of integers, or bytes.
        amount: How many.
        possible: How many the peak of the counters allows in the duration of the launch.
        nominal: How many the peak of the data sheet allows.
    """

    name: str
    counts: Counted
    amount: Known
    possible: Known
    nominal: Known

    @property
    def is_memory(self) -> bool:
        """Whether it is a level of memory."""
        return self.counts == "bytes"

    @property
    def is_flop(self) -> bool:
        """Whether it is a precision of floating point."""
        return self.counts == "FLOP"

    @property
    def ceiling(self) -> Known:
        """What was possible by the counters where they show it, else by the data sheet."""
        return first_known(self.possible, self.nominal)

    @property
    def share(self) -> Known:
        """The share of the ceiling, in [0, 1] or a little above."""
        return ratio(self.amount, self.ceiling)

    def summed(self, codes: Integers, count: int, duration: Known) -> Roof:
        """Return the sums over groups of launches.

        Launches whose amount is unknown, such as those that only one of two merged runs counted,
        are taken to do as much per time as the others of their group. A group has a ceiling if all
        launches with an amount have it, by the same source.
        """
        is_known = self.amount.is_known & duration.is_known
        time = summed(duration, codes, count)
        counted = summed(Known(duration.values, is_known), codes, count)
        share = ratio(time, counted)  # exactly 1 if all amounts are known
        factor = np.where(share.is_known, share.values, 1.0)
        return Roof(
            self.name,
            self.counts,
            _times(summed(Known(self.amount.values, is_known), codes, count), factor),
            _times(_summed_whole(self.possible, is_known, codes, count), factor),
            _times(_summed_whole(self.nominal, is_known, codes, count), factor),
        )


def _times(values: Known, factor: F64) -> Known:
    return Known(values.values * factor, values.is_known)


def _summed_whole(values: Known, is_needed: BoolArray, codes: Integers, count: int) -> Known:
    """Return the sums over rows that are needed, of groups of which all of these are known."""
    lacks = np.bincount(codes[is_needed & ~values.is_known], minlength=count) > 0
    sums = summed(Known(values.values, values.is_known & is_needed), codes, count)
    return Known(sums.values, sums.is_known & ~lacks)


@frozen
class Rooflines:
    """What profiled launches, or groups of them, did, shape (n,) each.

    Attributes:
        duration_ns: Duration.
        roofs: Precisions, then L1, L2 and DRAM.
        sm_ratio: Throughput of SMs, of its peak, over all pipes.
        memory_ratio: Throughput of memory, of its peak, over all units.
    """

    duration_ns: Known
    roofs: tuple[Roof, ...]
    sm_ratio: Known
    memory_ratio: Known

    def summed(self, codes: Integers, count: int) -> Rooflines:
        """Return the sums over groups of launches; throughputs are means over their time."""
        ratios = []
        for of in (self.sm_ratio, self.memory_ratio):
            time = Known(self.duration_ns.values, of.is_known & self.duration_ns.is_known)
            weighted = summed(multiplied(of, time), codes, count)
            ratios.append(ratio(weighted, summed(time, codes, count)))
        roofs = tuple(roof.summed(codes, count, self.duration_ns) for roof in self.roofs)
        return Rooflines(summed(self.duration_ns, codes, count), roofs, *ratios)


@derived
def rooflines(trace: Trace) -> Rooflines:
    """Return what profiled launches did by precision and level of memory, and their ceilings."""
    metrics = _Metrics(trace)
    speeds = [
        scaled(metrics.get(f"{of}.avg.pct_of_peak_sustained_elapsed"), 0.01)
        for of in ("sm__throughput", "gpu__compute_memory_throughput")
    ]
    roofs = (
        *(_cuda_core(metrics, of) for of in _CUDA_CORES),
        *(_tensor_core(metrics, of) for of in _TENSOR_CORES),
        *(_cache(metrics, of) for of in _CACHES),
        _dram(metrics),
    )
    return Rooflines(metrics.get(DURATION), roofs, *speeds)


class _Metrics:
    """Metrics of launches, and the peaks of their GPUs."""

    def __init__(self, trace: Trace) -> None:
        self._trace = trace
        duration = self.get(DURATION)
        self.seconds = Known(duration.values / 1e9, duration.is_known & (duration.values > 0))
        devices = trace.columns("profiled_kernel", "device_id")["device_id"]
        self.peaks = peaks_of_devices(trace)
        self._devices = devices.filled(len(self.peaks.model)).astype(np.int64)

    def get(self, name: str) -> Known:
        """Return a metric."""
        return Known(*metric_numbers(self._trace, name))

    def total(self, counter: str, clock: str = "") -> Known:
        """Return the sum of a counter: as counted, or by its rate per second or cycle."""
        by_second = multiplied(self.get(f"{counter}.sum.per_second"), self.seconds)
        found = first_known(self.get(f"{counter}.sum"), by_second)
        if clock:
            rate = self.get(f"{counter}.sum.per_cycle_elapsed")
            found = first_known(found, multiplied(rate, self.get(clock), self.seconds))
        return found

    def possible(self, counter: str, clock: str) -> Known:
        """Return what the peak of a counter allows in the duration at the measured clock."""
        return multiplied(self.get(f"{counter}.sum.peak_sustained"), self.get(clock), self.seconds)

    def nominal(self, peaks: Sequence[float | None]) -> Known:
        """Return what a peak per second of each GPU allows in the duration; None is unknown."""
        rates = np.array([*(peak or 0 for peak in peaks), 0], np.float64)[self._devices]
        return multiplied(Known(rates, rates > 0), self.seconds)

    def nominal_of(self, field: str) -> Known:
        """Return the same by a field of `Peaks`; unknown without a field."""
        return self.nominal([getattr(model, field, None) for model in self.peaks.model])


class _CudaCores(NamedTuple):
    """A precision of CUDA cores.

    Attributes:
        name: Its name.
        letter: What its instructions begin with.
        numbers: Numbers that an instruction computes with.
        peak: Field of `Peaks`.
    """

    name: str
    letter: str
    numbers: int
    peak: str = ""


_CUDA_CORES = (
    _CudaCores("FP64", "d", 1, "fp64_flop_per_s"),
    _CudaCores("FP32", "f", 1, "fp32_flop_per_s"),
    _CudaCores("FP16", "h", 2),
)


def _cuda_core(metrics: _Metrics, of: _CudaCores) -> Roof:
    counter = "{}__sass_thread_inst_executed_op_{}{}_pred_on"
    add, multiply, fused = (
        metrics.total(counter.format("smsp", of.letter, operation), _SMSP_CLOCK)
        for operation in ("add", "mul", "fma")
    )
    flop = scaled(total(add, multiply, scaled(fused, 2)), of.numbers)
    peak = metrics.possible(counter.format("sm", of.letter, "fma"), SM_CLOCK)
    possible = scaled(peak, 2 * of.numbers)
    return Roof(of.name, "FLOP", flop, possible, metrics.nominal_of(of.peak))


class _TensorCores(NamedTuple):
    """A type of Tensor Cores. Counters are without ``sm__ops_path_tensor_``.

    Attributes:
        name: Its name.
        counter: Counter of all operations.
        instructions: Counters by instruction, first that with the highest dense peak.
        peak: Field of `Peaks`.
        counts: What is counted.
    """

    name: str
    counter: str
    instructions: tuple[str, ...]
    peak: str = ""
    counts: Counted = "FLOP"


def _by_density(*counters: str) -> tuple[str, ...]:
    return tuple(f"{of}_sparsity_{density}" for of in counters for density in ("off", "on"))


_TENSOR_CORES = (
    _TensorCores("FP64 Tensor Core", "src_fp64", ("src_fp64",)),
    _TensorCores(
        "TF32 Tensor Core",
        "src_tf32_dst_fp32",
        _by_density("op_hgmma_src_tf32_dst_fp32", "op_hmma_src_tf32_dst_fp32"),
        "tf32_flop_per_s",
    ),
    _TensorCores(
        "BF16 Tensor Core",
        "src_bf16_dst_fp32",
        _by_density("op_hgmma_src_bf16_dst_fp32", "op_hmma_src_bf16_dst_fp32"),
        "half_flop_per_s",
    ),
    _TensorCores(
        "FP16 Tensor Core",
        "src_fp16",
        _by_density(
            *("op_hgmma_src_fp16", "op_hmma_src_fp16_dst_fp32", "op_hmma_src_fp16_dst_fp16")
        ),
        "half_flop_per_s",
    ),
    _TensorCores("FP8 Tensor Core", "src_fp8", _by_density("src_fp8"), "fp8_flop_per_s"),
    _TensorCores(
        "INT8 Tensor Core",
        "src_int8",
        _by_density("op_igmma_src_int8", "op_imma_src_int8"),
        counts="operations",
    ),
)


def _tensor_core(metrics: _Metrics, of: _TensorCores) -> Roof:
    """Return a type of Tensor Cores.

    Instructions have peaks of their own: on Hopper, those of a warp (HMMA) reach two thirds of
    those of a warp group (HGMMA), and sparse matrices have twice the operations. The ceiling is
    that of the executed instructions in their proportion, or that of dense matrices if none was.
    """
    names = [f"sm__ops_path_tensor_{counter}" for counter in of.instructions]
    amounts = [metrics.total(name) for name in names]
    peaks = [metrics.possible(name, SM_CLOCK) for name in names]
    done = total_of_known(*amounts)
    shares = [ratio(amount, peak) for amount, peak in zip(amounts, peaks, strict=True)]
    share = total_of_known(*shares)
    lacks_peak = np.any(
        [(amount.values > 0) & ~one.is_known for amount, one in zip(amounts, shares, strict=True)],
        axis=0,
    )
    of_mix = ratio(done, Known(share.values, share.is_known & ~lacks_peak))
    dense = Known(peaks[0].values, peaks[0].is_known & (done.values <= 0))
    amount = first_known(metrics.total(f"sm__ops_path_tensor_{of.counter}"), done)
    possible = first_known(of_mix, dense)
    return Roof(of.name, of.counts, amount, possible, metrics.nominal_of(of.peak))


class _Caches(NamedTuple):
    """A level of caches.

    Attributes:
        name: Its name.
        clock: The unit whose clock it has.
        derived: Metrics of ncu for its bytes; chips have one of them.
        cycles: Counters of cycles in which it returns bytes, likewise.
        cycle_bytes: Bytes that it returns in a cycle.
        accesses: Counter of the bytes of all accesses, of older chips and sets of one pass.
    """

    name: str
    clock: str
    derived: tuple[str, ...]
    cycles: tuple[str, ...]
    cycle_bytes: int
    accesses: str


_CACHES = (
    _Caches(
        "L1",
        "l1tex__cycles_elapsed.avg.per_second",
        # Before compute capability 9.0, without distributed shared memory.
        tuple(f"derived__l1tex__lsu_writeback_bytes_mem_{of}" for of in ("lgds", "lg")),
        tuple(f"l1tex__lsu_writeback_active_mem_{of}" for of in ("lgds", "lg")),
        128,
        "l1tex__t_bytes",
    ),
    _Caches(
        "L2",
        "lts__cycles_elapsed.avg.per_second",
        ("derived__lts__lts2xbar_bytes",),
        ("lts__lts2xbar_cycles_active",),
        32,
        "lts__t_bytes",
    ),
)


def _cache(metrics: _Metrics, of: _Caches) -> Roof:
    returned = first_known(
        *(metrics.total(name) for name in of.derived),
        *(scaled(metrics.total(name), of.cycle_bytes) for name in of.cycles),
    )
    possible = first_known(
        *(metrics.possible(name, of.clock) for name in of.derived),
        *(scaled(metrics.possible(name, of.clock), of.cycle_bytes) for name in of.cycles),
    )
    # The ceiling is of the same counter as the bytes.
    possible = Known(possible.values, possible.is_known & returned.is_known)
    of_accesses = metrics.possible(of.accesses, of.clock)
    of_accesses = Known(of_accesses.values, of_accesses.is_known & ~returned.is_known)
    return Roof(
        of.name,
        "bytes",
        first_known(returned, metrics.total(of.accesses)),
        first_known(possible, of_accesses),
        metrics.nominal_of(""),
    )


def _dram(metrics: _Metrics) -> Roof:
    read, written = (
        first_known(metrics.get(f"dram__bytes_{way}.sum"), metrics.get(f"dram__bytes_op_{way}.sum"))
        for way in ("read", "write")
    )
    return Roof(
        "DRAM",
        "bytes",
        first_known(metrics.total("dram__bytes"), total(read, written)),
        metrics.possible("dram__bytes", "dram__cycles_elapsed.avg.per_second"),
        metrics.nominal(metrics.peaks.bytes_per_s.tolist()),
    )
