"""few-short-kernels: whether the program launches few short kernels."""

from __future__ import annotations

import numpy as np

from warpline.derived.breakdown.measured_time import MeasuredTime, measured_time
from warpline.ops.arrays import I64, BoolArray
from warpline.result.checks import Outcome, check
from warpline.trace import Run
from warpline.units import format_ratio

_SHORT_NS = 10_000
_SHORT_RATIO = 0.5
_STORM = 100


@check(
    id="few-short-kernels",
    name="few short kernels",
    wanted=f"at most {_SHORT_RATIO:.0%} below 10 us",
    reason="a launch takes 3 to 5 us of CPU time, so the CPU cannot keep up with short kernels",
    table="cuda_gpu_kern_sum",
    needs=("kernel",),
    rank=6,
)
def few_short_kernels(run: Run) -> Outcome:
    """Return whether the program launches few short kernels."""
    measured = measured_time(run)
    rows = measured.work.of_table("kernel")
    rows = rows[measured.counted[rows]]
    if not len(rows):
        return Outcome("unknown", "no kernels recorded")
    single = rows[~_of_graphs(measured, rows)]
    short = measured.work.end_ns[single] - measured.work.start_ns[single] < _SHORT_NS
    n_short = int(np.count_nonzero(short))
    ratio = n_short / max(len(single), 1)
    each = n_short / measured.count
    is_storm = each >= _STORM and ratio > _SHORT_RATIO
    of_all = f"{each:,.0f} of {len(single) / measured.count:,.0f} kernels{measured.each}"
    text = f"{format_ratio(ratio)} below 10 us: {of_all}"
    if not len(single):
        text = "all kernels are in CUDA graphs"
    return Outcome("fail" if is_storm else "pass", text, ratio)


def _of_graphs(measured: MeasuredTime, rows: I64) -> BoolArray:
    """Return which kernels belong to a CUDA graph: by node id, or by a launch call with several.

    Not every recording contains node ids.
    """
    nodes = measured.run.trace.columns("kernel", "graph_node_id")["graph_node_id"].is_valid()
    # The first count is of operations without a call.
    together = np.bincount(measured.work.call + 1, minlength=1)
    together[0] = 0
    of_graphs: BoolArray = together[measured.work.call[rows] + 1] > 1
    if nodes.any():
        of_graphs |= nodes[measured.work.row[rows]]
    return of_graphs
