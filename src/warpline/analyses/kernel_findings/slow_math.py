"""slow-math: accurate divisions and transcendental functions limit the kernel."""

from __future__ import annotations

import numpy as np

from warpline.derived.kernel_limits.launches import Launches
from warpline.derived.kernel_limits.opcodes import EXECUTED
from warpline.derived.kernel_limits.prediction import Change
from warpline.derived.kernel_limits.resources import COMPUTE
from warpline.derived.kernel_limits.rules import Kind, Proposal, kernel_rule
from warpline.units import format_ratio

NAME = "slow-math"
TITLE = "Accurate division and transcendental functions take most of the time"

_XU = ("MUFU", "F2F", "F2I", "I2F", "I2FP", "FRND")
_INSTRUCTIONS = "smsp__inst_executed.sum"
_LEAST_SHARE = 0.01  # of all instructions: divisions and reductions of arguments
_POLYNOMIAL = 4  # FFMAs per function, at least


@kernel_rule(name=NAME, title=TITLE)
def slow_math(launches: Launches) -> list[Proposal]:
    """Compute-bound kernels with IEEE divisions and accurate transcendental functions.

    What it finds: A pipe or the issue slots are the busiest resource, at 60% or more, and at least
        1% of the instructions are checks of divisions (FCHK) or conversions (F2I) with at least
        four FFMAs each, as `sinf`, `cosf`, `expf` and `/` are compiled to.
    Why it matters: An accurate function takes 10 to 40 instructions; the fast one takes two.
    How it is found: By opcodes. After a repair only what the XU pipe does for MUFU remains of the
        arithmetic, which with memory is the floor.
    What to do: `__sinf`, `__expf`, `__fdividef`, or `-use_fast_math` for all of them.
    Limits: Fast functions are less accurate, above all for large arguments. Opcodes are in reports
        of Nsight Compute only.
    Source: Pair `slow_math` on an H100: 193 us, floor 42 us, 63 us measured.
    """
    compute = np.stack([launches.demands.share(name) for name in COMPUTE]).max(axis=0)
    is_bound = compute >= np.maximum(
        launches.demands.used.max(axis=1, initial=0), launches.ceilings.busy
    )
    if not is_bound.any():
        return []
    opcodes = launches.opcodes
    checks, conversions = opcodes.executed("FCHK"), opcodes.executed("F2I")
    fma, functions = opcodes.executed("FFMA"), opcodes.executed("MUFU")
    every = launches.metric(_INSTRUCTIONS)
    slow = checks + conversions
    share = np.divide(slow, every, out=np.zeros(len(slow)), where=every > 0)
    on_xu = opcodes.executed(*_XU)
    left = np.divide(functions, on_xu, out=np.zeros(len(slow)), where=on_xu > 0)
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
            opcodes.has_any & is_bound & (share >= _LEAST_SHARE) & (fma >= _POLYNOMIAL * slow),
            Change.of(len(launches), {**dict.fromkeys(COMPUTE, none), "xu": left}),
            claim,
            "Where less accuracy is enough: __sinf, __expf, __fdividef, or -use_fast_math for all.",
            (_INSTRUCTIONS,),
            {
                f"{EXECUTED}[{name}]": counts
                for name, counts in (
                    ("FCHK", checks),
                    ("F2I", conversions),
                    ("FFMA", fma),
                    ("MUFU", functions),
                )
            },
        )
    ]
