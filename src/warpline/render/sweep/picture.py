"""The plot of a sweep as SVG: panels side by side, of lines over the parameter of the x axis."""

from __future__ import annotations

import math
from collections.abc import Sequence
from xml.sax.saxutils import escape

from warpline.render.escaping import shorten, visible
from warpline.render.sweep.axes import (
    MANY,
    Axis,
    Facts,
    Line,
    linear,
    logarithmic,
    plot_heading,
    series_names,
    x_axis,
)

WIDTH, HEIGHT = 460, 300  # of a panel, in pixels
LEFT, RIGHT, TOP, BOTTOM = 64, 28, 34, 46
# Of Okabe and Ito, dark enough for lines on white.
_COLORS = ("#0b61a4", "#b3420a", "#1b7a4b", "#8a3ffc", "#8a6d00", "#a11d5b", "#3c3c3c", "#007c89")


def picture(known: Facts, panels: Sequence[str]) -> str:
    """Return panels side by side, two in a row, with the names of the lines below."""
    names = series_names(known)
    legend = 22 * math.ceil(len(names) / 4) if len(names) > 1 else 0
    rows = max(math.ceil(len(panels) / 2), 1)
    width, height = WIDTH * 2, HEIGHT * rows + legend
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img"'
        f' font-family="system-ui,sans-serif" font-size="12" fill="#1a1a1a">\n'
        f"<title>{text_of(plot_heading(known))}</title>\n"
        f'<rect width="{width}" height="{height}" fill="#fff"/>\n'
    )
    parts = [head]
    for place, panel in enumerate(panels):
        x, y = place % 2 * WIDTH, place // 2 * HEIGHT
        parts.append(f'<g transform="translate({x} {y})">\n{panel}</g>\n')
    if not panels:
        parts.append(f'<text x="{LEFT}" y="{TOP}">No point was measured.</text>\n')
    for place, name in enumerate(names if legend else ()):
        x, y = place % 4 * width // 4 + RIGHT, HEIGHT * rows + 22 * (place // 4) + 12
        parts.append(
            f'<rect x="{x}" y="{y - 9}" width="12" height="12" fill="{_color(place)}"/>'
            f'<text x="{x + 18}" y="{y + 2}">{text_of(shorten(name, 34, "..."))}</text>\n'
        )
    return "".join([*parts, "</svg>\n"])


def panel(known: Facts, title: str, lines: Sequence[Line], y: Axis | None = None) -> str:
    """Return a panel of values over the parameter of the x axis; empty without lines."""
    if not lines:
        return ""
    name, x = x_axis(known)
    values = [point[1] for line in lines for point in line.points]
    if y is None:
        is_wide = min(values) > 0 and max(values) > MANY * min(values)
        y = logarithmic(min(values), max(values)) if is_wide else linear(0.0, max(values))
    return frame(title, name, x, y) + drawn(lines, x, y)


def frame(title: str, below: str, x: Axis, y: Axis) -> str:
    """Return a panel's title, axes and grid."""
    parts = [
        f'<text x="{LEFT}" y="20" font-size="13" font-weight="600">{text_of(title)}</text>\n',
        (
            f'<text x="{(LEFT + WIDTH - RIGHT) / 2:.0f}" y="{HEIGHT - 8}"'
            f' text-anchor="middle">{text_of(below)}</text>\n'
        ),
    ]
    for value, text in y.ticks:
        at = y_of(y, value)
        parts.append(
            f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{at:.1f}" y2="{at:.1f}" stroke="#ddd"/>'
            f'<text x="{LEFT - 6}" y="{at + 4:.1f}" text-anchor="end">{text_of(text)}</text>\n'
        )
    for value, text in x.ticks:
        at = x_of(x, value)
        parts.append(
            f'<line x1="{at:.1f}" x2="{at:.1f}" y1="{HEIGHT - BOTTOM}"'
            f' y2="{HEIGHT - BOTTOM + 4}" stroke="#666"/><text x="{at:.1f}"'
            f' y="{HEIGHT - BOTTOM + 18}" text-anchor="middle">{text_of(text)}</text>\n'
        )
    return "".join(parts)


def drawn(lines: Sequence[Line], x: Axis, y: Axis) -> str:
    """Return lines with their points."""
    parts = []
    for place, line in enumerate(lines):
        at = [(x_of(x, a), y_of(y, b), text) for a, b, text in line.points]
        path = " ".join(f"{a:.1f},{b:.1f}" for a, b, _ in at)
        parts.append(
            f'<polyline points="{path}" fill="none" stroke="{_color(place)}" stroke-width="2"/>\n'
        )
        parts += [
            f'<circle cx="{a:.1f}" cy="{b:.1f}" r="4" fill="{_color(place)}">'
            f"<title>{text_of(text)}</title></circle>\n"
            for a, b, text in at
        ]
    return "".join(parts)


def x_of(axis: Axis, value: float) -> float:
    """Return where a value is in a panel, from its left."""
    return LEFT + axis.share(value) * (WIDTH - LEFT - RIGHT)


def y_of(axis: Axis, value: float) -> float:
    """Return where a value is in a panel, from its top."""
    return HEIGHT - BOTTOM - axis.share(value) * (HEIGHT - TOP - BOTTOM)


def _color(place: int) -> str:
    return _COLORS[place % len(_COLORS)]


def scaled(value: float | None, factor: float) -> float | None:
    """Return a value in another unit; None stays None."""
    return None if value is None else value * factor


def text_of(text: str) -> str:
    """Return a text for SVG."""
    return escape(visible(text))
