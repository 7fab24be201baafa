"""double-precision: FP64 arithmetic limits the kernel."""

from __future__ import annotations

import numpy as np

from warpline.derived.kernel_limits.launches import CONVERTING_THREADS, INSTRUCTIONS, Launches
from warpline.derived.kernel_limits.opcodes import EXECUTED
from warpline.derived.kernel_limits.prediction import Change
from warpline.derived.kernel_limits.resources import PLACE, RESOURCES
from warpline.derived.kernel_limits.rules import Kind, Proposal, kernel_rule, waiting_for
from warpline.units import format_ratio

NAME = "double-precision"
TITLE = "Double precision limits the kernel"

_HALF = 0.5  # of the demand, in single precision
_LEAST = 0.05
_MANY = 0.02  # of the instructions: conversions


@kernel_rule(name=NAME, title=TITLE)
def double_precision(launches: Launches) -> list[Proposal]:
    """Kernels in which FP64 arithmetic takes time, wanted or by accident.

    What it finds: The FP64 pipe is used at least 5% of the time.
    Why it matters: FP64 runs at half the rate of FP32 on data-center GPUs, at 1/64 on others. One
        constant without `f` (`0.5 * x`) makes an expression double.
    How it is found: By the use of the FP64 pipe. A repair moves it to the FMA pipe at half the
        demand. Conversions from and to double go away, from the XU pipe and from the issue slots:
        counted by opcode (F2F), or all conversions between types.
    What to do: Write constants with `f` and use `sinf`, not `sin`. Where range matters more than
        precision, keep sums in double only.
    Limits: Whether single precision is enough is not for counters to say.
    Source: Pair `double` on an H100: 327 us, 28.3 to 60.0 predicted, 27.3 measured. Pair
        `polynomial`, without conversions: 109 us, 69.6 predicted, 60.2 measured.
    """
    used = launches.demands.share("fp64")
    if not (used >= _LEAST).any():
        return []
    opcodes = launches.opcodes
    converted = np.where(opcodes.has_any, opcodes.executed("F2F"), launches.conversions)
    of_xu = launches.ratio(converted, launches.xu_instructions)
    of_issued = launches.ratio(converted, launches.metric(INSTRUCTIONS))

    def claim(row: int) -> str:
        more = ""
        if of_issued[row] >= _MANY:
            more = (
                f" {format_ratio(of_issued[row])} of the instructions convert from and to double."
            )
        return f"The FP64 pipe is at {format_ratio(used[row])} of its peak.{more}"

    return [
        Proposal(
            Kind.REMOVES,
            TITLE,
            used >= _LEAST,
            Change.of(
                len(launches),
                {"fp64": np.zeros(len(used)), "xu": 1 - of_xu, "issue": 1 - of_issued},
                added={"fma": used * _HALF},
            ),
            claim,
            "If single precision is enough: constants with f (0.5f), sinf for sin, float for"
            " double.",
            (*RESOURCES[PLACE["fp64"]].metrics, CONVERTING_THREADS, INSTRUCTIONS),
            {f"{EXECUTED}[F2F]": converted},
            shown_at=waiting_for(
                "arithmetic", "math_pipe_throttle", "short_scoreboard", "mio_throttle", "wait"
            ),
        )
    ]
