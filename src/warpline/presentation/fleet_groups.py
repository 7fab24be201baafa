"""How the parallel groups of a job are presented: their kinds, and the stages of its pipeline."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from warpline.presentation.blocks import Cell, Column, Fit, Line, Row, Section, Table
from warpline.result.fleet import Fleet, FleetPipeline, ParallelGroups
from warpline.units import format_ns, format_ratio

_KINDS = {
    "tensor": "tensor-parallel",
    "context": "context-parallel",
    "pipeline": "pipeline",
    "sharded-data": "sharded data (FSDP)",
    "data": "data-parallel",
    "expert": "expert-parallel",
    "all": "joins groups",
    "unclear": "cannot say",
}
_GROUPS = 8
_STAGES = 16
_OPERATIONS = 2
_SHOWN = 4  # ranks of a group


def parallel_sections(found: Fleet) -> Iterator[Section]:
    """Yield the parallel groups, if there are several ranks, and the stages of a pipeline."""
    if found.groups:
        title = f"Parallel groups: {found.layout}" if found.layout else "Parallel groups"
        why = [
            f"Cannot say of which kind {_ranks(item)} are: {item.why}."
            for item in found.groups
            if item.kind == "unclear"
        ]
        shown = [item for item in found.groups if item.kind != "unclear"][:_GROUPS]
        lines = tuple(Line(text, is_faint=True) for text in why[:_OPERATIONS])
        yield Section(title, ((_groups(shown), *lines) if shown else lines))
    if found.pipeline is not None:
        yield Section(_pipeline_title(found.pipeline), (_stages(found.pipeline),))


def _groups(groups: Sequence[ParallelGroups]) -> Table:
    columns = (
        Column("kind", width=19),
        Column("groups", width=6, is_number=True),
        Column("ranks", width=5, is_number=True),
        Column("per step", width=24, fit=Fit.SHORTEN),
        Column("wait", width=8, is_number=True),
        Column("transfer", width=8, is_number=True),
        Column("first", width=16, fit=Fit.SHORTEN),
    )
    return Table(columns=columns, rows=tuple(Row(_cells(item)) for item in groups))


def _cells(item: ParallelGroups) -> tuple[Cell, ...]:
    calls = [f"{number:,.0f} {name}" for name, number in item.calls.items() if number >= 1]
    return (
        Cell(_KINDS[item.kind]),
        Cell(f"{item.groups:,}"),
        Cell(f"{item.ranks:,}"),
        Cell(", ".join(calls[:_OPERATIONS])),
        Cell(format_ns(item.wait_ns)),
        Cell(format_ns(item.transfer_ns) if item.transfer_ns else "-"),
        Cell(_listed(item.first)),
    )


def _ranks(item: ParallelGroups) -> str:
    many = f"{item.groups:,} groups of {item.ranks:,} ranks" if item.groups > 1 else ""
    calls = ", ".join(name for name, _ in list(item.calls.items())[:_OPERATIONS])
    return (many or f"the group of ranks {_listed(item.first)}") + (
        f" with {calls}" if calls else ""
    )


def _listed(names: Sequence[str]) -> str:
    """Return the numbers of ranks: ``0-7``, or ``0, 8, ... 56``."""
    texts = [name.removeprefix("rank ") for name in names]
    if all(text.isdigit() for text in texts):
        numbers = [int(text) for text in texts]
        if len(numbers) > 1 and numbers == list(range(numbers[0], numbers[0] + len(numbers))):
            return f"{numbers[0]}-{numbers[-1]}"
    if len(texts) > _SHOWN:
        return f"{', '.join(texts[: _SHOWN - 2])}, ... {texts[-1]}"
    return ", ".join(texts)


def _pipeline_title(found: FleetPipeline) -> str:
    title = f"Pipeline stages: bubbles take {format_ratio(found.bubble_ratio)}"
    if found.bound_ratio is not None and found.microbatches is not None:
        title += (
            f"; {format_ratio(found.bound_ratio)} with {found.microbatches:,.0f} microbatches and"
            " equal stages"
        )
    return title


def _stages(found: FleetPipeline) -> Table:
    headings = ("ranks", "step", "by itself", "bubble", "share")
    columns = (
        Column("stage", width=5),
        *(Column(heading, width=9, is_number=True) for heading in headings),
        Column("which", width=24, fit=Fit.SHORTEN),
    )
    rows = []
    for stage in found.stages[:_STAGES]:
        share = stage.bubble_ns / stage.step_ns if stage.step_ns else 0.0
        times = (stage.step_ns, stage.own_ns, stage.bubble_ns)
        texts = (
            f"{stage.stage}",
            f"{len(stage.ranks):,}",
            *map(format_ns, times),
            format_ratio(share),
            _listed(stage.ranks),
        )
        rows.append(Row(tuple(map(Cell, texts))))
    return Table(columns=columns, rows=tuple(rows))
