"""The page of two jobs compared: one self-contained HTML file, with a map of what became of ranks.

The data are columns by rank. Verdict, bars and tables are there without the script, which is that
of the page of one job (`fleet_report`).
"""

from __future__ import annotations

import math
import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from warpline.presentation.comparison import ShownPart, signed_ns, unit_of
from warpline.presentation.fleet_comparison import on_page, rank_cells, shown_ranks
from warpline.result.comparison import StepChange
from warpline.result.fleet_comparison import FleetComparison, RankChange
from warpline.units import format_ns
from warpline.viewer.columns import Packed, float64
from warpline.viewer.container import BlockWriter
from warpline.viewer.fleet_report import LEAST_RATIO, SCHEMA_VERSION, columns_part
from warpline.viewer.interval_plot import interval_plot
from warpline.viewer.markup import Markup, element
from warpline.viewer.page import Assets, app, page_of_blocks
from warpline.viewer.rank_pages import name_of_two, page_beside, relative
from warpline.viewer.report import Report, size_of
from warpline.viewer.static_page import blocks_html

_RANKS = 16
_MARKED = 8
_LINE = 9  # px: height of a bar with the gap below
_TIMES = ("step", "wait", "exposed_wait", "caused")
_NO_SCRIPT = (
    "The map of ranks needs JavaScript. The script has no network access. Verdict, bars and tables"
    " work without JavaScript."
)


def make_comparison_report(found: FleetComparison, folder: Path, parts: Assets) -> Report:
    """Return the self-contained page.

    Args:
        found: What it shows.
        folder: The directory of the page: pages of two ranks in it are linked.
        parts: Its script and style sheets.
    """
    ranks = sorted(found.ranks, key=_place)
    marked = _marked(found)
    writer = BlockWriter()
    head: dict[str, Any] = {
        "schema_version": SCHEMA_VERSION,
        "kind": "comparison",
        "title": found.steps.title,
        "unit": unit_of(found.steps),
        "tolerance": found.steps.tolerance,
        "ranks": [_rank_head(item, is_marked=item in marked) for item in ranks],
        "least_ns": max(LEAST_RATIO * _longest(found), 1.0),
        "times": columns_part(writer, list(_columns(ranks))),
    }
    blocks = writer.blocks()
    head["blocks"] = [{"raw_bytes": block.raw_bytes} for block in blocks]
    title = f"{found.steps.title} · fleet"
    pieces = list(page_of_blocks(title, _body(found, folder), head, blocks, parts))
    return Report(pieces, size_of(pieces), None, head)


def _longest(found: FleetComparison) -> int:
    """Return the longer one of both mean steps, ns; 0 if there is none."""
    step = found.steps.step
    return 0 if step is None else max(step.before_ns, step.after_ns)


def _marked(found: FleetComparison) -> list[RankChange]:
    """Return the ranks that changed differently from most, beyond chance and tolerance."""
    both = [item for item in found.ranks if item.own.is_significant]
    if not both:
        return []
    middle = median(item.own.delta_ns for item in found.ranks if item.change == "both")
    apart = {id(item): abs(item.own.delta_ns - middle) for item in both}
    least = found.steps.tolerance * _longest(found)
    beyond = [item for item in both if apart[id(item)] > least]
    return sorted(beyond, key=lambda item: -apart[id(item)])[:_MARKED]


def _place(item: RankChange) -> tuple[bool, int, str]:
    return item.rank is None, item.rank or 0, item.name


def _rank_head(item: RankChange, *, is_marked: bool) -> dict[str, Any]:
    sides = (item.before, item.after)
    return {
        "name": item.name,
        "change": item.change,
        "hosts": [None if side is None else side.host for side in sides],
        "is_significant": item.own.is_significant,
        "may_be_chance": item.own.p is not None and not item.own.is_significant,
        "is_marked": is_marked,
    }


def _columns(ranks: Sequence[RankChange]) -> Iterator[Packed]:
    """Yield the times of both sides, NaN where unknown: exact, so that they are read alike."""
    for side in ("before", "after"):
        # None where the time by itself is unknown.
        own = [getattr(item.own, f"{side}_ns") for item in ranks]
        yield float64(f"{side}_own", np.array([math.nan if ns is None else ns for ns in own]))
        known = [getattr(item, side) for item in ranks]
        for name in _TIMES:
            times = [math.nan if one is None else getattr(one, f"{name}_ns") for one in known]
            yield float64(f"{side}_{name}", np.array(times))


