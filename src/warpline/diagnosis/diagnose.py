"""The diagnosis: verdict, steps, breakdown, phases, findings and checklist."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

from warpline.derived import forget
from warpline.derived.breakdown.input_waits import input_waits
from warpline.derived.breakdown.kernel_times import (
    MainKernel,
    kernel_sums,
    kernel_times,
    main_kernel,
)
from warpline.derived.breakdown.warm_up import warm_up_causes
from warpline.derived.efficiency.efficient_work import efficient_work
from warpline.derived.efficiency.elementwise import elementwise_work
from warpline.derived.efficiency.product_shapes import least_product_ns, product_shapes
from warpline.derived.efficiency.profiler import can_sample_metrics, counter_profiler
from warpline.derived.idle.host_calls import host_calls, working_calls
from warpline.derived.metrics.activity import Activity
from warpline.derived.ranges.names import range_names
from warpline.derived.ranges.paths import range_paths
from warpline.derived.ranges.stacks import innermost_range, launched_inside, range_nesting
from warpline.derived.steps.candidates import step_candidates
from warpline.derived.steps.counts import steps_counted
from warpline.derived.steps.times import steps
from warpline.derived.work.launch_order import launch_order
from warpline.derived.work.launches import launch_calls
from warpline.diagnosis.judgment import Attempt, judge
from warpline.diagnosis.times import activities, breakdowns, overlaps, phases, pid_of, training
from warpline.diagnosis.verdict import (
    GRAVE,
    Sampled,
    name_kernel,
    shows_little,
    verdict,
    what_first,
)
from warpline.errors import InputError
from warpline.result import (
    ANALYSES,
    Breakdown,
    Check,
    CounterCandidate,
    Diagnosis,
    ExcludedStep,
    Finding,
    Replay,
    Result,
    Skipped,
    StepSummary,
    describe_meta,
    source_name,
    warnings_of,
)
from warpline.trace import Run, Trace
from warpline.trace.recorder import table_hint

# What every diagnosis reads of the largest tables. A source reads the columns of one request in one
# pass, and each further pass takes almost as long.
_READ_AT_ONCE: Mapping[str, tuple[str, ...]] = {
    "range": (
        *("start_ns", "end_ns", "process_id", "thread_id", "domain_id", "name_id", "style"),
        "is_truncated",
    ),
    "api_call": ("start_ns", "end_ns", "process_id", "thread_id", "correlation_id", "name_id"),
    "kernel": (
        *("start_ns", "end_ns", "device_id", "stream_id", "process_id", "correlation_id"),
        *("name_id", "short_name_id", "graph_node_id", "grid_x"),
    ),
}
# Large, and not used by the next part, or quickly computed again.
_FOR_BREAKDOWNS = (launch_order, working_calls, host_calls)
_FOR_PHASES = (range_paths, innermost_range, range_nesting, range_names)
_FOR_REPLAY = (working_calls, host_calls)
_SECTIONS = ("breakdown", "overlap", "phases", "checklist", "counter_candidates")


def diagnose(run: Run, attempt: Attempt) -> Diagnosis:
    """Return the diagnosis of a run.

    Args:
        run: The trace, and the choice of its steps.
        attempt: Runs each table and rule, so that a defect in one does not affect the others.
    """
    read_large_tables(run.trace)
    devices, together = breakdowns(run), overlaps(run)
    forget(run.trace, *_FOR_BREAKDOWNS)
    of_ranges, of_training = phases(run), training(run)
    forget(run.trace, *_FOR_PHASES)
    tables = {table: _table(run, table, attempt) for table in _SECTIONS}
    forget(run.trace, launched_inside, launch_calls, kernel_times, kernel_sums)
    judged = judge(run, attempt)
    forget(run.trace, *_FOR_REPLAY)
    counted = _steps(run, judged.replay)
    waits = attempt("input_waits", partial(input_waits, run))
    activity = attempt("sampled_metrics", partial(activities, run))
    sampled = () if isinstance(activity, Skipped) else activity
    said = verdict(
        devices,
        together,
        counted.median_ns,
        judged.replay,
        input_nature="pipeline" if isinstance(waits, Skipped) else waits.nature,
        activities=sampled,
    )
    efficient = attempt("efficient_work", partial(efficient_work, run))
    main = attempt("main_kernel", partial(_unnoticed_kernel, run, judged.findings))
    named = None if isinstance(main, Skipped) else main
    first = what_first(
        judged.findings,
        devices,
        is_priced=bool(devices and judged.replay),
        efficient=None if isinstance(efficient, Skipped) else efficient,
        main=named,
        profiler=counter_profiler(run.trace),
        sampled=_what_was_sampled(run.trace, devices, sampled),
    )
    forget(run.trace, product_shapes, least_product_ns, elementwise_work, kernel_times)
    parts = (*tables.values(), waits, activity, efficient, main)
    failed = [item for item in parts if isinstance(item, Skipped) and item.is_failure]
    return Diagnosis(
        title=source_name(run.trace.meta.paths),
        meta=_meta(run.trace),
        sections=tuple(item for item in tables.values() if isinstance(item, Result)),
        warnings=warnings_of(run.trace),
        verdict=" ".join(filter(None, (said, name_kernel(named, devices), first))),
        steps=counted,
        breakdown=devices,
        findings=judged.findings,
        checks=tuple(Check(**row) for row in _rows(tables["checklist"])),
        overlaps=together,
        phases=of_ranges,
        training=of_training,
        counter_candidates=_candidates(tables["counter_candidates"]),
        not_judged=(*judged.not_judged, *failed),
        replay=judged.replay,
    )


def read_large_tables(trace: Trace) -> None:
    """Read `_READ_AT_ONCE`. The parts of the diagnosis that need a damaged table report it."""
    trace.foresee(_READ_AT_ONCE)
    for table, names in _READ_AT_ONCE.items():
        if trace.has(table):
            with suppress(InputError):
                trace.columns(table, *names)


def _what_was_sampled(
    trace: Trace, devices: Sequence[Breakdown], activities: Sequence[Activity | None]
) -> Sampled:
    if shows_little(devices, activities):
        return "little"
    return "missing" if not any(activities) and can_sample_metrics(trace) else "unknown"


def _unnoticed_kernel(run: Run, findings: Sequence[Finding]) -> MainKernel | None:
    """Return the kernel that takes most of the busy time, unless a grave finding is about it."""
    main = main_kernel(run)
    if main is None:
        return None
    names = run.trace.columns("kernel", "name_id")["name_id"].filled(-1)
    shown = (
        row
        for item in findings
        for evidence in item.evidence
        if item.severity in GRAVE and evidence.table == "kernel"
        for row in evidence.rows
    )
    return None if any(names[row] == main.name_id for row in shown) else main


def _steps(run: Run, replay: Replay | None) -> StepSummary:
    run_steps = steps(run)
    times, labels = run_steps.times(), run_steps.label.to_list()
    causes = warm_up_causes(run)
    excluded = tuple(
        ExcludedStep(
            int(run_steps.index[item.step]),
            labels[item.step],
            pid_of(run.trace, int(run_steps.process[item.step])),
            item.reason,
            causes.get(item.step),
        )
        for item in run_steps.excluded
    )
    return StepSummary(
        run_steps.source,
        steps_counted(run_steps),
        times.median_ns,
        times.p95_ns,
        times.host_median_ns,
        excluded,
        *_unprofiled(replay),
        is_inferred=run_steps.is_inferred,
        notes=run_steps.notes,
        candidates=() if run_steps.has_ranges else step_candidates(run.trace),
    )


def _unprofiled(replay: Replay | None) -> tuple[int | None, int | None, int | None]:
    if replay is None:
        return None, None, None
    return replay.unprofiled_ns, replay.unprofiled_low_ns, replay.unprofiled_high_ns


def _table(run: Run, table: str, attempt: Attempt) -> Result | Skipped:
    analysis = ANALYSES.get(table)
    if not any(run.trace.has(need) and run.trace.row_count(need) for need in analysis.needs):
        hint = table_hint(run.trace, analysis.needs, analysis.missing_hint)
        return Skipped(table, "no GPU work was recorded", hint)
    arguments = () if run.steps is None else (f"name={run.steps}",)
    return attempt(table, partial(analysis.compute, run.trace, arguments))


def _candidates(table: Result | Skipped) -> tuple[CounterCandidate, ...]:
    return tuple(
        CounterCandidate(
            row["name"],
            row["category"],
            row["total_ns"],
            row["instances"],
            row["share_ratio"],
            row["command"],
        )
        for row in _rows(table)
    )


def _rows(table: Result | Skipped) -> list[dict[str, Any]]:
    if isinstance(table, Skipped):
        return []
    return [dict(zip(table.columns, row, strict=True)) for row in table.rows()]


def _meta(trace: Trace) -> dict[str, Any]:
    devices: list[dict[str, Any]] = []
    if trace.has("device"):
        columns = trace.columns("device", "gpu_index", "name_id", "uuid_id")
        for row, index in enumerate(columns["gpu_index"].values.tolist()):
            texts = [columns[name].filled(-1)[row] for name in ("name_id", "uuid_id")]
            name, uuid = (None if text < 0 else trace.strings.text(int(text)) for text in texts)
            devices.append({"device": index, "name": name, "uuid": uuid})
    environment = dict(trace.meta.environment)
    return {**describe_meta(trace), "devices": devices, "environment": environment}
