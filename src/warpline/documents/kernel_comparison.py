"""What a comparison needs to know of a run whose kernels were profiled."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np

from warpline import progress
from warpline.comparison import environment
from warpline.comparison import tables as by_key
from warpline.comparison.kernels import Meaning, compare_kernels
from warpline.counters.units import unit_of
from warpline.derived.breakdown.step_series import launch_shape
from warpline.derived.counters import metric_numbers
from warpline.derived.kernel_limits.ceilings import gpu_names
from warpline.derived.kernel_limits.launches import Launches
from warpline.documents import failures
from warpline.documents.kernel_filters import Choice, chosen_rows, shown
from warpline.documents.kernel_findings import of_rows
from warpline.documents.table_rows import Rows
from warpline.documents.tables import compute
from warpline.ops.arrays import F64, BoolArray
from warpline.result import Result, Skipped, source_name, warnings_of
from warpline.result.kernel_comparison import CountedRun, KernelComparison, ProfiledKernel
from warpline.trace import Trace

_DURATION = "gpu__time_duration.sum"
_CLOCKS = ("sm__cycles_elapsed.avg.per_second", "smsp__cycles_elapsed.avg.per_second")
_CLOCK_STEP = 15  # MHz, by which GPUs change it
_OF_PEAK = "avg.pct_of_peak_sustained_elapsed"
_PERCENT = 100
_MOST = 1e18  # what is more counts as damaged: sums and squares of it must stay finite

# Of several names, the first that was collected.
_METRICS: Mapping[tuple[str, ...], Meaning] = {
    (f"sm__throughput.{_OF_PEAK}",): Meaning("SM throughput", "ratio"),
    (f"gpu__compute_memory_throughput.{_OF_PEAK}",): Meaning("memory throughput", "ratio"),
    (f"gpu__dram_throughput.{_OF_PEAK}", f"dram__throughput.{_OF_PEAK}"): Meaning(
        "DRAM throughput", "ratio"
    ),
    (f"sm__pipe_tensor_cycles_active.{_OF_PEAK}",): Meaning("Tensor Core use", "ratio"),
    (f"sm__inst_issued.{_OF_PEAK}", f"sm__issue_active.{_OF_PEAK}"): Meaning(
        "issue slot use", "ratio"
    ),
    ("sm__warps_active.avg.pct_of_peak_sustained_active",): Meaning("achieved occupancy", "ratio"),
    ("l1tex__t_sector_hit_rate.pct",): Meaning("L1 hit rate", "ratio"),
    ("lts__t_sector_hit_rate.pct",): Meaning("L2 hit rate", "ratio"),
    ("dram__bytes_read.sum", "dram__bytes_op_read.sum"): Meaning("DRAM read", "B"),
    ("dram__bytes_write.sum", "dram__bytes_op_write.sum"): Meaning("DRAM written", "B"),
    ("smsp__inst_executed.sum", "sm__inst_executed.sum"): Meaning("instructions", "inst"),
    ("launch__registers_per_thread",): Meaning("registers per thread", "register"),
    ("launch__shared_mem_per_block", "launch__shared_mem_per_block_allocated"): Meaning(
        "shared memory per block", "B"
    ),
}


class Counted(NamedTuple):
    """A run as a side of a comparison, and its tables that are compared by key."""

    run: CountedRun
    tables: tuple[Result | Skipped, ...]


def is_counted(trace: Trace) -> bool:
    """Return whether a trace has profiled kernels and no timeline."""
    has_timeline = trace.has("kernel") and trace.row_count("kernel") > 0
    return not has_timeline and trace.has("profiled_kernel")


def comparison(
    before: Sequence[Counted], after: Sequence[Counted], *, tolerance: float, paired: bool
) -> KernelComparison:
    """Compare two sides, each of one or several runs.

    Raises:
        UsageError: They are paired, but have different numbers of runs.
    """
    tables = ([of.tables for of in side] for side in (before, after))
    sections = by_key.compare_sides(*tables, paired=paired)
    old, new = ([of.run for of in side] for side in (before, after))
    metrics = {names[0]: meaning for names, meaning in _METRICS.items()}
    with progress.task("Comparing"):
        return compare_kernels(
            old, new, metrics, tolerance=tolerance, paired=paired, sections=sections
        )


def counted(trace: Trace, tables: Sequence[str], *, keep_going: bool) -> Counted:
    """Return a run as a side of a comparison, with some of its tables."""
    attempt = failures.marked_if_damaged if keep_going else failures.raised
    with progress.task("Analyzing"):
        run = CountedRun(
            title=source_name(trace.meta.paths),
            paths=tuple(str(path) for path in trace.meta.paths),
            kernels=_kernels(trace),
            environment=_environment(trace),
            warnings=warnings_of(trace),
        )
    return Counted(run, tuple(attempt(name, partial(compute, trace, name)) for name in tables))


def _kernels(trace: Trace) -> tuple[ProfiledKernel, ...]:
    """Return the kernels and shapes with known durations, in the order of their first launches."""
    table = Rows(trace, "profiled_kernel")
    rows = chosen_rows(trace, table, Choice())
    time_ns, has_time = _first(trace, (_DURATION,))
    metrics = {names[0]: _first(trace, names) for names in _METRICS}
    groups: dict[tuple[str, str], list[int]] = {}
    for row in rows:
        if has_time[row] and time_ns[row] > 0 and not table["is_range"][row]:
            name = shown(table["name"][row] or table["short_name"][row] or "")
            groups.setdefault((name, _shape(table, row)), []).append(row)
    middles = [
        sorted(own, key=lambda row: time_ns[row])[(len(own) - 1) // 2] for own in groups.values()
    ]
    findings = of_rows(Launches(trace), middles)
    place_of = {row: place for place, row in enumerate(rows)}
    return tuple(
        ProfiledKernel(
            name,
            table["short_name"][own[0]] or name,
            shape,
            place_of[own[0]],
            time_ns[own],
            {
                metric: value
                for metric, of in metrics.items()
                if (value := _median(*of, own)) is not None
            },
            tuple(item for item in found if item.outcome != "no-gain"),
        )
        for ((name, shape), own), found in zip(groups.items(), findings, strict=True)
    )


def _median(values: F64, is_known: BoolArray, rows: Sequence[int]) -> float | None:
    """Return the median of the launches that have a metric; None without any."""
    known = values[rows][is_known[rows]]
    return float(np.median(known)) if len(known) else None


def _first(trace: Trace, names: Sequence[str]) -> tuple[F64, BoolArray]:
    """Return the values of the first of some metrics that each launch has; others are unknown.

    So are values of damaged reports: negative ones, and those that are not finite.
    """
    values, is_known = metric_numbers(trace, names[0])
    for name in names[1:]:
        others, has_other = metric_numbers(trace, name)
        values, is_known = np.where(is_known, values, others), is_known | has_other
    scale = _PERCENT if unit_of(names[0]) == "%" else 1
    return values / scale, is_known & np.isfinite(values) & (values >= 0) & (values <= _MOST)


def _shape(table: Rows, row: int) -> str:
    sizes = (table[f"{of}_{axis}"][row] for of in ("grid", "block") for axis in "xyz")
    return launch_shape(tuple(-1 if size is None else size for size in sizes))


def _environment(trace: Trace) -> Mapping[str, str | None]:
    """Return the facts about GPU, software and settings."""
    meta = trace.meta
    values, is_known = _first(trace, _CLOCKS)
    hz = values[is_known & (values > 0)]
    clock = None
    if len(hz):
        clock = f"{round(float(np.median(hz)) / 1e6 / _CLOCK_STEP) * _CLOCK_STEP} MHz"
    return {
        environment.GPU: ", ".join(gpu_names(trace)) or None,
        environment.CLOCK: clock,
        environment.COUNTED_BY: meta.producer,
        "host": meta.host,
        **meta.software,
        "command": meta.command,
    }
