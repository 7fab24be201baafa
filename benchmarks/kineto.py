"""Loading a PyTorch profiler trace and summing its kernels, compared with other programs.

Usage: python benchmarks/kineto.py TRACE... [--hta PYTHON] [--perfetto PATH] [--rounds 3]

Programs run alternately, and every figure covers a whole process: `warpline stats -r
cuda_gpu_kern_sum TRACE`; the peers that are installed (peers.py); and the minimum for any reader in
Python: json.load, then kernel durations summed by name. "per MB" refers to the uncompressed text.
On a shared machine, compare CPU seconds.
"""

from __future__ import annotations

import argparse
import gzip
import os
import statistics
import sys
from pathlib import Path

import peers
from paired import Cost, compare, median

MB = 1_000_000
GZIP_MAGIC = b"\x1f\x8b"

PLAIN = """
import collections, gzip, json, sys
opener = gzip.open if open(sys.argv[1], "rb").read(2) == b"\\x1f\\x8b" else open
with opener(sys.argv[1], "rb") as file:
    trace = json.load(file)
sums = collections.Counter()
for event in trace["traceEvents"]:
    if event.get("cat", "").lower() == "kernel":
        sums[event["name"]] += event["dur"]
"""


def text_bytes(trace: Path) -> int:
    """Return the size of a trace's uncompressed text."""
    with trace.open("rb") as file:
        is_gzip = file.read(len(GZIP_MAGIC)) == GZIP_MAGIC
    if not is_gzip:
        return trace.stat().st_size
    with gzip.open(trace) as unpacked:
        return sum(len(piece) for piece in iter(lambda: unpacked.read(1 << 20), b""))


def cpu_ratio(costs: list[Cost], others: list[Cost]) -> float:
    """Return the median per-round ratio of the peer's CPU time to ours."""
    return statistics.median(b.cpu_s / a.cpu_s for a, b in zip(costs, others, strict=True))


def line(name: str, cost: Cost, megabytes: float, more: str) -> str:
    """Format one row of the report."""
    per_mb = f"{1000 * cost.cpu_s / megabytes:9.1f} {cost.peak_mb / megabytes:9.2f}"
    return f"{name:10} {cost.wall_s:8.2f} {cost.cpu_s:8.2f} {cost.peak_mb:9.0f} {per_mb} {more:>8}"


def main() -> None:
    """Print one row per trace and program."""
    parser = argparse.ArgumentParser(description="Reading PyTorch profiler traces, compared.")
    parser.add_argument("traces", type=Path, nargs="+")
    parser.add_argument("--rounds", type=int, default=3)
    peers.add_arguments(parser)
    options = parser.parse_args()
    found = peers.find(options)
    print(f"{sys.platform}, {os.cpu_count()} processors, medians of {options.rounds} rounds")
    heads = ("wall s", "cpu s", "peak MB", "cpu ms/MB", "MB per MB", "cpu x")
    widths = (8, 8, 9, 9, 9, 8)
    header = " ".join(f"{head:>{width}}" for head, width in zip(heads, widths, strict=True))
    for trace in options.traces:
        megabytes = text_bytes(trace) / MB
        print(f"\n{trace.name}, {megabytes:.1f} MB\n{'program':10} {header}")
        plain = [sys.executable, "-c", PLAIN, str(trace)]
        commands = {**found.kernels_of_pytorch(trace), "json.load": plain}
        costs = compare(commands, options.rounds)
        for name, runs in costs.items():
            more = f"{cpu_ratio(costs['warpline'], runs):.1f}"
            print(line(name, median(runs), megabytes, more), flush=True)


if __name__ == "__main__":
    main()
