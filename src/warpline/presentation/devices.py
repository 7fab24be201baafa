"""The breakdown of each GPU's time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from warpline.presentation.blocks import (
    Bar,
    Block,
    Cell,
    Column,
    Commands,
    Fit,
    Line,
    Link,
    Piece,
    Row,
    Section,
    Table,
)
from warpline.presentation.libraries import library_name
from warpline.presentation.step_source import counted_steps
from warpline.result import PART_KINDS, Breakdown, Diagnosis, Part, PartKind, StepSummary
from warpline.result.shares import (
    GROUPS,
    Group,
    counted,
    group_sums,
    own_ns,
    part_shares,
    tenths,
    tenths_of_percent,
)
from warpline.units import format_ns, plural

_LABEL = 20  # characters
_SHORT = {Group.COMMUNICATION: "comm."}  # headings on narrow screens
_LEAST_TENTHS = 1  # on a screen, parts below 0.1% share a line
_LEAST_NS = 1_000  # per step; parts of 0.0% below this have no line at all


def devices_on_screen(diagnosis: Diagnosis, *, most: int) -> Iterator[Block]:
    """Yield the breakdown of each GPU; of more than `most`, a line each and the slowest."""
    every = diagnosis.breakdown
    if len(every) <= most:
        has_spread = len(every) == 1
        yield from (_on_screen(item, diagnosis.steps, has_spread=has_spread) for item in every)
        return
    yield _glance(every)
    yield _on_screen(slowest(diagnosis, by_total=True)[1], diagnosis.steps, has_spread=True)


def devices_on_page(diagnosis: Diagnosis, *, most: int) -> Iterator[Block]:
    """Yield the breakdown of the slowest GPU, and the bars of the others."""
    if not diagnosis.breakdown:
        return
    place, longest = slowest(diagnosis)
    others = [item for row, item in enumerate(diagnosis.breakdown) if row != place]
    blocks: list[Block] = [_device(longest, device_title(longest, diagnosis.steps))]
    for item in others[: most - 1]:
        title = device_title(item, diagnosis.steps)
        blocks.append(Section(title, (_bar(item, title),), "device"))
    hidden = len(others) - (most - 1)
    if hidden > 0:
        more = f"and {plural(hidden, 'more GPU')}, see the table breakdown"
        blocks.append(Line(more, is_faint=True))
    blocks.append(Commands(("warpline stats -r breakdown",)))
    per = "one step" if longest.count else "the recording"
    yield Section(f"Time breakdown of {per}", tuple(blocks), "breakdown")


def devices_in_markdown(diagnosis: Diagnosis) -> Iterator[Block]:
    """Yield the table of each GPU's parts; without steps, its shares are of the whole recording."""
    for item in diagnosis.breakdown:
        time = f"{format_ns(item.total_ns)} analyzed"
        if item.count:
            time = _mean(item, diagnosis.steps)
        table = _flat_table(item, item.parts, item.total_ns)
        yield Section(f"{device_label(item)}: {time}", (table,))


def devices_in_notebook(diagnosis: Diagnosis, *, most: int) -> Iterator[Block]:
    """Yield the table of each GPU's parts, for up to `most` of them."""
    for item in diagnosis.breakdown[:most]:
        parts = counted(item)[0]
        total_ns = sum(part.ns for part in parts)
        time = f"{format_ns(total_ns)} in all"
        if item.count:
            time = _mean(item, diagnosis.steps, total_ns)
        yield _flat_table(item, parts, total_ns, f"{device_label(item)}: {time}")
    hidden = len(diagnosis.breakdown) - most
    if hidden > 0:
        yield Line(f"{hidden} more GPUs: see .breakdown")


def device_label(item: Breakdown) -> str:
    """Return the name of a GPU, with its rank and process where known."""
    name = f" {item.device_name}" if item.device_name else ""
    process = "" if item.process is None else f", process {item.process}"
    rank = "" if item.rank is None else f", rank {item.rank}"
    return f"GPU {item.device}{name}{rank}{process}"


def device_title(item: Breakdown, steps: StepSummary) -> str:
    """Return the name of a GPU with the time of its steps, or from first to last operation."""
    if not item.count:
        worked_ns = sum(part.ns for part in counted(item)[0])
        return f"{device_label(item)}: {format_ns(worked_ns)} from first to last GPU operation"
    if item.count == 1:
        step = counted_steps(1, steps)
        return f"{device_label(item)}: {step} of {format_ns(item.total_ns)}"
    return f"{device_label(item)}: {_mean(item, steps)}"


def slowest(diagnosis: Diagnosis, *, by_total: bool = False) -> tuple[int, Breakdown]:
    """Return the index of the device with the longest steps, and its breakdown.

    Waits for other ranks do not count: a device that waits is not slow.

    Args:
        diagnosis: With a breakdown.
        by_total: Whether time before the first and after the last operation counts.
    """
    breakdown = diagnosis.breakdown

    def step_ns(place: int) -> float:
        item = breakdown[place]
        ns = item.total_ns if by_total else sum(part.ns for part in counted(item)[0])
        return own_ns(ns, place, diagnosis.overlaps) / max(item.count, 1)

    place = max(range(len(breakdown)), key=step_ns)
    return place, breakdown[place]


def _on_screen(item: Breakdown, steps: StepSummary, *, has_spread: bool) -> Section:
    spread = _spread(item, steps) if has_spread else ""
    return _device(item, device_title(item, steps) + spread, least_tenths=_LEAST_TENTHS)


