"""The truth about the programs of torch_programs.py: their steps, alone and recorded, in turn.

Usage: PYTHONPATH=src:benchmarks python benchmarks/pairs.py FOLDER [NAME...] [--turns 5]
           [--steps 30] [--ranks N] [--nsys NSYS] [--limit SECONDS]

Of each program "bad" and "fixed" live at the same time, alone, under `warpline profile` and under
nsys where it is given, and run the steps of a turn one after the other. A row is printed as soon as
a program is done: median, smallest and largest of the turns' mean step in ms. All figures go to
FOLDER/steps.json. Then bad and fixed are recorded for one turn each, to
FOLDER/ours/NAME.bad.warpline and so on, FOLDER/nsys/NAME.bad.sqlite and, from PyTorch's profiler,
FOLDER/kineto/NAME.bad.json.gz: what findings_quality.py reads. A program of several ranks is named
with --ranks.
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
BOUNDED = ("-c", "cudaProfilerApi", "--capture-range-end=stop")


def ours(output: Path, *flags: str) -> list[str]:
    """Return what stands before a program that we record."""
    profile = [sys.executable, "-m", "warpline", "profile", "-q", "-f", "true", *flags]
    return [*profile, "-o", f"{output}.warpline", "--"]


def theirs(nsys: str, output: Path, *flags: str) -> list[str]:
    """Return what stands before a program that nsys records."""
    traced = [nsys, "profile", "-t", "cuda,nvtx", "-s", "none", "--cpuctxsw=none", *flags]
    return [*traced, "-f", "true", "-o", str(output)]


def program(name: str, variant: str, options: argparse.Namespace) -> list[str]:
    """Return a program's command, but for the folder of its turns."""
    words = [sys.executable]
    if options.ranks > 1:
        words += ["-m", "torch.distributed.run", "--standalone"]
        words += ["--nproc-per-node", str(options.ranks)]
    words += [str(HERE / "workloads.py"), name, variant]
    return [*words, "--steps", str(options.steps), "--turns"]


def in_folder(words: list[str], folder: str) -> list[str]:
    """Return the whole command."""
    return [*words, folder]


def timed(name: str, options: argparse.Namespace) -> list[dict[str, Figures]]:
    """Run the steps of a pair in turn."""
    commands: dict[str, Command] = {}
    for variant in VARIANTS:
        words = program(name, variant, options)
        output = options.folder / f"whole.{variant}"
        before = {"alone": [], "ours": ours(output)}
        if options.nsys is not None:
            before["nsys"] = theirs(options.nsys, output, "--export=none")
        for kind, tool in before.items():
            commands[f"{variant} {kind}"] = partial(in_folder, [*tool, *words])
    try:
        return turns.in_turn(commands, options.turns)
    finally:
        for left in options.folder.glob("whole.*"):
            left.unlink()


def record(name: str, options: argparse.Namespace) -> None:
    """Record a pair for one turn in every form."""
    commands: dict[str, Command] = {}
    for variant in VARIANTS:
        words = program(name, variant, options)
        outputs = {kind: options.folder / kind for kind in ("ours", "nsys", "kineto")}
        for folder in outputs.values():
            folder.mkdir(exist_ok=True)
        file = f"{name}.{variant}"
        commands[f"{variant} ours"] = partial(
            in_folder, [*ours(outputs["ours"] / file, *BOUNDED), *words]
        )
        if options.nsys is not None:
            before = theirs(options.nsys, outputs["nsys"] / file, *BOUNDED, "--export=sqlite")
            commands[f"{variant} nsys"] = partial(in_folder, [*before, *words])
        rank = ".rankRANK" if options.ranks > 1 else ""
        trace = outputs["kineto"] / f"{file}{rank}.json.gz"
        words = [*words[:-1], "--kineto", str(trace), words[-1]]
        commands[f"{variant} kineto"] = partial(in_folder, words)
    turns.in_turn(commands, 1)
    for report in (options.folder / "nsys").glob("*.nsys-rep"):
        report.unlink()


def row(name: str, told: list[dict[str, Figures]]) -> str:
    """Return the median, the smallest and the largest mean step of each kind."""
    text = f"{name:16}"
    for kind in told[0]:
        means = [turn[kind]["mean"] for turn in told]
        middle = turns.median(told, kind, "mean")
        text += f"   {middle:8.3f} ({min(means):7.3f}-{max(means):7.3f})"
    return text


def main() -> int:
    """Measure and record."""
    parser = argparse.ArgumentParser(description="Steps of programs with faults and without.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("names", nargs="*", default=PAIRS)
    parser.add_argument("--turns", type=int, default=5, help="0: only record")
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--ranks", type=int, default=1)
    parser.add_argument("--nsys", help="its path")
    parser.add_argument("--limit", type=float, default=float("inf"), help="seconds")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    begun = time.monotonic()
    found: dict[str, list[dict[str, Figures]]] = {}
    status = 0
    for name in options.names:
        if time.monotonic() - begun > options.limit:
            print(f"{name} and what follows was left out: the time was over", flush=True)
            break
        try:
            if options.turns:
                found[name] = timed(name, options)
                if len(found) == 1:
                    print(" " * 16 + "".join(f"{kind:>29}" for kind in found[name][0]))
                print(row(name, found[name]), flush=True)
                (options.folder / "steps.json").write_text(json.dumps(found))
            record(name, options)
        except TurnError as error:
            print(error, flush=True)
            status = 1
    return status


if __name__ == "__main__":
    sys.exit(main())
