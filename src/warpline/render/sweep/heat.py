"""Heat maps of a sweep over two parameters: as SVG, and as a table on a terminal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TextIO

from warpline.render import Options
from warpline.render.escaping import shorten, visible
from warpline.render.sweep.axes import Facts, point_title
from warpline.render.sweep.look import Bars, Look
from warpline.render.sweep.picture import BOTTOM, HEIGHT, LEFT, RIGHT, TOP, WIDTH, text_of

_LEAST = 2  # values of each parameter
_MOST_CELLS = 400
_LONGEST, _LONGEST_VALUE = 14, 9
_LIGHT, _DARK = (0xE8, 0xF1, 0xFA), (0x0B, 0x3D, 0x6E)
_WHITE_FROM = 0.5  # of the scale: text is white on darker cells


def is_grid(known: Facts) -> bool:
    """Return whether two parameters vary independently, with values for a map."""
    sizes = [len(values) for values in known["vary"].values()]
    if len(sizes) != 2 or known["zip"] or min(sizes) < _LEAST:
        return False
    return sizes[0] * sizes[1] <= _MOST_CELLS


def heat_maps(known: Facts, look: Look) -> list[str]:
    """Return a map of each number that two points have, as panels; empty if there is no grid."""
    if not is_grid(known):
        return []
    found = [_map(known, of) for of in look.grids]
    return [panel for panel in found if panel]


def write_grid(known: Facts, out: TextIO, options: Options, look: Look) -> None:
    """Write the first number that points have as a table of both parameters."""
    shown = next((of for of in look.grids if any(map(of.value, known["points"]))), None)
    if shown is None or not is_grid(known):
        return
    (across, columns), (down, rows) = reversed(known["vary"].items())
    cells = [[_cell(_point(known, {down: a, across: b}), shown) for b in columns] for a in rows]
    names = [_short(str(b), options) for b in columns]
    firsts = [_short(str(a), options) for a in rows]
    first = max(map(len, [*firsts, f"{_short(down, options)}"]))
    widths = [
        max(len(name), *(len(line[place]) for line in cells)) for place, name in enumerate(names)
    ]
    out.write(f"\n{shown.heading} over {_short(across, options)}\n")
    lines = zip([_short(down, options), *firsts], [names, *cells], strict=True)
    for label, values in lines:
        texts = (f"{value:>{width}}" for value, width in zip(values, widths, strict=True))
        out.write(f"  {label:>{first}}  {'  '.join(texts)}\n")


def _short(text: str, options: Options) -> str:
    return shorten(visible(text, unicode=options.unicode), _LONGEST, "...")


def _point(known: Facts, values: Facts) -> Facts | None:
    return next((point for point in known["points"] if point["values"] == values), None)


def _cell(point: Facts | None, shown: Bars) -> str:
    """Return the text of a cell: the value, or why there is none in a word."""
    if point is None:
        return "-"
    value = shown.value(point)
    if value is not None:
        return shown.shown(value)
    return _why(point)


def _why(point: Facts) -> str:
    failure = point["failure"] or ""
    if failure.startswith("out of"):
        return "OOM"
    if failure.startswith("skipped"):
        return "skipped"
    return "failed" if failure and point["runs"] else "-"


def _map(known: Facts, shown: Bars) -> str:
    """Return a map as a panel; empty with fewer than two values."""
    values = [of for of in map(shown.value, known["points"]) if of is not None]
    if len(values) < _LEAST:
        return ""
    (across, columns), (down, rows) = reversed(known["vary"].items())
    width = (WIDTH - LEFT - RIGHT) / len(columns)
    height = (HEIGHT - TOP - BOTTOM) / len(rows)
    title = f"{shown.heading} ({down} down, {across} across)"
    parts = [f'<text x="{LEFT}" y="20" font-size="13" font-weight="600">{text_of(title)}</text>\n']
    for i, a in enumerate(rows):
        y = TOP + i * height
        parts.append(_label(a, LEFT - 6, y + height / 2 + 4, "end"))
        for j, b in enumerate(columns):
            x = LEFT + j * width
            point = _point(known, {down: a, across: b})
            parts.append(_square(point, shown, values, (x, y, width, height)))
    parts += [
        _label(b, LEFT + (j + 0.5) * width, HEIGHT - BOTTOM + 18, "middle")
        for j, b in enumerate(columns)
        if len(columns) <= 12 or not j % 4
    ]
    return "".join(parts)


def _label(value: Any, x: float, y: float, anchor: str) -> str:
    text = text_of(shorten(str(value), _LONGEST_VALUE, "..."))
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{text}</text>\n'


def _square(
    point: Facts | None,
    shown: Bars,
    values: Sequence[float],
    place: tuple[float, float, float, float],
) -> str:
    x, y, width, height = place
    value = shown.value(point) if point is not None else None
    fill, color = "#f4f4f4", "#1a1a1a"
    if value is not None:
        least, most = min(values), max(values)
        share = (value - least) / (most - least) if most > least else 0.0
        mixed = (round(a + (b - a) * share) for a, b in zip(_LIGHT, _DARK, strict=True))
        fill = "#" + "".join(f"{part:02x}" for part in mixed)
        color = "#fff" if share > _WHITE_FROM else "#1a1a1a"
    text = _cell(point, shown)
    title = f"{point_title(point)}: {point['failure'] or text}" if point is not None else text
    fits = len(text) * 6 < width
    label = (
        f'<text x="{x + width / 2:.1f}" y="{y + height / 2 + 4:.1f}" text-anchor="middle"'
        f' font-size="11" fill="{color}">{text_of(text)}</text>'
    )
    return (
        f'<g><title>{text_of(title)}</title><rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}"'
        f' height="{height:.1f}" fill="{fill}" stroke="#fff"/>{label if fits else ""}</g>\n'
    )
