"""The time of a training step by phase: forward, backward, optimizer, data, other."""

from __future__ import annotations

from collections.abc import Iterator

from warpline.presentation.blocks import Block, Cell, Column, Commands, Fit, Row, Section, Table
from warpline.presentation.phases import idle_share, largest_part, step_count
from warpline.result import Diagnosis, TrainingPhase
from warpline.result.shares import tenths, tenths_of_percent
from warpline.units import format_ns

_TITLE = "Training step"
_LABEL = 20  # characters
_LARGEST = 21  # characters of the largest part


def training_on_screen(diagnosis: Diagnosis) -> Iterator[Block]:
    """Yield a line for each phase of training, without the phases that take no time."""
    shown = _shown(diagnosis)
    if not shown:
        return
    columns = (
        Column("", width=_LABEL, fit=Fit.SHORTEN),
        Column(_per(diagnosis), width=9, is_number=True),
        Column("share", width=7, is_number=True),
        Column("idle", width=7, is_number=True),
        Column("largest part", width=_LARGEST, fit=Fit.DROP),
    )
    yield Table(columns=columns, rows=_rows(diagnosis, shown, has_meaning=False), title=_TITLE)


def training(diagnosis: Diagnosis) -> Iterator[Block]:
    """Yield a section with each phase of training and what belongs to it."""
    shown = _shown(diagnosis)
    if not shown:
        return
    numbers = (Column(head, is_number=True) for head in (_per(diagnosis), "share", "idle"))
    columns = (Column("phase"), *numbers, Column("largest part"), Column("meaning"))
    table = Table(columns=columns, rows=_rows(diagnosis, shown, has_meaning=True), look="numbers")
    yield Section(_TITLE, (table, Commands(("warpline stats -r step_phases",))), "training")


def _rows(
    diagnosis: Diagnosis, shown: list[TrainingPhase], *, has_meaning: bool
) -> tuple[Row, ...]:
    per, whole_ns = step_count(diagnosis), sum(item.total_ns for item in shown)
    shares = tenths_of_percent([item.total_ns for item in shown], whole_ns)
    rows = []
    for item, share in zip(shown, shares, strict=True):
        time = format_ns(item.total_ns / per)
        texts = [item.name, time, tenths(share), idle_share(item), largest_part(item)]
        texts += [item.meaning] if has_meaning else []
        rows.append(Row(tuple(map(Cell, texts))))
    return tuple(rows)


def _shown(diagnosis: Diagnosis) -> list[TrainingPhase]:
    return [item for item in diagnosis.training if item.total_ns]


def _per(diagnosis: Diagnosis) -> str:
    return "per step" if any(item.count for item in diagnosis.breakdown) else "time"
