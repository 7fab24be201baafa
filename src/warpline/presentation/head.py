"""Title, verdict, facts about the recording, and the numbers to see first."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from warpline.presentation.blocks import Block, Card, Cards, Cell, Commands, Head, Link, Section
from warpline.presentation.devices import slowest
from warpline.presentation.step_source import analyzed_steps
from warpline.result import Breakdown, Diagnosis, Overlap, Part
from warpline.result.shares import counted, part_shares, percent, tenths
from warpline.units import format_ns

_FIRST = " Fix first: "  # the advice gets a line of its own


def head(
    diagnosis: Diagnosis, *, has_warnings: bool = False, has_facts: bool = False
) -> Iterator[Block]:
    """Yield the title, how the run ended if abnormally, and the verdict."""
    verdict, first, advice = diagnosis.verdict.partition(_FIRST)
    yield Head(
        title=diagnosis.title,
        ended=diagnosis.meta.get("ended") or "",
        verdict=verdict,
        advice=f"{first.strip()} {advice}" if first else "",
        warnings=diagnosis.warnings if has_warnings else (),
        facts=tuple(_facts(diagnosis)) if has_facts else (),
        command=(diagnosis.meta["command"] or "") if has_facts else "",
    )


def _facts(diagnosis: Diagnosis) -> Iterator[str]:
    yield f"{format_ns(diagnosis.meta['recorded_ns'])} recorded"
    devices = diagnosis.meta.get("devices") or ()
    if devices:
        names = {str(device.get("name") or "GPU") for device in devices}
        yield f"{len(devices)} x {' and '.join(sorted(names))}"
    steps = diagnosis.steps
    if steps.source != "none":
        yield analyzed_steps(steps)


def cards(diagnosis: Diagnosis) -> Iterator[Block]:
    """Yield the numbers to see first: step time, busy and idle time, overlap, ranks, checklist."""
    items = tuple(_cards(diagnosis))
    if items:
        yield Section("", (Cards(items), Commands(("warpline analyze",))))


def _cards(diagnosis: Diagnosis) -> Iterator[Card]:
    steps = diagnosis.steps
    if steps.median_ns is not None:
        of = ["GPU with the longest steps"] if len(diagnosis.breakdown) > 1 else []
        of += [] if steps.p95_ns is None else [f"p95 {format_ns(steps.p95_ns)}"]
        median = Cell(format_ns(steps.median_ns), Link("table", "steps"))
        yield Card("median step time", median, ", ".join(of))
    if diagnosis.breakdown:
        place, item = slowest(diagnosis)
        parts = counted(item)[0]
        whole = sum(part.ns for part in parts)
        if whole:
            yield from _time_cards(item, parts, whole)
        if whole and place < len(diagnosis.overlaps):
            yield from _exposed_cards(item.device, diagnosis.overlaps[place], whole)
    for finding in diagnosis.findings:
        if finding.rule == "straggler":
            rank, _, effect = finding.title.partition(": ")
            yield Card("ranks", Cell(rank, Link("table", "stragglers")), effect)
    if diagnosis.checks:
        states = [check.state for check in diagnosis.checks]
        failed, passed = states.count("fail"), states.count("pass")
        unknown = len(states) - failed - passed
        yield Card("checklist", Cell(f"{failed} fail"), f"{passed} pass, {unknown} unknown")


def _time_cards(item: Breakdown, parts: Sequence[Part], whole: int) -> Iterator[Card]:
    busy = sum(part.ns for part in parts if part.kind == "busy")
    of = f"a {format_ns(whole / item.count)} step" if item.count else format_ns(whole)
    busy_share = Cell(percent(busy, whole), Link("table", "breakdown"))
    yield Card("GPU busy", busy_share, f"GPU {item.device}, of {of}")
    shares = part_shares(parts, whole)
    idle = [pair for pair in zip(parts, shares, strict=True) if pair[0].kind == "idle"]
    if idle and whole > busy:
        most, share = max(idle, key=lambda pair: pair[0].ns)
        cause = Cell(most.category, Link("part", f"{item.device}/{most.category}"))
        yield Card("main idle cause", cause, f"GPU {item.device}, {tenths(share)}: {most.meaning}")


def _exposed_cards(device: int, item: Overlap, whole: int) -> Iterator[Card]:
    kinds = (
        ("exposed communication", item.communication_ns, item.exposed_communication_ns),
        ("exposed copies", item.copy_ns, item.exposed_copy_ns),
    )
    for name, ns, exposed_ns in kinds:
        if ns:
            share = Cell(percent(exposed_ns, whole), Link("table", "overlap"))
            yield Card(name, share, f"GPU {device}, not overlapped with compute")
