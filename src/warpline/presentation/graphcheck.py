"""How a graph check is presented: the verdict, its offenders, and how to capture."""

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
from warpline.result.graphcheck import (
    CapturedGraph,
    CaptureSaving,
    GraphCheck,
    Offender,
    RefusedCall,
)
from warpline.result.profile import steps_in_words
from warpline.result.savings import format_bounds
from warpline.units import format_ns, plural

_MEASURABLE = 0.05  # of the step: smaller savings are within run-to-run variation
_LEAST_PLACE = 24


def graphcheck(found: GraphCheck) -> Presentation:
    """Return what a terminal and Markdown show."""
    return Presentation(tuple(_blocks(found)), ())


def _blocks(found: GraphCheck) -> Iterator[Block]:
    yield Head(title=found.title, ended="", verdict=found.sentence, advice=_saving(found))
    if found.steps:
        yield Line(
            f"{plural(found.steps, 'step')} checked, {steps_in_words(found.source)},"
            f" {plural(round(found.launches), 'GPU operation')} per step.",
            is_faint=True,
        )
    if found.refused:
        items = tuple((Cell(_refused_text(item)),) for item in found.refused)
        yield Section("Calls that failed during capture", (Items(items),))
    if found.offenders:
        yield _table(found.offenders)
        yield Section("Why, and how to fix it", (Items(tuple(_fixes(found.offenders))),))
    if found.conditions:
        items = tuple((Cell(_with_places(item.text, item.places)),) for item in found.conditions)
        yield Section("Before capture", (Items(items),))
    if found.how:
        yield Section("How to capture", (Items(tuple((Cell(text),) for text in found.how)),))
    if found.graphs:
        items = tuple((Cell(graph_text(item)),) for item in found.graphs)
        yield Section("CUDA graphs in this recording", (Items(items),))
    if found.unseen:
        items = tuple((Cell(text),) for text in found.unseen)
        yield Section("What this recording does not show", (Items(items),))


def _table(offenders: tuple[Offender, ...]) -> Table:
    columns = (
        Column("Offender", width=12, fit=Fit.SHORTEN),
        Column("per step", width=8, is_number=True),
        Column("steps", width=5, is_number=True),
        Column("where", width=_LEAST_PLACE, fit=Fit.WRAP),
    )
    return Table(columns=columns, rows=tuple(Row(_cells(item)) for item in offenders))


def _cells(item: Offender) -> tuple[Cell, ...]:
    return (
        Cell(item.title),
        Cell(_number(item.per_step)),
        Cell(f"{item.steps}/{item.of_steps}"),
        Cell(place_text(item), is_code=True, full=item.stack),
    )


def _number(value: float) -> str:
    """Return a number per step: two digits, where it is not whole."""
    is_whole = value >= 10 or value == round(value)
    return f"{value:,.0f}" if is_whole else f"{value:.2g}"


def place_text(item: Offender) -> str:
    """Return where an offender is: the line and what it calls, else the functions of CUDA."""
    inside = f" in {item.inside}" if item.inside else ""
    if not item.place:
        return f"{', '.join(item.functions[:2])}{inside}"
    called = item.via or item.functions[0]
    return f"{item.place} -> {called}{inside}"


def _fixes(offenders: tuple[Offender, ...]) -> Iterator[tuple[Cell, ...]]:
    of_kinds = {item.kind: item for item in offenders}
    for item in of_kinds.values():
        title = f"{item.title[:1].upper()}{item.title[1:]}"
        yield (Cell(f"{title}: {item.why} Fix: {item.fix}"),)


def _saving(found: GraphCheck) -> str:
    saving = found.saving
    if saving is None:
        return ""
    ratio = saving.saving_ns.central / max(saving.step_ns.central, 1.0)
    if ratio < _MEASURABLE:
        return "No measurable savings: the GPU hardly waits for launches."
    fixed = "Fixed and captured" if found.offenders else "Captured"
    return (
        f"{fixed}, a step is estimated to take {_time(saving)} instead of"
        f" {format_ns(saving.step_ns.central)} ({ratio * 100:.0f}% saved{_of_fixes(saving)})."
    )


def _time(saving: CaptureSaving) -> str:
    low, central, high = saving.captured_ns
    return f"{format_ns(central)} ({format_bounds(round(low), round(high))})"


def _of_fixes(saving: CaptureSaving) -> str:
    if saving.fixed_ns is None:
        return ""
    return f"; {format_ns(saving.fixed_ns.central)} with the fixes alone"


def graph_text(item: CapturedGraph) -> str:
    """Return what a CUDA graph of the recording runs, compared with eager launches."""
    where = f" at {item.place}" if item.place else ""
    launches = plural(item.launches, "launch", "launches")
    graph = f"Graph of {plural(item.kernels, 'kernel')}, {launches}{where}"
    if item.eager_runs:
        runs = plural(item.eager_runs, "eager run")
        return f"{graph}: the same kernels in the same order as {runs}."
    if item.is_reordered:
        return f"{graph}: the same kernels as an eager run, in another order."
    if item.first_difference is None:
        return f"{graph}: no similar eager launches were recorded to compare with."
    node, eager = item.node_kernel or "nothing", item.eager_kernel or "nothing"
    at = f"node {item.first_difference}"
    return f"{graph}: differs from the eager run at {at}: {node} in place of {eager}."


def _refused_text(item: RefusedCall) -> str:
    where = f" at {item.place}" if item.place else ""
    often = f", {item.count:,} times" if item.count > 1 else ""
    return f"{item.function}{where}: {item.error}{often}."


def _with_places(text: str, places: tuple[str, ...]) -> str:
    return f"{text} ({', '.join(places)})" if places else text
