"""Overhead of recording CUDA: processes of every kind run at the same time and take turns.

Usage: PYTHONPATH=src:benchmarks python benchmarks/capture/cuda_cost.py PROGRAM [--sets 11]
           [--turns 60] [--nsys NSYS] [--kinds alone,ours,...] [--limit SECONDS] [--json FILE]

PROGRAM is `launches`, `calls` or `graphs` (cuda_cost.cu; needs nvcc), or `gpt` (workloads.py; needs
PyTorch).
Kinds: `alone`; `kernels`, only CUPTI's kernel records, the lower bound for every profiler; `ours`,
`warpline profile`; `rest`, the same before cudaProfilerStart; `nsys`. Only for gpt: `sampled`, ours
between step samples; `attached`, the same with --cuda-detach=false; `torch`, PyTorch's profiler.
Only for graphs: `node` and `graph`, ours at these levels; `nsys` (graph level) and `nsysnode`.

A set is one process of each kind. In a turn, each of them works for a few milliseconds, so that
slow and fast states of the machine affect all equally. A set's figure is the median of its turns.
The overhead over `alone` and the ratios are medians of the differences and ratios within a turn.
The output is the median of the sets and their quintiles. Sets end early at --limit.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import turns
from turns import Command, Figures, TurnError

HERE = Path(__file__).resolve().parent
WARM = 4  # turns: until memory is there and a step has been sampled
STEPS = 3  # of gpt in a turn
PEERS = ("nsys", "nsysnode", "torch")
Set = list[dict[str, Figures]]


def build_program(folder: Path) -> None:
    """Build the program in CUDA."""
    program = ["nvcc", "-O2", "-o", folder / "cuda_cost", HERE / "cuda_cost.cu"]
    subprocess.run([str(word) for word in program], check=True)


def build_floor(folder: Path) -> None:
    """Build the library that records only kernels."""
    root = Path("/usr/local/cuda").resolve()
    headers = [root / "include", root / "extras" / "CUPTI" / "include"]
    found = sorted(root.glob("**/libcupti.so*"))
    if not found:
        print("no CUPTI under /usr/local/cuda: the floor is left out", file=sys.stderr)
        return
    library = ["g++", "-O2", "-shared", "-fPIC", "-o", folder / "kernel_records.so"]
    library += [HERE / "kernel_records.cpp", *(f"-I{path}" for path in headers), found[0]]
    library += [f"-Wl,-rpath,{found[0].parent}"]
    subprocess.run([str(word) for word in library], check=True)


def prefixes(folder: Path, nsys: str | None) -> dict[str, list[str]]:
    """Return the command prefix by kind."""
    profile = [sys.executable, "-m", "warpline", "profile", "--no-summary", "-f", "true", "-o"]
    kinds = {"alone": [], "torch": [], "ours": [*profile, str(folder / "ours"), "--"]}
    kinds["rest"] = [*profile, str(folder / "rest"), "-c", "cudaProfilerApi", "--"]
    sample = ["--steps", "1", "--every", "65535"]
    kinds["sampled"] = [*profile, str(folder / "sampled"), *sample, "--"]
    kinds["attached"] = [*profile, str(folder / "attached"), *sample, "--cuda-detach=false", "--"]
    for level in ("node", "graph"):
        kinds[level] = [*profile, str(folder / level), f"--cuda-graph-trace={level}", "--"]
    floor = folder / "kernel_records.so"
    if floor.exists():
        kinds["kernels"] = ["env", f"CUDA_INJECTION64_PATH={floor}"]
    if nsys is not None:
        theirs = ["profile", "-t", "cuda,nvtx", "-s", "none", "--cpuctxsw=none", "--export=none"]
        kinds["nsys"] = [nsys, *theirs, "-f", "true", "-o", str(folder / "nsys")]
        kinds["nsysnode"] = [nsys, *theirs, "--cuda-graph-trace=node", "-f", "true"]
        kinds["nsysnode"] += ["-o", str(folder / "nsysnode")]
    return kinds


def command(before: Sequence[str], name: str, kind: str, built: Path, folder: str) -> list[str]:
    """Return the command of a program that takes turns in a directory."""
    if name != "gpt":
        return [*before, str(built / "cuda_cost"), name, folder]
    words = [*before, sys.executable, str(HERE.parent / "workloads.py"), "gpt", "bad"]
    words += ["--turns", folder, "--steps", str(STEPS)]
    if kind == "rest":
        words.append("--unbounded")
    return [*words, *(["--kineto", ""] if kind == "torch" else [])]


def spread(values: Sequence[float], form: str) -> str:
    """Return the median and the quintiles."""
    middle, low, high = (format(value, form) for value in turns.quintiles(values))
    return f"{middle} ({low} to {high})"


def line(figure: str, kind: str, sets: Sequence[Set]) -> str:
    """Return one row of the table."""
    form = ".3f" if sets[0][0][kind][figure] < 100 else ".0f"
    text = f"{figure:12} {kind:8} {len(sets):3}"
    text += f"  {spread([turns.median(one, kind, figure) for one in sets], form):>28}"
    if "alone" in sets[0][0]:
        values = [turns.added(one, kind, "alone", figure) for one in sets]
        text += f"  {spread(values, f'+{form}'):>28}"
        ratios = [turns.ratio(one, kind, "alone", figure) for one in sets]
        text += f"  {spread(ratios, '.4f'):>26}"
        for other in (peer for peer in PEERS if peer in sets[0][0] and peer != kind):
            shares = [
                value / turns.added(one, other, "alone", figure)
                for value, one in zip(values, sets, strict=True)
            ]
            text += f"  {spread(shares, '.2f')} of {other}'s"
    return text


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description="Overhead of recording CUDA.")
    parser.add_argument("program", choices=("launches", "calls", "graphs", "gpt"))
    parser.add_argument("--sets", type=int, default=11)
    parser.add_argument("--turns", type=int, default=60)
    parser.add_argument("--kinds", default="alone,kernels,ours,nsys")
    parser.add_argument("--nsys", help="its path")
    parser.add_argument("--limit", type=float, default=float("inf"), help="seconds")
    parser.add_argument("--json", type=Path, help="write every figure here")
    options = parser.parse_args()
    built = Path(tempfile.mkdtemp())
    if options.program != "gpt":
        build_program(built)
        build_floor(built)
    before = prefixes(built, options.nsys)
    commands: dict[str, Command] = {
        kind: partial(command, before[kind], options.program, kind, built)
        for kind in options.kinds.split(",")
        if kind in before
    }
    begun = time.monotonic()
    sets: list[Set] = []
    while len(sets) < options.sets and time.monotonic() - begun < options.limit:
        try:
            sets.append(turns.in_turn(commands, options.turns, WARM))
        except TurnError as error:
            print(error, file=sys.stderr)
            break
        if options.json:
            options.json.write_text(json.dumps(sets))
    if not sets:
        return 1
    print(
        f"{options.program}: ms for gpt, us for graphs, otherwise ns; {options.turns} turns a set"
    )
    print(
        f"{'figure':12} {'kind':8} {'n':>3}  {'median (quintiles)':>28}  {'added':>28}"
        f"  {'to alone':>26}  what is added, to what others add"
    )
    for figure in sets[0][0]["alone" if "alone" in commands else next(iter(commands))]:
        for kind in commands:
            print(line(figure, kind, sets), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
