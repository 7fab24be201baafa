"""How much of the DRAM bandwidth some kernels use, by sampled metrics, as findings say it."""

from __future__ import annotations

import numpy as np

from warpline.derived.metrics.kernel_samples import means_of_groups
from warpline.derived.metrics.known import known_series
from warpline.derived.work.operations import operations
from warpline.ops.arrays import BoolArray
from warpline.trace import Run
from warpline.units import format_ratio

_LEAST_SAMPLES = 10


def dram_in_words(run: Run, places: BoolArray) -> str:
    """Return a sentence about the DRAM bandwidth that kernels use; empty if few samples show it.

    Args:
        run: The run.
        places: Shape (operations,), bool, the kernels.
    """
    group = np.where(places, 0, -1)
    sums, samples = 0.0, 0
    for (device, meaning), series in known_series(run.trace).items():
        if meaning == "dram_active" and (operations(run.trace).device[places] == device).any():
            found = means_of_groups(run.trace, series.samples, group, 1)
            sums += float(found.mean[0]) * int(found.samples[0])
            samples += int(found.samples[0])
    if samples < _LEAST_SAMPLES:
        return ""
    return (
        f" While they run, DRAM is at {format_ratio(min(sums / samples, 1.0))} of its peak"
        f" ({samples:,} samples)."
    )
