"""The comparison of two sides: profiles of their runs, and tables by key."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from warpline import plugins, progress
from warpline.derived import forget
from warpline.derived.breakdown.partition import step_partition
from warpline.derived.breakdown.phases import phases
from warpline.derived.breakdown.step_series import (
    function_items,
    inner_range_items,
    joined,
    mean_parts,
    places,
    step_times_ns,
    work_items,
)
from warpline.derived.health.clock_limits import is_idle
from warpline.derived.health.measured import measured_readings
from warpline.derived.memory.allocations import ALLOCATORS, memory_peaks
from warpline.derived.metrics.activity import gpu_activity
from warpline.derived.metrics.known import known_series
from warpline.derived.ranges.paths import range_paths
from warpline.derived.ranges.stacks import innermost_range, launched_inside, range_nesting
from warpline.derived.steps.times import steps
from warpline.derived.time_parts import TimePart
from warpline.derived.work.operations import operations
from warpline.derived.work.ranks import UNKNOWN, rank_in_name, rank_of_process
from warpline.documents import failures
from warpline.documents.tables import compute
from warpline.lazy import lazy
from warpline.ops.arrays import F64
from warpline.ops.interval import union
from warpline.result import Result, Skipped, source_name, warnings_of
from warpline.result.comparison import Comparison
from warpline.result.profile import PartName, Phases, Profile, steps_in_words
from warpline.trace import Run, Trace
from warpline.units import format_bytes, format_watts

if TYPE_CHECKING:
    from warpline.comparison import compare, environment
    from warpline.comparison import tables as by_key
    from warpline.diagnosis import diagnose, judgment
else:
    compare = lazy("warpline.comparison.compare")
    by_key = lazy("warpline.comparison.tables")
    environment = lazy("warpline.comparison.environment")
    diagnose = lazy("warpline.diagnosis.diagnose")
    judgment = lazy("warpline.diagnosis.judgment")

_PROFILER = re.compile(r"[^0-9,]*[^0-9, ]")
_CLOCK_STEP = 15  # MHz, by which GPUs change it
_LEAST_PHASE = 1e-4  # phases below this share of the step are left out
_MOST_PHASES = 400


class Measured(NamedTuple):
    """A run as a side of a comparison, and its tables that are compared by key."""

    profile: Profile
    tables: tuple[Result | Skipped, ...]


def comparison(
    before: Sequence[Measured], after: Sequence[Measured], *, tolerance: float, paired: bool
) -> Comparison:
    """Compare two sides, each of one or several runs.

    Raises:
        UsageError: They are paired, but have different numbers of runs.
    """
    tables = ([of.tables for of in side] for side in (before, after))
    sections = by_key.compare_sides(*tables, paired=paired)
    with progress.task("Comparing"):
        return compare.compare(
            [run.profile for run in before],
            [run.profile for run in after],
            tolerance=tolerance,
            paired=paired,
            sections=sections,
        )


def measured(run: Run, tables: Sequence[str], *, keep_going: bool) -> Measured:
    """Return a run as a side of a comparison, with some of its tables."""
    with progress.task("Analyzing"):
        shown = profile(run, keep_going=keep_going)
    attempt = failures.marked_if_damaged if keep_going else failures.raised
    computed = (attempt(name, partial(compute, run.trace, name, run.steps)) for name in tables)
    return Measured(shown, tuple(computed))


def profile(run: Run, *, keep_going: bool = True) -> Profile:
    """Return what a comparison needs to know about a run.

    Args:
        run: The trace, and the choice of its steps.
        keep_going: Whether a rule with a defect is left out; else its error is raised.
    """
    trace = run.trace
    plugins.load("analyses")
    diagnose.read_large_tables(trace)
    of_ranges, inner = _phases(run), inner_range_items(run)
    forget(trace, phases, range_paths, innermost_range, range_nesting)
    exact = mean_parts(run)
    parts = {
        PartName(part.label, "busy" if part.is_busy else "idle", part.meaning): ns
        for part, ns in zip(TimePart, exact, strict=True)
    }
    items = joined(joined(work_items(run), function_items(run)), inner)
    forget(trace, launched_inside)
    judged = judgment.judge(run, failures.marked if keep_going else failures.raised)
    run_steps = steps(run)
    has_steps = bool(run_steps.included[run_steps.window_step].any())
    return Profile(
        title=source_name(trace.meta.paths),
        paths=tuple(str(path) for path in trace.meta.paths),
        source=run_steps.source if has_steps else "none",
        step_ns=step_times_ns(run),
        parts=parts,
        items=items,
        phases=of_ranges,
        findings=judged.findings,
        environment=environment_of(run, has_steps=has_steps),
        ranks=len(step_partition(run).ranks),
        recorder=_profiler(trace),
        memory_peak_bytes=_memory_peaks(trace),
        warnings=warnings_of(trace),
        unread=dict(trace.meta.unread),
    )


def _phases(run: Run) -> Phases:
    """Return the time of each path of ranges per step, the longest ones."""
    if not step_partition(run).ranks:
        return {}
    tree, at = phases(run), places(run)
    totals = tree.total_ns.sum(axis=1)
    least = _LEAST_PHASE * float(tree.self_ns.sum())
    rows = sorted(range(len(totals)), key=lambda row: -totals[row])[:_MOST_PHASES]
    # Ranks that run together make one step.
    scale = 1.0 / max(int(at.ranks.sum()), 1)
    labels = [(part.label, "busy" if part.is_busy else "idle") for part in TimePart]
    return {
        tree.path(row): {
            label: ns * scale
            for label, ns in zip(labels, tree.total_ns[row].tolist(), strict=True)
            if ns
        }
        for row in sorted(rows)
        if totals[row] > 0 and totals[row] >= least
    }


def _memory_peaks(trace: Trace) -> Mapping[str, int]:
    """Return the peak of the GPU and process that use most, by allocator."""
    if not trace.has("allocator_event") and not trace.has("memory_event"):
        return {}
    most: dict[str, int] = {}
    for peak in memory_peaks(trace):
        if peak.pool.device >= 0:
            name = ALLOCATORS[peak.pool.allocator].lower()
            most[name] = max(most.get(name, 0), peak.allocated_bytes)
    return most


def _profiler(trace: Trace) -> str:
    found = _PROFILER.match(trace.meta.producer or "")
    return found[0].strip() if found else trace.meta.format


def environment_of(run: Run, *, has_steps: bool) -> Mapping[str, str | None]:
    """Return the facts about machine, software and settings, by name; None if not recorded."""
    trace, meta = run.trace, run.trace.meta
    facts: dict[str, str | None] = {
        **_devices(trace),
        environment.CLOCK: _clock(run),
        environment.RANKS: str(len(step_partition(run).ranks)),
        environment.PROFILER: _profiler(trace),
        "profiler version": meta.producer,
        environment.GRAPHS: _graph_trace(trace),
        environment.STEPS: steps_in_words(steps(run).source) if has_steps else "none",
        "host": meta.host,
        **meta.software,
        "command": meta.command,
    }
    facts.update(_activity(run))
    facts.update({f"variable {name}": value for name, value in meta.environment.items()})
    return facts


def _graph_trace(trace: Trace) -> str | None:
    """Return ``node`` if the work inside CUDA graphs was traced, ``graph`` if only whole graphs.

    None without graphs. Tracing nodes slows them down, so times of both levels are not comparable.
    """
    if trace.has("kernel"):
        nodes = trace.columns("kernel", "graph_node_id")["graph_node_id"]
        if nodes.is_valid().any():
            return "node"
    return "graph" if trace.has("graph_launch") and trace.row_count("graph_launch") else None


def _devices(trace: Trace) -> Mapping[str, str | None]:
    """Return the facts about the GPUs that ran work."""
    used = sorted(set(operations(trace).device.tolist()))
    if not used or not trace.has("device"):
        return {environment.GPU: None, environment.GPUS: str(len(used))}
    facts = ("name_id", "memory_bytes", "clock_hz", "sm_count", "power_limit_w")
    columns = trace.columns("device", *facts)

    def values(name: str) -> list[int]:
        column = columns[name].filled(-1)
        return list(dict.fromkeys(int(column[row]) for row in used if column[row] >= 0))

    def text(texts: Sequence[str]) -> str | None:
        return ", ".join(dict.fromkeys(texts)) or None

    return {
        environment.GPU: text([trace.strings.text(name) for name in values("name_id")]),
        environment.GPUS: str(len(used)),
        "GPU memory": text([format_bytes(size) for size in values("memory_bytes")]),
        "SMs": text([str(count) for count in values("sm_count")]),
        "power limit": text([format_watts(watts) for watts in values("power_limit_w")]),
        "maximum GPU clock": text([f"{hz / 1e6:.0f} MHz" for hz in values("clock_hz")]),
    }


def _activity(run: Run) -> dict[str, str | None]:
    """Return the mean activity of the GPUs in the analyzed steps, as far as it was sampled."""
    every = gpu_activity(run).values()
    sampled = {
        environment.SM_ACTIVE: [each.sm_active for each in every],
        environment.DRAM_ACTIVE: [each.dram_active for each in every],
    }
    known = {
        name: [value for value in values if value is not None] for name, values in sampled.items()
    }
    return {name: f"{np.mean(values) * 100:.0f}%" for name, values in known.items() if len(values)}


def _clock(run: Run) -> str | None:
    """Return the median clock of the GPUs in the analyzed steps; None if it was not recorded."""
    sampled = _sampled_mhz(run)
    mhz = sampled if len(sampled) else _read_mhz(run)
    if not len(mhz):
        return None
    return f"{round(float(np.median(mhz)) / _CLOCK_STEP) * _CLOCK_STEP} MHz"


def _read_mhz(run: Run) -> F64:
    """Return the clocks that the driver reported while the GPUs were not idle, in MHz."""
    clocks = [
        each.chosen(~is_idle(each)).known("sm_clock_hz").values / 1e6
        for each in measured_readings(run)
    ]
    return np.concatenate([np.zeros(0), *clocks])


def _sampled_mhz(run: Run) -> F64:
    """Return the sampled clocks of the GPUs in the analyzed steps, in MHz."""
    found = steps(run)
    series = known_series(run.trace).items()
    clocks = [each.samples for (_, meaning), each in series if meaning == "gpu_clock"]
    time_ns = np.concatenate([np.zeros(0, np.int64), *(each.start_ns for each in clocks)])
    mhz = np.concatenate([np.zeros(0), *(each.value / 1e6 for each in clocks)])
    if found.included.any():
        shown = found.included[found.window_step]
        start, end = union(found.window_start_ns[shown], found.window_end_ns[shown])
        at = np.searchsorted(start, time_ns, side="right") - 1
        mhz = mhz[(at >= 0) & (time_ns < end[np.maximum(at, 0)])]
    sampled: F64 = mhz
    return sampled


def runs_of(traces: Sequence[Trace]) -> list[list[int]]:
    """Return which recordings of a side are the ranks of one run: those with distinct ranks.

    A recording without a rank, or with one that the current run has already, begins another run.
    """
    groups: list[list[int]] = []
    seen: set[int] = set()
    for place, trace in enumerate(traces):
        ranks = set(rank_of_process(trace).tolist()) - {UNKNOWN}
        ranks = ranks or set(map(rank_in_name, trace.meta.paths)) - {UNKNOWN}
        if not groups or not ranks or not seen or ranks & seen:
            groups.append([])
            seen = set()
        groups[-1].append(place)
        seen |= ranks
    return groups
