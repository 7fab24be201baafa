"""conversions: conversions between types of numbers limit the kernel."""

from __future__ import annotations

from warpline.derived.kernel_limits.launches import (
    CONVERSIONS,
    CONVERTING_THREADS,
    INSTRUCTIONS,
    Launches,
)
from warpline.derived.kernel_limits.opcodes import EXECUTED
from warpline.derived.kernel_limits.prediction import Change
from warpline.derived.kernel_limits.resources import PLACE, RESOURCES
from warpline.derived.kernel_limits.rules import Kind, Proposal, kernel_rule, waiting_for
from warpline.units import format_ratio

NAME = "conversions"
TITLE = "Conversions between types of numbers limit the kernel"

_MOSTLY = 0.5  # of the XU pipe's instructions
_POLYNOMIAL = 4  # FFMAs for each: then they are parts of accurate functions
_DOUBLE = 0.05  # of the time: the FP64 pipe


@kernel_rule(name=NAME, title=TITLE)
def conversions(launches: Launches) -> list[Proposal]:
    """Integers that become floats, and floats that become integers, faster than the XU pipe can.

    What it finds: The XU pipe is the busiest resource, at 60% or more, and at least half of its
        instructions are conversions (I2F, F2I, F2F).
    Why it matters: The XU pipe converts at an eighth of the rate of other arithmetic.
    How it is found: By counts of conversions. After a repair none are left, nor their issue slots:
        what else the kernel does is the floor.
    What to do: Convert once, outside of the loop; compute in one type; convert two halves at a time
        (`__half22float2`). Small integers become floats by their bits: a byte in the mantissa of
        2^23, less 2^23 (`__byte_perm`), as quantized matrix products do.
    Limits: What replaces a conversion takes instructions, too. Conversions to double are those of
        double-precision, and those of accurate functions those of slow-math.
    Source: CUDA C++ Programming Guide, throughput of instructions. Pair `conversions` on an H100:
        257 us, floor 84.8 us, 136 us measured.
    """
    xu, used = launches.demands.share("xu"), launches.demands.used.max(axis=1, initial=0)
    converted = launches.conversions
    of_xu = launches.ratio(converted, launches.xu_instructions)
    is_bound = (xu >= launches.ceilings.busy) & (xu >= used)
    is_bound &= launches.demands.share("fp64") < _DOUBLE
    of_issued = launches.ratio(converted, launches.metric(INSTRUCTIONS))

    def claim(row: int) -> str:
        return (
            f"{format_ratio(of_xu[row])} of the instructions of the XU pipe are conversions, and it"
            f" is at {format_ratio(xu[row])} of its peak."
        )

    return [
        Proposal(
            Kind.REPLACES,
            TITLE,
            is_bound & (of_xu >= _MOSTLY) & (launches.fma_instructions < _POLYNOMIAL * converted),
            Change.of(len(launches), {"xu": 1 - of_xu, "issue": 1 - of_issued}),
            claim,
            "Convert once, outside of loops, or compute in one type; make floats of small integers"
            " by their bits (__byte_perm).",
            (CONVERTING_THREADS, INSTRUCTIONS, *RESOURCES[PLACE["xu"]].metrics),
            {f"{EXECUTED}[{name}]": launches.opcodes.executed(name) for name in CONVERSIONS},
            shown_at=waiting_for(
                "arithmetic", "math_pipe_throttle", "short_scoreboard", "mio_throttle"
            ),
        )
    ]
