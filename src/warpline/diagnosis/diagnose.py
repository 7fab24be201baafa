"""The diagnosis: verdict, steps, breakdown, phases, findings and checklist."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, Protocol, TypeVar

import numpy as np

from warpline.derived.breakdown.overlaps import OverlapKind, step_overlaps
from warpline.derived.breakdown.partition import Lane, step_partition, window_segments
from warpline.derived.breakdown.phases import phases
from warpline.derived.breakdown.segments import device_segments
from warpline.derived.kernels.categories import operation_origins
from warpline.derived.kernels.rules import Origin
from warpline.derived.ranks.waits import waiting_ns
from warpline.derived.steps.counts import steps_counted
from warpline.derived.steps.times import steps
from warpline.derived.time_parts import TimePart, is_busy
from warpline.derived.work.operations import operations
from warpline.derived.work.owners import owner_of
from warpline.diagnosis.verdict import verdict, what_first
from warpline.ops.arrays import I64
from warpline.replay import predict, replay_quality
from warpline.replay.host import host_side
from warpline.replay.pricing import price, unprofiled_step_ns
from warpline.result import (
    ANALYSES,
    RULES,
    SEVERITIES,
    Breakdown,
    Check,
    CounterCandidate,
    Diagnosis,
    ExcludedStep,
    Finding,
    Overlap,
    Part,
    Phase,
    Replay,
    Result,
    Skipped,
    StepSummary,
    describe_meta,
    source_name,
    warnings_of,
)
from warpline.trace import Run, Trace

T = TypeVar("T")

_SECTIONS = ("breakdown", "overlap", "phases", "checklist", "counter_candidates")
_LEAST_PHASE = 1e-4  # nested phases below this share of the time are omitted
_MOST = 0.5
_WORST_REPLAY = 0.1  # relative error of the step: a worse simulation predicts nothing
_PART_IS_BUSY = np.array([part.is_busy for part in TimePart])


class Attempt(Protocol):
    """Computes a part of the diagnosis, or reports that it failed."""

    def __call__(self, name: str, compute: Callable[[], T], /) -> T | Skipped:
        """Return the result of `compute`; `name` is its table or rule."""
        ...


def diagnose(run: Run, attempt: Attempt) -> Diagnosis:
    """Return the diagnosis of a run.

    Args:
        run: The trace, and the choice of its steps.
        attempt: Runs each table and rule, so that a defect in one does not affect the others.
    """
    lanes = step_partition(run).lanes
    by_origin = _origin_sums(run)
    breakdown = tuple(
        _breakdown(run, lane, sums) for lane, sums in zip(lanes, by_origin, strict=True)
    )
    overlaps = tuple(_overlap(run, lane) for lane in lanes)
    counted = _steps(run)
    found, not_judged = _judged(run, attempt)
    replay = attempt("replay", partial(_replay, run))
    if isinstance(replay, Skipped):
        not_judged.append(replay)
    priced = _priced(run, attempt, found) if isinstance(replay, Replay) else found
    ranked = _ranked(priced)
    first = what_first(ranked, breakdown, is_priced=bool(lanes) and isinstance(replay, Replay))
    tables = {table: _table(run, table, attempt) for table in _SECTIONS}
    failed = [item for item in tables.values() if isinstance(item, Skipped) and item.is_failure]
    sections = tuple(item for item in tables.values() if isinstance(item, Result))
    return Diagnosis(
        title=source_name(run.trace.meta.paths),
        meta=_meta(run.trace),
        sections=sections,
        warnings=warnings_of(run.trace),
        verdict=" ".join(filter(None, (verdict(breakdown, overlaps, counted.median_ns), first))),
        steps=counted,
        breakdown=breakdown,
        findings=ranked,
        checks=tuple(Check(**row) for row in _rows(tables["checklist"])),
        overlaps=overlaps,
        phases=_phases(run) if lanes else (),
        counter_candidates=_candidates(tables["counter_candidates"]),
        not_judged=(*not_judged, *failed),
        replay=replay if isinstance(replay, Replay) else None,
    )


def _steps(run: Run) -> StepSummary:
    found = steps(run)
    times, labels = found.times(), found.label.to_list()
    excluded = tuple(
        ExcludedStep(
            int(found.index[item.step]),
            labels[item.step],
            _pid(run.trace, int(found.process[item.step])),
            item.reason,
        )
        for item in found.excluded
    )
    return StepSummary(
        found.source,
        steps_counted(found),
        times.median_ns,
        times.p95_ns,
        times.host_median_ns,
        excluded,
    )


def _breakdown(run: Run, lane: Lane, by_origin: I64) -> Breakdown:
    found = step_partition(run)
    sums = found.total(lane)
    count = int(np.count_nonzero(found.windows.step[lane.windows] >= 0))
    owner = owner_of(run.trace, lane.process, lane.device)
    return Breakdown(
        process=owner.pid,
        device=owner.gpu_index,
        device_name=owner.device_name,
        count=count,
        total_ns=int(sums.sum()),
        parts=_parts(sums),
        origins={
            Origin.at(place).label: int(by_origin[place])
            for place in np.argsort(-by_origin, kind="stable").tolist()
            if by_origin[place]
        },
        rank=owner.rank,
    )


def _origin_sums(run: Run) -> I64:
    """Return the busy time of each lane by library, shape (lanes, `Origin`), int64."""
    found, segments = step_partition(run), device_segments(run.trace)
    lane_of = np.zeros(len(found.windows.device), np.int64)
    for place, lane in enumerate(found.lanes):
        lane_of[lane.windows] = place
    pieces = window_segments(run.trace, found.windows)
    busy = np.flatnonzero(is_busy(segments.part[pieces.row]))
    owner = segments.operation[pieces.row[busy]]
    sums = np.zeros((len(found.lanes), len(Origin)), np.int64)
    cells = lane_of[pieces.span[busy]], operation_origins(run.trace)[owner]
    np.add.at(sums, cells, (pieces.end_ns - pieces.start_ns)[busy])
    return sums


def _parts(sums: I64) -> tuple[Part, ...]:
    """Return the non-zero parts: busy before idle, each in descending order of time."""
    order = np.lexsort((np.arange(len(TimePart)), -sums, ~_PART_IS_BUSY))
    return tuple(
        Part(
            TimePart.at(place).label,
            "busy" if TimePart.at(place).is_busy else "idle",
            int(sums[place]),
            TimePart.at(place).meaning,
        )
        for place in order.tolist()
        if sums[place]
    )


def _overlap(run: Run, lane: Lane) -> Overlap:
    sums = step_overlaps(run).ns[lane.windows].sum(axis=0)
    ns = {kind: int(sums[kind]) for kind in OverlapKind}
    owner = owner_of(run.trace, lane.process, lane.device)
    return Overlap(
        process=owner.pid,
        device=owner.gpu_index,
        busy_ns=ns[OverlapKind.BUSY],
        concurrent_ns=ns[OverlapKind.SEVERAL_STREAMS],
        communication_ns=ns[OverlapKind.COMMUNICATION],
        exposed_communication_ns=ns[OverlapKind.EXPOSED_COMMUNICATION],
        copy_ns=ns[OverlapKind.COPY],
        exposed_copy_ns=ns[OverlapKind.EXPOSED_COPY],
        waiting_ns=waiting_ns(run, lane),
    )


def _phases(run: Run) -> tuple[Phase, ...]:
    found = phases(run)
    totals = found.total_ns.sum(axis=1)
    least = _LEAST_PHASE * float(found.self_ns.sum())
    rows = np.flatnonzero((totals > 0) & ((totals >= least) | ~found.tree.has_parent))
    return tuple(
        Phase(
            found.path(row),
            int(found.calls[row]),
            int(totals[row]),
            int(found.self_ns[row].sum()),
            _parts(found.total_ns[row]),
        )
        for row in rows.tolist()
    )


def _judged(run: Run, attempt: Attempt) -> tuple[tuple[Finding, ...], list[Skipped]]:
    """Return the findings of the rules, and the rules that were skipped."""
    found: list[Finding] = []
    not_judged: list[Skipped] = []
    for rule in RULES:
        judged = attempt(rule.name, partial(rule.judge, run))
        if isinstance(judged, Skipped):
            not_judged.append(judged)
        else:
            found += judged
    return tuple(found), not_judged


def _replay(run: Run) -> Replay | Skipped:
    """Return how accurately the simulation reproduces the run."""
    if not len(operations(run.trace)) or not len(host_side(run)):
        return Skipped("replay", "no CUDA API calls with GPU work were recorded")
    quality, measured = replay_quality(run), predict(run, ())
    if not measured.unchanged_ns or quality.error_ratio > _WORST_REPLAY:
        return Skipped("replay", "the simulation is not accurate enough to predict savings")
    unprofiled = unprofiled_step_ns(run)
    times = () if unprofiled is None else tuple(round(unprofiled[at]) for at in (1, 0, 2))
    return Replay(quality.error_ratio, quality.unexplained_ratio, measured.measured_ns, *times)


def _priced(run: Run, attempt: Attempt, found: tuple[Finding, ...]) -> tuple[Finding, ...]:
    """Return the findings with estimated savings; unchanged if the estimation fails."""
    priced = attempt("pricing", partial(price, run, found))
    return found if isinstance(priced, Skipped) else priced


def _ranked(found: tuple[Finding, ...]) -> tuple[Finding, ...]:
    """Return findings numbered in order of severity; the sort is stable.

    Within a severity, a finding without a saving comes first if it concerns most of the time.
    """

    def order(item: Finding) -> tuple[int, bool]:
        has_most = item.saving_ns is None and (item.share or 0.0) > _MOST
        return SEVERITIES.index(item.severity), not has_most

    ranked = sorted(found, key=order)
    return tuple(replace(item, id=f"F{n}") for n, item in enumerate(ranked, 1))


def _table(run: Run, table: str, attempt: Attempt) -> Result | Skipped:
    found = ANALYSES.get(table)
    if not any(run.trace.has(need) and run.trace.row_count(need) for need in found.needs):
        return Skipped(table, "no GPU work was recorded", found.missing_hint)
    arguments = () if run.steps is None else (f"name={run.steps}",)
    return attempt(table, partial(found.compute, run.trace, arguments))


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


def _pid(trace: Trace, process: int) -> int:
    return int(trace.columns("process", "pid")["pid"].values[process])
