"""The plot of a sweep as SVG: panels of time, throughput, share of the ceiling, and roofline."""

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
    lines_of,
    logarithmic,
    plot_heading,
    point_title,
    series,
    series_names,
    x_axis,
)

_WIDTH, _HEIGHT = 460, 300  # of a panel, in pixels
_LEFT, _RIGHT, _TOP, _BOTTOM = 64, 28, 34, 46
# Of Okabe and Ito, dark enough for lines on white.
_COLORS = ("#0b61a4", "#b3420a", "#1b7a4b", "#8a3ffc", "#8a6d00", "#a11d5b", "#3c3c3c", "#007c89")


def picture(known: Facts) -> str:
    """Return the panels side by side, two in a row."""
    panels = [panel for panel in (_time(known), _rate(known), _share(known)) if panel]
    roofline = _roofline(known)
    panels += [roofline] if roofline else []
    names = series_names(known)
    legend = 22 * math.ceil(len(names) / 4) if len(names) > 1 else 0
    rows = max(math.ceil(len(panels) / 2), 1)
    width, height = _WIDTH * 2, _HEIGHT * rows + legend
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img"'
        f' font-family="system-ui,sans-serif" font-size="12" fill="#1a1a1a">\n'
        f"<title>{_text(plot_heading(known))}</title>\n"
        f'<rect width="{width}" height="{height}" fill="#fff"/>\n'
    )
    parts = [head]
    for place, panel in enumerate(panels):
        x, y = place % 2 * _WIDTH, place // 2 * _HEIGHT
        parts.append(f'<g transform="translate({x} {y})">\n{panel}</g>\n')
    if not panels:
        parts.append(f'<text x="{_LEFT}" y="{_TOP}">No point was measured.</text>\n')
    for place, name in enumerate(names if legend else ()):
        x, y = place % 4 * width // 4 + _RIGHT, _HEIGHT * rows + 22 * (place // 4) + 12
        parts.append(
            f'<rect x="{x}" y="{y - 9}" width="12" height="12" fill="{_color(place)}"/>'
            f'<text x="{x + 18}" y="{y + 2}">{_text(shorten(name, 34, "..."))}</text>\n'
        )
    return "".join([*parts, "</svg>\n"])


def _time(known: Facts) -> str:
    lines = lines_of(known, lambda kernel: _scaled(kernel["duration_ns"], 1e-3))
    return _panel(known, "Time of a launch (us)", lines)


def _rate(known: Facts) -> str:
    """Return the panel of FLOP/s or, where these are unknown, of bytes per second."""
    lines = lines_of(known, lambda kernel: _scaled(kernel["flop_per_s"], 1e-12))
    if lines:
        return _panel(known, "TFLOP/s", lines)
    lines = lines_of(known, lambda kernel: _scaled(kernel["bytes_per_s"], 1e-9))
    return _panel(known, "DRAM throughput (GB/s)", lines)


def _share(known: Facts) -> str:
    lines = lines_of(known, lambda kernel: _scaled(kernel["roof_ratio"], 100.0))
    title = "Share of the nearest ceiling (%)"
    if not lines:
        lines = lines_of(known, lambda kernel: _scaled(kernel.get("dram_ratio"), 100.0))
        title = "DRAM throughput (% of peak)"
    return _panel(known, title, lines, linear(0.0, 100.0))


def _roofline(known: Facts) -> str:
    """Return the panel of FLOP/s over FLOP per byte of DRAM, with the ceilings of all points."""
    lines = []
    for name, points in series(known):
        found = [
            (kernel["intensity"], kernel["flop_per_s"] / 1e12, point_title(point))
            for point in points
            for kernel in point["kernels"][:1]
            if kernel["intensity"] and kernel["flop_per_s"]
        ]
        lines.append(Line(name, tuple(found)))
    if not any(line.points for line in lines):
        return ""
    ceilings: dict[str, float] = {}
    for point in known["points"]:
        for kernel in point["kernels"][:1]:
            for name, ceiling in kernel["ceilings"].items():
                ceilings[name] = max(ceilings.get(name, 0.0), ceiling)
    bandwidth = ceilings.pop("DRAM", None)
    flops = {name: value / 1e12 for name, value in ceilings.items() if name not in {"L1", "L2"}}
    xs = [point[0] for line in lines for point in line.points]
    ys = [point[1] for line in lines for point in line.points]
    if bandwidth and flops:
        xs.append(max(flops.values()) * 1e12 / bandwidth * 2)  # where the roofs meet is shown
    x = logarithmic(min(xs) / 2, max(xs) * 2)
    top = max([*ys, *flops.values()]) * 2
    y = logarithmic(min(ys) / 2, top)
    roofs = []
    if bandwidth:
        low = max(x.least, y.least * 1e12 / bandwidth)
        high = min(x.most, (max(flops.values()) if flops else y.most) * 1e12 / bandwidth)
        if low < high:
            ends = [(of, of * bandwidth / 1e12) for of in (low, high)]
            roofs.append((f"DRAM {bandwidth / 1e12:.2f} TB/s", ends))
    for name, value in flops.items():
        begin = max(value * 1e12 / bandwidth if bandwidth else x.least, x.least)
        if begin < x.most:
            roofs.append((f"{name} {value:.0f} TFLOP/s", [(begin, value), (x.most, value)]))
    body = "".join(_roof(name, ends, x, y) for name, ends in roofs)
    return (
        _frame("Roofline: TFLOP/s over FLOP per byte of DRAM", "", x, y)
        + body
        + _drawn(lines, x, y)
    )


