"""Ranges kept when programs fork or crash: warpline compared with nsys.

Usage: python benchmarks/capture/kept.py [--nsys NSYS] [--python PYTHON]

Runs the programs of tests/processes, which log every finished range to a file, and prints the
number of logged ranges and how many of them are in each recording. nsys runs with options to wait
for all processes and to trace forks. nsys versions before 2025 need a Python with nvtx 0.2.11.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import warpline

TESTS = Path(__file__).parents[2] / "tests"
PROGRAMS = TESTS / "processes" / "programs"
WAYS = {
    "threads": "births.py threads 20 50",
    "a subprocess of a subprocess": "births.py nested",
    "fork": "births.py fork",
    "multiprocessing, fork": "births.py pool fork 1",
    "multiprocessing, spawn": "births.py pool spawn 1",
    "multiprocessing, forkserver": "births.py pool forkserver 1",
    "a data loader's workers": "jobs.py loader",
    "ranks, one started again": "jobs.py ranks 4",
    "execv": "births.py replaced",
    "a daemon": "jobs.py daemon 0.2",
    "an end in order": "deaths.py nothing",
    "os._exit": "deaths.py exit_at_once",
    "abort": "deaths.py abort",
    "a segmentation fault": "deaths.py segfault",
    "SIGKILL": "deaths.py killed",
}
TIMEOUT_S = 120


def noted(ledger: Path) -> Counter[str]:
    """Return the number of ranges logged by the program, by name."""
    lines = ledger.read_text(encoding="utf-8").splitlines()
    return Counter(line.partition(" ")[2] for line in lines)


def kept(recording: Path, wanted: Counter[str]) -> int:
    """Return the number of logged ranges in a recording; 0 without a recording."""
    try:
        ranges = warpline.open(recording)["range"]
    except (warpline.WarplineError, OSError):
        return 0
    found = Counter(ranges["name"].to_list())
    return sum(min(count, found[name]) for name, count in wanted.items())


def run(command: Sequence[str], folder: Path) -> Counter[str]:
    """Run a program under a profiler and return its logged ranges."""
    ledger = folder / "ledger"
    paths = [str(TESTS), os.environ.get("PYTHONPATH", "")]
    environment = {
        **os.environ,
        "LEDGER": str(ledger),
        "PYTHONPATH": os.pathsep.join(path for path in paths if path),
    }
    with (folder / "said").open("wb") as said:
        subprocess.run(
            command,
            check=False,
            stdout=said,
            stderr=said,
            env=environment,
            cwd=folder,
            timeout=TIMEOUT_S,
        )
    return noted(ledger)


def row(way: str, python: str, nsys: str) -> str:
    """Run one program under each profiler and format the results."""
    program = [python, str(PROGRAMS / WAYS[way].split()[0]), *WAYS[way].split()[1:]]
    ours = [sys.executable, "-m", "warpline", "profile", "-q", "-o", "run", "--", *program]
    traced = ["-t", "nvtx", "-s", "none", "--cpuctxsw=none", "--trace-fork-before-exec=true"]
    theirs = [nsys, "profile", *traced, "--wait=all", "--export=sqlite", "-o", "run", *program]
    cells = []
    for command, name in ((ours, "run.warpline"), (theirs, "run.sqlite")):
        if not command[0]:
            continue
        with tempfile.TemporaryDirectory(prefix="kept-") as folder:
            wanted = run(command, Path(folder))
            cells.append(f"{kept(Path(folder) / name, wanted):>10,} of {wanted.total():<7,}")
    return f"{way:30}" + "".join(cells)


def main() -> None:
    """Run all programs and print the results."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--nsys", default="", help="path of nsys")
    parser.add_argument("--python", default=sys.executable, help="interpreter that has nvtx")
    args = parser.parse_args()
    print(f"{'ranges kept':30}{'warpline':>14}" + (f"{'nsys':>17}" if args.nsys else ""))
    for way in WAYS:
        print(row(way, args.python, args.nsys), flush=True)


if __name__ == "__main__":
    main()
