"""How a comparison of two jobs is presented: verdict, waterfall, waits, ranks, collectives."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from warpline.presentation.blocks import (
    Block,
    Card,
    Cards,
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
    ShownPart,
    differing_facts,
    environment_items,
    finding_items,
    limits_section,
    shown_parts,
    sides_line,
    signed_ns,
    unit_of,
    waterfall,
    with_heading,
)
from warpline.result.comparison import Fact
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
from warpline.units import format_bytes, format_change, format_ns, format_ratio, plural

_LEFT_OUT = 5
_LEAST_SHARE = 1e-3  # of the step: smaller differences are left to JSON
_LATE = 8
_PAGE_PARTS, _PAGE_ROWS = 30, 40
_DOUBT = "? may be chance, at a false discovery rate of 5% among all differences of a kind."
_FORBIDS, _INFORMATION = "forbids a verdict", "information"  # effects of a fact


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


class ComparedPage(NamedTuple):
    """What a page shows as text: around its bars of parts, its map and its table of ranks.

    Attributes:
        first: Verdict and numbers.
        doubts: What forbids a verdict, and what was left out.
        parts: The bars: where the time of a step changed.
        groups: Waits, collectives, stragglers.
        others: Machines, findings, settings, limits.
    """

    first: tuple[Block, ...]
    doubts: tuple[Block, ...]
    parts: tuple[ShownPart, ...]
    groups: tuple[Block, ...]
    others: tuple[Block, ...]


def on_page(found: FleetComparison) -> ComparedPage:
    """Return what a page shows besides its map and its table of ranks."""
    steps = found.steps
    head = Head(
        title=f"{steps.after.title} compared with {steps.before.title}",
        facts=(found.workers,) if found.workers else (),
        ended="",
        verdict=found.sentence,
        advice="",
    )
    left_out = (
        block
        for name, items in zip(("before", "after"), found.left_out, strict=True)
        for block in _left_out(name, items)
    )
    return ComparedPage(
        first=(head, *sides_line(steps), _cards(found)),
        doubts=(*_forbidding(steps.environment), *left_out),
        parts=tuple(shown_parts(steps, _PAGE_PARTS)),
        groups=(
            *_waits(found),
            *_collectives(found, _PAGE_ROWS),
            *(() if found.waits is None else (Line(_DOUBT, is_faint=True),)),
            *_stragglers(found),
        ),
        others=(
            *_hosts(found, _PAGE_ROWS),
            *finding_items(steps),
            *_settings(steps.environment),
            *limits_section(steps.limits),
        ),
    )


def _cards(found: FleetComparison) -> Cards:
    step, cards = found.steps.step, []
    if step is not None:
        interval = "no interval without a verdict"
        if step.low is not None and step.high is not None:
            ends = (format_change(ratio - 1) for ratio in (step.low, step.high))
            interval = f"95% interval {' to '.join(ends)}"
        unit = unit_of(found.steps)
        cards += [
            Card("Step time", Cell(format_change(step.ratio - 1)), interval),
            Card("Before", Cell(format_ns(step.before_ns)), unit),
            Card("After", Cell(format_ns(step.after_ns)), f"{unit}, {signed_ns(step.delta_ns)}"),
        ]
    if found.waits is not None:
        exposed = found.waits.exposed
        before, after, delta = (cell.text for cell in _time_cells(exposed))
        cards.append(
            Card("Exposed waits for ranks", Cell(delta), f"{before} before, {after} after")
        )
    tolerance = format_ratio(found.steps.tolerance)
    cards.append(Card("Tolerance", Cell(tolerance), "a difference that counts as the same"))
    return Cards(tuple(cards))


def _forbidding(environment: Sequence[Fact]) -> Iterator[Block]:
    own = [fact for fact in environment if fact.effect == _FORBIDS]
    if own:
        texts = (f"{fact.name}: {fact.before} before, {fact.after} after" for fact in own)
        yield Section("What forbids a verdict", (Items(tuple((Cell(text),) for text in texts)),))


def _settings(environment: Sequence[Fact]) -> Iterator[Block]:
    """Yield the facts that differ, as a table."""
    rows = tuple(
        Row(
            (
                Cell(fact.name),
                Cell(fact.before or ""),
                Cell(fact.after or ""),
                Cell("" if fact.effect == _INFORMATION else fact.effect),
            )
        )
        for fact in differing_facts(environment)
    )
    if rows:
        columns = (Column(""), Column("before"), Column("after"), Column("what it means"))
        title = "Machines and settings that differ"
        yield Table(columns=columns, rows=rows, title=title, look="environment")


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
        (0, "waits for other ranks", found.waits.wait),
        (1, "without computing", found.waits.exposed),
        (0, "transfers", found.waits.transfer),
    )
    rows = tuple(Row((Cell(name), *_time_cells(time)), depth) for depth, name, time in named)
    title = "In collectives, per rank and step" if found.steps.before.steps else "In collectives"
    yield Table(columns=_times(""), rows=rows, title=title, look="numbers", is_tree=True)


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


class ShownRanks(NamedTuple):
    """The ranks with the largest differences by themselves.

    Attributes:
        title: What they are, and of how many.
        ranks: At most as many as asked for.
        only: How many ranks are on one side only, in words; may be empty.
    """

    title: str
    ranks: list[RankChange]
    only: str


def shown_ranks(found: FleetComparison, most: int) -> ShownRanks:
    """Return the ranks of both sides whose time by themselves differs, at most so many."""
    both = [item for item in found.ranks if item.change == "both"]
    least = _least_ns(found)
    shown = [item for item in both if abs(item.own.delta_ns) >= least][:most]
    title = "Ranks by themselves, without waits for others"
    if len(shown) < len(both):
        title += f", {len(shown)} of {len(both):,}"
    only = [
        f"{plural(len(own), 'rank')} only {when}"
        for change, when in (("gone", "before"), ("new", "after"))
        if (own := [item for item in found.ranks if item.change == change])
    ]
    return ShownRanks(title, shown, f"{', '.join(only)}." if only else "")


def _ranks(found: FleetComparison, most: int) -> Iterator[Block]:
    shown = shown_ranks(found, most)
    if shown.ranks:
        columns = (*_times("rank", width=8), Column("host", width=10, fit=Fit.SHORTEN))
        rows = tuple(Row(rank_cells(item)) for item in shown.ranks)
        yield Table(columns=columns, rows=rows, title=shown.title, look="numbers")
    if shown.only:
        yield Line(shown.only, is_faint=True)


def rank_cells(item: RankChange) -> tuple[Cell, ...]:
    """Return a rank's number, times before and after, difference, and machines."""
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
        yield Table(columns=columns, rows=tuple(rows), title=title, look="collectives")


def _collective_name(item: CollectiveChange) -> str:
    sides = [side for side in (item.before, item.after) if side is not None]
    ranks = " to ".join(dict.fromkeys(str(side.ranks) for side in sides))
    size = "" if item.bytes is None else f" {format_bytes(item.bytes)}"
    return f"{item.operation}{size}, {ranks} ranks"


def _calls(item: CollectiveChange) -> str:
    texts = ["0" if side is None else f"{side.per_step:.4g}" for side in (item.before, item.after)]
    return texts[0] if texts[0] == texts[1] else f"{texts[0]} to {texts[1]}"
