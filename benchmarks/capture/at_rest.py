"""What do calls of CUDA execute while a sampled program rests? Needs a GPU, PyTorch and a compiler.

Usage: PYTHONPATH=src:benchmarks WARPLINE_CORE=... WARPLINE_AGENT=... \
           python benchmarks/capture/at_rest.py [--rounds 3]

Times of whole processes differ by more than what rests add. What a call executes does not: the
instructions of the program's thread are counted one by one (instructions.c), alone and at rest
after the first of 65,535 steps was recorded, with and without --cuda-detach. Printed are the
instructions of a call, its way through Python and PyTorch included, and what a rest adds to them;
medians of the rounds, with the least and the greatest.
"""

from __future__ import annotations

import argparse
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

_REPEATS = 5  # of each call in a count
_SAMPLE = ["--steps", "1", "--every", "65535"]
KINDS = {
    "alone": None,
    "resting": [*_SAMPLE, "--cuda-detach=false"],
    "detached": [*_SAMPLE, "--cuda-detach=true"],
    "not begun": ["-c", "cudaProfilerApi"],
    "recorded": [],
}
_RESTED_S = 3.0  # until CUPTI is detached
Counts = dict[str, float]


def calls() -> dict[str, Callable[[], object]]:
    """Return what is counted, by name."""
    import torch  # noqa: PLC0415 - the program alone needs it

    values, others = torch.ones(1024, device="cuda"), torch.ones(1024, device="cuda")
    matrix = torch.ones(64, 64, device="cuda")
    event, stream = torch.cuda.Event(), torch.cuda.current_stream()
    return {
        "kernel": lambda: values.add_(1.0),
        "product": lambda: torch.mm(matrix, matrix, out=matrix),
        "copy": lambda: values.copy_(others),
        "memset": values.zero_,
        "event record": lambda: event.record(stream),
        "event query": event.query,
        "nothing": lambda: None,
    }


def program() -> None:
    """Call everything once in a step, rest, and call it again, between signals."""
    import torch  # noqa: PLC0415 - the program alone needs it

    every = calls()
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


def count(counter: Path, folder: Path, kind: str, number: int) -> Counts:
    """Run the program and return the instructions of a call, by its name."""
    counts, recording, flags = (
        folder / f"{kind}{number}",
        folder / f"run {kind}{number}",
        KINDS[kind],
    )
    words = [str(counter), str(counts), sys.executable, __file__, "--program"]
    if flags is not None:
        profile = [sys.executable, "-m", "warpline", "profile", "--no-summary", "-f", "true"]
        words = [*profile, "-o", str(recording), *flags, "--", *words]
    done = subprocess.run(words, check=False, capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(done.stderr)
    names = ("kernel", "product", "copy", "memset", "event record", "event query", "nothing")
    told = [int(line) / _REPEATS for line in counts.read_text().split()]
    found = dict(zip(names, told, strict=True))
    nothing = found.pop("nothing")
    return {name: value - nothing for name, value in found.items()}


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--program", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    if options.program:
        program()
        return
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        counter = folder / "instructions"
        source = Path(__file__).with_name("instructions.c")
        subprocess.run([os.environ.get("CC", "cc"), "-O2", "-o", counter, source], check=True)
        jobs = [(kind, number) for kind in KINDS for number in range(options.rounds)]
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            told = pool.map(lambda job: count(counter, folder, *job), jobs)
        found: dict[str, list[Counts]] = {kind: [] for kind in KINDS}
        for (kind, _), counts in zip(jobs, told, strict=True):
            found[kind].append(counts)
    for call in found["alone"][0]:
        alone = statistics.median(one[call] for one in found["alone"])
        print(f"{call}: {alone:,.0f} instructions alone")
        for kind, rounds in found.items():
            added = sorted(one[call] - alone for one in rounds)
            share = statistics.median(added) / alone
            print(
                f"  {kind:10} {statistics.median(added):+9,.1f}"
                f" ({added[0]:+,.1f} to {added[-1]:+,.1f}), {share:+.2%}"
            )


if __name__ == "__main__":
    main()
