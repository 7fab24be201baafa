"""The overview of a report as plain HTML that works without JavaScript and in print.

It writes the presentation of a diagnosis: what it says is in `warpline.presentation`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from warpline.presentation import (
    Bar,
    Block,
    Card,
    Cards,
    Cell,
    Commands,
    FindingBlock,
    Head,
    Items,
    Line,
    Link,
    Piece,
    Row,
    Section,
    StepTimes,
    Table,
    Warnings,
    Waterfall,
)
from warpline.presentation.outlines import page
from warpline.result import Diagnosis, Part
from warpline.result.shares import tenths
from warpline.viewer.links import Links, links_of
from warpline.viewer.markup import Content, Markup, element, join
from warpline.viewer.step_plot import step_plot

_LEAST_LABEL = 60  # tenths of a percent: narrower parts of the bar have no room for a name


def static_page(diagnosis: Diagnosis, head: Mapping[str, Any]) -> Markup:
    """Return the content of the overview.

    Args:
        diagnosis: The diagnosis to show.
        head: Head of the page's container: its steps, tables, and facts.
    """
    writer = _Writer(links_of(diagnosis, head))
    blocks = page(diagnosis, head["steps"], head["environment"]).blocks
    return element("main", map(writer.html, blocks), class_="wl-page")


def blocks_html(blocks: Iterable[Block]) -> Markup:
    """Return blocks of a page that has neither a timeline nor tables to link to."""
    writer = _Writer(Links((), {}, frozenset(), 0))
    return join(map(writer.html, blocks))


class _Writer:
    """Writes each kind of block as HTML."""

    def __init__(self, links: Links) -> None:
        self._links = links

    def html(self, block: Block) -> Content:
        """Return a block as HTML; nothing for what a page does not show."""
        content: Content = None
        match block:
            case Head():
                content = _head(block)
            case Section():
                content = self._section(block)
            case Line():
                content = element("p", block.text, class_="wl-facts" if block.is_faint else None)
            case Items():
                items = (element("li", map(self._cell, item)) for item in block.items)
                content = element("ol" if block.is_ordered else "ul", items)
            case Warnings():
                texts = (element("li", _sentence(text)) for text in block.texts)
                content = element("ul", texts, class_="wl-warnings")
            case Cards():
                content = element("div", map(self._card, block.cards), class_="wl-cards")
            case Bar() | StepTimes() | Waterfall():
                content = _drawn(block)
            case Table():
                content = self._table(block)
            case FindingBlock():
                content = self._finding(block)
            case Commands():
                content = [self._command(words, block) for words in block.commands]
        return content

    def _section(self, section: Section) -> Markup:
        content = map(self.html, section.blocks)
        if section.id == "device":
            return element("div", element("h3", section.title), content, class_="wl-device")
        if not section.title:
            return element("div", content)
        heading = element("h2", section.title)
        return element("section", heading, content, id=f"wl-{section.id}")

    def _card(self, card: Card) -> Markup:
        return element(
            "div",
            element("div", card.label, class_="wl-card-label"),
            element("div", self._cell(card.value), class_="wl-card-value"),
            element("div", card.note, class_="wl-card-note"),
            class_="wl-card",
        )

    def _table(self, table: Table) -> Markup:
        has_keys = any(row.part for row in table.rows)
        headings = [*([""] if has_keys else []), *(column.heading for column in table.columns)]
        head = None
        if any(headings):
            cells = (element("th", heading, scope="col") for heading in headings)
            head = element("thead", element("tr", cells))
        rows = (self._row(row, has_keys=has_keys, is_tree=table.is_tree) for row in table.rows)
        shown = element("table", head, element("tbody", rows), class_=f"wl-table wl-{table.look}")
        return join((element("h2", table.title), shown)) if table.title else shown

    def _row(self, row: Row, *, has_keys: bool, is_tree: bool) -> Markup:
        cells = [self._cell(cell) for cell in row.cells]
        if is_tree:
            cells[0] = element("span", cells[0], class_=f"wl-depth-{row.depth}")
        if has_keys:
            cells.insert(0, _key(row.part) if row.part else "")
        shown = (element("td", cell) for cell in cells)
        return element("tr", shown, class_="wl-sum" if row.is_sum else None)

    def _cell(self, cell: Cell) -> Content:
        if cell.state is not None:
            return element("span", cell.text, class_=f"wl-state wl-{cell.state}")
        full = cell.full if cell.full not in {"", cell.text} else None
        text = element("code", cell.text, title=full) if cell.is_code else cell.text
        if cell.link is None:
            return text
        if not isinstance(cell.link, Link):
            return self._links.evidence(cell.link)
        return self._links.link(cell.link, text)

    def _finding(self, item: FindingBlock) -> Markup:
        severity = element("span", item.severity, class_=f"wl-severity wl-{item.severity}")
        saving = element("p", f"Estimated saving: {item.saving}", class_="wl-saving")
        what = "Show on the timeline"
        show = element("button", what, type="button", hidden="", data_finding=item.id)
        facts = ((element("dt", name), element("dd", with_code(text))) for name, text in item.facts)
        return element(
            "article",
            element("h3", severity, f" {item.id} {item.title}"),
            saving if item.saving else None,
            element("p", with_code(item.claim)),
            element("ul", (element("li", self._cell(each)) for each in item.evidence)),
            element("dl", facts),
            element("p", show),
            self._links.command(f"warpline explain {item.rule}", has_files=False),
            class_="wl-finding",
            id=f"wl-{item.id}",
        )

    def _command(self, words: str, block: Commands) -> Markup:
        return self._links.command(words, has_files=block.takes_recordings)


def _sentence(text: str) -> str:
    """Return a warning of a terminal as a sentence: after "warning:" it has no capital letter."""
    first, _, rest = text.partition(" ")
    return f"{first.capitalize()} {rest}" if first.isalpha() and first.islower() else text


def with_code(text: str) -> list[Content]:
    """Return a text with its commands, which are between backticks, as code."""
    parts = text.split("`")
    return [element("code", part) if place % 2 else part for place, part in enumerate(parts)]


def _head(head: Head) -> Markup:
    return element(
        "header",
        element("h1", head.title),
        element("p", " · ".join(head.facts), class_="wl-facts"),
        element("p", element("code", head.command), class_="wl-facts") if head.command else None,
        element("p", head.ended, class_="wl-verdict") if head.ended else None,
        element("p", " ".join(filter(None, (head.verdict, head.advice))), class_="wl-verdict"),
    )


def _drawn(block: Bar | StepTimes | Waterfall) -> Content:
    match block:
        case Bar():
            return _bar(block)
        case StepTimes():
            return step_plot(block.steps)
        case Waterfall():
            return _waterfall(block)


def _bar(bar: Bar) -> Markup:
    """Return the bar of all parts, which sum to 100%; idle parts are paler."""
    drawn, place = [], 0
    for piece in bar.pieces:
        if piece.share:
            drawn.append(_bar_piece(piece, place))
        place += piece.share
    said = ", ".join(f"{piece.part.category} {tenths(piece.share)}" for piece in bar.pieces)
    return element(
        "svg",
        element("title", f"{bar.label}: {said}"),
        drawn,
        class_="wl-bar",
        width="100%",
        height="34",
        role="img",
    )


def _bar_piece(piece: Piece, place: int) -> Markup:
    part, share = piece.part, piece.share
    tip = f"{part.category}: {tenths(share)}, {part.meaning}"
    name = part.category if share >= max(_LEAST_LABEL, 9 * len(part.category)) else None
    return element(
        "svg",
        element("title", tip),
        element("rect", width="100%", height="100%", class_=_part_class(part)),
        element("text", name, x="6", y="22") if name else None,
        x=f"{place / 10}%",
        width=f"{share / 10}%",
        height="34",
        class_=f"wl-{part.kind}",
        data_part=piece.link.target,
    )


def _waterfall(block: Waterfall) -> Markup:
    """Return how parts add up: texts, and a bar for each, colored by its direction."""
    headings = (block.heading, "before", "after", "difference", "")
    head = element("thead", element("tr", (element("th", each, scope="col") for each in headings)))
    rows = []
    for row in block.rows:
        look = {1: "wl-more", -1: "wl-less"}.get(row.direction, "wl-sum-of")
        place = {"x": f"{row.low / 10}%", "width": f"{max(row.high - row.low, 2) / 10}%"}
        bar = element("rect", element("title", row.remark), height="14", class_=look, **place)
        drawn = element("svg", bar, width="100%", height="14", aria_hidden="true")
        texts = (row.label, row.before, row.after, row.delta)
        rows.append(element("tr", (element("td", text) for text in texts), element("td", drawn)))
    return element("table", head, element("tbody", rows), class_="wl-table wl-waterfall")


def _key(part: Part) -> Markup:
    """Return a square in the color of a part."""
    square = element("rect", width="12", height="12", class_=_part_class(part))
    return element("svg", square, width="12", height="12", aria_hidden="true")


def _part_class(part: Part) -> str:
    plain = "".join(char if char.isalnum() else "-" for char in part.category.lower())
    return f"wl-part wl-part-{plain}"
