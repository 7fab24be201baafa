"""The checklist: whole, or how many checks failed and which."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from warpline.presentation.blocks import (
    Block,
    Cell,
    Column,
    Commands,
    Entries,
    Entry,
    Items,
    Line,
    Link,
    Row,
    Section,
    Table,
)
from warpline.result import CHECKS, Check, CheckState, Diagnosis, states_in_words

_RANK: Mapping[CheckState, int] = {"fail": 0, "unknown": 1, "pass": 2}
# Shown in place of an empty checklist.
_NOTHING_CHECKED = Line("The checklist needs GPU work, and none was recorded.")


def failed_checks(diagnosis: Diagnosis) -> Iterator[Block]:
    """Yield the number of checks by state, and the failed ones."""
    if not diagnosis.checks:
        return
    items = tuple((Cell(f"{item.name}: {_with_target(item)}"),) for item in _failed(diagnosis))
    yield Section("Checklist", (Items(items),), summary=states_in_words(diagnosis.checks))


def failed_checks_in_table(diagnosis: Diagnosis) -> Iterator[Block]:
    """Yield the number of checks by state, and a table of the failed ones."""
    if not diagnosis.checks:
        return
    yield Line(f"Checklist: {states_in_words(diagnosis.checks)}")
    columns = tuple(map(Column, ("check", "found", "target")))
    texts = ((item.name, item.found, item.wanted) for item in _failed(diagnosis))
    rows = tuple(Row(tuple(map(Cell, row))) for row in texts)
    if rows:
        yield Table(columns=columns, rows=rows, title="Failed checks")


def checklist_entries(diagnosis: Diagnosis) -> Iterator[Block]:
    """Yield the whole checklist with reasons, as a list."""
    entries = (
        Entry(item.state, item.name, _with_target(item), item.reason) for item in diagnosis.checks
    )
    yield Entries(tuple(entries)) if diagnosis.checks else _NOTHING_CHECKED


def checklist_table(diagnosis: Diagnosis, *, is_required: bool = False) -> Iterator[Block]:
    """Yield the whole checklist as a table; if there is none, a line where it is required."""
    if diagnosis.checks:
        columns = tuple(map(Column, ("state", "check", "found", "target")))
        texts = ((item.state, item.name, item.found, item.wanted) for item in diagnosis.checks)
        rows = tuple(Row(tuple(map(Cell, row))) for row in texts)
        yield Section("Checklist", (Table(columns=columns, rows=rows),))
    elif is_required:
        yield _NOTHING_CHECKED


def checklist_on_page(diagnosis: Diagnosis) -> Iterator[Block]:
    """Yield the whole checklist with reasons, the failed checks first."""
    if not diagnosis.checks:
        return
    rows = (
        Row(
            (
                Cell(item.state, state=item.state),
                Cell(item.name, _details(item)),
                *map(Cell, (item.found, item.wanted, item.reason)),
            )
        )
        for item in sorted(diagnosis.checks, key=lambda item: _RANK[item.state])
    )
    columns = tuple(map(Column, ("", "check", "found", "target", "reason")))
    table = Table(columns=columns, rows=tuple(rows), look="checks")
    yield Section("Checklist", (table, Commands(("warpline stats -r checklist",))), "checklist")


def _details(item: Check) -> Link | None:
    """Return the table with the details of a check."""
    return Link("table", CHECKS.get(item.id).table) if item.id in CHECKS else None


def _with_target(item: Check) -> str:
    return f"{item.found} (target: {item.wanted})"


def _failed(diagnosis: Diagnosis) -> list[Check]:
    return [item for item in diagnosis.checks if item.state == "fail"]
