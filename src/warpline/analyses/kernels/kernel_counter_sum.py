"""kernel_counter_sum: one line per kernel and shape, with its main counters."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from warpline.derived.counters import first_metric
from warpline.derived.texts import dimension_texts
from warpline.ops.arrays import F64, I64, BoolArray, Integers
from warpline.ops.group import factorize_rows
from warpline.result import Arguments, Field, Numbers, Result, Texts, Values, analysis
from warpline.trace import Trace
from warpline.units import Unit

NAME = "kernel_counter_sum"
TITLE = "Counters by kernel and shape"
FIELDS = (
    Field("grid", Unit.NONE, "Blocks of the grid, without trailing ones.", "Grid"),
    Field("block", Unit.NONE, "Threads of a block, without trailing ones.", "Block"),
    Field("launches", Unit.COUNT, "Launches that were counted.", "Count"),
    Field("median_ns", Unit.NS, "Median duration when counted.", "Median (ns)"),
    Field("sm_ratio", Unit.RATIO, "Share of time that SMs were active.", "SM (%)", 100.0, 1),
    Field("tensor_ratio", Unit.RATIO, "Activity of Tensor Cores.", "TC (%)", 100.0, 1),
    Field("dram_ratio", Unit.RATIO, "Throughput of DRAM, of its peak.", "DRAM (%)", 100.0, 1),
    Field("l2_ratio", Unit.RATIO, "Throughput of L2, of its peak.", "L2 (%)", 100.0, 1),
    Field("warps_ratio", Unit.RATIO, "Achieved occupancy.", "Warps (%)", 100.0, 1),
    Field(
        "issue_ratio",
        Unit.RATIO,
        "Share of active cycles in which an instruction was issued.",
        "Issue (%)",
        100.0,
        1,
    ),
    Field("min_ns", Unit.NS, "Shortest duration.", "Min (ns)"),
    Field("max_ns", Unit.NS, "Longest duration.", "Max (ns)"),
    Field("kernel", Unit.NONE, "Kernel name.", "Kernel"),
)
_DURATION = "gpu__time_duration.sum"
_ELAPSED, _ACTIVE = "pct_of_peak_sustained_elapsed", "pct_of_peak_sustained_active"
# The metrics of each column; the first that was collected is shown.
_RATIOS = {
    "sm_ratio": (f"sm__cycles_active.avg.{_ELAPSED}",),
    "issue_ratio": (
        f"smsp__issue_active.avg.{_ACTIVE}",
        f"sm__inst_issued.avg.{_ACTIVE}",
    ),
    "tensor_ratio": (
        f"sm__pipe_tensor_cycles_active.avg.{_ELAPSED}",
        f"TPC.TriageCompute.sm__pipe_tensor_cycles_active_realtime.avg.{_ELAPSED}",
        f"sm__pipe_tensor_cycles_active.avg.{_ACTIVE}",
    ),
    "dram_ratio": (f"dram__throughput.avg.{_ELAPSED}", f"gpu__dram_throughput.avg.{_ELAPSED}"),
    "l2_ratio": (f"lts__t_sectors.avg.{_ELAPSED}", f"lts__throughput.avg.{_ELAPSED}"),
    "warps_ratio": (f"sm__warps_active.avg.{_ACTIVE}",),
}
_CLOCKS = ("sm__cycles_elapsed.avg.per_second", "gpc__cycles_elapsed.avg.per_second")


@analysis(
    name=NAME,
    title=TITLE,
    fields=FIELDS,
    needs=("profiled_kernel",),
    missing_hint="collect counters: warpline kernels -- PROGRAM",
)
def kernel_counter_sum(trace: Trace, arguments: Arguments) -> Result:
    """Counters by kernel, grid size and block size.

    What it measures: How often each kernel was counted at each size, its duration, and the use of
        SMs, issue slots, Tensor Cores, DRAM, L2 and warp slots.
    Why it matters: A kernel near the peak of DRAM, L2 or Tensor Cores needs less work. One far from
        all of them waits for latency, or has too few blocks or warps.
    How it is computed: The median over the counted launches of one kernel name, grid and block.
        Rows are sorted by the time that was counted. Columns are empty if their metrics were not
        collected: gpu__time_duration, sm__cycles_active, smsp__issue_active,
        sm__pipe_tensor_cycles_active, dram__throughput, lts__t_sectors and sm__warps_active.
    Limits: Launches that are counted run one at a time, so durations differ from those of kernels
        that overlap. If only some launches were counted, the order says nothing about the time
        that kernels take in the run.
    Source: Warpline.
    """
    axes = [f"{of}_{axis}" for of in ("grid", "block") for axis in "xyz"]
    launches = trace.columns("profiled_kernel", "name_id", *axes)
    keys = [launches[name].values.astype(np.int64) for name in ("name_id", *axes)]
    groups = factorize_rows(*keys)
    first, count = groups.first, groups.n_groups
    duration, has_duration = first_metric(trace, (_DURATION,))
    spread = _Spread(groups.codes, duration, has_duration, count)
    sizes = np.stack([key[first] for key in keys[1:]]) if count else np.zeros((6, 0), np.int64)
    values: dict[str, Values] = {
        "grid": _size_texts(sizes[:3]),
        "block": _size_texts(sizes[3:]),
        "launches": Numbers(np.bincount(groups.codes, minlength=count)),
        "median_ns": Numbers(np.rint(spread.median).astype(np.int64), spread.is_known),
        "min_ns": Numbers(np.rint(spread.minimum).astype(np.int64), spread.is_known),
        "max_ns": Numbers(np.rint(spread.maximum).astype(np.int64), spread.is_known),
        "kernel": dimension_texts(trace.strings, launches["name_id"], first),
    }
    for field, names in _RATIOS.items():
        percent = _Spread(groups.codes, *first_metric(trace, names), count)
        values[field] = Numbers(percent.median / 100, percent.is_known)
    total = np.bincount(groups.codes, np.where(has_duration, duration, 0.0), minlength=count)
    order = np.argsort(-total, kind="stable")
    values = {field.name: _taken(values[field.name], order) for field in FIELDS}
    notes = tuple(_clock_notes(trace))
    return Result(NAME, TITLE, FIELDS, values, ("grid", "block", "kernel"), notes)


class _Spread:
    """Median, minimum and maximum of a metric in each group, each of shape (groups,)."""

    def __init__(self, codes: Integers, values: F64, is_known: BoolArray, count: int) -> None:
        codes, values = codes[is_known], values[is_known]
        order = np.lexsort((values, codes))
        values, sizes = values[order], np.bincount(codes, minlength=count)
        starts = np.cumsum(sizes) - sizes
        self.is_known = sizes > 0
        self.minimum, self.median, self.maximum = (np.zeros(count) for _ in range(3))
        known = np.flatnonzero(self.is_known)
        starts, sizes = starts[known], sizes[known]
        self.minimum[known], self.maximum[known] = values[starts], values[starts + sizes - 1]
        below, above = starts + (sizes - 1) // 2, starts + sizes // 2
        self.median[known] = (values[below] + values[above]) / 2


def _size_texts(sizes: I64) -> Texts:
    """Return sizes in x, y and z as texts, shape (3, n): ``64x32``."""
    texts: dict[str, int] = {}
    codes = []
    for x, y, z in sizes.T.tolist():
        parts = [x, y, z]
        while len(parts) > 1 and parts[-1] == 1:
            parts.pop()
        codes.append(texts.setdefault("x".join(map(str, parts)), len(texts)))
    return Texts(np.array(codes, np.int32), list(texts))


def _taken(column: Values, order: I64) -> Values:
    if isinstance(column, Texts):
        return Texts(column.codes[order], column.values)
    valid = None if column.valid is None else column.valid[order]
    return Numbers(column.values[order], valid)


def _clock_notes(trace: Trace) -> Sequence[str]:
    """Return at what clock the counted launches ran."""
    clock, is_known = first_metric(trace, _CLOCKS)
    if not is_known.any():
        return []
    known = clock[is_known] / 1e9
    return [
        f"SM clock {np.median(known):.2f} GHz (median; {known.min():.2f} to {known.max():.2f} GHz)"
    ]
