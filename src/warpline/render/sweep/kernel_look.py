"""What is shown of a sweep of kernels: of each point, the kernel with the most time."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from warpline.render.sweep.axes import (
    Axis,
    Facts,
    Line,
    linear,
    lines_of,
    logarithmic,
    point_title,
    series,
)
from warpline.render.sweep.look import Bars, Column, Look
from warpline.render.sweep.picture import drawn, frame, panel, scaled, text_of, x_of, y_of
from warpline.units import format_ns, format_ratio

_COLUMNS = (
    Column("short_name", "Kernel", str, is_text=True),
    Column("grid", "Grid", str, is_text=True),
    Column("block", "Block", str, is_text=True),
    Column("duration_ns", "Time", format_ns),
    Column("sm_ratio", "SM", format_ratio),
    Column("tensor_ratio", "Tensor Cores", format_ratio),
    Column("dram_ratio", "DRAM", format_ratio),
    Column("flop_per_s", "TFLOP/s", lambda value: f"{value / 1e12:.3f}"),
    Column("bytes_per_s", "GB/s", lambda value: f"{value / 1e9:.1f}"),
    Column("intensity", "FLOP/B", lambda value: f"{value:.2f}"),
    Column("roof", "Ceiling", str, is_text=True),
    Column("roof_ratio", "Of ceiling", format_ratio),
    Column("occupancy_ratio", "Occupancy", format_ratio),
)


def _panels(known: Facts) -> list[str]:
    """Return the panels of time, throughput, share of the ceiling, and the roofline."""
    found = (_time(known), _rate(known), _share(known), _roofline(known))
    return [panel for panel in found if panel]


def _columns(known: Facts) -> list[Column]:
    kernels = [kernel for point in known["points"] for kernel in point["kernels"]]
    columns = [
        column for column in _COLUMNS if any(k.get(column.name) is not None for k in kernels)
    ]
    metrics = dict.fromkeys(name for kernel in kernels for name in kernel["metrics"])
    return columns + [Column(name, name, lambda value: f"{value:.6g}") for name in metrics]


def _rows(point: Facts) -> Sequence[Mapping[str, Any]]:
    return [kernel["metrics"] | kernel for kernel in point["kernels"]]


def _first(name: str) -> Callable[[Facts], float | None]:
    """Return what gives a number of the first kernel of a point."""
    return lambda point: point["kernels"][0].get(name) if point["kernels"] else None


def _lines(known: Facts, value: Callable[[Facts], float | None]) -> list[Line]:
    """Return the lines of a number of the first kernel of each point."""
    return lines_of(known, lambda p: value(p["kernels"][0]) if p["kernels"] else None)


def _time(known: Facts) -> str:
    lines = _lines(known, lambda kernel: scaled(kernel["duration_ns"], 1e-3))
    return panel(known, "Time of a launch (us)", lines)


def _rate(known: Facts) -> str:
    """Return the panel of FLOP/s or, where these are unknown, of bytes per second."""
    lines = _lines(known, lambda kernel: scaled(kernel["flop_per_s"], 1e-12))
    if lines:
        return panel(known, "TFLOP/s", lines)
    lines = _lines(known, lambda kernel: scaled(kernel["bytes_per_s"], 1e-9))
    return panel(known, "DRAM throughput (GB/s)", lines)


def _share(known: Facts) -> str:
    lines = _lines(known, lambda kernel: scaled(kernel["roof_ratio"], 100.0))
    title = "Share of the nearest ceiling (%)"
    if not lines:
        lines = _lines(known, lambda kernel: scaled(kernel.get("dram_ratio"), 100.0))
        title = "DRAM throughput (% of peak)"
    return panel(known, title, lines, linear(0.0, 100.0))


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
        frame("Roofline: TFLOP/s over FLOP per byte of DRAM", "", x, y) + body + drawn(lines, x, y)
    )


def _roof(name: str, ends: Sequence[tuple[float, float]], x: Axis, y: Axis) -> str:
    (x1, y1), (x2, y2) = ((x_of(x, a), y_of(y, b)) for a, b in ends)
    is_flat = y1 == y2
    place = (x2, y2 - 5, "end") if is_flat else ((x1 + x2) / 2 + 10, (y1 + y2) / 2 + 12, "start")
    return (
        f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="#666"'
        f' stroke-dasharray="5 3"/><text x="{place[0]:.1f}" y="{place[1]:.1f}"'
        f' text-anchor="{place[2]}" fill="#444">{text_of(name)}</text>\n'
    )


_BARS = (
    Bars("Time of a launch", _first("duration_ns"), format_ns),
    Bars("Share of the nearest ceiling", _first("roof_ratio"), format_ratio, 1.0),
)
LOOK = Look(_BARS, _BARS, _panels, _columns, _rows)
