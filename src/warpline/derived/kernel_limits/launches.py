"""What rules about kernels ask of the profiled launches."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property

import numpy as np

from warpline.counters.names import GPU_ATTRIBUTE
from warpline.derived.counters import metric_numbers
from warpline.derived.counters.gpu_attributes import attribute_metrics
from warpline.derived.kernel_limits.ceilings import CHOSEN, Ceilings
from warpline.derived.kernel_limits.demands import NOTHING, Demands, demands
from warpline.derived.kernel_limits.opcodes import Opcodes, opcodes
from warpline.derived.kernel_limits.prediction import Change, Prediction, predict
from warpline.hardware import Peaks, peaks_of
from warpline.ops.arrays import F64, BoolArray
from warpline.trace import Trace

GRID, BLOCK, SMS = "launch__grid_size", "launch__block_size", "launch__sm_count"
WARPS = "sm__warps_active.avg.per_cycle_active"
_WARPS_OF_PEAK = "sm__warps_active.avg.pct_of_peak_sustained_active"
_ELAPSED = "sm__cycles_elapsed.avg"
INSTRUCTIONS = "smsp__inst_executed.sum"
LATENCY = "smsp__average_warp_latency_per_inst_issued.ratio"
CONVERTING_THREADS = "smsp__sass_thread_inst_executed_op_conversion_pred_on.sum"
CONVERSIONS = ("F2F", "F2I", "I2F", "I2FP", "FRND")
WARP_THREADS = 32
_FMA_THREADS = "smsp__sass_thread_inst_executed_op_ffma_pred_on.sum.per_cycle_elapsed"
_XU_RATE = 0.5  # instructions of an SM per cycle
_MOST_WARPS = 64  # of an SM, if its limit is unknown


def stall(reason: str) -> str:
    """Return the metric of the cycles that warps wait for a reason, for each instruction."""
    return f"smsp__average_warps_issue_stalled_{reason}_per_issue_active.ratio"


class Launches:
    """The profiled launches of a trace, as columns.

    Attributes:
        trace: The trace.
        demands: What they use.
        ceilings: How much of each resource can be used.
    """

    def __init__(self, trace: Trace, ceilings: Ceilings = CHOSEN) -> None:
        self.trace = trace
        self.demands: Demands = demands(trace)
        self.ceilings = ceilings
        self._metrics: dict[str, tuple[F64, BoolArray]] = {}

    def __len__(self) -> int:
        return len(self.demands.time_ns)

    def metric(self, name: str) -> F64:
        """Return the values of a metric, 0 where it is unknown, shape (launches,)."""
        return self._column(name)[0]

    def has(self, *names: str) -> BoolArray:
        """Return which launches have all of the metrics, shape (launches,)."""
        has_all = np.ones(len(self), np.bool_)
        for name in names:
            has_all &= self._column(name)[1]
        return has_all

    def _column(self, name: str) -> tuple[F64, BoolArray]:
        if name not in self._metrics:
            values, is_known = metric_numbers(self.trace, name)
            if name.startswith(GPU_ATTRIBUTE) and not is_known.all():
                values, is_known = self._with_attribute(name, values, is_known)
            is_known &= values >= 0  # others are of a damaged report
            values = np.where(is_known & (values > NOTHING), values, 0.0)
            self._metrics[name] = values, is_known
        return self._metrics[name]

    def _with_attribute(self, name: str, values: F64, is_known: BoolArray) -> tuple[F64, BoolArray]:
        """Return an attribute of the GPU, which recordings have beside the metrics of launches."""
        for metric in attribute_metrics(self.trace):
            if metric.name == name and metric.values.dtype != object:
                values = np.where(is_known, values, metric.values)
                is_known = is_known | metric.is_known
        return values, is_known

    def predict(self, change: Change) -> Prediction:
        """Return how long launches take after a change."""
        return predict(self.demands, change, self.ceilings)

    def counted(self, resource: str) -> F64:
        """Return how often a resource of the SMs was used that serves one per cycle, (launches,).

        From its share, because no metric counts it.
        """
        cycles = self.metric(_ELAPSED) * self.metric(SMS)
        return self.demands.share(resource) * cycles

    def ratio(self, part: F64, whole: F64) -> F64:
        """Return a part of a whole, from 0 to 1, 0 where there is no whole, shape (launches,)."""
        ratio = np.divide(part, whole, out=np.zeros(len(self)), where=whole > NOTHING)
        return np.clip(ratio, 0, 1)

    def waiting(self, *reasons: str) -> F64:
        """Return the part of a warp's time that it waits for these reasons, shape (launches,).

        Of the time between its instructions; 0 where it was not counted.
        """
        stalls = [self.metric(stall(reason)) for reason in reasons]
        return self.ratio(np.sum(stalls, axis=0), self.metric(LATENCY))

    @cached_property
    def conversions(self) -> F64:
        """Instructions of warps that convert between types of numbers, shape (launches,).

        By opcode where these were counted, otherwise by the threads that executed any: at least.
        """
        by_threads = self.metric(CONVERTING_THREADS) / WARP_THREADS
        by_opcode = self.opcodes.executed(*CONVERSIONS)
        converted: F64 = np.where(self.opcodes.has_any, by_opcode, by_threads)
        return converted

    @property
    def has_conversions(self) -> BoolArray:
        """Whether conversions were counted, shape (launches,)."""
        return self.opcodes.has_any | self.has(CONVERTING_THREADS)

    @cached_property
    def xu_instructions(self) -> F64:
        """Instructions of warps on the XU pipe, shape (launches,)."""
        by_opcode = self.opcodes.executed("MUFU", *CONVERSIONS)
        counted: F64 = np.where(self.opcodes.has_any, by_opcode, self.counted("xu") * _XU_RATE)
        return counted

    @cached_property
    def fma_instructions(self) -> F64:
        """FFMAs of warps, shape (launches,)."""
        of_cycles = self.metric(_FMA_THREADS) * self.metric(_ELAPSED) / WARP_THREADS
        counted: F64 = np.where(self.opcodes.has_any, self.opcodes.executed("FFMA"), of_cycles)
        return counted

    @cached_property
    def opcodes(self) -> Opcodes:
        """Executed instructions by opcode."""
        return opcodes(self.trace)

    @cached_property
    def warps_of_sm(self) -> F64:
        """Most warps that fit on an SM, shape (launches,)."""
        active, percent = self.metric(WARPS), self.metric(_WARPS_OF_PEAK)
        is_known = (active > 0) & (percent > 0)
        most = np.full(len(self), float(_MOST_WARPS))
        np.divide(active * 100, percent, out=most, where=is_known)
        rounded: F64 = np.maximum(np.round(most), 1)
        return rounded

    @cached_property
    def launched_warps(self) -> F64:
        """Warps of the grid, shape (launches,)."""
        return self.metric(GRID) * self.block_warps

    @property
    def block_warps(self) -> F64:
        """Warps of a block, 1 if unknown, shape (launches,)."""
        warps: F64 = np.maximum(np.ceil(self.metric(BLOCK) / WARP_THREADS), 1)
        return warps

    @cached_property
    def half_flop_per_s(self) -> F64:
        """Peak rate of Tensor Cores for FP16 and BF16, 0 if unknown, shape (launches,)."""
        return self._of_gpus(lambda peaks: peaks.half_flop_per_s)

    @cached_property
    def tf32_flop_per_s(self) -> F64:
        """Peak rate of Tensor Cores for TF32, 0 if unknown, shape (launches,)."""
        return self._of_gpus(lambda peaks: peaks.tf32_flop_per_s)

    def _of_gpus(self, rate_of: Callable[[Peaks], int | None]) -> F64:
        """Return a rate of the GPU of each launch."""
        count = self.trace.row_count("device") if self.trace.has("device") else 0
        rates = np.zeros(count + 1)
        if count:
            names = self.trace.columns("device", "name_id")["name_id"]
            for row in np.flatnonzero(names.is_valid()).tolist():
                peaks = peaks_of(self.trace.strings.text(int(names.values[row])))
                rates[row] = (peaks and rate_of(peaks)) or 0
        devices = self.trace.columns("profiled_kernel", "device_id")["device_id"]
        found: F64 = rates[devices.filled(count)]
        return found
