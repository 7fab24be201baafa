"""Measured step times of the programs of torch_programs.py, alone and under profilers, in turns.

Usage: PYTHONPATH=src:benchmarks python benchmarks/pairs.py DIRECTORY [NAME...] [--turns 15]
           [--steps 5] [--ranks N] [--nsys NSYS] [--limit SECONDS]

The "bad" and "fixed" variants of each program run at the same time: alone, under `warpline
profile`, under PyTorch's profiler, and under nsys if given. They take turns running steps. A row is
printed as soon as a program is done: median, minimum and maximum of the turns' mean step in ms. All
figures go to DIRECTORY/steps.json. Recordings are written to DIRECTORY/ours/NAME.bad.warpline and
so on, and to DIRECTORY/nsys/NAME.bad.sqlite, for findings_quality.py. Only Warpline's recordings
exclude the time between turns, which otherwise looks like CPU gaps. --ranks sets the number of
processes per program.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from functools import partial
from pathlib import Path

import turns
from turns import Command, Figures, TurnError

HERE = Path(__file__).resolve().parent
PAIRS = [
    "host_sync",
    "pageable_h2d",
    "tiny_kernels",
    "loop_optimizer",
    "layout_copies",
    "fp32_matmul",
]
VARIANTS = ("bad", "fixed")
FOLDERS = ("ours", "nsys")
RANGES = ("-c", "cudaProfilerApi", "--capture-range-end=repeat")


def program(name: str, variant: str, steps: int, ranks: int) -> list[str]:
    """Return a program's command without the directory of its turns."""
    words = [sys.executable]
    if ranks > 1:
        words += ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(ranks)]
    words += [str(HERE / "workloads.py"), name, variant]
    return [*words, "--steps", str(steps), "--turns"]


def in_folder(words: list[str], folder: str) -> list[str]:
    """Return the whole command."""
    return [*words, folder]


def commands(name: str, options: argparse.Namespace) -> dict[str, Command]:
    """Return the programs of a pair by variant and kind."""
    found: dict[str, list[str]] = {}
    for variant in VARIANTS:
        words = program(name, variant, options.steps, options.ranks)
        output = {kind: str(options.folder / kind / f"{name}.{variant}") for kind in FOLDERS}
        found[f"{variant} alone"] = words
        ours = [sys.executable, "-m", "warpline", "profile", "-q", "-f", "true", *RANGES]
        found[f"{variant} ours"] = [*ours, "-o", f"{output['ours']}.warpline", "--", *words]
        if options.nsys is not None:
            theirs = [options.nsys, "profile", "-t", "cuda,nvtx", "-s", "none", "--cpuctxsw=none"]
            theirs += ["--export=sqlite", "-f", "true", "-o", output["nsys"]]
            found[f"{variant} nsys"] = [*theirs, *words]
        found[f"{variant} torch"] = [*words[:-1], "--kineto", "", words[-1]]
    return {kind: partial(in_folder, words) for kind, words in found.items()}


def row(name: str, told: list[dict[str, Figures]]) -> str:
    """Return the median, minimum and maximum mean step of each kind."""
    text = f"{name:16}"
    for kind in told[0]:
        means = [turn[kind]["mean"] for turn in told]
        middle = turns.median(told, kind, "mean")
        text += f"   {middle:8.3f} ({min(means):7.3f}-{max(means):7.3f})"
    return text


def main() -> int:
    """Measure and record."""
    parser = argparse.ArgumentParser(
        description="Step times of programs with and without problems."
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("names", nargs="*", default=PAIRS)
    parser.add_argument("--turns", type=int, default=15)
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--ranks", type=int, default=1)
    parser.add_argument("--nsys", help="its path")
    parser.add_argument("--limit", type=float, default=float("inf"), help="seconds")
    options = parser.parse_args()
    for folder in FOLDERS:
        (options.folder / folder).mkdir(parents=True, exist_ok=True)
    begun = time.monotonic()
    found: dict[str, list[dict[str, Figures]]] = {}
    status = 0
    for name in options.names:
        if time.monotonic() - begun > options.limit:
            print(f"{name} and the following programs skipped: time limit reached", flush=True)
            break
        try:
            found[name] = turns.in_turn(commands(name, options), options.turns)
        except TurnError as error:
            print(error, flush=True)
            status = 1
            continue
        if len(found) == 1:
            print(" " * 16 + "".join(f"{kind:>29}" for kind in found[name][0]))
        print(row(name, found[name]), flush=True)
        (options.folder / "steps.json").write_text(json.dumps(found))
        for report in (options.folder / "nsys").glob("*.nsys-rep"):
            report.unlink()
    return status


if __name__ == "__main__":
    sys.exit(main())
