"""How the result of a gate is presented: the outcome, its metrics, and what limits it."""

from __future__ import annotations

from collections.abc import Iterator

from warpline.presentation.blocks import (
    Block,
    Cell,
    Column,
    Fit,
    Head,
    Items,
    Line,
    Presentation,
    Row,
    Section,
    Table,
)
from warpline.result.gate import Gate, GateSide, MetricResult
from warpline.result.profile import steps_in_words
from warpline.units import format_bytes, format_change, format_ns, plural

_OUTCOMES = {"pass": "pass", "regression": "REGRESSION", "undecided": "undecided"}
_NUMBERS = ("before", "after", "change", "95% interval", "limit")
_STEPS = {"command": "time of the command", "none": "no steps: the whole recording"}


def gate(found: Gate) -> Presentation:
    """Return what a terminal and Markdown show."""
    return Presentation(tuple(_blocks(found)), ())


def _blocks(found: Gate) -> Iterator[Block]:
    title = f"{found.after.title} against {found.before.title}"
    yield Head(title=title, ended="", verdict=found.sentence, advice="")
    turns = ", in turn" if found.is_paired else ""
    yield Line(f"Before: {_side(found.before)}. After: {_side(found.after)}{turns}.", is_faint=True)
    texts = [_texts(item) for item in found.metrics]
    widths = [max(map(len, column)) for column in zip(*texts, strict=True)]
    columns = (
        Column("metric", width=12, fit=Fit.SHORTEN),
        *(
            Column(heading, width=width, is_number=True)
            for heading, width in zip(_NUMBERS, widths[1:-1], strict=True)
        ),
        Column("result", width=10),
    )
    cells = ((Cell(name, is_code=True), *map(Cell, rest)) for name, *rest in texts)
    yield Table(columns=columns, rows=tuple(map(Row, cells)))
    reasons = [item.reason for item in found.metrics if item.outcome != "pass"]
    if len(reasons) > 1:
        yield Section("Reasons", (Items(tuple((Cell(reason),) for reason in reasons)),))
    if found.notes:
        yield Section("Notes", (Items(tuple((Cell(note),) for note in found.notes)),))


def _texts(item: MetricResult) -> tuple[str, ...]:
    """Return the cells of a metric."""
    return (
        item.metric,
        value_text(item, item.before),
        value_text(item, item.after),
        change_text(item, item.change),
        _interval(item),
        item.limit,
        _OUTCOMES[item.outcome],
    )


def _side(side: GateSide) -> str:
    source = steps_in_words(side.source.removeprefix("cpu:"))
    where = " on the CPU" if side.source.startswith("cpu:") else ""
    step = _STEPS.get(side.source, f"{plural(side.steps, 'step')}{where}, {source}")
    when = f", {side.recorded_utc}" if side.recorded_utc else ""
    return f"{plural(side.runs, 'run')} ({step}{when})"


def value_text(item: MetricResult, value: float | None) -> str:
    """Return a value of a metric as text; a hyphen if it is unknown."""
    if value is None:
        return "-"
    if item.unit == "findings":
        return f"{value:.0f}"
    return format_bytes(value) if item.unit == "bytes" else format_ns(value)


def change_text(item: MetricResult, change: float | None) -> str:
    """Return a change of a metric as text, with its sign; a hyphen if it is unknown."""
    if change is None:
        return "-"
    if item.unit == "findings":
        return f"{change:+.0f} new"
    if item.is_relative:
        return "new" if change == float("inf") else format_change(change)
    return ("-" if change < 0 else "+") + value_text(item, abs(change))


def _interval(item: MetricResult) -> str:
    if item.low is None or item.high is None:
        return "-"
    return f"{change_text(item, item.low)} to {change_text(item, item.high)}"
