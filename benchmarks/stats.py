"""`warpline stats` compared with `nsys stats` on the same recording: whole processes, in turn.

Usage: python benchmarks/stats.py [--nsys /path/to/nsys] [--kernels 100000 1000000] [--rounds 5]
                                  [--tables cuda_gpu_kern_sum,...] [--folder DIR]

The recordings are SQLite files already, so nsys exports nothing. Without nsys, only Warpline's
figures are printed.
"""

from __future__ import annotations

import argparse
import os
import sys

import peers
from inputs import add_argument, inputs_of
from paired import Cost, compare, median, ratio

DEFAULT_TABLES = "cuda_gpu_kern_sum,cuda_gpu_kern_gb_sum,cuda_api_sum,cuda_api_gpu_sum,nvtx_sum"


def line(table: str, kernels: int, name: str, cost: Cost, times_faster: str) -> str:
    """Format one row of the report."""
    figures = f"{cost.wall_s:8.2f} {cost.cpu_s:8.2f} {cost.peak_mb:9.0f}"
    return f"{table:24} {kernels:10,} {name:10} {figures} {times_faster:>8}"


def main() -> None:
    """Print one row per table, size and program."""
    parser = argparse.ArgumentParser(description="warpline stats compared with nsys stats.")
    parser.add_argument("--kernels", type=int, nargs="+", default=[100_000, 1_000_000])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--tables", default=DEFAULT_TABLES)
    add_argument(parser)
    peers.add_arguments(parser)
    options = parser.parse_args()
    found, inputs = peers.find(options), inputs_of(options)
    print(f"{sys.platform}, {os.cpu_count()} processors, medians of {options.rounds} rounds")
    header = f"{'wall s':>8} {'cpu s':>8} {'peak MB':>9} {'faster':>8}"
    print(f"{'table':24} {'kernels':>10} {'program':10} {header}")
    for kernels in options.kernels:
        for table in options.tables.split(","):
            costs = compare(found.stats(table, inputs.nsys(kernels)), options.rounds)
            for name, runs in costs.items():
                beside = costs.get("nsys") if name == "warpline" else None
                times = f"{ratio(runs, beside):.1f}x" if beside else ""
                print(line(table, kernels, name, median(runs), times), flush=True)


if __name__ == "__main__":
    main()