def _roof(name: str, ends: Sequence[tuple[float, float]], x: Axis, y: Axis) -> str:
    (x1, y1), (x2, y2) = ((_x(x, a), _y(y, b)) for a, b in ends)
    is_flat = y1 == y2
    place = (x2, y2 - 5, "end") if is_flat else ((x1 + x2) / 2 + 10, (y1 + y2) / 2 + 12, "start")
    return (
        f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="#666"'
        f' stroke-dasharray="5 3"/><text x="{place[0]:.1f}" y="{place[1]:.1f}"'
        f' text-anchor="{place[2]}" fill="#444">{_text(name)}</text>\n'
    )


def _panel(known: Facts, title: str, lines: Sequence[Line], y: Axis | None = None) -> str:
    """Return a panel of values over the parameter of the x axis; empty without lines."""
    if not lines:
        return ""
    name, x = x_axis(known)
    values = [point[1] for line in lines for point in line.points]
    if y is None:
        is_wide = min(values) > 0 and max(values) > MANY * min(values)
        y = logarithmic(min(values), max(values)) if is_wide else linear(0.0, max(values))
    return _frame(title, name, x, y) + _drawn(lines, x, y)


def _frame(title: str, below: str, x: Axis, y: Axis) -> str:
    parts = [
        f'<text x="{_LEFT}" y="20" font-size="13" font-weight="600">{_text(title)}</text>\n',
        (
            f'<text x="{(_LEFT + _WIDTH - _RIGHT) / 2:.0f}" y="{_HEIGHT - 8}"'
            f' text-anchor="middle">{_text(below)}</text>\n'
        ),
    ]
    for value, text in y.ticks:
        at = _y(y, value)
        parts.append(
            f'<line x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{at:.1f}" y2="{at:.1f}" stroke="#ddd"/>'
            f'<text x="{_LEFT - 6}" y="{at + 4:.1f}" text-anchor="end">{_text(text)}</text>\n'
        )
    for value, text in x.ticks:
        at = _x(x, value)
        parts.append(
            f'<line x1="{at:.1f}" x2="{at:.1f}" y1="{_HEIGHT - _BOTTOM}"'
            f' y2="{_HEIGHT - _BOTTOM + 4}" stroke="#666"/><text x="{at:.1f}"'
            f' y="{_HEIGHT - _BOTTOM + 18}" text-anchor="middle">{_text(text)}</text>\n'
        )
    return "".join(parts)


def _drawn(lines: Sequence[Line], x: Axis, y: Axis) -> str:
    parts = []
    for place, line in enumerate(lines):
        at = [(_x(x, a), _y(y, b), text) for a, b, text in line.points]
        path = " ".join(f"{a:.1f},{b:.1f}" for a, b, _ in at)
        parts.append(
            f'<polyline points="{path}" fill="none" stroke="{_color(place)}" stroke-width="2"/>\n'
        )
        parts += [
            f'<circle cx="{a:.1f}" cy="{b:.1f}" r="4" fill="{_color(place)}">'
            f"<title>{_text(text)}</title></circle>\n"
            for a, b, text in at
        ]
    return "".join(parts)


def _x(axis: Axis, value: float) -> float:
    return _LEFT + axis.share(value) * (_WIDTH - _LEFT - _RIGHT)


def _y(axis: Axis, value: float) -> float:
    return _HEIGHT - _BOTTOM - axis.share(value) * (_HEIGHT - _TOP - _BOTTOM)


def _color(place: int) -> str:
    return _COLORS[place % len(_COLORS)]


def _scaled(value: float | None, factor: float) -> float | None:
    return None if value is None else value * factor


def _text(text: str) -> str:
    return escape(visible(text))
