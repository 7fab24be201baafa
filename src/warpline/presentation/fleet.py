"""How the answer about all ranks of a job is presented, on one screen."""

from __future__ import annotations

from collections.abc import Iterator
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
from warpline.presentation.fleet_groups import parallel_sections
from warpline.result.fleet import Fleet, FleetCollective, FleetFinding, FleetRank
from warpline.units import format_bytes, format_ns, format_ratio, plural

_PARTS = 10
_RANKS = 8
_HOSTS = 16
_COLLECTIVES = 5
_LEFT_OUT = 10
_PLACES = 12
_LEAST_SHARE = 0.001  # of the time: smaller parts are in the JSON only


def fleet(found: Fleet) -> Presentation:
    """Return what a terminal and Markdown show."""
    return Presentation(tuple(_blocks(found)), ())


class PageBlocks(NamedTuple):
    """What a page shows as text: before its maps, and after them."""

    before: tuple[Block, ...]
    after: tuple[Block, ...]


def on_page(found: Fleet) -> PageBlocks:
    """Return what a page shows besides its findings, its maps and its table of ranks."""
    after: list[Block] = []
    if found.dumps:
        after.append(_whereabouts(found))
    if _has_hosts(found):
        after.append(_hosts(found))
    after.append(Section("Time of all ranks", (_parts(found),)))
    after += parallel_sections(found)
    if found.collectives:
        after.append(Section("Collectives", (_collectives(found),)))
    if found.left_out:
        after.append(
            Section(f"Left out: {plural(len(found.left_out), 'recording')}", (_left_out(found),))
        )
    if found.notes:
        after.append(Section("Notes", (Items(tuple((Cell(note),) for note in found.notes)),)))
    facts = (found.workers,) if found.workers else ()
    head = Head(title=found.title, facts=facts, ended="", verdict=found.verdict, advice="")
    return PageBlocks((head, _cards(found)), tuple(after))


def ranks_by_waits(found: Fleet) -> list[FleetRank]:
    """Return the ranks, those that others wait for most first."""
    return sorted(found.ranks, key=lambda rank: (-rank.caused_ns, -rank.own_ns))


def _cards(found: Fleet) -> Cards:
    total = max(found.total_ns, 1)
    busy = sum(part.ns for part in found.breakdown if part.kind == "busy") / total
    hosts = f"on {plural(found.hosts, 'machine')}" if found.hosts else ""
    steps = plural(found.steps, "step") if found.steps else "whole recordings"
    cards = [
        Card("Ranks", Cell(f"{len(found.ranks):,}"), hosts),
        Card("Mean step", Cell(format_ns(found.step_ns)), steps),
        Card("GPUs busy", Cell(format_ratio(busy)), "with collectives and waits in them"),
    ]
    if found.grid is not None:
        exposed = float(found.grid.exposed_ns.sum())
        note = "of the time, without computing"
        cards.append(Card("Waiting for ranks", Cell(format_ratio(exposed / total)), note))
    saving = next((item.saving_ns for item in found.findings if item.saving_ns), None)
    if saving is not None and saving.high > 0:
        low, central, high = map(format_ns, saving)
        cards.append(Card("Largest saving", Cell(central), f"per step, {low} to {high}"))
    return Cards(tuple(cards))


def _by_host(found: Fleet) -> dict[str, list[FleetRank]]:
    hosts: dict[str, list[FleetRank]] = {}
    for rank in found.ranks:
        hosts.setdefault(rank.host or "", []).append(rank)
    return hosts


def _has_hosts(found: Fleet) -> bool:
    return found.hosts is not None and found.hosts > 1


