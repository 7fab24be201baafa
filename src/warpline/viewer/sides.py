"""Two recordings in one page: what differs, and both timelines, which move together by step.

Each timeline is a report of its own in a frame without an origin, as in a notebook. A script passes
views between the frames; see `viewer/src/views/twin.ts`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from importlib import resources
from statistics import median
from typing import Any, NamedTuple

from warpline.presentation.comparison import page as presented
from warpline.result.comparison import Comparison
from warpline.units import format_ns, plural
from warpline.viewer.container import script_json
from warpline.viewer.markup import Markup, element, void
from warpline.viewer.page import Assets, embeddable, policy
from warpline.viewer.report import Report, framed
from warpline.viewer.static_page import blocks_html

_AROUND = 0.02  # of a step, shown before and after it
_MOST_DOTS = 400
_LARGEST = 4  # times the median: longer steps are drawn there
_LEFT, _WIDTH = 80, 900  # thousandths of the width of the plot
_ROW_HEIGHT, _TEXT_HEIGHT = 46, 20
_LANES = 5  # dots of similar steps are drawn above each other


class Shown(NamedTuple):
    """One side as the page shows it.

    Attributes:
        title: What the timeline is of.
        report: The report of that recording; its first page is the timeline.
        step_ns: Times of the analyzed steps, of all runs of the side.
    """

    title: str
    report: Report
    step_ns: Sequence[float]


def side_by_side(
    comparison: Comparison, before: Shown, after: Shown, parts: Assets
) -> Iterator[str]:
    """Yield the page in pieces."""
    folder = resources.files("warpline.viewer")
    script, style = (
        embeddable((folder / name).read_text(encoding="utf-8"))
        for name in ("sides.js", "sides.css")
    )
    rule = policy(Assets(parts.script, (*parts.styles, style)), "inline", scripts=(script,))
    yield "<!doctype html>\n"
    yield '<html lang="en"><head><meta charset="utf-8">\n'
    yield void("meta", http_equiv="Content-Security-Policy", content=rule)
    yield void("meta", name="viewport", content="width=device-width,initial-scale=1")
    yield void("meta", name="referrer", content="no-referrer")
    yield void("meta", name="color-scheme", content="light dark")
    yield element("title", f"{comparison.title} · Warpline")
    for one in (parts.styles[0], style):
        yield f"\n<style>{one}</style>"
    heads = before.report.head, after.report.head
    first = json.dumps(first_view(*heads))
    yield f"\n</head>{element('body', data_first=first).removesuffix('</body>')}\n"
    yield _TABS
    blocks = presented(comparison).blocks
    dots = step_dots(before.step_ns, after.step_ns)
    yield element("main", blocks_html(blocks[:2]), dots, blocks_html(blocks[2:]), class_="wl-page")
    yield '\n<div class="wl-frames">'
    for name, side in (("Before", before), ("After", after)):
        yield element("h2", f"{name}: {side.title}")
        yield framed("".join(side.report.pieces), title=f"Timeline {name.lower()}")
    axes = script_json(common_axes(*heads))
    yield f'</div>\n<script type="application/json" id="wl-axes">{axes}</script>'
    yield f'\n<script>{script}</script>\n<i id="warpline-end" hidden></i></body></html>\n'


_TABS = Markup(
    '<nav class="wl-tabs"><label><input type="radio" name="wl-tab" id="wl-tab-comparison" checked>'
    'Comparison</label><label><input type="radio" name="wl-tab" id="wl-tab-timelines">Timelines'
    '</label><label class="wl-right"><input type="checkbox" id="wl-together" checked> Move both'
    " timelines together, step by step</label></nav>"
)


def first_view(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, float] | None:
    """Return the first view of both timelines: the first step that counts on both sides.

    Args:
        before: Head of a container.
        after: The other one.

    Returns:
        Its number, and the view relative to the start of the step, ns: the longer of both steps.
        None if there is no such step.
    """
    lists = [head["steps"][0] for head in (before, after) if head["steps"]]
    both = list(zip(*(each["excluded"] for each in lists), strict=False)) if lists[1:] else []
    for step, excluded in enumerate(both):
        if not any(excluded):
            length = max(each["end_ns"][step] - each["start_ns"][step] for each in lists)
            margin = _AROUND * length
            return {"step": step, "start": -margin, "end": length + margin}
    return None


def common_axes(
    before: Mapping[str, Any], after: Mapping[str, Any]
) -> tuple[dict[str, float], dict[str, float]]:
    """Return the upper ends of the axes of counters that both sides have: the higher of both.

    Args:
        before: Head of a container.
        after: The other one.

    Returns:
        For each side, the upper end by row id, where it is not the side's own.
    """
    sides = [
        {
            (row["parent"], row["title"] or row["label"]): row
            for row in head["rows"]
            if row["kind"] == "counter" and row["axis_max"] is not None
        }
        for head in (before, after)
    ]
    found: tuple[dict[str, float], dict[str, float]] = {}, {}
    for key in sides[0].keys() & sides[1].keys():
        rows = [side[key] for side in sides]
        high = max(row["axis_max"] for row in rows)
        for row, own in zip(rows, found, strict=True):
            if row["axis_max"] != high:
                own[row["id"]] = high
    return found


def step_dots(before: Sequence[float], after: Sequence[float]) -> Markup | None:
    """Return a plot with a dot for each step of both sides, and their medians.

    Args:
        before: Step times, ns.
        after: Likewise.

    Returns:
        None if a side has no steps.
    """
    sides = [("before", sorted(before)), ("after", sorted(after))]
    if not before or not after:
        return None
    low = min(times[0] for _, times in sides)
    high = min(
        max(times[-1] for _, times in sides), _LARGEST * max(median(times) for _, times in sides)
    )
    rows = [
        _side_dots(name, times, (low, high), _ROW_HEIGHT * place)
        for place, (name, times) in enumerate(sides)
    ]
    base = _ROW_HEIGHT * len(sides)
    axis = [
        element("text", format_ns(ns), x=f"{_x(ns, low, high)}%", y=str(base + 14), dx=shift)
        for ns, shift in ((low, "0"), (high, "-40"))
    ]
    counts = " and ".join(plural(len(times), "step") for _, times in sides)
    note = f"Step times before and after, {counts}; the bars are medians"
    if max(len(times) for _, times in sides) > _MOST_DOTS:
        note += f"; {_MOST_DOTS} dots per side, at equal shares of the steps"
    beyond = sum(ns > high for _, times in sides for ns in times)
    if beyond:
        note += f"; {plural(beyond, 'longer step')} drawn at the right edge"
    height = str(base + _TEXT_HEIGHT)
    plot = element(
        "svg",
        *(element("title", note), rows, axis),
        class_="wl-plot wl-dots",
        width="100%",
        height=height,
        role="img",
    )
    return element("figure", plot, element("figcaption", note))


def _side_dots(name: str, times: Sequence[float], span: tuple[float, float], top: int) -> Markup:
    count = min(len(times), _MOST_DOTS)
    shown = [times[(2 * place + 1) * len(times) // (2 * count)] for place in range(count)]
    unit = (_ROW_HEIGHT - 14) / _LANES
    dots = (
        element(
            "circle",
            element("title", f"{name}: {format_ns(ns)}"),
            cx=f"{_x(ns, *span)}%",
            cy=f"{top + 8 + unit * (place % _LANES):.1f}",
            r="3",
        )
        for place, ns in enumerate(shown)
    )
    middle = f"{_x(median(times), *span)}%"
    bar = element(
        "line",
        *(),
        x1=middle,
        x2=middle,
        y1=str(top + 2),
        y2=str(top + _ROW_HEIGHT - 4),
        class_="wl-median",
    )
    label = element("text", name, x="0", y=str(top + _ROW_HEIGHT // 2))
    return element("g", dots, bar, label)


def _x(ns: float, low: float, high: float) -> str:
    share = (min(ns, high) - low) / (high - low) if high > low else 0.5
    return f"{(_LEFT + _WIDTH * share) / 10:.2f}"
