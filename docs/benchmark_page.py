"""The plot and the tables of docs/benchmarks.md, from the figures that `make bench` measured."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from log_plot import Panel, Point, axis, figure

DOCS = Path(__file__).parent
DATA = DOCS / "benchmarks.json"
PART = re.compile(r"(<!-- Generated (\w+): [^>]* -->\n).*?(<!-- End -->)", re.DOTALL)
NAMES = {
    "warpline": "Warpline",
    "nsys": "nsys",
    "hta": "HTA",
    "perfetto": "Perfetto",
}
COLORS = {
    "Warpline": ("#2a78d6", "#3987e5"),
    "nsys": ("#eb6834", "#d95926"),
    "HTA": ("#1baf7a", "#199e70"),
    "Perfetto": ("#4a3aa7", "#9085e9"),
}
WORKS = {
    "summary": "`warpline FILE`",
    "cuda_gpu_kern_sum": "`stats -r cuda_gpu_kern_sum`",
    "nvtx_kern_sum": "`stats -r nvtx_kern_sum`",
    "nvtx_gpu_proj_sum": "`stats -r nvtx_gpu_proj_sum`",
    "all_tables": "`stats`, all default tables",
    "analyze": "`analyze`",
    "report": "`report`",
    "compare": "`compare`, two files of this size",
    "kineto": "PyTorch trace, kernel summary",
    "recording": "`.warpline`, `cuda_gpu_kern_sum`",
    "finishing": "finishing a recording, by ranges",
}
PANELS = {
    "cuda_gpu_kern_sum": "cuda_gpu_kern_sum",
    "nvtx_kern_sum": "nvtx_kern_sum",
    "kineto": "PyTorch trace, kernels",
    "analyze": "analyze",
}
LINEAR = 1.2  # more than this over a linear growth is named
LARGE = 1_000_000

Row = Mapping[str, Any]


def rows_of(path: Path = DATA) -> list[Row]:
    """Return the measured rows."""
    rows: list[Row] = json.loads(path.read_text(encoding="utf-8"))["rows"]
    return rows


def page() -> str:
    """Return the page with its tables up to date."""
    stored = json.loads(DATA.read_text(encoding="utf-8"))
    parts = {
        "conditions": conditions(stored["conditions"], stored["rows"]),
        "figures": figures(stored["rows"]),
        "growth": growth(stored["rows"]),
    }
    text = (DOCS / "benchmarks.md").read_text(encoding="utf-8")
    return PART.sub(lambda found: f"{found[1]}\n{parts[found[2]]}\n\n{found[3]}", text)


def plot() -> str:
    """Return the plot as SVG."""
    rows = [row for row in rows_of() if row["work"] in PANELS and "wall_s" in row]
    sizes = [row["size"] for row in rows]
    x = axis("kernels in the recording", sizes, _count)
    times = axis("time", [row["wall_s"] for row in rows], _seconds)
    memory = axis("peak memory", [row["peak_mb"] for row in rows], _megabytes)
    grid = [
        (y, [Panel(title, _lines(rows, work, figure)) for work, title in PANELS.items()])
        for y, figure in ((times, "wall_s"), (memory, "peak_mb"))
    ]
    return figure("Time and peak memory against the number of kernels", x, grid, COLORS)


def _lines(rows: Iterable[Row], work: str, name: str) -> dict[str, list[Point]]:
    lines: dict[str, list[Point]] = {}
    for row in rows:
        if row["work"] == work:
            point = Point(row["size"], row[name], row["runs"] == 1)
            lines.setdefault(NAMES[row["program"]], []).append(point)
    return lines


def conditions(facts: Mapping[str, Any], rows: Sequence[Row]) -> str:
    """Return where the figures were measured, and beside what else."""
    dates = sorted({row["date"] for row in rows})
    loads = [row["load"] for row in rows if "load" in row]
    peers = ", ".join(f"{NAMES[name]}: {said}" for name, said in facts["peers"].items())
    text = (
        f"Measured on {_span(dates)}: {facts['cores']} cores, {facts['memory_gb']} GB,"
        f" {facts['system']}, Python {facts['python']}, numpy {facts['numpy']}. {peers}. The load"
        f" average was {min(loads):.0f} to {max(loads):.0f} when a row began."
    )
    if max(loads) > facts["cores"]:
        text += " Other programs kept the machine busy: CPU seconds say more than times."
    return text


def _span(dates: Sequence[str]) -> str:
    return dates[0] if dates[0] == dates[-1] else f"{dates[0]} to {dates[-1]}"


def figures(rows: Sequence[Row]) -> str:
    """Return the table of all rows."""
    heads = ("work", "kernels", "time", "CPU", "peak memory", "others, and how many times our time")
    found: dict[tuple[str, int], dict[str, Row]] = {}
    for row in rows:
        found.setdefault((row["work"], row["size"]), {})[row["program"]] = row
    lines = []
    for (work, size), programs in found.items():
        ours = _figures(programs["warpline"])
        others = "; ".join(
            f"{NAMES[name]} {_beside(row)}" for name, row in programs.items() if name != "warpline"
        )
        lines.append([WORKS[work], _count(size), *ours, others])
    return _table(heads, lines)


def _figures(row: Row) -> list[str]:
    if "wall_s" not in row:
        return ["not run", "", ""]
    once = ", one run" if row["runs"] == 1 else ""
    return [_seconds(row["wall_s"]) + once, _seconds(row["cpu_s"]), _megabytes(row["peak_mb"])]


def _beside(row: Row) -> str:
    if "wall_s" not in row:
        return "not run"
    time, cpu, memory = _figures(row)
    return f"{time}, CPU {cpu}, {memory}: {row['times_ours']:.1f}x"


def growth(rows: Sequence[Row]) -> str:
    """Return the table of how Warpline's costs grow between the two largest sizes."""
    heads = ("work", "kernels", "CPU per kernel", "growth", "memory per kernel", "growth", "")
    lines = []
    for work, title in WORKS.items():
        ours = [
            row
            for row in rows
            if (row["work"], row["program"]) == (work, "warpline")
            and row["size"] >= LARGE
            and "wall_s" in row
        ]
        if len(ours) < 2:
            continue
        small, large = sorted(ours, key=lambda row: int(row["size"]))[-2:]
        cells = [title, f"{_count(small['size'])}, {_count(large['size'])}"]
        ratios = []
        for name, scale, unit in (("cpu_s", 1e9, "ns"), ("peak_mb", 1e6, "B")):
            first, last = (row[name] * scale / row["size"] for row in (small, large))
            ratios.append(last / first)
            cells += [f"{first:,.0f}, {last:,.0f} {unit}", f"{last / first:.2f}x"]
        verdict = "linear or less" if max(ratios) <= LINEAR else "more than linear"
        lines.append([*cells, verdict])
    if not lines:
        return "Not measured: `make bench` with two sizes of at least a million."
    return _table(heads, lines)


def _table(heads: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    cells = [heads, ["---"] * len(heads), *lines]
    return "\n".join("| " + " | ".join(line) + " |" for line in cells)


def _count(number: float) -> str:
    for limit, unit in ((1e6, "M"), (1e3, "k")):
        if number >= limit:
            return f"{number / limit:g} {unit}"
    return f"{number:g}"


def _seconds(seconds: float) -> str:
    if seconds >= 10:
        return f"{seconds:.0f} s"
    return f"{seconds:.2g} s" if seconds < 1 else f"{seconds:.1f} s"


def _megabytes(megabytes: float) -> str:
    return f"{megabytes / 1000:.3g} GB" if megabytes >= 1000 else f"{megabytes:.0f} MB"
