"""Step times as an SVG plot."""

from __future__ import annotations

from collections.abc import Mapping
from statistics import median
from typing import Any

from warpline.units import format_ns, plural
from warpline.viewer.markup import Markup, element

_HEIGHT = 140
_BARS = 400
_TEXT_HEIGHT = 14
_PLOT_LEFT = 80  # thousandths of the width


def step_plot(steps: Mapping[str, Any]) -> Markup | None:
    """Return bars for the steps of one device in time order; excluded steps are lighter.

    Args:
        steps: A list of steps from the container.
    """
    lengths = [end - start for start, end in zip(steps["start_ns"], steps["end_ns"], strict=True)]
    if not lengths or max(lengths) <= 0:
        return None
    counted = [
        length for length, out in zip(lengths, steps["excluded"], strict=True) if not out
    ] or lengths
    # One very long step, such as the first, must not flatten all others.
    highest = min(max(lengths), 4 * median(counted)) or max(lengths)
    width = -(-len(lengths) // _BARS)
    bars = [_bar(steps, lengths, first, width, highest) for first in range(0, len(lengths), width)]
    middle = median(counted)
    levels = [middle, 0.0]
    if _y(middle, highest) - _y(highest, highest) >= _TEXT_HEIGHT:
        levels.append(highest)
    lines, texts = zip(*(_line(level, highest) for level in levels), strict=True)
    note = f"{steps['label']}: {plural(len(lengths), 'step')}, median {format_ns(middle)}"
    if width > 1:
        note += f"; each bar is the longest of {width} steps"
    if max(lengths) > highest:
        note += f"; the longest ({format_ns(max(lengths))}) is clipped"
    plot = element(
        "svg",
        element("title", note),
        lines,
        bars,
        texts,
        class_="wl-plot",
        width="100%",
        height=str(_HEIGHT),
        role="img",
    )
    return element("figure", plot, element("figcaption", note))


def _y(length: float, highest: float) -> float:
    return _HEIGHT - 6 - (_HEIGHT - 20) * min(length, highest) / highest


def _line(length: float, highest: float) -> tuple[Markup, Markup]:
    y = f"{_y(length, highest):.1f}"
    left = f"{_PLOT_LEFT / 10}%"
    line = element("line", x1=left, x2="100%", y1=y, y2=y)
    return line, element("text", format_ns(length), x="0", y=y, dy="4")


def _bar(
    steps: Mapping[str, Any], lengths: list[int], first: int, width: int, highest: float
) -> Markup:
    place = max(range(first, min(first + width, len(lengths))), key=lambda row: lengths[row])
    count = -(-len(lengths) // width)
    unit = (1000 - _PLOT_LEFT) / count
    y = _y(lengths[place], highest)
    tip = f"{steps['text'][place]}: {format_ns(lengths[place])}"
    tip += ", excluded" if steps["excluded"][place] else ""
    return element(
        "rect",
        element("title", tip),
        x=f"{(_PLOT_LEFT + unit * (first // width)) / 10:.3f}%",
        y=f"{y:.1f}",
        width=f"{max(unit * 0.86, 0.5) / 10:.3f}%",
        height=f"{max(_HEIGHT - 6 - y, 1):.1f}",
        class_="wl-step wl-excluded" if steps["excluded"][place] else "wl-step",
        data_window=f"{steps['start_ns'][place]},{steps['end_ns'][place]}",
    )
