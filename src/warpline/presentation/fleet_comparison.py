"""How a comparison of two jobs is presented: verdict, waterfall, waits, ranks, collectives."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

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
from warpline.presentation.comparison import (
    environment_items,
    finding_items,
    limits_section,
    sides_line,
    signed_ns,
    waterfall,
    with_heading,
)
from warpline.result.fleet import LeftOut
from warpline.result.fleet_comparison import (
    CollectiveChange,
    FleetComparison,
    HostChange,
    LateSide,
    RankChange,
    StragglerChange,
    TimeChange,
)
from warpline.units import format_bytes, format_ns, plural

_LEFT_OUT = 5
_LEAST_SHARE = 1e-3  # of the step: smaller differences are left to JSON
_LATE = 8


def screen(found: FleetComparison) -> Presentation:
    """Return what a terminal shows, in about a screen."""
    return Presentation(tuple(_blocks(found, parts=8, rows=6)), ())


def markdown(found: FleetComparison) -> Presentation:
    """Return what Markdown shows, for a pull request."""
    return Presentation(tuple(map(with_heading, _blocks(found, parts=12, rows=12))), ())


def _blocks(found: FleetComparison, *, parts: int, rows: int) -> Iterator[Block]:
    steps = found.steps
    yield Head(
        title=f"{steps.after.title} compared with {steps.before.title}",
        ended="",
        verdict=found.sentence,
        advice="",
    )
    yield from sides_line(steps)
    if found.workers:
        yield Line(found.workers, is_faint=True)
    for name, items in zip(("before", "after"), found.left_out, strict=True):
        yield from _left_out(name, items)
    yield from waterfall(steps, parts)
    yield from _waits(found)
    yield from _stragglers(found)
    yield from _ranks(found, rows)
    yield from _hosts(found, rows)
    yield from _collectives(found, rows)
    yield from finding_items(steps)
    yield from environment_items(steps.environment)
    yield from limits_section(steps.limits)


def _left_out(name: str, items: Sequence[LeftOut]) -> Iterator[Block]:
    if not items:
        return
    shown = [f"{item.path}: {item.reason}" for item in items[:_LEFT_OUT]]
    if len(items) > len(shown):
        shown.append(f"and {len(items) - len(shown):,} more (all of them: --format json)")
    title = f"Left out {name}: {plural(len(items), 'recording')}"
    yield Section(title, (Items(tuple((Cell(text),) for text in shown)),))


def _times(first: str, *, width: int = 24) -> tuple[Column, ...]:
    return (
        Column(first, width=width, fit=Fit.SHORTEN),
        Column("before", width=9, is_number=True),
        Column("after", width=9, is_number=True),
        Column("difference", short="diff", width=12, is_number=True),
    )


def _time_cells(time: TimeChange) -> tuple[Cell, ...]:
    """Return before, after, and the difference; with a question mark if it may be chance."""
    both = (Cell("-" if ns is None else format_ns(ns)) for ns in (time.before_ns, time.after_ns))
    doubt = " ?" if time.p is not None and not time.is_significant else ""
    return (*both, Cell(f"{signed_ns(time.delta_ns)}{doubt}"))


def _waits(found: FleetComparison) -> Iterator[Block]:
    if found.waits is None:
        return
    named = (
        ("waits for other ranks", found.waits.wait),
        ("  without computing", found.waits.exposed),
        ("transfers", found.waits.transfer),
    )
    rows = tuple(Row((Cell(name), *_time_cells(time))) for name, time in named)
    title = "In collectives, per rank and step" if found.steps.before.steps else "In collectives"
    yield Table(columns=_times(""), rows=rows, title=title, look="numbers")


def _stragglers(found: FleetComparison) -> Iterator[Block]:
    if not found.stragglers:
        return
    shown = found.stragglers[:_LATE]
    more = len(found.stragglers) - len(shown)
    items = [(Cell(_straggler(item)),) for item in shown]
    if more:
        items.append((Cell(f"and {more:,} more (all of them: --format json)"),))
    yield Section("Stragglers", (Items(tuple(items)),))


def _straggler(item: StragglerChange) -> str:
    texts = [_cause(side) for side in (item.before, item.after) if side is not None]
    if len(set(texts)) == 1:
        return f"{item.change}: {item.name}{texts[0]}"
    return f"{item.change}: {item.name}, before{texts[0]}; after{texts[1]}"


def _cause(side: LateSide) -> str:
    host = f" on {side.host}" if side.host else ""
    if side.role == "behind":
        return f"{host}, only behind"
    more = f", {format_ns(side.more_ns)} more per step than its peers" if side.more_ns else ""
    return f"{host}, {side.cause}{more}"


def _least_ns(found: FleetComparison) -> float:
    step = found.steps.step
    return _LEAST_SHARE * max(step.before_ns, step.after_ns) if step is not None else 0.0


def _ranks(found: FleetComparison, most: int) -> Iterator[Block]:
    both = [item for item in found.ranks if item.change == "both"]
    least = _least_ns(found)
    differing = [item for item in both if abs(item.own.delta_ns) >= least]
    rows = tuple(Row(_rank_cells(item)) for item in differing[:most])
    if rows:
        title = "Ranks by themselves, without waits for others"
        if len(rows) < len(both):
            title += f", {len(rows)} of {len(both):,}"
        columns = (*_times("rank", width=8), Column("host", width=10, fit=Fit.SHORTEN))
        yield Table(columns=columns, rows=rows, title=title, look="numbers")
    only = [
        f"{plural(len(own), 'rank')} only {when}"
        for change, when in (("gone", "before"), ("new", "after"))
        if (own := [item for item in found.ranks if item.change == change])
    ]
    if only:
        yield Line(f"{', '.join(only)}.", is_faint=True)


def _rank_cells(item: RankChange) -> tuple[Cell, ...]:
    hosts = [side.host or "-" for side in (item.before, item.after) if side is not None]
    text = " to ".join(dict.fromkeys(hosts))
    return (Cell(item.name.removeprefix("rank ")), *_time_cells(item.own), Cell(text))


def _hosts(found: FleetComparison, most: int) -> Iterator[Block]:
    """Yield the machines with the largest differences, if there are several."""
    if len(found.hosts) < 2:
        return
    least = _least_ns(found)
    shown = [item for item in found.hosts if _differs(item, least)][:most]
    rows = tuple(Row(_host_cells(item)) for item in shown)
    if rows:
        title = "Machines, mean of their ranks by themselves"
        if len(rows) < len(found.hosts):
            title += f", {len(rows)} of {len(found.hosts):,}"
        columns = (*_times("machine", width=12), Column("ranks", width=8, is_number=True))
        yield Table(columns=columns, rows=rows, title=title, look="numbers")


def _differs(item: HostChange, least_ns: float) -> bool:
    return item.change != "both" or abs(item.own.delta_ns) >= least_ns


def _host_cells(item: HostChange) -> tuple[Cell, ...]:
    counts = (item.ranks_before, item.ranks_after)
    ranks = f"{counts[0]}" if counts[0] == counts[1] else f"{counts[0]} to {counts[1]}"
    return (Cell(item.name), *_time_cells(item.own), Cell(ranks))


def _collectives(found: FleetComparison, most: int) -> Iterator[Block]:
    least = _least_ns(found)
    differing = [
        item
        for item in found.collectives
        if abs(item.wait.delta_ns) + abs(item.transfer.delta_ns) >= least
    ]
    rows: list[Row] = []
    for item in differing[:most]:
        name = _collective_name(item)
        calls = _calls(item)
        rows.append(Row((Cell(name), *_time_cells(item.wait), Cell("wait"), Cell(calls))))
        rows.append(Row((Cell(""), *_time_cells(item.transfer), Cell("transfer"), Cell(""))))
    if rows:
        title = "Collectives, per rank and step"
        if len(differing) > most:
            title += f", {most} of {len(differing)}"
        columns = (
            *_times("", width=22),
            Column("", width=8),
            Column("calls", width=10, is_number=True),
        )
        yield Table(columns=columns, rows=tuple(rows), title=title, look="numbers")


def _collective_name(item: CollectiveChange) -> str:
    sides = [side for side in (item.before, item.after) if side is not None]
    ranks = " to ".join(dict.fromkeys(str(side.ranks) for side in sides))
    size = "" if item.bytes is None else f" {format_bytes(item.bytes)}"
    return f"{item.operation}{size}, {ranks} ranks"


def _calls(item: CollectiveChange) -> str:
    texts = ["0" if side is None else f"{side.per_step:.4g}" for side in (item.before, item.after)]
    return texts[0] if texts[0] == texts[1] else f"{texts[0]} to {texts[1]}"
