"""Compare both variants of programs as Nsight Systems and as the PyTorch profiler record them.

Usage: PYTHONPATH=src:benchmarks python benchmarks/compare/forms.py record FOLDER --nsys NSYS
           [--rounds 3] [--steps 20] [--limit S] [NAME...]
       PYTHONPATH=src:benchmarks python benchmarks/compare/forms.py judge FOLDER

`record` runs each program of workloads.py, bad and fixed, under either profiler: all processes of a
round start together and then work one at a time. `judge` compares bad with fixed for each
profiler and prints both verdicts. Exits with 1 if two verdicts are opposite.
"""

from __future__ import annotations

import argparse
import itertools
import sys
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import turns

import warpline
from warpline.result.comparison import Comparison

HERE = Path(__file__).resolve().parent.parent
NAMES = ("host_sync", "pageable_h2d", "tiny_kernels", "layout_copies", "fp32_matmul")
VARIANTS = ("bad", "fixed")
PROFILERS = {"nsys": "sqlite", "kineto": "json"}
OPPOSITE = {("faster", "slower"), ("slower", "faster")}


def command(
    name: str, variant: str, profiler: str, output: Path, options: argparse.Namespace, folder: str
) -> list[str]:
    """Return the command of a recorded run."""
    program = [sys.executable, str(HERE / "workloads.py"), name, variant]
    program += ["--steps", str(options.steps), "--turns", folder]
    if profiler == "kineto":
        return [*program, "--unbounded", "--kineto", str(output)]
    words = [options.nsys, "profile", "-t", "cuda,nvtx", "--sample=none", "--cpuctxsw=none"]
    words += ["--cuda-graph-trace=node", "-c", "cudaProfilerApi", "--capture-range-end=stop"]
    words += ["-f", "true", "-o", str(output.with_suffix("")), "--export=sqlite"]
    return [*words, *program]


def record(options: argparse.Namespace) -> None:
    """Record all rounds, until the time limit."""
    begun = time.monotonic()
    options.folder.mkdir(parents=True, exist_ok=True)
    for number in range(options.rounds):
        if time.monotonic() - begun > options.limit:
            print(f"stopped before round {number}: time limit reached")
            break
        commands: dict[str, turns.Command] = {}
        for name, variant, (profiler, suffix) in itertools.product(
            options.names or NAMES, VARIANTS, PROFILERS.items()
        ):
            output = options.folder / f"{name}.{variant}.{number}.{suffix}"
            commands[output.name] = partial(command, name, variant, profiler, output, options)
        with turns.workers(commands) as running:
            for key, worker in running.items():
                print(f"{time.monotonic() - begun:.0f} s: {key} {worker.turn()}", flush=True)


def judged(before: Sequence[Path], after: Sequence[Path]) -> Comparison:
    """Compare recordings that were made in turn."""
    return warpline.compare(before, after, paired=len(before) > 1)


def judge(folder: Path) -> int:
    """Print the verdicts of both profilers for each program."""
    is_opposite = False
    for name in sorted({path.name.partition(".")[0] for path in folder.iterdir()}):
        verdicts = []
        for profiler, suffix in PROFILERS.items():
            sides = [sorted(folder.glob(f"{name}.{variant}.*.{suffix}")) for variant in VARIANTS]
            if not all(sides) or len(sides[0]) != len(sides[1]):
                print(f"{name:14} {profiler:7} recordings are missing: {sides}")
                continue
            found = judged(*sides)
            verdicts.append(found.verdict)
            busy = [part for part in found.parts if part.kind == "busy"]
            after_ns, before_ns = (
                sum(getattr(part, key) for part in busy) for key in ("after_ns", "before_ns")
            )
            change = f"GPU busy {after_ns / before_ns - 1:+.1%}" if before_ns else "no GPU work"
            print(f"{name:14} {profiler:7} {found.verdict:9} {change}  {found.sentence}")
        is_opposite |= tuple(verdicts) in OPPOSITE
    return int(is_opposite)


def main() -> int:
    """Record or judge."""
    parser = argparse.ArgumentParser(description="Compare verdicts on recordings of two profilers.")
    parser.add_argument("what", choices=("record", "judge"))
    parser.add_argument("folder", type=Path)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--nsys", default="nsys")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--limit", type=float, default=float("inf"), help="no round starts later")
    options = parser.parse_args()
    if options.what == "record":
        record(options)
    return judge(options.folder)


if __name__ == "__main__":
    sys.exit(main())
