"""Axes and lines of the panels of a sweep's plot."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from warpline.render.escaping import shorten, visible

Facts = Mapping[str, Any]  # of a sweep, or of one of its points: warpline.documents.sweeps

_ROOM, _LONGEST_TICK = 52, 16  # characters of all names on the x axis, and of one
MANY = 50.0  # times the least: then a scale is logarithmic


class Axis(NamedTuple):
    """An axis: from values to a share of its length.

    Attributes:
        least: Where it begins.
        most: Where it ends.
        is_log: Whether it is logarithmic.
        ticks: Values to name, and their names.
    """

    least: float
    most: float
    is_log: bool
    ticks: tuple[tuple[float, str], ...]

    def share(self, value: float) -> float:
        """Return where a value is, as a share of the length of the axis."""
        if self.is_log:
            return math.log(value / self.least) / math.log(self.most / self.least)
        return (value - self.least) / (self.most - self.least)


class Line(NamedTuple):
    """A line of a panel: its name, and points with a title each."""

    name: str
    points: tuple[tuple[float, float, str], ...]


def _x_name(known: Facts) -> str:
    """Return the parameter of the x axis: of those with numbers only, the one with most values."""
    vary: Mapping[str, Sequence[Any]] = known["vary"]
    numeric = {
        name: len(values)
        for name, values in vary.items()
        if all(isinstance(value, int | float) for value in values)
    }
    return max(numeric, key=lambda name: numeric[name]) if numeric else next(iter(vary))


def x_axis(known: Facts) -> tuple[str, Axis]:
    """Return the name of the parameter of the x axis, and the axis."""
    name = _x_name(known)
    values = [_x_value(known, name, value) for value in known["vary"][name]]
    least, most = min(values), max(values)
    ticks = _named(known, name)
    is_log = least > 0 and most > 8 * least and isinstance(known["vary"][name][0], int | float)
    if least == most:
        return name, Axis(least - 1, most + 1, is_log=False, ticks=ticks)
    margin = (most - least) * 0.04
    if is_log:
        edge = (most / least) ** 0.04
        return name, Axis(least / edge, most * edge, is_log=True, ticks=ticks)
    return name, Axis(least - margin, most + margin, is_log=False, ticks=ticks)


def _x_value(known: Facts, name: str, value: Any) -> float:
    """Return where a value is on the x axis: texts are at their place."""
    values = known["vary"][name]
    is_numeric = all(isinstance(of, int | float) for of in values)
    return float(value) if is_numeric else float(values.index(value))


def _named(known: Facts, name: str) -> tuple[tuple[float, str], ...]:
    """Return the ticks of the x axis: as many of its values as there is room for."""
    values = known["vary"][name]
    texts = [shorten(visible(str(value)), _LONGEST_TICK, "...") for value in values]
    room = max(_ROOM // (max(map(len, texts)) + 2), 1)
    every = math.ceil(len(values) / room)
    return tuple(
        (_x_value(known, name, value), text)
        for value, text in list(zip(values, texts, strict=True))[::every]
    )


def series(known: Facts) -> list[tuple[str, list[Facts]]]:
    """Return the points of each combination of the other parameters, along the x axis."""
    name = _x_name(known)
    found: dict[str, list[Facts]] = {}
    for point in known["points"]:
        others = {of: value for of, value in point["values"].items() if of != name}
        if known["zip"]:  # they vary with the x axis
            others = {}
        title = " ".join(f"{of}={value}" for of, value in others.items())
        found.setdefault(title, []).append(point)
    return [
        (title, sorted(points, key=lambda p: _x_value(known, name, p["values"][name])))
        for title, points in found.items()
    ]


def series_names(known: Facts) -> list[str]:
    """Return the names of the lines."""
    return [title for title, _ in series(known)]


def lines_of(known: Facts, value: Callable[[Facts], float | None]) -> list[Line]:
    """Return a value of each point, as lines; empty if none is known."""
    name = _x_name(known)
    lines = []
    for title, points in series(known):
        found = []
        for point in points:
            number = value(point)
            if number is not None:
                at = _x_value(known, name, point["values"][name])
                found.append((at, number, f"{point_title(point)}: {number:.4g}"))
        lines.append(Line(title, tuple(found)))
    return lines if any(line.points for line in lines) else []


def linear(least: float, most: float) -> Axis:
    """Return an axis with round numbers that goes to a value, at least."""
    most = most if most > least else least + 1
    step = 10 ** math.floor(math.log10((most - least) / 2))
    for factor in (1, 2, 5, 10):
        if (most - least) / (step * factor) <= 6:
            step *= factor
            break
    most = math.ceil(round(most / step, 9)) * step
    count = round((most - least) / step)
    ticks = tuple((least + place * step, f"{least + place * step:g}") for place in range(count + 1))
    return Axis(least, most, is_log=False, ticks=ticks)


def logarithmic(least: float, most: float) -> Axis:
    """Return a logarithmic axis between powers of ten."""
    low, high = math.floor(math.log10(least)), math.ceil(math.log10(most))
    high = max(high, low + 1)
    every = max(math.ceil((high - low) / 6), 1)
    ticks = tuple((10.0**power, f"{10.0**power:g}") for power in range(low, high + 1, every))
    return Axis(10.0**low, 10.0**high, is_log=True, ticks=ticks)


def point_title(point: Facts) -> str:
    """Return a point in words: ``N=256 BLOCK=128``."""
    return " ".join(f"{name}={value}" for name, value in point["values"].items())


def plot_heading(known: Facts) -> str:
    """Return the heading of the plot."""
    return f"Sweep over {', '.join(known['vary'])}"
