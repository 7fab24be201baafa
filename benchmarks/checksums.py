"""Overhead of verifying a recording's checksums while reading it.

Usage: python benchmarks/checksums.py FILE.warpline [--runs 15]

Reading means opening the file and loading every column used by `stats -r
cuda_gpu_kern_sum,nvtx_kern_sum` and `analyze`, in the same way: in order, with references checked.
Runs with and without verification alternate in one process, each with a new mapping of a file in
the page cache. The commands are timed in the same way, in that process.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from unittest import mock

from turns import quintiles

import warpline
from warpline import api, container
from warpline.checksum import crc32
from warpline.readers.recording import RecordingSource

TABLES = ("cuda_gpu_kern_sum", "nvtx_kern_sum")
Loads = list[tuple[str, tuple[str, ...]]]
Work = Callable[[Path], object]


def loads_of(path: Path) -> Loads:
    """Return the columns loaded by the commands, by table, in order."""
    found: Loads = []
    load = RecordingSource.load

    def noted(source: RecordingSource, table: str, columns: tuple[str, ...]) -> object:
        found.append((table, tuple(columns)))
        return load(source, table, columns)

    with mock.patch.object(RecordingSource, "load", noted):
        run_stats(path)
        run_analyze(path)
    return list(dict.fromkeys(found))


def run_stats(path: Path) -> object:
    """Compute the tables."""
    return api.document(warpline.open(path), TABLES)


def run_analyze(path: Path) -> object:
    """Compute the diagnosis."""
    return api.analyze(warpline.open(path))


def read(path: Path, loads: Loads) -> object:
    """Open a recording and load columns."""
    trace = warpline.open(path)
    for table, columns in loads:
        trace.columns(table, *columns)
    return trace


def bytes_checked(path: Path, loads: Loads) -> int:
    """Return the number of member bytes that are verified."""
    summed = 0

    def counted(data: memoryview) -> int:
        nonlocal summed
        summed += data.nbytes
        return crc32(data)

    with mock.patch("warpline.container.crc32", counted):
        read(path, loads)
    return summed


def seconds(work: Work, path: Path, *, is_checked: bool) -> float:
    """Return the duration of some work, optionally without verification."""
    is_whole = container._is_whole if is_checked else lambda *_: True  # noqa: SLF001 - to compare
    with mock.patch("warpline.container._is_whole", is_whole):
        began = time.perf_counter()
        work(path)
        return time.perf_counter() - began


def main() -> None:
    """Print medians, and the overhead of verification per pair of runs."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("file", type=Path)
    parser.add_argument("--runs", type=int, default=15)
    args = parser.parse_args()
    loads = loads_of(args.file)
    columns = len({(table, name) for table, names in loads for name in names})
    checked = bytes_checked(args.file, loads)
    print(f"{columns} columns, {checked / 1e6:.0f} MB checked")
    everything: dict[str, Work] = {
        "reading": lambda path: read(path, loads),
        "stats": run_stats,
        "analyze": run_analyze,
    }
    for name, work in everything.items():
        with_check: list[float] = []
        without: list[float] = []
        for number in range(args.runs):
            for is_checked in (True, False) if number % 2 else (False, True):
                took = seconds(work, args.file, is_checked=is_checked)
                (with_check if is_checked else without).append(took)
        added = [a / b - 1 for a, b in zip(with_check, without, strict=True)]
        median, low, high = quintiles(added)
        print(
            f"{name}: {statistics.median(without) * 1e3:.0f} ms without,"
            f" {statistics.median(with_check) * 1e3:.0f} ms with;"
            f" added {median:.1%} ({low:.1%} to {high:.1%})"
        )


if __name__ == "__main__":
    main()