def _hosts(found: Fleet) -> Section:
    names = ("step", "by itself", "exposed wait", "others wait", "slowest rank", "by itself")
    columns = (
        Column("machine"),
        Column("ranks", is_number=True),
        *(Column(name, is_number=True) for name in names),
    )
    rows = []
    for host, ranks in _by_host(found).items():
        slowest = max(ranks, key=lambda rank: rank.own_ns)
        count, caused_ns = len(ranks), sum(rank.caused_ns for rank in ranks)
        times = (
            sum(rank.step_ns for rank in ranks) / count,
            sum(rank.own_ns for rank in ranks) / count,
            sum(rank.exposed_wait_ns for rank in ranks) / count,
            caused_ns,
        )
        last = (slowest.name.removeprefix("rank "), format_ns(slowest.own_ns))
        cells = (host, f"{count}", *map(format_ns, times), *last)
        rows.append((caused_ns, Row(tuple(map(Cell, cells)))))
    rows.sort(key=lambda item: -item[0])
    chosen = tuple(row for _, row in rows[:_HOSTS])
    title = "Machines that others wait for most"
    if len(chosen) < len(rows):
        title += f", {len(chosen)} of {len(rows):,}"
    return Section(title, (Table(columns=columns, rows=chosen),))


def _blocks(found: Fleet) -> Iterator[Block]:
    yield Head(title=found.title, ended="", verdict=found.verdict, advice="")
    if found.workers:
        yield Line(found.workers, is_faint=True)
    for item in found.findings:
        yield Section(f"{item.id} {item.severity}: {item.title}", tuple(_finding(item)))
    if found.left_out:
        yield Section(f"Left out: {plural(len(found.left_out), 'recording')}", (_left_out(found),))
    if found.dumps:
        yield _whereabouts(found)
    if found.ranks:
        yield Section("Time of all ranks", (_parts(found),))
        yield Section(_ranks_title(found), (_ranks(found),))
    yield from parallel_sections(found)
    if found.collectives:
        yield Section("Collectives", (_collectives(found),))
    if found.notes:
        yield Section("Notes", (Items(tuple((Cell(note),) for note in found.notes)),))


def _finding(item: FleetFinding) -> Iterator[Block]:
    yield Line(item.claim)
    yield Line(f"Fix: {item.fix}")
    if item.saving_ns is not None and item.step_ns is not None and item.saving_ns.high > 0:
        low, central, high = map(format_ns, item.saving_ns)
        yield Line(
            f"Estimated saving: {central} per step ({low} to {high}); the step would take"
            f" {format_ns(item.step_ns.central)}."
        )


def _left_out(found: Fleet) -> Items:
    shown = [f"{item.path}: {item.reason}" for item in found.left_out[:_LEFT_OUT]]
    more = len(found.left_out) - len(shown)
    if more:
        shown.append(f"and {more:,} more (all of them: --format json)")
    return Items(tuple((Cell(text),) for text in shown))


def _whereabouts(found: Fleet) -> Section:
    """Return where the flight recorders end: ranks by the call that they wait in, or made last."""
    sides: dict[tuple[str, ...], list[int]] = {}
    for dump in found.dumps:
        call = dump.waits_in or dump.last_call
        cells = ("no calls", "", "", "")
        if call is not None:
            described = f" {call.group_description}" if call.group_description else ""
            name = f"{call.operation} {call.number}"
            cells = (name, f"{call.group}{described}", call.state, call.called_from or "-")
        sides.setdefault(cells, []).append(dump.rank)
    # Few ranks that are elsewhere matter more than the many that wait for them.
    order = sorted(sides.items(), key=lambda side: (len(side[1]), side[1]))
    columns = (
        Column("ranks", width=12, fit=Fit.SHORTEN),
        Column("call", width=18, fit=Fit.SHORTEN),
        Column("group", width=14, fit=Fit.SHORTEN),
        Column("state", width=9),
        Column("called from", width=22, fit=Fit.SHORTEN),
    )
    rows = [Row((Cell(_numbers(ranks)), *map(Cell, cells))) for cells, ranks in order[:_PLACES]]
    title = "Where each rank waits, or its last call"
    if len(order) > len(rows):
        title += f", {len(rows)} of {len(order):,}"
    return Section(title, (Table(columns=columns, rows=tuple(rows)),))


