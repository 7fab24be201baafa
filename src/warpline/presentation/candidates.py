"""The kernels to profile with Nsight Compute."""

from __future__ import annotations

from collections.abc import Iterator

from warpline.presentation.blocks import (
    Block,
    Cell,
    Column,
    Commands,
    Fit,
    Items,
    Row,
    Section,
    Table,
)
from warpline.presentation.kernel_names import short_names
from warpline.result import CounterCandidate, Diagnosis
from warpline.units import plural

_TITLE = "Kernels to profile with Nsight Compute"


def candidates_in_short(diagnosis: Diagnosis, *, most: int) -> Iterator[Block]:
    """Yield the first kernels with shortened names, and the command for the first one."""
    shown = diagnosis.counter_candidates[:most]
    if not shown:
        return
    names = _short_names(diagnosis)
    columns = (
        Column("", width=6, is_number=True),
        Column("", width=16, is_number=True),
        Column("", fit=Fit.CUT),
    )
    texts = ((_share(x), plural(x.instances, "instance"), names[x.name]) for x in shown)
    rows = tuple(Row(tuple(map(Cell, row))) for row in texts)
    command = Commands((shown[0].command,), "First", takes_recordings=False)
    yield Section(_TITLE, (Table(columns=columns, rows=rows), command))


def candidates_table(diagnosis: Diagnosis) -> Iterator[Block]:
    """Yield all kernels, each with its command."""
    names = _short_names(diagnosis)
    numbers = (Column("share", is_number=True), Column("instances", is_number=True))
    rows = tuple(
        Row(
            (
                Cell(_share(item)),
                Cell(f"{item.instances:,}"),
                Cell(names[item.name], is_code=True, full=item.name),
                Cell(item.command, is_code=True),
            )
        )
        for item in diagnosis.counter_candidates
    )
    if rows:
        columns = (*numbers, Column("kernel"), Column("command"))
        yield Section(_TITLE, (Table(columns=columns, rows=rows),))


def candidates_on_page(diagnosis: Diagnosis, *, most: int) -> Iterator[Block]:
    """Yield the first kernels, each with its command, as a list."""
    names = _short_names(diagnosis)
    items = tuple(
        (
            Cell(names[item.name], is_code=True, full=item.name),
            Cell(f": {_share(item)} of the time, {plural(item.instances, 'instance')}. "),
            Cell(item.command, is_code=True),
        )
        for item in diagnosis.counter_candidates[:most]
    )
    if items:
        yield Section(_TITLE, (Items(items, is_ordered=True),), "candidates")


def _short_names(diagnosis: Diagnosis) -> dict[str, str]:
    return short_names(item.name for item in diagnosis.counter_candidates)


def _share(item: CounterCandidate) -> str:
    return f"{item.share * 100:.1f}%"
