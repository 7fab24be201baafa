"""epilogues-fused: whether GEMMs include the elementwise operations that follow."""

from __future__ import annotations

import numpy as np

from warpline.derived.breakdown.measured_time import measured_time
from warpline.derived.time_parts import TimePart
from warpline.result.checks import Outcome, at_most, check
from warpline.trace import Run
from warpline.units import format_ratio, plural

_EPILOGUES = 0.05


@check(
    id="epilogues-fused",
    name="epilogues fused",
    wanted=f"at most {_EPILOGUES:.0%} of the time",
    reason="a GEMM kernel can apply the bias and activation that follow it",
    table="kernel_class_sum",
    needs=("kernel",),
    rank=8,
)
def epilogues_fused(run: Run) -> Outcome:
    """Return whether GEMMs include the elementwise operations that follow."""
    measured = measured_time(run)
    products = measured.of_category(TimePart.GEMM, TimePart.CONVOLUTION)
    if not products.any():
        return Outcome("pass", "no GEMMs or convolutions", 0.0)
    order = np.lexsort((measured.work.start_ns, measured.work.stream))
    same = measured.work.stream[order][1:] == measured.work.stream[order][:-1]
    after = np.append(False, same & products[order][:-1])
    is_epilogue = np.zeros(len(order), np.bool_)
    is_epilogue[order] = after
    is_epilogue &= measured.of_category(TimePart.ELEMENTWISE)
    ns = (measured.work.end_ns - measured.work.start_ns)[is_epilogue]
    ratio = int(ns.sum()) / max(int(measured.total_ns.sum()), 1)
    each = len(ns) / measured.count
    return Outcome(
        at_most(ratio, _EPILOGUES),
        f"{plural(round(each), 'elementwise kernel')} directly after GEMMs{measured.each},"
        f" {format_ratio(ratio)} of the time",
        ratio,
    )