def _numbers(ranks: list[int]) -> str:
    """Return ascending numbers as ranges: ``0-2, 4``."""
    opens = [at for at, rank in enumerate(ranks) if at == 0 or ranks[at - 1] != rank - 1]
    runs = [ranks[low:high] for low, high in zip(opens, [*opens[1:], len(ranks)], strict=True)]
    return ", ".join(f"{run[0]}-{run[-1]}" if len(run) > 1 else f"{run[0]}" for run in runs)


def _parts(found: Fleet) -> Table:
    count = max(sum(rank.steps for rank in found.ranks), len(found.ranks), 1)
    parts = [part for part in found.breakdown if part.share >= _LEAST_SHARE]
    rows = []
    for kind in ("busy", "idle"):
        own = [part for part in parts if part.kind == kind]
        every = sum(part.ns for part in found.breakdown if part.kind == kind)
        share = every / found.total_ns if found.total_ns else 0.0
        cells = (Cell(kind), Cell(format_ns(every / count)), Cell(format_ratio(share)))
        rows.append(Row(cells, is_sum=True))
        rows += [
            Row(
                (
                    Cell(f"  {part.category}"),
                    Cell(format_ns(part.ns / count)),
                    Cell(format_ratio(part.share)),
                )
            )
            for part in own[:_PARTS]
        ]
    per = "per step" if found.steps else "per rank"
    columns = (
        Column("", width=24),
        Column(per, width=10, is_number=True),
        Column("share", width=7, is_number=True),
    )
    return Table(columns=columns, rows=tuple(rows))


def _ranks_title(found: Fleet) -> str:
    if len(found.ranks) <= _RANKS:
        return "Ranks"
    return f"Ranks that others wait for most, {_RANKS} of {len(found.ranks):,}"


def _ranks(found: Fleet) -> Table:
    chosen = list(found.ranks)
    if len(chosen) > _RANKS:
        chosen = ranks_by_waits(found)[:_RANKS]
    columns = (
        Column("rank", width=8, fit=Fit.SHORTEN),
        Column("host", width=8, fit=Fit.SHORTEN),
        *(
            Column(heading, width=9, is_number=True)
            for heading in ("GPU", "step", "by itself", "waits", "last", "clock")
        ),
    )
    return Table(columns=columns, rows=tuple(Row(_rank_cells(rank)) for rank in chosen))


def _rank_cells(rank: FleetRank) -> tuple[Cell, ...]:
    offset = rank.clock_offset_ns
    clock = "-" if offset is None else f"{'-' if offset < 0 else '+'}{format_ns(abs(offset))}"
    return (
        Cell(rank.name.removeprefix("rank ")),
        Cell(rank.host or "-"),
        Cell(str(rank.device)),
        Cell(format_ns(rank.step_ns)),
        Cell(format_ns(rank.own_ns)),
        Cell(format_ns(rank.wait_ns)),
        Cell(format_ratio(rank.last_ratio)),
        Cell(clock),
    )


def _collectives(found: Fleet) -> Table:
    headings = ("ranks", "size", "count", "wait", "transfer", "bus GB/s", "of link")
    rows = found.collectives[:_COLLECTIVES]
    columns = (
        Column("operation", width=12, fit=Fit.SHORTEN),
        *(Column(heading, width=8, is_number=True) for heading in headings),
        *((Column("algorithm", width=9),) if any(item.algorithm for item in rows) else ()),
    )
    shown = tuple(Row(_collective_cells(item)[: len(columns)]) for item in rows)
    return Table(columns=columns, rows=shown)


def _collective_cells(item: FleetCollective) -> tuple[Cell, ...]:
    rate, link = item.bus_bytes_per_s, item.link_bytes_per_s
    groups = f" x {item.communicators}" if item.communicators > 1 else ""
    return (
        Cell(item.operation),
        Cell(f"{item.ranks}{groups}"),
        Cell("-" if item.bytes is None else format_bytes(item.bytes)),
        Cell(f"{item.count:,}"),
        Cell(format_ns(item.wait_ns)),
        Cell(format_ns(item.transfer_ns)),
        Cell("-" if rate is None else f"{rate / 1e9:,.1f}"),
        Cell("-" if rate is None or not link else format_ratio(rate / link)),
        Cell(item.algorithm or "-"),
    )
