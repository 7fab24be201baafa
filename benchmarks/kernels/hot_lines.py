"""Which source line is hot: the planted one of each kernel of `hot_lines.cu`, and the sampled one.

Usage: nvcc -std=c++17 -O3 -lineinfo -arch=native -o /tmp/hot_lines benchmarks/kernels/hot_lines.cu
       python benchmarks/kernels/hot_lines.py /tmp/hot_lines [--ncu]

Requires a GPU and rights to its counters. Each kernel is launched 200 times in a program of its own
under ``warpline kernels --source``, and with --ncu once more by ncu (section SourceCounters). A
line per kernel says where the marked line is among the kernel's lines, its share, and how many
samples there are.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

WARPLINE = (sys.executable, "-m", "warpline")
SAMPLED = ("--source", "-f")
NCU = ("--section", "SourceCounters", "--clock-control", "none", "-s", "2", "-c", "1")
SOURCE = Path(__file__).with_suffix(".cu")
_MARK = re.compile(r"// hot: (\w+)$")
_LIMIT_S = 120


def planted() -> dict[str, int]:
    """Return the marked line of each kernel."""
    lines = SOURCE.read_text(encoding="utf-8").splitlines()
    found = ((_MARK.search(line), number) for number, line in enumerate(lines, 1))
    return {mark.group(1): number for mark, number in found if mark}


def run(*words: str) -> str:
    """Return what a command prints; its errors go to the terminal."""
    done = subprocess.run(words, stdout=subprocess.PIPE, text=True, timeout=_LIMIT_S, check=False)
    return done.stdout


def ranked(recorded: Path) -> list[dict[str, Any]]:
    """Return the lines of a recording or report, hottest first."""
    said = json.loads(run(*WARPLINE, "stats", "-r", "kernel_lines", "-f", "json", str(recorded)))
    table = said["tables"][0] if "tables" in said else said
    rows: list[dict[str, Any]] = table["rows"]
    return rows


def place(rows: list[dict[str, Any]], line: int) -> str:
    """Return the place of a line of `SOURCE` among the lines, its share, and the samples of all."""
    total = sum(row["samples"] or 0 for row in rows)
    for rank, row in enumerate(rows, 1):
        if row["line"] == line and Path(row["file"] or "").name == SOURCE.name:
            return f"{rank} ({row['share_ratio']:.1%} of {total:,}, {row['stall']})"
    return f"not found ({total:,} samples)"


def main() -> int:
    """Measure, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("program")
    parser.add_argument("--ncu", action="store_true")
    options = parser.parse_args()
    first = 0
    lines = planted()
    with tempfile.TemporaryDirectory() as folder:
        for name, line in lines.items():
            ours, report = Path(folder, f"{name}.warpline"), Path(folder, f"{name}.ncu-rep")
            run(*WARPLINE, "kernels", *SAMPLED, "-o", str(ours), "--", options.program, name)
            said = place(ranked(ours), line)
            first += said.startswith("1 ")
            if options.ncu:
                run(
                    "ncu", *NCU, "-f", "-o", str(report.with_suffix("")), options.program, name, "3"
                )
                said = f"{said:45} ncu {place(ranked(report), line)}"
            print(f"{name:12} line {line:3}: {said}", flush=True)
    print(f"first: {first} of {len(lines)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
