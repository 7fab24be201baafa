"""The answer about a job, from the summaries of its ranks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np

from warpline.derived.severity import MEASURABLE_RATIO
from warpline.derived.time_parts import BUSY, TimePart
from warpline.errors import InputError
from warpline.fleet.findings import STOPPED, found_in, numbered
from warpline.fleet.gridding import grid_of
from warpline.fleet.jobs import Job, job_of
from warpline.fleet.lateness import Late, late_ranks, own_time_ns
from warpline.fleet.layout import layout_of
from warpline.fleet.matching import Clock, Matches, clocks, matches
from warpline.fleet.networks import collectives_of
from warpline.fleet.parallel import (
    Parallel,
    groups_of,
    parallel_of,
    result_of_experts,
    result_of_pipeline,
)
from warpline.fleet.stragglers import stragglers_of
from warpline.fleet.summary import RankSummary
from warpline.fleet.waiting import Waits, waits
from warpline.result.fleet import (
    Fleet,
    FleetFinding,
    FleetPart,
    FleetRank,
    LeftOut,
    Straggler,
)
from warpline.units import format_ns, format_ratio, plural

_MATTERS = 0.1  # idle time below this share is not mentioned
_MOST = 0.5  # of the idle time
_WITHOUT = {"slow-stage": "With balanced stages", "uneven-experts": "With even experts"}


class Known(NamedTuple):
    """What is known of a job before it is put into words.

    Attributes:
        job: The job.
        matched: Its collectives.
        clocks: The clock of each rank.
        waits: Waits for other ranks.
        parallel: Its parallel groups.
        late: Whom the others wait for; None if waits do not matter.
    """

    job: Job
    matched: Matches
    clocks: list[Clock | None]
    waits: Waits
    parallel: Parallel
    late: Late | None


def known_of(summaries: Sequence[RankSummary]) -> Known:
    """Return what is known of a job, from the summaries of its ranks in any order."""
    job = job_of(summaries)
    matched = matches(job.ranks)
    of_ranks = clocks(len(job), matched.groups)
    layout = layout_of(job, matched.groups)
    waited = waits(job, matched, layout.stage)
    late = None
    if matched.groups or layout.stages:
        late = late_ranks(job, waited, matched.groups, layout.stage)
    parallel = parallel_of(job, matched, layout, waited)
    return Known(job, matched, of_ranks, waited, parallel, late)


def once_each(
    summaries: Sequence[RankSummary], seen: dict[object, str] | None = None
) -> tuple[list[RankSummary], tuple[LeftOut, ...]]:
    """Return each rank once, and the recordings that hold a rank of another one again.

    Such as an export beside the recording that it was made from.

    Args:
        summaries: The summaries.
        seen: The ranks of other jobs that count, and their recordings. New ones are added.
    """
    seen = {} if seen is None else seen
    kept, twice = [], []
    for summary in sorted(summaries, key=lambda summary: summary.identity.path):
        identity, start = summary.identity, summary.windows.start_ns
        utc = identity.origin_utc_ns
        first = int(start[0]) if len(start) else 0
        key = (identity.pid, identity.gpu_index, len(start), first if utc is None else utc + first)
        other = seen.setdefault(key, identity.path)
        if other == identity.path:
            kept.append(summary)
        else:
            twice.append(LeftOut(identity.path, f"holds the same rank as {Path(other).name}"))
    return kept, tuple(twice)


def verdict_of(
    title: str, summaries: Sequence[RankSummary], left_out: Sequence[LeftOut] = ()
) -> Fleet:
    """Return the answer about a job.

    Args:
        title: Names the recordings.
        summaries: Of its ranks, in any order.
        left_out: Recordings without a summary.

    Raises:
        InputError: There is no summary.
    """
    if not summaries:
        raise InputError(
            "no rank with GPU work in these recordings", hint="record with --trace=cuda,nvtx"
        )
    return answer_of(title, known_of(summaries), left_out)


def answer_of(title: str, known: Known, left_out: Sequence[LeftOut] = ()) -> Fleet:
    """Return what is known of a job, as `verdict_of` does."""
    job = known.job
    matched = (known.matched.groups, known.clocks)
    late = stragglers_of(job, matched, known.waits, known.parallel, known.late)
    networks = collectives_of(job, known.waits)
    found = found_in(job, known.waits, (known.late, late), networks, known.parallel)
    findings = numbered(found)
    fleet = Fleet(
        title=title,
        verdict="",
        hosts=len(job.hosts) or None,
        steps=len(job.step_index) if job.has_steps else 0,
        step_source=job.ranks[0].identity.step_source,
        step_ns=float(job.step_ns[job.counts > 0].mean()) if job.counts.any() else 0.0,
        ranks=_ranks(known),
        breakdown=_breakdown(job),
        stragglers=late.ranks,
        findings=findings,
        collectives=networks.collectives,
        left_out=tuple(left_out),
        notes=_notes(known, left_out),
        grid=grid_of(job, known.waits),
        layout=known.parallel.layout.text,
        groups=groups_of(job, known.parallel.layout, known.waits),
        pipeline=result_of_pipeline(job, known.parallel.pipeline),
        experts=result_of_experts(job, known.parallel.experts),
    )
    return replace(fleet, verdict=_verdict(fleet, known, late.ranks, findings))


def _breakdown(job: Job) -> tuple[FleetPart, ...]:
    sums = job.parts_ns.sum(axis=0)
    total = int(sums.sum())
    order = np.lexsort((-sums, ~np.isin(np.arange(len(TimePart)), [int(part) for part in BUSY])))
    return tuple(
        FleetPart(
            part.label,
            "busy" if part.is_busy else "idle",
            int(sums[part]),
            float(sums[part]) / total if total else 0.0,
        )
        for part in map(TimePart.at, order.tolist())
        if sums[part]
    )


def _ranks(known: Known) -> tuple[FleetRank, ...]:
    job, waited = known.job, known.waits
    own = own_time_ns(job, waited)
    steps = np.maximum(job.counts, 1)
    busy = job.parts_per_step_ns[:, [int(part) for part in BUSY]].sum(axis=1)
    wait, exposed, caused = (
        values.sum(axis=1) / steps
        for values in (waited.all_wait_ns, waited.all_exposed_ns, waited.caused_ns)
    )
    last = waited.last / np.maximum(waited.collectives, 1)
    found = []
    for place, summary in enumerate(job.ranks):
        identity = summary.identity
        offset, drift, error = _clock(known, place)
        found.append(
            FleetRank(
                name=job.name(place),
                rank=job.numbers[place],
                pid=identity.pid,
                host=identity.host,
                device=identity.gpu_index,
                path=identity.path,
                steps=int(job.counts[place]) if job.has_steps else 0,
                step_ns=float(job.step_ns[place]),
                busy_ns=float(busy[place]),
                own_ns=float(own[place]),
                wait_ns=float(wait[place]),
                exposed_wait_ns=float(exposed[place]),
                caused_ns=float(caused[place]),
                last_ratio=float(last[place]),
                clock_offset_ns=offset,
                clock_drift=drift,
                clock_error_ns=error,
            )
        )
    return tuple(found)


def _clock(known: Known, place: int) -> tuple[float | None, float | None, float | None]:
    """Return offset, drift and error of a rank's clock relative to the job's."""
    clock = known.clocks[place]
    reference = next((at for at, one in enumerate(known.clocks) if one is not None), None)
    if clock is None or reference is None:
        return None, None, None
    base = known.clocks[reference]
    assert base is not None
    own, other = known.job.ranks[place], known.job.ranks[reference]
    between = 0
    if own.identity.origin_utc_ns is not None and other.identity.origin_utc_ns is not None:
        between = own.identity.origin_utc_ns - other.identity.origin_utc_ns
    middle = _middle_ns(known, reference)
    ahead = clock.base_ns + between - base.base_ns + clock.line.offset_ns - base.line.offset_ns
    ahead += (clock.line.drift - base.line.drift) * middle
    drift = (1 + clock.line.drift) / (1 + base.line.drift) - 1
    return ahead, drift, clock.error_ns


def _middle_ns(known: Known, place: int) -> float:
    """Return the middle of a rank's collectives on the job's time."""
    rows, clock = known.job.ranks[place].collectives, known.clocks[place]
    assert clock is not None
    return float(clock.job_time(rows.end_ns[[0, -1]]).mean())


def _notes(known: Known, left_out: Sequence[LeftOut]) -> tuple[str, ...]:
    job, notes = known.job, []
    if left_out:
        notes.append(
            f"{plural(len(left_out), 'recording')} left out: times that other ranks waited for"
            " these ranks count as transfer"
        )
    if not known.matched.groups and len(job) > 1:
        notes.append("no collectives are matched: nothing is known about waits for other ranks")
    if known.matched.unmatched:
        notes.append(
            f"{known.matched.unmatched:,} of {known.matched.collectives:,} collective kernels could"
            " not be matched with another rank"
        )
    if known.waits.incomplete:
        notes.append(
            f"{plural(known.waits.incomplete, 'collective')} of {known.waits.used:,} are missing"
            " in the recordings of some ranks"
        )
    aligned = [clock for clock in known.clocks if clock is not None]
    if len(aligned) > 1:
        error = max(clock.error_ns for clock in aligned)
        notes.append(
            f"clocks of {len(aligned):,} ranks aligned by their collectives: ends agree within"
            f" {format_ns(error)} (90%, worst rank)"
        )
    if known.matched.groups and len(aligned) < len(job):
        notes.append(f"{plural(len(job) - len(aligned), 'rank')} could not be aligned")
    unused = int(np.count_nonzero(job.counts == 0))
    if unused:
        notes.append(
            f"{plural(unused, 'rank')} without steps that count: nothing is added up of it"
        )
    lost = sum(rank.identity.lost for rank in job.ranks)
    if lost:
        notes.append(f"{lost:,} events were dropped while recording")
    sources = {rank.identity.step_source.split(":")[0] for rank in job.ranks}
    if len(sources) > 1:
        notes.append(f"ranks have different kinds of steps: {', '.join(sorted(sources))}")
    elif sources == {"periodicity"}:
        notes.append("steps are inferred from repeating launches: mark each step with a range")
    return tuple(notes)


def _verdict(
    fleet: Fleet,
    known: Known,
    late: Sequence[Straggler],
    findings: Sequence[FleetFinding],
) -> str:
    """Return where the time goes, whom the others wait for, and what to fix first."""
    total = max(fleet.total_ns, 1)
    busy = sum(part.ns for part in fleet.breakdown if part.kind == "busy") / total
    where = f" on {plural(fleet.hosts, 'host')}" if fleet.hosts and fleet.hosts > 1 else ""
    count = plural(len(fleet.ranks), "rank")
    step = f"{plural(fleet.steps, 'step')} of {format_ns(fleet.step_ns)}"
    if not fleet.steps:
        step = f"{format_ns(fleet.step_ns)} from the first to the last operation"
    layout = f" ({fleet.layout})" if fleet.layout and len(fleet.ranks) > 2 else ""
    said = f"{count}{where}{layout}, {step} (mean): GPUs are busy {format_ratio(busy)}"
    exposed = known.waits.all_exposed_ns.sum() / max(int(known.job.counts.sum()), 1)
    share = exposed / fleet.step_ns if fleet.step_ns else 0.0
    if share >= MEASURABLE_RATIO:
        said += f", {format_ratio(share)} of the time waiting for other ranks"
    idle = [part for part in fleet.breakdown if part.kind == "idle"]
    most = max(idle, key=lambda part: part.ns, default=None)
    if most is not None and 1 - busy >= _MATTERS:
        said += f", and idle {format_ratio(1 - busy)}"
        if most.ns >= _MOST * sum(part.ns for part in idle):
            said += f", mostly {most.category} ({format_ratio(most.share)})"
    said += "."
    if findings and (known.late is not None or findings[0].rule in STOPPED):
        said += f" {_first(findings)}"
    elif known.matched.groups and len(fleet.ranks) > 1:
        said += " No rank delays the others."
    if fleet.left_out:
        said += f" {plural(len(fleet.left_out), 'recording')} left out."
    return said


def _first(findings: Sequence[FleetFinding]) -> str:
    first = findings[0]
    said = f"{first.title}."
    if first.step_ns is not None and first.saving_ns is not None and first.saving_ns.central > 0:
        low, central, high = first.step_ns
        said += (
            f" {_WITHOUT.get(first.rule, 'Without it')}, a step would take about"
            f" {format_ns(central)}"
            f" ({format_ns(low)} to {format_ns(high)})."
        )
    return said
