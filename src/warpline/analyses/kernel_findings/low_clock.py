"""low-clock: the SMs run below their highest clock."""

from __future__ import annotations

import numpy as np

from warpline.derived.kernel_limits.launches import Launches
from warpline.derived.kernel_limits.prediction import Change
from warpline.derived.kernel_limits.resources import PLACE, RESOURCES
from warpline.derived.kernel_limits.rules import Kind, Proposal, kernel_rule
from warpline.units import format_ratio

NAME = "low-clock"
TITLE = "The clock of the SMs is below its maximum"

_CLOCK = "sm__cycles_elapsed.avg.per_second", "smsp__cycles_elapsed.avg.per_second"  # in Hz
_MOST = "device__attribute_max_gpu_frequency_khz", "device__attribute_clock_rate"
_LOW = 0.9  # of the highest
_MEMORY = ("dram",)  # has a clock of its own


@kernel_rule(name=NAME, title=TITLE)
def low_clock(launches: Launches) -> list[Proposal]:
    """Kernels that the clock slows down: no change of the kernel repairs that.

    What it finds: The SMs run at less than 90% of their highest clock, and DRAM is not the busiest
        resource.
    Why it matters: All but DRAM is slower by that factor. Measurements at different clocks cannot
        be compared.
    How it is found: Cycles per second of the launch, and the highest clock of the GPU. With that
        clock, the use of all but DRAM shrinks by the ratio; this is the time at best.
    What to do: See whether the limit is power, heat, or a clock that someone has set
        (`nvidia-smi -q -d PERFORMANCE,CLOCK`); `warpline analyze` shows it over the time of a
        recording. ncu lowers the clock to its base by default: use `--clock-control none`.
    Limits: The highest clock is that of a GPU with little to do. Matrix products on Tensor Cores
        often reach the limit of power below it.
    Source: Warpline.
    """
    clock = np.where(launches.has(_CLOCK[0]), *map(launches.metric, _CLOCK))
    most = 1e3 * np.where(launches.has(_MOST[0]), *map(launches.metric, _MOST))
    part = np.divide(clock, most, out=np.ones(len(clock)), where=(clock > 0) & (most > 0))
    used = launches.demands.used
    is_low = (part < _LOW) & (used.argmax(axis=1) != PLACE["dram"])
    kept = {resource.name: part for resource in RESOURCES if resource.name not in _MEMORY}

    def claim(row: int) -> str:
        return (
            f"The SMs run at {clock[row] / 1e9:.2f} GHz, {format_ratio(part[row])} of the"
            f" {most[row] / 1e9:.2f} GHz that they can reach."
        )

    return [
        Proposal(
            Kind.DONE,
            TITLE,
            is_low,
            Change.of(len(launches), kept, hides=1 / np.maximum(part, 0.01)),
            claim,
            "Find what holds the clock down (nvidia-smi -q -d PERFORMANCE): power, heat, or a set"
            " clock. ncu sets the base clock unless --clock-control none is given.",
            (*_CLOCK, *_MOST),
        )
    ]