def _device(item: Breakdown, title: str, *, least_tenths: int = 0) -> Section:
    """Return the bar of a GPU's time, the table of its parts, and remarks."""
    parts, aside_ns = counted(item)
    total_ns = sum(part.ns for part in parts)
    shares = part_shares(parts, total_ns)
    blocks: list[Block] = [_bar(item, title), _part_table(item, parts, shares, least_tenths)]
    if item.origins:
        blocks.append(Line(f"Busy time by library: {_origins(item, total_ns)}"))
    if aside_ns:
        where = "before the first and after the last operation"
        text = f"Excluded from shares: {format_ns(aside_ns)} {where}"
        blocks.append(Line(text, is_faint=True))
    return Section(title, tuple(blocks), "device")


def _bar(item: Breakdown, title: str) -> Bar:
    parts = counted(item)[0]
    shares = part_shares(parts, sum(part.ns for part in parts))
    pieces = (
        Piece(part, share, _link(item, part)) for part, share in zip(parts, shares, strict=True)
    )
    return Bar(title, tuple(pieces))


def _link(item: Breakdown, part: Part) -> Link:
    return Link("part", f"{item.device}/{part.category}")


def _part_table(
    item: Breakdown, parts: Sequence[Part], shares: Sequence[int], least_tenths: int
) -> Table:
    rows: list[Row] = []
    for kind in PART_KINDS:
        chosen = [
            (part, share) for part, share in zip(parts, shares, strict=True) if part.kind == kind
        ]
        if chosen:
            rows += _rows_of_kind(item, kind, chosen, least_tenths)
    columns = (
        Column("", width=_LABEL),
        Column(_per(item), width=9, is_number=True),
        Column("share", width=7, is_number=True),
        Column("", width=15, fit=Fit.WRAP),
    )
    return Table(columns=columns, rows=tuple(rows), look="parts")


def _rows_of_kind(
    item: Breakdown, kind: PartKind, chosen: Sequence[tuple[Part, int]], least_tenths: int
) -> Iterator[Row]:
    """Yield total busy or idle time and its parts; parts with smaller shares have one row."""
    total = Part(kind, kind, sum(part.ns for part, _ in chosen))
    share_of_all = sum(share for _, share in chosen)
    yield Row(_part_cells(item, total, share_of_all, None), is_sum=True)
    if least_tenths:
        chosen = [pair for pair in chosen if not _is_nothing(item, *pair)]
    small = [pair for pair in chosen if pair[1] < least_tenths]
    few = small if len(small) > 1 else []
    for part, share in chosen:
        if (part, share) not in few:
            yield Row(_part_cells(item, part, share, _link(item, part)), part=part)
    if few:
        names = ", ".join(part.category for part, _ in few)
        rest = Part(f"{len(few)} others", kind, sum(part.ns for part, _ in few), names)
        yield Row(_part_cells(item, rest, sum(share for _, share in few), None), part=rest)


def _is_nothing(item: Breakdown, part: Part, share: int) -> bool:
    """Return whether a part is 0.0% and shorter than clocks of GPUs resolve."""
    return not share and part.ns < _LEAST_NS * max(item.count, 1)


def _part_cells(item: Breakdown, part: Part, share: int, link: Link | None) -> tuple[Cell, ...]:
    ns = part.ns / max(item.count, 1)
    return (Cell(part.category, link), *map(Cell, (format_ns(ns), tenths(share), part.meaning)))


def _flat_table(item: Breakdown, parts: Sequence[Part], total_ns: int, title: str = "") -> Table:
    per = max(item.count, 1)
    rows = (
        (part.category, part.kind, format_ns(part.ns / per), tenths(share), part.meaning)
        for part, share in zip(parts, part_shares(parts, total_ns), strict=True)
    )
    columns = (
        Column("part"),
        Column("kind"),
        Column(_per(item), is_number=True),
        Column("share", is_number=True),
        Column("meaning"),
    )
    return Table(
        columns=columns, rows=tuple(Row(tuple(map(Cell, row))) for row in rows), title=title
    )


def _glance(every: Sequence[Breakdown]) -> Table:
    """Return a row for each GPU, with the share of each group of parts."""
    columns = (
        Column("GPUs", fit=Fit.SHORTEN),
        Column("step", width=9, is_number=True),
        *(Column(name, _SHORT.get(name, ""), width=7, is_number=True) for name in GROUPS),
    )
    rows = []
    for item in every:
        parts, _ = counted(item)
        total_ns = sum(part.ns for part in parts)
        shares = tenths_of_percent(group_sums(parts), total_ns)
        cells = (format_ns(total_ns / max(item.count, 1)), *map(tenths, shares))
        rows.append(Row(tuple(map(Cell, (device_label(item), *cells)))))
    return Table(columns=columns, rows=tuple(rows))


def _per(item: Breakdown) -> str:
    return "per step" if item.count else "time"


def _mean(item: Breakdown, steps: StepSummary, total_ns: int | None = None) -> str:
    whole_ns = item.total_ns if total_ns is None else total_ns
    return f"{counted_steps(item.count, steps)}, mean {format_ns(whole_ns / item.count)}"


def _spread(item: Breakdown, steps: StepSummary) -> str:
    if item.count < 2 or steps.median_ns is None or steps.p95_ns is None:
        return ""
    return f" (median {format_ns(steps.median_ns)}, p95 {format_ns(steps.p95_ns)})"


def _origins(item: Breakdown, total_ns: int) -> str:
    """Return the libraries that kept the GPU busy, with shares of the time; below 0.1% omitted."""
    shares = {name: round(1000 * ns / total_ns) for name, ns in item.origins.items()}
    listed = [f"{library_name(name)} {tenths(share)}" for name, share in shares.items() if share]
    return ", ".join(listed) or library_name(next(iter(item.origins)))
