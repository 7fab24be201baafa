"""Writes a trend as text, Markdown, JSON and SVG."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from typing import TextIO
from xml.sax.saxutils import escape

import numpy as np

from warpline.render import Options
from warpline.render.escaping import shorten, visible
from warpline.render.markdown import code, plain
from warpline.result.trend import LEAST_POINTS, ChangePoint, Point, Trend
from warpline.units import format_bytes, format_ns, format_ratio, plural

Write = Callable[[Trend, TextIO, Options], None]

_ROWS = 40  # of the plot on a terminal: more points share rows
_LEAST_SPAN = 0.04  # of a plot, as a share of its largest value
_WIDTH, _HEIGHT, _LEFT, _EDGE = 960, 360, 80, 24  # of the SVG, in pixels


def write_text(found: Trend, out: TextIO, options: Options) -> None:
    """Write the changes and a plot of rows, the oldest first."""
    out.write(f"{_head(found)}\n\n")
    out.writelines(f"  {_change(found, change)}\n" for change in found.changes)
    out.write("\n" if found.changes else "")
    out.writelines(f"{line.rstrip()}\n" for line in _plot(found, options))


def write_markdown(found: Trend, out: TextIO, options: Options) -> None:
    """Write the changes as a list, for a pull request or an issue."""
    out.write(f"**{plain(_head(found), options)}**\n")
    out.write("\n" if found.changes else "")
    for change in found.changes:
        point = found.points[change.index]
        out.write(f"- {plain(_size(found, change), options)} since {code(point.title, options)}")
        out.write(f" ({plain(_when(point), options)})\n" if point.recorded_utc else "\n")


def write_json(found: Trend, out: TextIO, options: Options) -> None:
    """Write one object, described in docs/gate.md."""
    json.dump(found.to_dict(), out, indent=2, allow_nan=False)
    out.write("\n")


def write_svg(found: Trend, out: TextIO, options: Options) -> None:
    """Write a plot: a point for each file, which names it, and the mean of each segment."""
    values = np.array([point.value for point in found.points])
    least, most = _range(found.points)
    count = len(values)

    def x(index: float) -> float:
        return _LEFT + (index + 0.5) / count * (_WIDTH - _LEFT - _EDGE)

    def y(value: float) -> float:
        return _HEIGHT - _EDGE - (value - least) / (most - least) * (_HEIGHT - 3 * _EDGE)

    out.write(
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img"'
        f' font-family="sans-serif" font-size="13">\n<title>{_text(_head(found))}</title>\n'
        f'<rect width="{_WIDTH}" height="{_HEIGHT}" fill="#fff"/>\n'
        f'<text x="{_LEFT}" y="{_EDGE}">{_text(_head(found))}</text>\n'
    )
    for share in (0.0, 0.5, 1.0):
        value = least + (most - least) * share
        at = y(value)
        out.write(
            f'<line x1="{_LEFT}" x2="{_WIDTH - _EDGE}" y1="{at:.1f}" y2="{at:.1f}"'
            f' stroke="#ddd"/><text x="{_LEFT - 8}" y="{at + 4:.1f}" text-anchor="end">'
            f"{_text(_value(found, value))}</text>\n"
        )
    for index, point in enumerate(found.points):
        label = f"{point.title}: {_value(found, point.value)} {_when(point)} {point.file}"
        out.write(
            f'<circle cx="{x(index):.1f}" cy="{y(point.value):.1f}" r="3" fill="#246">'
            f"<title>{_text(label)}</title></circle>\n"
        )
    for low, high in _segments(found.points):
        level = y(float(values[low:high].mean()))
        out.write(
            f'<line x1="{x(low - 0.5):.1f}" x2="{x(high - 0.5):.1f}" y1="{level:.1f}"'
            f' y2="{level:.1f}" stroke="#c33" stroke-width="2"/>\n'
        )
    ends = {"start": (_LEFT, found.points[0]), "end": (_WIDTH - _EDGE, found.points[-1])}
    for anchor, (at, point) in ends.items():
        out.write(
            f'<text x="{at}" y="{_HEIGHT - 4}" text-anchor="{anchor}">'
            f"{_text(_when(point)[:10] or point.title)}</text>\n"
        )
    out.write("</svg>\n")


def _head(found: Trend) -> str:
    count = len(found.points)
    recordings = plural(count, "recording")
    if count < LEAST_POINTS:
        return f"{found.metric}: {recordings}, too few to find a change (at least {LEAST_POINTS})"
    what = plural(len(found.changes), "change") if found.changes else "no change"
    return f"{found.metric}: {what} in {recordings}"


def _change(found: Trend, change: ChangePoint) -> str:
    point = found.points[change.index]
    when = f", {_when(point)}" if point.recorded_utc else ""
    return f"{_size(found, change)} since {visible(point.title)}{when} ({visible(point.file)})"


def _size(found: Trend, change: ChangePoint) -> str:
    said = "more" if change.ratio > 1 else "less"
    ends = sorted((abs(change.low - 1), abs(change.high - 1)))
    return (
        f"{format_ratio(abs(change.ratio - 1))} {said}"
        f" ({ends[0] * 100:.1f} to {format_ratio(ends[1])}),"
        f" {_value(found, change.before)} to {_value(found, change.after)}"
    )


def _plot(found: Trend, options: Options) -> Iterator[str]:
    """Yield a row for each point, or for several successive ones of a segment."""
    width = options.width or 100
    least, most = _range(found.points)
    size = -(-len(found.points) // _ROWS)
    mark = "●" if options.unicode else "*"
    room = max(width - 54, 10)
    yield " " * 40 + f"{_value(found, least)} to {_value(found, most)}"
    for low, high in _segments(found.points):
        for first in range(low, high, size):
            points = found.points[first : min(first + size, high)]
            value = sum(point.value for point in points) / len(points)
            name = visible(points[0].title, unicode=options.unicode)
            more = f" +{len(points) - 1}" if len(points) > 1 else ""
            bar = " " * round((value - least) / (most - least) * room) + mark
            label = shorten(name, 24 - len(more), "...") + more
            since = "<" if first == low and low else " "
            yield f"  {label:24} {_value(found, value):>9} {since} {bar}"
    if len({point.segment for point in found.points}) > 1:
        yield ""
        yield "  < first recording after a change"


def _range(points: Sequence[Point]) -> tuple[float, float]:
    """Return the least and the largest value of a plot; the least is 0 if values differ much.

    Values that hardly differ take up a part of it only: noise should not look like changes.
    """
    values = [point.value for point in points]
    most, span = max(values), max(values) - min(values)
    margin = max(0.25 * span, (_LEAST_SPAN * most - span) / 2)
    least = min(values) - margin
    if not span or least <= 0.5 * most:
        return 0.0, most
    return least, max(most, least + _LEAST_SPAN * most)


def _segments(points: Sequence[Point]) -> list[tuple[int, int]]:
    firsts = [
        index
        for index, point in enumerate(points)
        if not index or point.segment != points[index - 1].segment
    ]
    return list(zip(firsts, [*firsts[1:], len(points)], strict=True))


def _when(point: Point) -> str:
    return point.recorded_utc


def _value(found: Trend, value: float) -> str:
    return format_bytes(round(value)) if found.unit == "bytes" else format_ns(round(value))


def _text(text: str) -> str:
    return escape(visible(text))


WRITERS: dict[str, Write] = {
    "text": write_text,
    "markdown": write_markdown,
    "json": write_json,
    "svg": write_svg,
}
