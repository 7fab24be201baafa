"""Size of reports, and time to pack them.

Usage: python benchmarks/report.py [--events 1000000 5000000] [--folder DIR]

make_nsys.py generates the recordings. Each kernel accounts for about 5.5 events: its launch,
ranges, and the busy and idle time around it. Reading, diagnosis and packing are timed separately,
once, in this process.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

from inputs import add_argument, inputs_of

import warpline
from warpline import api
from warpline.trace import Run
from warpline.viewer.pack import pack, report_bytes

EVENTS_PER_KERNEL = 5.5


def measure(recording: Path) -> str:
    """Return one row: events, seconds for diagnosis and packing, size."""
    trace = warpline.open(recording)
    begin = time.perf_counter()
    diagnosis = api.analyze(trace)
    analyzed = time.perf_counter()
    pack(Run(trace), diagnosis)  # reads the columns that the diagnosis did not need
    read = time.perf_counter()
    container = pack(Run(trace), diagnosis)
    packed = time.perf_counter()
    events = sum(row["count"] for row in container.head["rows"])
    size_mb = report_bytes(container) / 1e6
    times = f"{analyzed - begin:9.2f} {read - analyzed:9.2f} {packed - read:9.2f}"
    return f"{events:11,} {times} {size_mb:8.1f} {size_mb / events * 1e6:8.2f}"


def main() -> None:
    """Print one row per size."""
    parser = argparse.ArgumentParser(description="Size of reports, and time to pack them.")
    parser.add_argument("--events", type=int, nargs="+", default=[1_000_000, 5_000_000])
    add_argument(parser)
    options = parser.parse_args()
    inputs = inputs_of(options)
    heads = f"{'analyze s':>9} {'first s':>9} {'again s':>9} {'MB':>8} {'MB/1M':>8}"
    print(f"{sys.platform}\n{'events':>11} {heads}")
    for events in options.events:
        recording = inputs.nsys(round(events / EVENTS_PER_KERNEL))
        print(measure(recording), flush=True)


if __name__ == "__main__":
    main()
