"""low-occupancy: few warps fit on an SM; whether more would help."""

from __future__ import annotations

import numpy as np

from warpline.derived.kernel_limits.launches import WARPS, Launches
from warpline.derived.kernel_limits.prediction import Change
from warpline.derived.kernel_limits.pricing import LEAST_SHARE
from warpline.derived.kernel_limits.resources import RESOURCES
from warpline.derived.kernel_limits.rules import Kind, Proposal, kernel_rule
from warpline.units import format_ratio

NAME = "low-occupancy"
TITLE = "Low occupancy"
_NO_GAIN = "Occupancy is low, but more would gain nothing"

_THEORETICAL = "sm__maximum_warps_per_active_cycle_pct"
_LIMITS = {
    f"launch__occupancy_limit_{of}": label
    for of, label in (
        ("registers", "registers"),
        ("shared_mem", "shared memory"),
        ("blocks", "the number of blocks per SM"),
        ("warps", "the size of blocks"),
    )
}
_REGISTERS = "launch__registers_per_thread"
_LOW = 50  # percent of the warps that fit
_ON_TENSOR_CORES = 0.05  # of the time


@kernel_rule(name=NAME, title=TITLE)
def low_occupancy(launches: Launches) -> list[Proposal]:
    """Kernels of which few warps fit on an SM, and whether more warps would gain anything.

    What it finds: A theoretical occupancy of at most 50%.
    Why it matters: While warps wait for memory, an SM runs others. With few warps it is idle.
    How it is found: By theoretical and achieved occupancy. A repair brings as many warps as
        the next limit allows, at worst half of what is more. They hide more latency; what the
        kernel asks of each resource stays the same. So where a resource is near its ceiling, more
        occupancy gains nothing, and the finding says that.
    What to do: Use less of what limits occupancy: `__launch_bounds__` or fewer live variables for
        registers, smaller tiles for shared memory, larger or smaller blocks.
    Limits: Fewer registers may mean spills. Smaller tiles may mean more traffic. Kernels that use
        Tensor Cores at least 5% of the time are not expected to gain: they copy ahead, and hide
        latency with few warps.
    Source: Pair `low_occupancy` on an H100: occupancy of 12% to 97% changed 5,301 us to 5,201 us,
        because L2 was at its ceiling.
    """
    percent, active = launches.metric(_THEORETICAL), launches.metric(WARPS)
    is_low = launches.has(_THEORETICAL, WARPS) & (percent <= _LOW) & (active > 0)
    limits = np.stack(
        [np.where(launches.has(name), launches.metric(name), np.inf) for name in _LIMITS]
    )
    limiters = np.array([*_LIMITS.values()])[limits.argmin(axis=0)]
    # Without this limit, the next one: blocks of an SM.
    fit = np.minimum(np.sort(limits, axis=0)[1] * launches.block_warps, launches.warps_of_sm)
    hides = np.divide(fit, active, out=np.ones(len(active)), where=active > 0)
    change = Change.of(len(launches), hides=hides, hides_least=1 + (hides - 1) / 2)
    after = launches.predict(change)
    now = launches.demands.time_ns
    is_gain = now - after.likely_ns >= LEAST_SHARE * now
    copies_ahead = launches.demands.share("tensor") >= _ON_TENSOR_CORES
    used = launches.demands.on_busiest_sm
    busiest = used.argmax(axis=1)

    def claim(row: int) -> str:
        return f"{active[row]:.1f} of {launches.warps_of_sm[row]:.0f} warps are active on an SM" + (
            f", limited by {limiters[row]}." if np.isfinite(limits[:, row]).any() else "."
        )

    def no_gain(row: int) -> str:
        share, label = format_ratio(used[row, busiest[row]]), RESOURCES[busiest[row]].label
        return f"{claim(row)} But {label} is at {share} of its peak already."

    evidence = (_THEORETICAL, WARPS, *_LIMITS, _REGISTERS)
    is_busy = used.max(axis=1, initial=0) >= launches.ceilings.busy
    return [
        Proposal(
            Kind.REMOVES,
            TITLE,
            is_low & is_gain & ~copies_ahead,
            change,
            claim,
            "Use less of what limits occupancy: __launch_bounds__ for registers, smaller tiles for"
            " shared memory, or another block size.",
            evidence,
        ),
        Proposal(
            Kind.NO_GAIN,
            _NO_GAIN,
            is_low & ~is_gain & is_busy,
            change,
            no_gain,
            "Leave occupancy as it is. Reduce the load on the busiest resource instead.",
            (*evidence, *(resource.metrics[0] for resource in RESOURCES[:2])),
        ),
    ]
