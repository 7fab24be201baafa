"""How a comparison is presented: verdict, waterfall, work, ranges, findings, environment."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

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
    Waterfall,
    WaterfallRow,
)
from warpline.presentation.kernel_names import short_names
from warpline.result.comparison import Comparison, Fact, ItemChange, PartChange, Side
from warpline.result.profile import steps_in_words
from warpline.units import format_bytes, format_ns, plural

_WHOLE = 1000
_LEAST_SHARE = 1e-3  # of the step: smaller differences are left to JSON
_OTHERS = "all others"
_WORK = (
    ("Kernels", ("kernel", "graph")),
    ("Collectives", ("collective",)),
    ("Copies", ("copy", "memset")),
    ("CUDA API calls", ("call",)),
    ("CPU time of ranges", ("range",)),
)


def screen(comparison: Comparison) -> Presentation:
    """Return what a terminal shows, in about a screen."""
    return _presentation(comparison, parts=8, items=6, phases=6)


def markdown(comparison: Comparison) -> Presentation:
    """Return what Markdown shows, for a pull request."""
    shown = _presentation(comparison, parts=12, items=10, phases=10, has_warnings=True)
    return shown._replace(blocks=tuple(map(with_heading, shown.blocks)))


def notebook(comparison: Comparison) -> Presentation:
    """Return what a notebook shows."""
    return _presentation(comparison, parts=12, items=10, phases=10, has_warnings=True)


def page(comparison: Comparison) -> Presentation:
    """Return what a page shows; the first two blocks are the verdict and the sides."""
    return _presentation(comparison, parts=30, items=40, phases=40, has_warnings=True)


def _presentation(
    comparison: Comparison, *, parts: int, items: int, phases: int, has_warnings: bool = False
) -> Presentation:
    blocks = (
        Head(
            title=f"{comparison.after.title} compared with {comparison.before.title}",
            ended="",
            verdict=comparison.sentence,
            advice="",
            warnings=comparison.warnings if has_warnings else (),
        ),
        *sides_line(comparison),
        *waterfall(comparison, parts),
        *_work(comparison, items),
        *_phases(comparison, phases),
        *_memory(comparison),
        *finding_items(comparison),
        *environment_items(comparison.environment),
        *limits_section(comparison.limits),
    )
    return Presentation(blocks, (*comparison.before.paths, *comparison.after.paths))


def with_heading(block: Block) -> Block:
    """Return a table with a title as a section: Markdown has no titles of tables."""
    if not isinstance(block, Table) or not block.title:
        return block
    return Section(block.title, (replace(block, title=""),))


def sides_line(comparison: Comparison) -> Iterator[Block]:
    """Yield what the sides are: steps, runs, ranks."""
    yield Line(
        f"Before: {_side(comparison.before)}. After: {_side(comparison.after)}.", is_faint=True
    )


def _side(side: Side) -> str:
    said = (
        f"{plural(side.steps, 'step')} ({steps_in_words(side.source)})"
        if side.steps
        else "no steps"
    )
    if side.runs > 1:
        said += f" of {plural(side.runs, 'run')}"
    return f"{said}, {plural(side.ranks, 'rank')}" if side.ranks > 1 else said


class ShownPart(NamedTuple):
    """A part of the mean step, or the sum of the small ones, as all media show it.

    Attributes:
        label: Its name.
        before_ns: Time per step.
        after_ns: The same after.
        meaning: What it is, in a few words; empty for a sum.
    """

    label: str
    before_ns: int
    after_ns: int
    meaning: str


def shown_parts(comparison: Comparison, most: int) -> list[ShownPart]:
    """Return the parts with the largest differences, and the sum of the others: the whole step."""
    step, parts = comparison.step, comparison.parts
    if step is None or not parts:
        return []
    least = _LEAST_SHARE * max(step.before_ns, step.after_ns)
    shown = [part for part in parts if abs(part.delta_ns) >= least][:most]
    rest = [part for part in parts if part not in shown]
    found = [ShownPart(_name(part), part.before_ns, part.after_ns, part.meaning) for part in shown]
    if any(part.delta_ns for part in rest) or (rest and not shown):
        sums = (sum(part.before_ns for part in rest), sum(part.after_ns for part in rest))
        found.append(ShownPart(_OTHERS, *sums, ""))
    return found


def waterfall(comparison: Comparison, most: int) -> Iterator[Block]:
    """Yield the parts of the difference of the mean step, the largest ones."""
    step, steps = comparison.step, shown_parts(comparison, most)
    if step is None or not steps:
        return
    top, at = max(step.before_ns, step.after_ns), step.before_ns
    for _, old, new, _ in steps:
        at += new - old
        top = max(top, at)

    def place(ns: int) -> int:
        return min(max(ns, 0) * _WHOLE // max(top, 1), _WHOLE)

    rows = [WaterfallRow("before", format_ns(step.before_ns), "", "", 0, place(step.before_ns), 0)]
    at = step.before_ns
    for name, old, new, meaning in steps:
        ends = sorted((at, at + new - old))
        direction = 1 if new > old else -1
        texts = format_ns(old), format_ns(new), signed_ns(new - old)
        rows.append(WaterfallRow(name, *texts, place(ends[0]), place(ends[1]), direction, meaning))
        at += new - old
    whole = signed_ns(step.delta_ns)
    rows.append(
        WaterfallRow("after", "", format_ns(step.after_ns), whole, 0, place(step.after_ns), 0)
    )
    yield Waterfall(tuple(rows), unit_of(comparison))


def unit_of(comparison: Comparison) -> str:
    """Return what times are of, in words."""
    return "per step" if comparison.before.steps else "in all"


def _name(part: PartChange) -> str:
    return f"{part.category} (idle)" if part.kind == "idle" else part.category


def signed_ns(ns: float) -> str:
    """Format a difference in time with its sign."""
    return f"{'+' if ns >= 0 else '-'}{format_ns(abs(round(ns)))}"


def _work(comparison: Comparison, most: int) -> Iterator[Block]:
    step = comparison.step
    if step is None:
        return
    least = _LEAST_SHARE * max(step.before_ns, step.after_ns)
    for title, kinds in _WORK:
        every = [item for item in comparison.items if item.kind in kinds]
        differing = [
            item for item in every if item.change != "same" and abs(item.delta_ns) >= least
        ]
        shown = differing[:most]
        if shown:
            yield _work_table(title, shown, len(differing))


def _work_table(title: str, items: Sequence[ItemChange], count: int) -> Table:
    calls = [_calls(item) for item in items]
    names = _short_names(items)
    columns = (
        Column("change", width=8),
        Column("before", width=8, is_number=True),
        Column("after", width=8, is_number=True),
        Column("difference", short="diff", width=10, is_number=True),
        Column("calls", width=max(12, *map(len, calls)), is_number=True),
        Column("name", width=20, fit=Fit.CUT),
    )
    rows = tuple(
        Row(
            (
                Cell(item.change + ("" if item.is_significant or item.p is None else " ?")),
                Cell(format_ns(round(item.before.ns)) if item.before else "-"),
                Cell(format_ns(round(item.after.ns)) if item.after else "-"),
                Cell(signed_ns(item.delta_ns)),
                Cell(count_text),
                Cell(_item_name(item, names), is_code=True),
            )
        )
        for item, count_text in zip(items, calls, strict=True)
    )
    more = f", {len(items)} of {count}" if count > len(items) else ""
    return Table(columns=columns, rows=rows, title=title + more, look="numbers")


def _calls(item: ItemChange) -> str:
    counts = [_count(side.count) if side else "0" for side in (item.before, item.after)]
    return counts[0] if counts[0] == counts[1] else f"{counts[0]} to {counts[1]}"


def _count(count: float) -> str:
    return f"{count:.4g}" if count < 1000 else f"{count:.0f}"


def _short_names(items: Sequence[ItemChange]) -> dict[str, str]:
    """Return the short name of each kernel of both sides."""
    kernels = [item for item in items if item.kind in {"kernel", "collective"}]
    sides = [side for item in kernels for side in (item.before, item.after) if side]
    return short_names(name for side in sides for name in side.names)


def _item_name(item: ItemChange, names: Mapping[str, str]) -> str:
    """Return the name, and what differs: another name, another shape, or another size."""
    old, new = item.before, item.after
    if old is None or new is None:
        side = old or new
        assert side is not None
        shape = f" [{', '.join(side.shapes)}]" if any(side.shapes) else ""
        return f"{names.get(item.name, item.name)}{shape}"
    said, was = (names.get(side.names[0], side.names[0]) for side in (new, old))
    if was != said:
        said += f" (was {was})"
    if old.shapes != new.shapes:
        shapes = (", ".join(filter(None, side.shapes)) or "none" for side in (old, new))
        said += f" [{' -> '.join(shapes)}]"
    if item.kind == "copy" and round(old.bytes) != round(new.bytes):
        said += f" ({format_bytes(round(old.bytes))} to {format_bytes(round(new.bytes))})"
    return said


def _phases(comparison: Comparison, most: int) -> Iterator[Block]:
    step = comparison.step
    if step is None:
        return
    least = _LEAST_SHARE * max(step.before_ns, step.after_ns)
    if not any(item.before_ns and item.after_ns for item in comparison.phases if item.path):
        return  # no range is on both sides
    every = [item for item in comparison.phases if item.path and abs(item.delta_ns) >= least]
    rows = tuple(
        Row(
            (
                Cell(" > ".join(item.path)),
                *(
                    Cell("-" if ns is None else format_ns(ns))
                    for ns in (item.before_ns, item.after_ns)
                ),
                Cell(
                    signed_ns(item.delta_ns)
                    + ("" if item.is_significant or item.p is None else " ?")
                ),
            )
        )
        for item in every[:most]
    )
    if rows:
        columns = (
            Column("", width=24, fit=Fit.SHORTEN),
            Column("before", width=9, is_number=True),
            Column("after", width=9, is_number=True),
            Column("difference", short="diff", width=10, is_number=True),
        )
        more = f", {len(rows)} of {len(every)}" if len(every) > len(rows) else ""
        yield Table(columns=columns, rows=rows, title=f"Phases{more}", look="numbers")


def _memory(comparison: Comparison) -> Iterator[Block]:
    """Yield the peaks that differ."""
    rows = tuple(
        Row(
            (
                Cell(item.allocator),
                *(
                    Cell("not recorded" if size is None else format_bytes(size))
                    for size in (item.before_bytes, item.after_bytes)
                ),
                Cell("" if item.delta_bytes is None else _signed_bytes(item.delta_bytes)),
            )
        )
        for item in comparison.memory
        if item.delta_bytes is None
        or abs(item.delta_bytes) > _LEAST_SHARE * (item.before_bytes or 0)
    )
    if rows:
        columns = (
            Column("", width=10),
            Column("before", width=12, is_number=True),
            Column("after", width=12, is_number=True),
            Column("difference", short="diff", width=10, is_number=True),
        )
        yield Table(columns=columns, rows=rows, title="Peak GPU memory", look="numbers")


def _signed_bytes(size: int) -> str:
    return f"{'+' if size >= 0 else '-'}{format_bytes(abs(size))}"


def finding_items(comparison: Comparison) -> Iterator[Block]:
    """Yield what became of the findings."""
    items = []
    for item in comparison.findings:
        if item.change == "same" or item.severity == "info":
            continue
        savings = [
            format_ns(ns) if ns else "unknown"
            for ns in (item.before_saving_ns, item.after_saving_ns)
        ]
        said = f"{item.change}: {item.title} ({item.rule})"
        known = [text for text in savings if text != "unknown"]
        if item.change in ("better", "worse") and known:
            said += f", estimated saving per step: {savings[0]} before, {savings[1]} after"
        elif known:
            said += f", estimated saving {known[0]} per step"
        items.append((Cell(said),))
    if items:
        yield Section("Findings", (Items(tuple(items)),))


def environment_items(environment: Sequence[Fact]) -> Iterator[Block]:
    """Yield the facts that differ."""
    items = tuple(
        (
            Cell(
                f"{fact.name}: {fact.before} before, {fact.after} after"
                + ("" if fact.effect == "information" else f" ({fact.effect})")
            ),
        )
        for fact in differing_facts(environment)
    )
    if items:
        yield Section("Environment", (Items(items),))


def differing_facts(environment: Sequence[Fact]) -> list[Fact]:
    """Return the facts that are known on both sides and differ."""
    return [
        fact
        for fact in environment
        if fact.effect and fact.before is not None and fact.after is not None
    ]


def limits_section(limits: Sequence[str]) -> Iterator[Block]:
    """Yield what was not compared."""
    if limits:
        yield Section("Limits", (Items(tuple((Cell(text),) for text in limits)),))
