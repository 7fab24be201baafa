"""Bars of a sweep on a terminal."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TextIO

from warpline.render import Options
from warpline.render.escaping import shorten, visible
from warpline.render.sweep.axes import MANY, Facts, point_title
from warpline.render.sweep.look import Look

_LABEL, _VALUE = 24, 10  # columns of a bar's label and value
_MOST_BARS = 40


def write_bars(known: Facts, out: TextIO, options: Options, look: Look) -> None:
    """Write bars of each number that all, or with a fixed scale some, points have."""
    for bars in look.bars:
        found = [(point, bars.value(point)) for point in known["points"] if look.rows(point)]
        values = [value for _, value in found if value is not None]
        if len(found) < 2 or not values or (bars.most is None and len(values) < len(found)):
            continue
        heading, shares = bars.heading, [(value or 0.0) / (bars.most or 1.0) for _, value in found]
        if bars.most is None:
            is_log = min(values) > 0 and max(values) > MANY * min(values)
            heading += ", logarithmic" if is_log else ""
            shares = _shares(values, is_log=is_log)
        rows = [
            (point, min(share, 1.0), value)
            for (point, value), share in zip(found, shares, strict=True)
        ]
        _write_bars(heading, rows, bars.shown, out, options)


def _shares(values: Sequence[float], *, is_log: bool) -> list[float]:
    """Return the lengths of bars, as shares of the longest."""
    if not is_log:
        return [value / (max(values) or 1.0) for value in values]
    least = min(values) / 1.25
    return [math.log(value / least) / math.log(max(values) / least) for value in values]


def _write_bars(
    heading: str,
    rows: Sequence[tuple[Facts, float, float | None]],
    shown: Callable[[float], str],
    out: TextIO,
    options: Options,
) -> None:
    out.write(f"\n{heading}\n")
    room = max(min(options.width or 100, 120) - _LABEL - _VALUE - 6, 10)
    mark = "█" if options.unicode else "#"
    for point, share, value in rows[:_MOST_BARS]:
        label = shorten(visible(point_title(point), unicode=options.unicode), _LABEL, "...")
        text = "" if value is None else shown(value)
        out.write(f"  {label:{_LABEL}} {text:>{_VALUE}}  {mark * round(share * room)}".rstrip())
        out.write("\n")
    if len(rows) > _MOST_BARS:
        out.write(f"  {len(rows) - _MOST_BARS} more points in --csv and --plot\n")
