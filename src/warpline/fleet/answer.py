"""The answer about a job, from summaries of its ranks and dumps of their flight recorders."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from warpline.fleet import flight_findings, flight_hangs
from warpline.fleet.findings import STOPPED, numbered
from warpline.fleet.flight_calls import FlightDump
from warpline.fleet.summary import RankSummary
from warpline.fleet.verdict import verdict_of
from warpline.result.fleet import Fleet, FleetFinding, LeftOut
from warpline.units import plural


def one_of_each_rank(
    dumps: Sequence[FlightDump],
) -> tuple[list[FlightDump], tuple[LeftOut, ...]]:
    """Return the best dump of each rank, and the others: those without stacks, then older ones."""
    best: dict[int, FlightDump] = {}
    left_out = []
    for dump in sorted(dumps, key=_preference):
        used = best.setdefault(dump.rank, dump)
        if used is not dump:
            reason = f"another dump of rank {dump.rank} is used: {Path(used.path).name}"
            left_out.append(LeftOut(dump.path, reason))
    return [best[rank] for rank in sorted(best)], tuple(left_out)


def _preference(dump: FlightDump) -> tuple[bool, int, int, str]:
    """Return what sorts the best dump of a rank first. Its calls say better how new it is."""
    return dump.is_json, -dump.last_ns, -dump.written_ns, dump.path


def answer_of(
    title: str,
    summaries: Sequence[RankSummary],
    dumps: Sequence[FlightDump],
    left_out: Sequence[LeftOut] = (),
) -> Fleet:
    """Return the answer about a job.

    Args:
        title: Names the files.
        summaries: Of ranks that were recorded.
        dumps: Of flight recorders, one per rank.
        left_out: Files that are not part of the answer.

    Raises:
        InputError: There is neither a summary nor a dump.
    """
    if not dumps:
        return verdict_of(title, summaries, left_out)
    known = flight_hangs.verdict_of(dumps)
    open_ranges = {
        one.identity.rank: one.doing for one in summaries if one.identity.rank is not None
    }
    told = list(flight_findings.found_in(known, open_ranges))
    flights = flight_findings.dumps_of(known)
    notes = _notes(known)
    if not summaries:
        findings = numbered(told)
        return replace(
            _without_recordings(title, left_out),
            verdict=_verdict(len(flights), findings, left_out),
            findings=findings,
            dumps=flights,
            notes=notes,
        )
    found = verdict_of(title, summaries, left_out)
    # Flight recorders know more of a hang than recordings do.
    own = [item for item in found.findings if not told or item.rule not in STOPPED]
    said = f"{_first(told)} {found.verdict}" if told else found.verdict
    return replace(
        found,
        verdict=said,
        findings=numbered((*told, *own)),
        dumps=flights,
        notes=(*notes, *found.notes),
    )


def _without_recordings(title: str, left_out: Sequence[LeftOut]) -> Fleet:
    return Fleet(
        title=title,
        verdict="",
        hosts=None,
        steps=0,
        step_source="none",
        step_ns=0.0,
        ranks=(),
        breakdown=(),
        stragglers=(),
        findings=(),
        collectives=(),
        left_out=tuple(left_out),
        notes=(),
    )


def _verdict(count: int, findings: Sequence[FleetFinding], left_out: Sequence[LeftOut]) -> str:
    said = f"Flight recorders of {plural(count, 'rank')}: "
    if findings:
        title = _first(findings)
        said += f"{title[:1].lower()}{title[1:]}"
    else:
        said += "no rank is missing in a call, and no calls differ."
    if left_out:
        said += f" {plural(len(left_out), 'file')} left out."
    return said


def _first(findings: Sequence[FleetFinding]) -> str:
    return f"{findings[0].title}."


def _notes(known: flight_hangs.FlightVerdict) -> tuple[str, ...]:
    notes = []
    cut = [dump.rank for dump in known.dumps if dump.lacks_first]
    if cut:
        notes.append(
            f"flight recorders of {plural(len(cut), 'rank')} lack the first calls of the run, which"
            " later ones replaced: TORCH_FR_BUFFER_SIZE sets how many are kept"
        )
    if any(dump.is_json for dump in known.dumps):
        notes.append("dumps in JSON have no stacks: pickles have them")
    versions = sorted({dump.version for dump in known.dumps})
    if len(versions) > 1:
        notes.append(f"dumps have different layouts: {', '.join(versions)}")
    return tuple(notes)
