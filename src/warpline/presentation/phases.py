"""The time of each range's GPU work: the longest ranges, the first, or all but the shortest."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from warpline.presentation.blocks import (
    Block,
    Cell,
    Column,
    Commands,
    Fit,
    Line,
    Link,
    Row,
    Section,
    Table,
)
from warpline.result import TAIL, Diagnosis, Phase, TrainingPhase
from warpline.result.shares import counted, percent, tenths
from warpline.units import format_ns, plural

_LABEL = 20  # characters
_LARGEST = 21  # characters of the largest part
_NEARLY_ALL = 0.98  # of the enclosing phase
_STEP = 0.9  # of the total time: a phase this long is the step itself
_OUTSIDE = "outside ranges"


def longest_phases(diagnosis: Diagnosis, *, most: int, depth: int) -> Iterator[Block]:
    """Yield the ranges with the most busy and idle time, up to `depth` deep."""
    every = diagnosis.phases
    has_steps = _has_steps(diagnosis)
    if not has_steps:
        every = tuple(_without_tail(item) for item in every)
    per = step_count(diagnosis)
    whole_ns = sum(part.ns for item in diagnosis.breakdown for part in counted(item)[0])
    shown = _longest(every, whole_ns, most, depth)
    if not shown:
        return
    is_part = len(shown) < len(every)
    columns = (
        Column("", width=_LABEL, fit=Fit.SHORTEN),
        Column("per step" if has_steps else "time", width=9, is_number=True),
        Column("share", width=7, is_number=True),
        Column("idle", width=7, is_number=True),
        Column("largest part", width=_LARGEST, fit=Fit.DROP),
    )
    rows = []
    for item in shown:
        time, share = format_ns(item.total_ns / per), percent(item.total_ns, whole_ns)
        texts = (_name(item), time, share, idle_share(item), largest_part(item))
        rows.append(Row(tuple(map(Cell, texts)), _depth(item)))
    title = "Phases" + (f", {len(shown)} of {len(every)}" if is_part else "")
    yield Table(columns=columns, rows=tuple(rows), title=title, is_tree=True)


def first_phases(diagnosis: Diagnosis, *, most: int) -> Iterator[Block]:
    """Yield the first ranges with their whole paths."""
    phases, per = diagnosis.phases, step_count(diagnosis)
    if not phases:
        return
    rows = []
    for item in phases[:most]:
        name = Cell("/".join(item.path), is_code=True) if item.path else Cell(_OUTSIDE)
        idle = idle_share(item) if item.total_ns else ""
        numbers = (f"{item.calls:,}", format_ns(item.total_ns / per), idle)
        rows.append(Row((name, *map(Cell, numbers))))
    heads = (Column(head, is_number=True) for head in ("calls", "per step", "idle"))
    blocks: list[Block] = [Table(columns=(Column("phase"), *heads), rows=tuple(rows))]
    if len(phases) > most:
        blocks.append(Line(f"{plural(len(phases) - most, 'more phase')} not shown."))
    yield Section("Phases", tuple(blocks))


def all_phases(
    diagnosis: Diagnosis, *, least_tenths: int, most: int, depth: int
) -> Iterator[Block]:
    """Yield the ranges from a share of the time on, in tenths of a percent."""
    whole = sum(part.ns for item in diagnosis.breakdown for part in item.parts)
    shares = [round(1000 * item.total_ns / whole) if whole else 0 for item in diagnosis.phases]
    chosen = [
        (item, share)
        for item, share in zip(diagnosis.phases, shares, strict=True)
        if share >= least_tenths and len(item.path) <= depth
    ]
    if not any(item.path for item, _ in chosen):
        return
    per = step_count(diagnosis)
    rows = tuple(_full_row(item, share, per) for item, share in chosen[:most])
    numbers = ("calls", "per step" if _has_steps(diagnosis) else "time", "share", "idle")
    columns = (
        Column("range"),
        *(Column(head, is_number=True) for head in numbers),
        Column("largest part"),
    )
    blocks: list[Block] = [Table(columns=columns, rows=rows, look="numbers", is_tree=True)]
    hidden = len(diagnosis.phases) - len(rows)
    if hidden > 0:
        blocks.append(Line(f"{plural(hidden, 'smaller phase')} not shown."))
    blocks.append(Commands(("warpline stats -r phases",)))
    yield Section("Phases", tuple(blocks), "phases")


def _full_row(item: Phase, share: int, per: int) -> Row:
    name = _name(item)
    label = Cell(name, Link("range", name) if item.path else None)
    time = format_ns(item.total_ns / per)
    texts = (f"{item.calls:,}", time, tenths(share), idle_share(item), largest_part(item))
    return Row((label, *map(Cell, texts)), _depth(item))


def _has_steps(diagnosis: Diagnosis) -> bool:
    return any(item.count for item in diagnosis.breakdown)


def step_count(diagnosis: Diagnosis) -> int:
    """Return the number of steps of all GPUs, the divisor of times per step; at least 1."""
    return max(sum(item.count for item in diagnosis.breakdown), 1)


def _name(item: Phase) -> str:
    return item.path[-1] if item.path else _OUTSIDE


def _depth(item: Phase) -> int:
    return max(len(item.path) - 1, 0)


def idle_share(item: Phase | TrainingPhase) -> str:
    """Return the idle share of a phase as text."""
    return percent(sum(part.ns for part in item.parts if part.kind == "idle"), item.total_ns)


def largest_part(item: Phase | TrainingPhase) -> str:
    """Return the category or idle cause with the most time, empty without time."""
    largest = max(item.parts, key=lambda part: part.ns, default=None)
    return largest.category if largest else ""


def _without_tail(item: Phase) -> Phase:
    parts = tuple(part for part in item.parts if part.category != TAIL)
    tail_ns = item.total_ns - sum(part.ns for part in parts)
    return replace(item, total_ns=item.total_ns - tail_ns, parts=parts)


def _longest(phases: Sequence[Phase], whole_ns: int, most: int, depth: int) -> list[Phase]:
    """Return the longest phases in program order, without deeply nested ones.

    A phase that makes up nearly all of its enclosing phase is omitted, unless that is the step.
    """
    total_ns = {item.path: item.total_ns for item in phases}

    def is_new(item: Phase) -> bool:
        around_ns = total_ns.get(item.path[:-1], 0) if len(item.path) > 1 else 0
        return item.total_ns < _NEARLY_ALL * around_ns or not around_ns < _STEP * whole_ns

    outer = [
        row
        for row, item in enumerate(phases)
        if len(item.path) <= depth and item.total_ns and (len(item.path) < 2 or is_new(item))
    ]
    longest = sorted(outer, key=lambda row: -phases[row].total_ns)[:most]
    return [phases[row] for row in sorted(longest)]
