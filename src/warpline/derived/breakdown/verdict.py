"""A sentence on where the time of a run went, and one on what to do first."""

from __future__ import annotations

from collections.abc import Sequence

from warpline.result import Breakdown, Finding, Overlap, Part, PartKind
from warpline.units import format_ns, format_ratio

_MATTERS = 0.10  # idle time below this share of a step is not worth a clause
_ALONE = 0.15  # communication or copies with nothing beside them, from this share on
_MOST = 0.5
_GRAVE = ("high", "medium")
_NEARLY_ALL = 0.98
_UNEVEN = 1.5  # the mean by the median
_WELL_BUSY = 0.8  # from this share on it matters what the device was busy with


def verdict(
    breakdown: Sequence[Breakdown], overlaps: Sequence[Overlap], median_ns: float | None = None
) -> str:
    """Return what is to be known first: how busy the slowest device was, and why not busier.

    Args:
        breakdown: From the diagnosis; empty if no device worked.
        overlaps: What ran at a time, in the same order.
        median_ns: The median step; said where it is far from the mean, of which shares are.
    """
    if not breakdown:
        return "No GPU work was recorded, so there is nothing to say about the GPU's time."
    place = max(range(len(breakdown)), key=lambda row: _step_ns(breakdown[row]))
    item = breakdown[place]
    whole_ns = counted_ns(item)
    if not whole_ns:
        return "The GPU's work took no time that could be counted."
    busy = item.ns(kind="busy") / whole_ns
    subject = _subject(item, breakdown)
    of_what = f"the {format_ns(whole_ns)} from its first operation to its last"
    if item.count:
        mean_ns = _step_ns(item)
        of_what = f"each {format_ns(mean_ns)} step"
        if median_ns is not None and mean_ns > _UNEVEN * median_ns:
            of_what += f" on average (half of them take at most {format_ns(median_ns)})"
    clauses = f"{subject} busy {format_ratio(busy)} of {of_what}"
    clauses += _busy_clause(item, overlaps[place] if place < len(overlaps) else None)
    return f"{clauses}{_idle_clause(item)}."


def what_first(
    findings: Sequence[Finding], breakdown: Sequence[Breakdown], *, is_priced: bool
) -> str:
    """Return what to look at first, with what it saves; empty where nothing can be said.

    Args:
        findings: In their order, numbered.
        breakdown: From the diagnosis.
        is_priced: Whether savings were predicted, so that none means that there is none.
    """
    first = next((item for item in findings if item.severity in _GRAVE), None)
    if first is None:
        return "Nothing measurable to save was found." if is_priced else ""
    is_word = not first.title[1:2].isupper()  # but an abbreviation
    title = first.title[:1].lower() + first.title[1:] if is_word else first.title
    if first.saving_ns is None:
        return f"First: {title} ({first.id})."
    saves = f"{format_ns(first.saving_ns)} ({format_ratio(first.share or 0.0)})"
    each = " per step" if any(item.count for item in breakdown) else ""
    return f"First: {title} ({first.id}); the fix saves about {saves}{each}."


def _subject(item: Breakdown, every: Sequence[Breakdown]) -> str:
    if len(every) == 1:
        return "The GPU was"
    shares = len({each.device for each in every}) < len(every)
    if shares and item.process is not None:
        which = f"{item.process} on device {item.device}"
        return f"The slowest of {len(every)} processes, {which}, had its GPU"
    process = "" if item.process is None else f" (process {item.process})"
    return f"The slowest of {len(every)} GPUs, device {item.device}{process}, was"


def counted_ns(item: Breakdown) -> int:
    """Return the time that shares are of: without steps only from the first work to the last."""
    if item.count:
        return item.total_ns
    return item.total_ns - sum(part.ns for part in item.parts if part.category == "tail")


def _step_ns(item: Breakdown) -> float:
    return counted_ns(item) / max(item.count, 1)


def _busy_clause(item: Breakdown, found: Overlap | None) -> str:
    whole_ns = counted_ns(item)
    alone = []
    if found is not None:
        alone = [
            (found.exposed_communication_ns, _in_collectives(found)),
            (found.exposed_copy_ns, "in copies with no kernel beside them"),
        ]
    said = [
        f"{format_ratio(ns / whole_ns)} {text}" for ns, text in alone if ns >= _ALONE * whole_ns
    ]
    if said:
        return f", {' and '.join(said)}"
    largest = _largest(item, "busy")
    if largest is None or item.ns(kind="busy") < _WELL_BUSY * whole_ns:
        return ""
    return f", chiefly with {largest.category} ({format_ratio(largest.ns / whole_ns)})"


def _in_collectives(found: Overlap) -> str:
    text = "in collectives with nothing computed beside them"
    waiting_ns = found.waiting_ns or 0
    if not waiting_ns or waiting_ns < _MOST * found.communication_ns:
        return text
    share = format_ratio(waiting_ns / found.communication_ns)
    return f"{text} ({share} of their time is waiting for other ranks)"


def _idle_clause(item: Breakdown) -> str:
    causes = [p for p in item.parts if p.kind == "idle" and (item.count or p.category != "tail")]
    idle_ns = sum(part.ns for part in causes)
    if idle_ns < _MATTERS * counted_ns(item):
        return ""
    largest = max(causes, key=lambda part: part.ns)
    per = max(item.count, 1)
    of_all = largest.ns / idle_ns
    how_much = "most" if of_all > _MOST else "the largest part"
    times = f"{format_ns(largest.ns / per)} of {format_ns(idle_ns / per)}"
    if of_all > _NEARLY_ALL:
        how_much, times = "nearly all", format_ns(idle_ns / per)
    text = f"; {how_much} of the idle time ({times}) is {largest.category}: {largest.meaning}"
    others = sorted((part for part in causes if part is not largest), key=lambda part: -part.ns)
    if others and others[0].ns > 0.1 * idle_ns:
        text += f"; next comes {others[0].category} ({format_ns(others[0].ns / per)})"
    return text


def _largest(item: Breakdown, kind: PartKind) -> Part | None:
    parts = [part for part in item.parts if part.kind == kind]
    return max(parts, key=lambda part: part.ns, default=None)
