"""double-precision: FP64 arithmetic limits the kernel."""

from __future__ import annotations

import numpy as np

from warpline.derived.kernel_limits.launches import Launches
from warpline.derived.kernel_limits.opcodes import EXECUTED
from warpline.derived.kernel_limits.prediction import Change
from warpline.derived.kernel_limits.resources import PLACE, RESOURCES
from warpline.derived.kernel_limits.rules import Kind, Proposal, kernel_rule
from warpline.units import format_ratio

NAME = "double-precision"
TITLE = "Double precision limits the kernel"

_XU = ("MUFU", "F2F", "F2I", "I2F", "I2FP", "FRND")  # what the XU pipe executes
_HALF = 0.5  # of the demand, in single precision
_LEAST = 0.05


@kernel_rule(name=NAME, title=TITLE)
def double_precision(launches: Launches) -> list[Proposal]:
    """Kernels in which FP64 arithmetic takes time, wanted or by accident.

    What it finds: The FP64 pipe is used at least 5% of the time.
    Why it matters: FP64 runs at half the rate of FP32 on data-center GPUs, at 1/64 on others. One
        constant without `f` (`0.5 * x`) makes an expression double.
    How it is found: By the use of the FP64 pipe. A repair moves it to the FMA pipe at half the
        demand, and conversions between both types (F2F) go away where a report counts them.
    What to do: Write constants with `f` and use `sinf`, not `sin`. Where range matters more than
        precision, keep sums in double only.
    Limits: Whether single precision is enough is not for counters to say.
    Source: No pair was measured.
    """
    used = launches.demands.share("fp64")
    if not (used >= _LEAST).any():
        return []
    converted = launches.opcodes.executed("F2F")
    on_xu = launches.opcodes.executed(*_XU)
    conversions = np.divide(converted, on_xu, out=np.zeros(len(used)), where=on_xu > 0)

    def claim(row: int) -> str:
        return f"The FP64 pipe is at {format_ratio(used[row])} of its peak."

    return [
        Proposal(
            Kind.REMOVES,
            TITLE,
            used >= _LEAST,
            Change.of(
                len(launches),
                {"fp64": np.zeros(len(used)), "xu": 1 - conversions},
                added={"fma": used * _HALF},
            ),
            claim,
            "If single precision is enough: constants with f (0.5f), sinf for sin, float for"
            " double.",
            RESOURCES[PLACE["fp64"]].metrics,
            {f"{EXECUTED}[F2F]": converted},
        )
    ]
