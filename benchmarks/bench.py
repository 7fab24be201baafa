"""Warpline beside other programs at growing sizes: time and peak memory of whole processes.

Usage: python benchmarks/bench.py [--sizes 10000 100000 1000000] [--rounds 5] [--folder DIR]
           [--works NAME...] [--nsys PROGRAM] [--hta PYTHON] [--perfetto PATH] [--data FILE]

Or `make bench SIZES="5000000 20000000"`. Programs take turns, once without being counted. One that
takes longer than --patience in that turn runs only then; one that would take ten times as long, or
more than half of the memory, is left out. Both are predicted from its next smaller size in --data,
as if they grew linearly. The figures replace those of the same work and size in --data, from which
`make docs` makes the plot and the tables of docs/benchmarks.md.
"""

from __future__ import annotations

import argparse
import datetime as dt
import json
import os
import platform
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import finishing
import numpy as np
import peers
from inputs import Inputs, add_argument, inputs_of
from paired import Cost, compare, median, ratio
from peers import MISSING, Peers, warpline

ROOT = Path(__file__).parents[1]
DATA = ROOT / "docs" / "benchmarks.json"
SIZES = (10_000, 100_000, 1_000_000)
TIMES_PATIENCE = 10
MEMORY_SHARE = 0.5

Commands = dict[str, list[str]]
Row = dict[str, Any]


@dataclass(frozen=True)
class Work:
    """Work that is measured.

    Attributes:
        title: What it is, for the table.
        commands: From the peers, the inputs and a size: the command of each program.
        largest: The largest size that is measured.
    """

    title: str
    commands: Callable[[Peers, Inputs, int], Commands]
    largest: int = 100_000_000


def _stats(table: str) -> Callable[[Peers, Inputs, int], Commands]:
    return lambda found, inputs, kernels: found.stats(table, inputs.nsys(kernels))


def _ours(*words: str) -> Callable[[Peers, Inputs, int], Commands]:
    def commands(found: Peers, inputs: Inputs, kernels: int) -> Commands:
        return {"warpline": warpline(*words, str(inputs.nsys(kernels)))}

    return commands


def _report(found: Peers, inputs: Inputs, kernels: int) -> Commands:
    words = ("-f", "-o", str(inputs.folder / "report.html"))
    return {"warpline": warpline("report", *words, str(inputs.nsys(kernels)))}


def _compare(found: Peers, inputs: Inputs, kernels: int) -> Commands:
    """Compare a file with itself: it is read and analyzed twice, as two files are."""
    return {"warpline": warpline("compare", *[str(inputs.nsys(kernels))] * 2)}


def _recording(found: Peers, inputs: Inputs, kernels: int) -> Commands:
    words = ("stats", "-r", "cuda_gpu_kern_sum", "-f", "csv")
    return {"warpline": warpline(*words, str(inputs.recording(kernels)))}


def _finishing(found: Peers, inputs: Inputs, ranges: int) -> Commands:
    return {"warpline": finishing.command(inputs.session(ranges))}


WORKS: Mapping[str, Work] = {
    "summary": Work("`warpline FILE`", _ours("summary")),
    "cuda_gpu_kern_sum": Work("`stats -r cuda_gpu_kern_sum`", _stats("cuda_gpu_kern_sum")),
    "nvtx_kern_sum": Work("`stats -r nvtx_kern_sum`", _stats("nvtx_kern_sum")),
    "nvtx_gpu_proj_sum": Work("`stats -r nvtx_gpu_proj_sum`", _stats("nvtx_gpu_proj_sum")),
    "all_tables": Work("`stats`, all default tables", _ours("stats", "-f", "csv")),
    "analyze": Work("`analyze`", _ours("analyze")),
    "report": Work("`report`", _report),
    "compare": Work("`compare`, two files of this size", _compare),
    "kineto": Work(
        "PyTorch trace, kernel summary",
        lambda found, inputs, kernels: found.kernels_of_pytorch(inputs.kineto(kernels)),
        largest=1_000_000,  # a kernel is 1 kB of JSON
    ),
    "recording": Work("`.warpline`, `cuda_gpu_kern_sum`", _recording),
    "finishing": Work("finishing a recording (ranges)", _finishing),
}


def is_affordable(last: Row | None, size: int, patience_s: float, memory_mb: float) -> bool:
    """Return whether a program may run at a size, from its row at the last one."""
    if last is None:
        return True
    if "wall_s" not in last:
        return False
    growth = size / last["size"]
    time_s, peak_mb = last["wall_s"] * growth, last["peak_mb"] * growth
    return bool(time_s <= TIMES_PATIENCE * patience_s and peak_mb <= MEMORY_SHARE * memory_mb)