def _body(found: FleetComparison, folder: Path) -> Iterator[str]:
    shown = on_page(found)
    step = found.steps.step
    yield element(
        "main",
        blocks_html(shown.first),
        _interval(found),
        blocks_html(shown.doubts),
        None if step is None else _bars(shown.parts, step, unit_of(found.steps)),
        blocks_html(shown.groups),
        class_="wl-page wl-top",
    )
    yield from app(_NO_SCRIPT)
    yield element(
        "div",
        _ranks(found, folder),
        blocks_html(shown.others),
        class_="wl-page",
        role="region",
        aria_label="Tables",
    )
    yield "\n"


def _interval(found: FleetComparison) -> Markup | None:
    step = found.steps.step
    if step is None or step.low is None or step.high is None:
        return None
    return interval_plot("Step time", step.ratio, step.low, step.high, found.steps.tolerance)


def _bars(parts: Sequence[ShownPart], step: StepChange, unit: str) -> Markup | None:
    """Return a bar before and one after for each part, as shares of the longer step."""
    if not parts:
        return None
    longest = max(step.before_ns, step.after_ns, 1)
    headings = (unit, "before", "after", "difference", "before (top), after (bottom)")
    head = element("tr", (element("th", each, scope="col") for each in headings))
    whole = ShownPart("step", step.before_ns, step.after_ns, "")
    rows = (_part(part, longest, is_sum=part is whole) for part in (*parts, whole))
    table = element(
        "table", element("thead", head), element("tbody", rows), class_="wl-table wl-shares"
    )
    title = "Where the time of a step changed" if unit == "per step" else "Where the time changed"
    note = (
        "Bars are shares of the longer step. Orange: more than before. Blue: less. The parts are"
        " exact, and sum to the step."
    )
    room = _room(title, table)
    return element("section", element("h2", title), room, element("p", note, class_="wl-facts"))


def _part(part: ShownPart, longest: int, *, is_sum: bool) -> Markup:
    texts = (
        part.label,
        format_ns(part.before_ns),
        format_ns(part.after_ns),
        signed_ns(part.after_ns - part.before_ns),
    )
    low, high = sorted((part.before_ns, part.after_ns))
    look = "wl-more" if part.after_ns > part.before_ns else "wl-less"
    drawn = element(
        "svg",
        element("title", part.meaning) if part.meaning else None,
        _rect("wl-was", 0, part.before_ns, longest, 0),
        _rect("wl-is", 0, low, longest, 1),
        _rect(look, low, high, longest, 1),
        width="100%",
        height=f"{2 * _LINE}",
        aria_hidden="true",
    )
    cells = (element("td", text) for text in texts)
    return element("tr", cells, element("td", drawn), class_="wl-sum" if is_sum else None)


def _rect(look: str, low: int, high: int, longest: int, line: int) -> Markup:
    return element(
        "rect",
        x=f"{100 * low / longest:.2f}%",
        y=f"{line * _LINE}",
        width=f"{100 * (high - low) / longest:.2f}%",
        height=f"{_LINE - 1}",
        class_=look,
    )


def _room(title: str, table: Markup) -> Markup:
    return element("div", table, class_="wl-scroll", tabindex="0", role="region", aria_label=title)


def _ranks(found: FleetComparison, folder: Path) -> Markup | None:
    """Return the table of the ranks with the largest differences, with pages of both sides."""
    shown = shown_ranks(found, _RANKS)
    only = element("p", shown.only, class_="wl-facts") if shown.only else None
    if not shown.ranks:
        return only
    headings = ("rank", "before", "after", "difference", "machine", "both timelines")
    head = element("tr", (element("th", heading, scope="col") for heading in headings))
    rows = (
        element(
            "tr",
            (element("td", cell.text) for cell in rank_cells(item)),
            element("td", _page_of_two(item, folder)),
        )
        for item in shown.ranks
    )
    table = element(
        "table", element("thead", head), element("tbody", rows), class_="wl-table wl-fleet"
    )
    note = (
        f"Times {unit_of(found.steps)}. ? may be chance. Both timelines of a rank are a page beside"
        " this one: the commands, run in its directory, make them, and this page links them when it"
        " is written again. Of several jobs on a side, the first."
    )
    title = element("h2", shown.title)
    room = _room(shown.title, table)
    return element("section", title, room, only, element("p", note, class_="wl-facts"))


def _page_of_two(item: RankChange, folder: Path) -> Markup | None:
    if item.before is None or item.after is None:
        return None
    before, after = (relative(side.path, folder) for side in (item.before, item.after))
    words = f"warpline report --side-by-side {shlex.quote(before)} {shlex.quote(after)}"
    return page_beside(folder, name_of_two(before, after), words)
