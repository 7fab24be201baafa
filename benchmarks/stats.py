"""`warpline stats` compared with `nsys stats` on the same recording: whole processes, in turn.

Usage: python benchmarks/stats.py --nsys /path/to/nsys [--kernels 100000 1000000] [--rounds 5]
                                  [--tables cuda_gpu_kern_sum,...] [--folder DIR]

make_nsys.py generates the recordings. They are SQLite files already, so nsys exports nothing.
Without --nsys, only Warpline's figures are printed.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from pathlib import Path

from make_nsys import make
from paired import Cost, compare, median, ratio
from startup import installed_command

DEFAULT_TABLES = "cuda_gpu_kern_sum,cuda_gpu_kern_gb_sum,cuda_api_sum,cuda_api_gpu_sum,nvtx_sum"


def commands(recording: Path, table: str, nsys: str | None) -> dict[str, list[str]]:
    """Return each program's command for the same work, as CSV so that both print every row."""
    both = {
        "warpline": [*installed_command(), "stats", "-r", table, "-f", "csv", str(recording)],
    }
    if nsys:
        both["nsys"] = [nsys, "stats", "-r", table, "-f", "csv", "-o", "-", str(recording)]
    return both


def line(table: str, kernels: int, name: str, cost: Cost, times_faster: str) -> str:
    """Format one row of the report."""
    figures = f"{cost.wall_s:8.2f} {cost.cpu_s:8.2f} {cost.peak_mb:9.0f}"
    return f"{table:24} {kernels:10,} {name:10} {figures} {times_faster:>8}"


def main() -> None:
    """Print one row per table, size and program."""
    parser = argparse.ArgumentParser(description="warpline stats compared with nsys stats.")
    parser.add_argument("--nsys", help="path of the nsys program")
    parser.add_argument("--kernels", type=int, nargs="+", default=[100_000, 1_000_000])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--tables", default=DEFAULT_TABLES)
    parser.add_argument("--folder", type=Path, help="directory for the recordings")
    options = parser.parse_args()
    folder = options.folder or Path(tempfile.mkdtemp())
    folder.mkdir(parents=True, exist_ok=True)
    print(f"{sys.platform}, {os.cpu_count()} processors, medians of {options.rounds} rounds")
    header = f"{'wall s':>8} {'cpu s':>8} {'peak MB':>9} {'faster':>8}"
    print(f"{'table':24} {'kernels':>10} {'program':10} {header}")
    for kernels in options.kernels:
        recording = folder / f"kernels_{kernels}.sqlite"
        if not recording.exists():
            make(kernels, recording)
        for table in options.tables.split(","):
            costs = compare(commands(recording, table, options.nsys), options.rounds)
            for name, runs in costs.items():
                peer = costs.get("nsys") if name == "warpline" else None
                times = f"{ratio(runs, peer):.1f}x" if peer else ""
                print(line(table, kernels, name, median(runs), times), flush=True)


if __name__ == "__main__":
    main()
