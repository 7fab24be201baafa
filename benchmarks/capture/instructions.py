"""Instruction counts of CUDA API calls, while recorded and while paused. Needs a GPU and PyTorch.

Usage: PYTHONPATH=src:benchmarks WARPLINE_CORE=... WARPLINE_AGENT=... \
           python benchmarks/capture/instructions.py [--rounds 2] [--nsys NSYS]

Times of whole processes vary by more than the overhead measured here. Instruction counts do not:
the program's thread is single-stepped through a call (instructions.c; needs a compiler, and x86-64
or another machine that can single-step). The output is the number of instructions of a call through
Python, PyTorch and CUDA, and the overhead: medians of the rounds, with minimum and maximum.

`recorded` and `nsys` record everything. `kernel records` is the lower bound: only CUPTI's kernel
records. `not begun` waits for cudaProfilerStart. `sampled` pauses after the first of 65,535 steps,
and so does `attached`, with --cuda-detach=false.
"""

from __future__ import annotations

import argparse
import itertools
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import cuda_cost

_REPEATS = 5  # of each call in a count
_SAMPLE = ["--steps", "1", "--every", "65535"]
_RESTED_S = 3.0  # until CUPTI is detached
Counts = dict[str, float]


def calls() -> dict[str, Callable[[], object]]:
    """Return the counted calls by name."""
    import torch  # noqa: PLC0415 - the program alone needs it

    values, others = torch.ones(1024, device="cuda"), torch.ones(1024, device="cuda")
    event, stream = torch.cuda.Event(), torch.cuda.current_stream()
    return {
        "kernel": lambda: values.add_(1.0),
        "copy": lambda: values.copy_(others),
        "memset": values.zero_,
        "event record": lambda: event.record(stream),
        "event query": event.query,
        "nothing": lambda: None,
    }


def program(names: Path) -> None:
    """Run all calls in two steps, pause, run them again between signals; write their names."""
    import torch  # noqa: PLC0415 - the program alone needs it

    every = calls()
    names.write_text("\n".join(every))
    for number in range(2):  # what is found out once is known
        with torch.cuda.nvtx.range(f"step_{number}"):
            for call in every.values():
                for _ in range(_REPEATS):
                    call()
            torch.cuda.synchronize()
    time.sleep(_RESTED_S)
    with torch.cuda.nvtx.range("step_2"):
        for call in every.values():
            call()
        torch.cuda.synchronize()
    with torch.cuda.nvtx.range("step_3"):
        for call in every.values():
            signal.raise_signal(signal.SIGTRAP)
            for _ in range(_REPEATS):
                call()
            signal.raise_signal(signal.SIGTRAP)
            torch.cuda.synchronize()


def prefixes(built: Path, folder: Path, nsys: str | None) -> dict[str, list[str]]:
    """Return the command prefix by kind; recordings go into the directory."""
    profile = [sys.executable, "-m", "warpline", "profile", "--no-summary", "-f", "true", "-o"]
    before = {
        kind: [*profile, str(folder / kind.replace(" ", "_")), *flags, "--"]
        for kind, flags in {
            "sampled": _SAMPLE,
            "attached": [*_SAMPLE, "--cuda-detach=false"],
            "not begun": ["-c", "cudaProfilerApi"],
            "recorded": [],
        }.items()
    }
    floor = cuda_cost.prefixes(built, None).get("kernels")
    before |= {"kernel records": floor} if floor else {}
    theirs = cuda_cost.prefixes(folder, nsys).get("nsys")
    before |= {"nsys": theirs} if theirs else {}
    return {"alone": [], **before}


def count(before: list[str], counter: Path, counts: Path) -> Counts:
    """Run the program and return the instruction count of each call by name."""
    words = [*before, str(counter), str(counts), sys.executable, __file__, "--program", str(counts)]
    done = subprocess.run(words, check=False, capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(done.stderr)
    names = counts.with_suffix(".names").read_text().split("\n")
    told = [int(line) / _REPEATS for line in counts.read_text().split()]
    found = dict(zip(names, told, strict=True))
    nothing = found.pop("nothing")
    return {name: value - nothing for name, value in found.items()}


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--program", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--nsys", help="its path")
    options = parser.parse_args()
    if options.program:
        program(options.program.with_suffix(".names"))
        return
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        cuda_cost.build_floor(folder)
        counter = folder / "instructions"
        source = Path(__file__).with_name("instructions.c")
        subprocess.run([os.environ.get("CC", "cc"), "-O2", "-o", counter, source], check=True)
        jobs: list[tuple[str, list[str]]] = []
        for number in range(options.rounds):
            place = folder / str(number)
            place.mkdir()
            jobs += prefixes(folder, place, options.nsys).items()
        found: dict[str, list[Counts]] = {kind: [] for kind, _ in jobs}
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            files = [folder / f"counts{number}" for number in range(len(jobs))]
            befores = [before for _, before in jobs]
            told = pool.map(count, befores, itertools.repeat(counter), files)
            for (kind, _), counts in zip(jobs, told, strict=True):
                found[kind].append(counts)
    for call in found["alone"][0]:
        alone = statistics.median(one[call] for one in found["alone"])
        print(f"{call}: {alone:,.0f} instructions alone")
        for kind, rounds in found.items():
            added = sorted(one[call] - alone for one in rounds)
            print(
                f"  {kind:14} {statistics.median(added):+9,.0f}"
                f" ({added[0]:+,.0f} to {added[-1]:+,.0f}), {statistics.median(added) / alone:+.2%}"
            )


if __name__ == "__main__":
    main()
