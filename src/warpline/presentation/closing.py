"""What was left out of the analysis, what to run next, and facts about the recording."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from operator import lt
from typing import Any

from warpline.presentation.blocks import (
    Block,
    Cell,
    Column,
    Commands,
    Items,
    Line,
    Row,
    Section,
    StepTimes,
    Table,
    Warnings,
)
from warpline.result import Diagnosis
from warpline.units import plural

_NAMED = 4  # excluded steps
_LAST, _MANY_LAST = "last", 2  # the reason of steps before pauses
_NEXT = ("warpline analyze --checklist", "warpline stats -r steps,phases,step_differences")


def closing(diagnosis: Diagnosis) -> Iterator[Block]:
    """Yield excluded steps, skipped rules, and the commands to run next."""
    skipped = (
        Line(f"Skipped: {item.name} ({item.reason})", is_faint=True)
        for item in diagnosis.not_judged
    )
    yield Section("", (*excluded_steps(diagnosis), *skipped, Commands(_NEXT, "Next")))


def findings_command(diagnosis: Diagnosis) -> Iterator[Block]:
    """Yield the command that shows the findings, if there are any."""
    if diagnosis.findings:
        yield Commands(("warpline analyze",), "Findings")


def step_times(diagnosis: Diagnosis, steps: Mapping[str, Any] | None) -> Iterator[Block]:
    """Yield the plot of step times, and the excluded steps.

    Args:
        diagnosis: The diagnosis.
        steps: A list of steps from the container of the page, if it has one.
    """
    if steps is not None and any(map(lt, steps["start_ns"], steps["end_ns"])):
        command = Commands(("warpline stats -r steps",))
        yield Section(
            "Step times", (StepTimes(steps), *excluded_steps(diagnosis), command), "steps"
        )


def skipped_rules(diagnosis: Diagnosis) -> Iterator[Block]:
    """Yield the skipped rules with the reasons."""
    items = tuple((Cell(f"{item.name}: {item.reason}"),) for item in diagnosis.not_judged)
    if items:
        yield Section("Skipped rules", (Items(items),), "skipped")


def warnings(diagnosis: Diagnosis) -> Iterator[Block]:
    """Yield the warnings, each once."""
    if diagnosis.warnings:
        yield Warnings(tuple(dict.fromkeys(diagnosis.warnings)))


def facts_table(title: str, facts: Sequence[tuple[str, str]]) -> Iterator[Block]:
    """Yield facts, given as names and texts, in a section of their own."""
    rows = tuple(Row(tuple(map(Cell, pair))) for pair in facts)
    if rows:
        yield Section(title, (Table(columns=(Column(""), Column("")), rows=rows),))


def unrecorded(items: Sequence[tuple[str, str]]) -> Iterator[Block]:
    """Yield what was not recorded, each with how to record it."""
    if items:
        texts = tuple((Cell(f"{what}: {how}" if how else what),) for what, how in items)
        yield Section("Not recorded", (Items(texts),), "unrecorded")


def environment(facts: Sequence[Sequence[str]]) -> Iterator[Block]:
    """Yield facts about the recording and the machine, given as names and values."""
    rows = tuple(Row(tuple(map(Cell, pair))) for pair in facts)
    table = Table(columns=(Column(""), Column("")), rows=rows, look="environment")
    yield Section("Recording", (table,), "environment")


def excluded_steps(diagnosis: Diagnosis) -> Iterator[Line]:
    """Yield the excluded steps with their reasons; ranks exclude the same steps."""
    steps = [
        *dict.fromkeys(
            (s.label or str(s.index), f"{s.reason}: {s.cause}" if s.cause else s.reason)
            for s in diagnosis.steps.excluded
        )
    ]
    last = [step for step in steps if step[1] == _LAST]
    named = [step for step in steps if len(last) < _MANY_LAST or step not in last]
    every = [f"{label} ({reason})" for label, reason in named[:_NAMED]]
    if len(named) > _NAMED:
        every[-1] += f" and {plural(len(named) - _NAMED, 'more step')}"
    if len(named) < len(steps):
        every.append(f"the last step of each of {plural(len(last), 'recorded period')}")
    if every:
        yield Line(f"Excluded: {', '.join(every)}", is_faint=True)