def measure(
    work: str, size: int, commands: Commands, before: Mapping[str, Row], options: argparse.Namespace
) -> dict[str, Row]:
    """Return one row for each program; without figures for one that was left out."""
    memory_mb = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e6
    runs = {
        name: command
        for name, command in commands.items()
        if is_affordable(before.get(name), size, options.patience, memory_mb)
    }
    load = os.getloadavg()[0]
    costs = compare(runs, options.rounds, options.patience)
    facts = {"work": work, "size": size, "date": str(dt.datetime.now(dt.UTC).date())}
    rows: dict[str, Row] = {}
    for name in commands:
        rows[name] = {**facts, "program": name}
        if name in costs:
            rows[name] |= _figures(costs[name], costs["warpline"]) | {"load": round(load, 1)}
    return rows


def _figures(costs: Sequence[Cost], ours: Sequence[Cost]) -> Row:
    cost = median(costs)
    return {
        "runs": len(costs),
        "wall_s": round(cost.wall_s, 4),
        "cpu_s": round(cost.cpu_s, 4),
        "peak_mb": round(cost.peak_mb, 1),
        "times_ours": round(ratio(ours, costs), 3),
    }


def line(row: Row) -> str:
    """Format a row for the terminal."""
    start = f"{row['work']:20} {row['size']:11,} {row['program']:9}"
    if "wall_s" not in row:
        return f"{start} not run: it would take too long or too much memory"
    figures = f"{row['wall_s']:8.2f} {row['cpu_s']:8.2f} {row['peak_mb']:8.0f}"
    return f"{start} {figures} {row['times_ours']:7.1f}x {row['runs']:3}"


def conditions(found: Peers, data: Path) -> dict[str, Any]:
    """Return where and with what the figures were measured.

    Programs that are missing now keep the version of their figures in the file.
    """
    before = json.loads(data.read_text(encoding="utf-8"))["conditions"] if data.exists() else {}
    versions = found.versions()
    absent = {name for name, version in versions.items() if version == MISSING}
    versions |= {k: v for k, v in before.get("peers", {}).items() if k in absent}
    memory_gb = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    release = platform.freedesktop_os_release() if sys.platform == "linux" else {}
    return {
        "cores": os.cpu_count(),
        "memory_gb": round(memory_gb),
        "system": release.get("PRETTY_NAME", sys.platform),
        "python": platform.python_version(),
        "numpy": np.__version__,
        "peers": versions,
    }


def stored(path: Path) -> list[Row]:
    """Return the rows of a file, none if it is not there."""
    rows: list[Row] = json.loads(path.read_text(encoding="utf-8"))["rows"] if path.exists() else []
    return rows


def rows_before(rows: Sequence[Row], work: str, size: int) -> dict[str, Row]:
    """Return each program's row of the largest size below this one."""
    below = [row for row in rows if row["work"] == work and row["size"] < size]
    return {row["program"]: row for row in sorted(below, key=lambda row: int(row["size"]))}


def store(path: Path, rows: Sequence[Row], where: Mapping[str, Any]) -> None:
    """Write the rows; those of other works and sizes that the file has stay."""
    new = {(row["work"], row["size"], row["program"]): row for row in [*stored(path), *rows]}
    order = {name: number for number, name in enumerate(WORKS)}
    kept = sorted((row for row in new.values() if row["work"] in order), key=_order(order))
    lines = ",\n".join(f"  {json.dumps(row)}" for row in kept)
    facts = json.dumps(where)
    path.write_text(f'{{\n "conditions": {facts},\n "rows": [\n{lines}\n ]\n}}\n', encoding="utf-8")


def _order(works: Mapping[str, int]) -> Callable[[Row], tuple[int, int, bool, str]]:
    return lambda row: (
        works[row["work"]],
        row["size"],
        row["program"] != "warpline",
        row["program"],
    )


def main() -> None:
    """Measure, print the table and write the data."""
    parser = argparse.ArgumentParser(description="Warpline beside other programs.")
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES, metavar="KERNELS")
    parser.add_argument("--works", nargs="+", choices=WORKS, default=list(WORKS), metavar="WORK")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--patience", type=float, default=12.0, help="seconds of one run")
    parser.add_argument("--data", type=Path, default=DATA, help="default: docs/benchmarks.json")
    add_argument(parser)
    peers.add_arguments(parser)
    options = parser.parse_args()
    found, inputs = peers.find(options), inputs_of(options)
    where = conditions(found, options.data)
    for name, version in where["peers"].items():
        print(f"{name}: {version}")
    print(f"{'work':20} {'size':>11} {'program':9}", end="")
    print(f" {'wall s':>8} {'CPU s':>8} {'peak MB':>8}   ratio runs")
    for work in options.works:
        for size in sorted(options.sizes):
            if size > WORKS[work].largest:
                continue
            commands = WORKS[work].commands(found, inputs, size)
            before = rows_before(stored(options.data), work, size)
            rows = measure(work, size, commands, before, options)
            for row in rows.values():
                print(line(row), flush=True)
            store(options.data, list(rows.values()), where)


if __name__ == "__main__":
    main()
