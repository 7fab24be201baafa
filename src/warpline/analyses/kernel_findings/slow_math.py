"""slow-math: accurate divisions and transcendental functions limit the kernel."""

from __future__ import annotations

import numpy as np

from warpline.derived.kernel_limits.launches import CONVERTING_THREADS, INSTRUCTIONS, Launches
from warpline.derived.kernel_limits.opcodes import EXECUTED
from warpline.derived.kernel_limits.prediction import Change
from warpline.derived.kernel_limits.resources import COMPUTE
from warpline.derived.kernel_limits.rules import Kind, Proposal, ShownAt, kernel_rule
from warpline.units import format_ratio

NAME = "slow-math"
TITLE = "Accurate division and transcendental functions take most of the time"

_LEAST_SHARE = 0.01  # of all instructions: divisions and reductions of arguments
_POLYNOMIAL = 4  # FFMAs per function, at least
_DOUBLE = 0.05  # of the time: the FP64 pipe


@kernel_rule(name=NAME, title=TITLE)
def slow_math(launches: Launches) -> list[Proposal]:
    """Compute-bound kernels with IEEE divisions and accurate transcendental functions.

    What it finds: A pipe or the issue slots are the busiest resource, at 60% or more, and at least
        1% of the instructions are checks of divisions (FCHK) or conversions (F2I) with at least
        four FFMAs each, as `sinf`, `cosf`, `expf` and `/` are compiled to.
    Why it matters: An accurate function takes 10 to 40 instructions; the fast one takes two.
    How it is found: By opcodes or, in recordings, by conversions between types and FFMAs. After a
        repair only what the XU pipe does for MUFU remains of the arithmetic, which with memory is
        the floor.
    What to do: `__sinf`, `__expf`, `__fdividef`, or `-use_fast_math` for all of them.
    Limits: Fast functions are less accurate, above all for large arguments. Divisions alone are
        found by opcodes only, which are in reports of Nsight Compute.
    Source: Pair `slow_math` on an H100: 193 us, floor 42 us, 63 us measured.
    """
    compute = np.stack([launches.demands.share(name) for name in COMPUTE]).max(axis=0)
    is_bound = compute >= np.maximum(
        launches.demands.used.max(axis=1, initial=0), launches.ceilings.busy
    )
    if not is_bound.any():
        return []
    opcodes, converted = launches.opcodes, launches.conversions
    checks = opcodes.executed("FCHK")
    # Without opcodes, conversions between integers and floats stand for reductions of arguments.
    reductions = np.where(opcodes.has_any, opcodes.executed("F2I"), converted)
    fma, slow = launches.fma_instructions, checks + reductions
    share = launches.ratio(slow, launches.metric(INSTRUCTIONS))
    left = 1 - launches.ratio(converted, launches.xu_instructions)
    is_single = launches.demands.share("fp64") < _DOUBLE  # otherwise they are those of doubles
    none = np.zeros(len(slow))

    def claim(row: int) -> str:
        return (
            f"{format_ratio(share[row])} of the instructions are checks of divisions or reductions"
            f" of arguments, with {fma[row] / slow[row]:.0f} FFMAs for each."
        )

    return [
        Proposal(
            Kind.REPLACES,
            TITLE,
            launches.has_conversions
            & is_bound
            & is_single
            & (share >= _LEAST_SHARE)
            & (fma >= _POLYNOMIAL * slow),
            Change.of(len(launches), {**dict.fromkeys(COMPUTE, none), "xu": left}),
            claim,
            "Where less accuracy is enough: __sinf, __expf, __fdividef, or -use_fast_math for all.",
            (INSTRUCTIONS, CONVERTING_THREADS),
            {
                f"{EXECUTED}[{name}]": counts
                for name, counts in (
                    ("FCHK", checks),
                    ("F2I", opcodes.executed("F2I")),
                    ("FFMA", fma),
                    ("MUFU", opcodes.executed("MUFU")),
                )
            },
            shown_at=ShownAt(("executed",), "executed instructions"),
        )
    ]
