"""Bars of a sweep on a terminal."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, TextIO

from warpline.render import Options
from warpline.render.escaping import shorten, visible
from warpline.render.sweep.axes import MANY, Facts, point_title
from warpline.units import format_ns, format_ratio

_LABEL, _VALUE = 24, 10  # columns of a bar's label and value
_MOST_BARS = 40


def write_bars(known: Facts, out: TextIO, options: Options) -> None:
    """Write bars of the time and of the share of the nearest ceiling of each point."""
    points = [point for point in known["points"] if point["kernels"]]
    if len(points) < 2:
        return
    times = [_first(point, "duration_ns") for point in points]
    if all(time is not None and time > 0 for time in times):
        is_log = max(times) > MANY * min(times)
        scale = ", logarithmic" if is_log else ""
        least = min(times) / 1.25
        shares = [
            math.log(time / least) / math.log(max(times) / least) if is_log else time / max(times)
            for time in times
        ]
        _write_bars(f"Time of a launch{scale}", points, shares, times, format_ns, out, options)
    ratios = [_first(point, "roof_ratio") for point in points]
    if any(ratio is not None for ratio in ratios):
        shares = [min(ratio or 0.0, 1.0) for ratio in ratios]
        heading = "Share of the nearest ceiling"
        _write_bars(heading, points, shares, ratios, format_ratio, out, options)


def _write_bars(
    heading: str,
    points: Sequence[Facts],
    shares: Sequence[float],
    values: Sequence[float | None],
    shown: Callable[[float], str],
    out: TextIO,
    options: Options,
) -> None:
    out.write(f"\n{heading}\n")
    room = max(min(options.width or 100, 120) - _LABEL - _VALUE - 6, 10)
    mark = "█" if options.unicode else "#"
    rows = list(zip(points, shares, values, strict=True))
    for point, share, value in rows[:_MOST_BARS]:
        label = shorten(visible(point_title(point), unicode=options.unicode), _LABEL, "...")
        text = "" if value is None else shown(value)
        out.write(f"  {label:{_LABEL}} {text:>{_VALUE}}  {mark * round(share * room)}".rstrip())
        out.write("\n")
    if len(rows) > _MOST_BARS:
        out.write(f"  {len(rows) - _MOST_BARS} more points in --csv and --plot\n")


def _first(point: Facts, name: str) -> Any:
    return point["kernels"][0].get(name)
