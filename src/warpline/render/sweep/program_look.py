"""What is shown of a sweep of a program: step time, throughput, memory and busy share."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from warpline.render.sweep.axes import Axis, Facts, linear, lines_of, x_axis
from warpline.render.sweep.look import Bars, Column, Look
from warpline.render.sweep.picture import LEFT, RIGHT, WIDTH, drawn, frame, panel, scaled, y_of
from warpline.units import format_bytes, format_ns, format_ratio

_GIB = 1 / 2**30


def _number(name: str) -> Callable[[Facts], float | None]:
    """Return what gives a number of a point."""
    return lambda point: point[name]


def _rate(value: float) -> str:
    """Return items per second with three digits: ``12.3k/s``."""
    for factor, prefix in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= factor:
            return f"{value / factor:.3g}{prefix}/s"
    return f"{value:.3g}/s"


_COLUMNS = (
    Column("step_ns", "Step", format_ns),
    Column("items_per_s", "Items/s", _rate),
    Column("peak_memory_bytes", "Peak memory", format_bytes),
    Column("predicted_memory_bytes", "Predicted", format_bytes),
    Column("predicted_error_bytes", "±", format_bytes),
    Column("allocated_bytes", "Allocated", format_bytes),
    Column("busy_ratio", "GPU busy", format_ratio),
    Column("finding", "First finding", lambda found: str(found["title"]), is_text=True),
)
_STEP = Bars("Step time", _number("step_ns"), format_ns)
_ITEMS = Bars("Items per second", _number("items_per_s"), _rate)
_PEAK = Bars("Peak memory", _number("peak_memory_bytes"), format_bytes)


def _panels(known: Facts) -> list[str]:
    """Return the panels of step time, throughput, memory and busy share."""
    step = lines_of(known, lambda point: scaled(point["step_ns"], 1e-6))
    items = lines_of(known, _number("items_per_s"))
    busy = lines_of(known, lambda point: scaled(point["busy_ratio"], 100.0))
    found = (
        panel(known, "Step time (ms)", step),
        panel(known, "Items per second", items),
        _memory(known),
        panel(known, "GPU busy (%)", busy, linear(0.0, 100.0)),
    )
    return [of for of in found if of]


def _memory(known: Facts) -> str:
    """Return the panel of peaks, with what was predicted of points that did not fit, and limit."""
    lines = lines_of(known, lambda point: scaled(point["peak_memory_bytes"], _GIB))
    if not lines:
        return ""
    limits = [point["memory_limit_bytes"] for point in known["points"]]
    limit = min((of * _GIB for of in limits if of is not None), default=None)
    highest = max(point[1] for line in lines for point in line.points)
    near = limit if limit is not None and limit < 4 * highest else None
    name, x = x_axis(known)
    y = linear(0.0, max(highest, near or 0.0))
    line = "" if near is None else _limit(near, y)
    return frame("Peak memory (GiB)", name, x, y) + line + drawn(lines, x, y)


def _limit(limit: float, y: Axis) -> str:
    at = y_of(y, limit)
    return (
        f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{at:.1f}" y2="{at:.1f}" stroke="#666"'
        f' stroke-dasharray="5 3"/><text x="{LEFT + 6}" y="{at + 14:.1f}" fill="#444">'
        f"free for the program: {limit:.1f} GiB</text>\n"
    )


def _columns(known: Facts) -> list[Column]:
    points = known["points"]
    return [of for of in _COLUMNS if any(point[of.name] is not None for point in points)]


def _rows(point: Facts) -> Sequence[Mapping[str, Any]]:
    return [point] if point["is_measured"] else []


LOOK = Look((_STEP, _PEAK), (_ITEMS, _STEP, _PEAK), _panels, _columns, _rows)
