"""Small multiples with logarithmic axes, as one SVG that needs no script and no font of its own."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple
from xml.sax.saxutils import escape

WIDTH, HEIGHT = 190, 160  # of the inside of a panel
LEFT, TOP, GAP_X, GAP_Y, BOTTOM, RIGHT = 84, 64, 36, 56, 48, 20
STYLE = """
text { font: 12px system-ui, sans-serif; fill: #52514e }
.title { font-weight: 600; fill: #0b0b0b }
.grid { stroke: #e1e0d9 } .frame { fill: none; stroke: #c3c2b7 }
.line { fill: none; stroke-width: 2; stroke-linejoin: round }
.once { fill: #fcfcfb }
.back { fill: #fcfcfb }
@media (prefers-color-scheme: dark) {
  text { fill: #c3c2b7 } .title { fill: #ffffff } .grid { stroke: #2c2c2a }
  .frame { stroke: #52514e } .once, .back { fill: #1a1a19 }
}
"""


class Point(NamedTuple):
    """A value; drawn hollow if it comes from one measurement."""

    x: float
    y: float
    is_single: bool


class Panel(NamedTuple):
    """A plot: its lines by the name of their series."""

    title: str
    lines: Mapping[str, Sequence[Point]]


class Axis(NamedTuple):
    """A logarithmic axis from one power of ten to another, and how its values are written."""

    title: str
    first: int
    last: int
    text: Callable[[float], str]

    def share(self, value: float) -> float:
        """Return where a value lies, from 0 to 1."""
        return (math.log10(value) - self.first) / (self.last - self.first)

    def ticks(self) -> list[float]:
        """Return the powers of ten."""
        return [10.0**power for power in range(self.first, self.last + 1)]


def axis(title: str, values: Sequence[float], text: Callable[[float], str]) -> Axis:
    """Return the axis that holds all values, which are positive."""
    first, last = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))
    return Axis(title, first, max(last, first + 1), text)


def figure(
    title: str,
    x: Axis,
    rows: Sequence[tuple[Axis, Sequence[Panel]]],
    colors: Mapping[str, tuple[str, str]],
) -> str:
    """Return an SVG: one row of panels per y axis.

    `colors` has, by the name of a series, those on light and on dark ground; names that it has not
    are not drawn.
    """
    columns = max(len(panels) for _, panels in rows)
    width = LEFT + columns * (WIDTH + GAP_X) - GAP_X + RIGHT
    height = TOP + len(rows) * (HEIGHT + GAP_Y) - GAP_Y + BOTTOM
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img">',
        f"<title>{escape(title)}</title>",
        f"<style>{STYLE}{_color_rules(colors)}</style>",
        f'<rect class="back" width="{width}" height="{height}"/>',
        *_legend(colors),
    ]
    for row, (y, panels) in enumerate(rows):
        top = TOP + row * (HEIGHT + GAP_Y)
        middle = top + HEIGHT / 2
        turned = f'transform="rotate(-90 18 {middle})" text-anchor="middle"'
        parts.append(f'<text x="18" y="{middle}" {turned}>{escape(y.title)}</text>')
        for column, panel in enumerate(panels):
            left = LEFT + column * (WIDTH + GAP_X)
            parts.append(f'<g transform="translate({left} {top})">')
            parts += _panel(panel, x, y, list(colors), is_first=column == 0)
            parts.append("</g>")
    parts.append(
        f'<text x="{width / 2}" y="{height - 8}" text-anchor="middle">{escape(x.title)}</text>'
    )
    return "\n".join([*parts, "</svg>"]) + "\n"


def _color_rules(colors: Mapping[str, tuple[str, str]]) -> str:
    def rules(which: int) -> str:
        return "\n".join(
            f".s{number} {{ stroke: {pair[which]} }} .d{number} {{ fill: {pair[which]} }}"
            for number, pair in enumerate(colors.values())
        )

    return f"{rules(0)}\n@media (prefers-color-scheme: dark) {{\n{rules(1)}\n}}\n"


def _legend(names: Mapping[str, object]) -> Iterator[str]:
    at = LEFT
    for number, name in enumerate(names):
        yield f'<path class="line s{number}" d="M{at} 20h22"/>'
        yield f'<circle class="d{number}" cx="{at + 11}" cy="20" r="4"/>'
        yield f'<text x="{at + 28}" y="24">{escape(name)}</text>'
        at += 44 + 8 * len(name)
    yield f'<circle class="once s0" stroke-width="2" cx="{at + 11}" cy="20" r="4"/>'
    yield f'<text x="{at + 24}" y="24">one run</text>'


def _panel(
    panel: Panel, x: Axis, y: Axis, names: Sequence[str], *, is_first: bool
) -> Iterator[str]:
    yield f'<text class="title" x="0" y="-8">{escape(panel.title)}</text>'
    for value in y.ticks():
        at = _number(HEIGHT * (1 - y.share(value)))
        yield f'<path class="grid" d="M0 {at}h{WIDTH}"/>'
        if is_first:
            yield f'<text x="-6" y="{at}" dy="4" text-anchor="end">{escape(y.text(value))}</text>'
    for value in x.ticks():
        at = _number(WIDTH * x.share(value))
        yield f'<path class="grid" d="M{at} 0v{HEIGHT}"/>'
        place = f'x="{at}" y="{HEIGHT + 16}" text-anchor="middle"'
        yield f"<text {place}>{escape(x.text(value))}</text>"
    yield f'<rect class="frame" width="{WIDTH}" height="{HEIGHT}"/>'
    for number, name in enumerate(names):
        points = panel.lines.get(name, ())
        places = [
            (_number(WIDTH * x.share(point.x)), _number(HEIGHT * (1 - y.share(point.y))))
            for point in points
        ]
        if places:
            yield f'<path class="line s{number}" d="M{" L".join(f"{a} {b}" for a, b in places)}"/>'
        for point, (a, b) in zip(points, places, strict=True):
            look = (
                f'class="once s{number}" stroke-width="2"'
                if point.is_single
                else f'class="d{number}"'
            )
            told = f"{name}, {x.text(point.x)}: {y.text(point.y)}"
            yield f'<circle {look} cx="{a}" cy="{b}" r="4"><title>{escape(told)}</title></circle>'


def _number(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")
