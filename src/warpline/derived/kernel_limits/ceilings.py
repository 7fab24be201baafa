"""How much of a resource's peak a kernel can use.

These are the constants of predictions. Those here were chosen, not measured. What `warpline bench`
measured on a GPU replaces those of DRAM and Tensor Cores (`calibrated`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from warpline.derived.kernel_limits.resources import RESOURCES
from warpline.frozen import frozen
from warpline.hardware import Peaks, peaks_of
from warpline.hardware.measured import MeasuredCeilings
from warpline.ops.arrays import F64
from warpline.trace import Trace


@frozen
class Ceiling:
    """Largest share of a peak that kernels reach: the best, most, and poor ones."""

    best: float
    likely: float
    poor: float


@frozen
class Ceilings:
    """The constants of predictions.

    Attributes:
        of_resources: Ceilings of resources by name.
        of_others: Ceiling of all others.
        start_ns: Time to start a kernel and to drain its last blocks: at best, likely, at worst.
        overlap: Exponent p of the norm by which resources add up to the kernel's time: 1 if they
            are used one after another, infinite if they overlap perfectly.
        busy: Share of the busiest resource from which on it governs the time, not latency.
        source: Where the numbers come from.
    """

    of_resources: dict[str, Ceiling]
    of_others: Ceiling
    start_ns: Ceiling
    overlap: float
    busy: float
    source: str

    def best(self) -> F64:
        """Return the best share of each resource, shape (resources,)."""
        return np.array([self._of(resource.name).best for resource in RESOURCES])

    def likely(self) -> F64:
        """Return the likely share of each resource, shape (resources,)."""
        return np.array([self._of(resource.name).likely for resource in RESOURCES])

    def poor(self) -> F64:
        """Return the poor share of each resource, shape (resources,)."""
        return np.array([self._of(resource.name).poor for resource in RESOURCES])

    def _of(self, name: str) -> Ceiling:
        return self.of_resources.get(name, self.of_others)


CHOSEN = Ceilings(
    of_resources={
        # Large copies reach about 0.9 of 3.35 TB/s, short and mixed kernels less.
        "dram": Ceiling(0.93, 0.88, 0.75),
        # Depends on tiles and operand paths of code that is not written yet.
        "tensor": Ceiling(0.90, 0.35, 0.10),
    },
    of_others=Ceiling(1.0, 0.92, 0.85),
    start_ns=Ceiling(1_000, 2_000, 5_000),
    overlap=4.0,
    busy=0.6,
    source="judgement, checked on seven pairs of kernels on an H100",
)

# Less than this share of a peak is no ceiling: the GPU was shared, or the matrices did not fill it.
_LEAST_SHARE = 0.5
_READS_AND_WRITES = 2  # of a copy within the GPU, for each of its bytes
_TENSOR_RATES = {  # of types of `warpline bench gemm`, fields of `Peaks`
    "bf16": "half_flop_per_s",
    "fp16": "half_flop_per_s",
    "tf32": "tf32_flop_per_s",
    "fp8": "fp8_flop_per_s",
}


def calibrated(measured: MeasuredCeilings, peaks: Peaks) -> Ceilings:
    """Return the constants with those that were measured on a GPU.

    A copy is what a good kernel reaches at DRAM: kernels that only read may be a little faster, so
    the best share stays unless the copy was better. Libraries' GEMMs are the best of Tensor Cores;
    what other code reaches follows in proportion. GEMMs in FP32 are no ceiling of the FMA pipe,
    which other kernels use more.

    Args:
        measured: What was measured.
        peaks: The peaks of the same model.
    """
    of_resources = dict(CHOSEN.of_resources)
    copied = _READS_AND_WRITES * measured.copy_bytes_per_s.get("d2d", 0)
    if (share := min(copied / peaks.memory_bytes_per_s, 1)) >= _LEAST_SHARE:
        chosen = of_resources["dram"]
        poor = share * chosen.poor / chosen.likely
        of_resources["dram"] = Ceiling(max(chosen.best, share), share, poor)
    shares = [
        measured.flop_per_s.get(dtype, 0) / peak
        for dtype, field in _TENSOR_RATES.items()
        if (peak := getattr(peaks, field)) is not None
    ]
    if (share := min(max(shares, default=0), 1)) >= _LEAST_SHARE:
        chosen = of_resources["tensor"]
        likely, poor = (share * of / chosen.best for of in (chosen.likely, chosen.poor))
        of_resources["tensor"] = Ceiling(share, likely, poor)
    if of_resources == CHOSEN.of_resources:
        return CHOSEN
    return replace(CHOSEN, of_resources=of_resources, source=f"measured on {measured.gpu_name}")


def ceilings_of(trace: Trace, measured: Sequence[MeasuredCeilings]) -> Ceilings:
    """Return the constants for the profiled launches: measured ones if all ran on such a GPU.

    Args:
        trace: The trace.
        measured: What was measured, of any GPUs.
    """
    names = gpu_names(trace)
    peaks = peaks_of(names[0]) if len(names) == 1 else None
    found = next((of for of in measured if [of.gpu_name] == names), None)
    return CHOSEN if peaks is None or found is None else calibrated(found, peaks)


def gpu_names(trace: Trace) -> list[str]:
    """Return the names of the GPU models of the profiled launches, as far as they are recorded."""
    if not (trace.has("device") and trace.has("profiled_kernel")):
        return []
    devices = trace.columns("profiled_kernel", "device_id")["device_id"]
    names = trace.columns("device", "name_id")["name_id"]
    used = np.unique(devices.values[devices.is_valid()]).tolist()
    rows = [int(names.values[device]) for device in used if names.is_valid()[device]]
    return [trace.strings.text(row) for row in dict.fromkeys(rows)]
