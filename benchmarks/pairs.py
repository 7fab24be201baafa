"""The truth about the programs of workloads.py: their steps, unprofiled and profiled, in turn.

Usage: PYTHONPATH=src python benchmarks/pairs.py FOLDER [NAME...] [--rounds 5] [--steps 30]
           [--nsys NSYS] [--limit SECONDS]

Two processes have imported PyTorch and fork for each run: one alone, one under `warpline profile`.
Each round runs "bad" and "fixed" in both, in an order that turns. Then every program is recorded
once by itself, to FOLDER/ours/NAME.bad.warpline and so on, and by nsys where it is given, to
FOLDER/nsys/NAME.bad.sqlite: what benchmarks/findings_quality.py reads. Prints a row per program as
soon as its rounds are done: median, smallest and largest of the mean step in ms. All figures go to
FOLDER/steps.json. Programs of several ranks are not run: they need torchrun.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

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
WARM = 4
Steps = dict[str, list[float]]


def serve() -> None:
    """Fork for each line of the input, "NAME VARIANT STEPS", and print the mean step in ms."""
    import workloads  # noqa: PLC0415 - the server alone imports PyTorch, once

    print("ready", flush=True)
    for name, variant, steps in map(str.split, sys.stdin):
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            took = workloads.run(name, bad=variant == "bad", warm=WARM, steps=int(steps))
            os.write(writing, str(took[-1]).encode())
            os._exit(0)
        os.close(writing)
        with os.fdopen(reading) as answer:
            print(answer.read() or "failed", flush=True)
        os.waitpid(child, 0)


class Server:
    """A process that runs programs, one at a time."""

    def __init__(self, before: list[str]) -> None:
        command = [*before, sys.executable, str(HERE / "pairs.py"), "--serve", "."]
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True)
        self._answer()

    def _answer(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline().strip()

    def step_ms(self, name: str, variant: str, steps: int) -> float:
        """Run a program; NaN if it failed."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{name} {variant} {steps}\n")
        self._process.stdin.flush()
        try:
            return float(self._answer())
        except ValueError:
            return float("nan")

    def close(self) -> None:
        """Let it end."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()


@contextlib.contextmanager
def servers(folder: Path) -> Iterator[dict[str, Server]]:
    """Start both processes."""
    session = folder / "all.warpline"
    profile = [sys.executable, "-m", "warpline", "profile", "-q", "-f", "-o", str(session), "--"]
    running = {"alone": Server([]), "ours": Server(profile)}
    try:
        yield running
    finally:
        for server in running.values():
            server.close()
        session.unlink(missing_ok=True)


def rounds(running: dict[str, Server], name: str, count: int, steps: int) -> Steps:
    """Run a pair in turn and return its steps in ms, by "VARIANT KIND"."""
    runs = [(variant, kind) for variant in VARIANTS for kind in running]
    took: Steps = {f"{variant} {kind}": [] for variant, kind in runs}
    for number in range(count):
        first = number % len(runs)
        for variant, kind in [*runs[first:], *runs[:first]]:
            took[f"{variant} {kind}"].append(running[kind].step_ms(name, variant, steps))
    return took


def summary(values: list[float]) -> str:
    """Return the median, and the smallest and largest."""
    known = [value for value in values if value == value]  # noqa: PLR0124 - not NaN
    if not known:
        return f"{'failed':>24}"
    return f"{statistics.median(known):8.3f} ({min(known):7.3f}-{max(known):7.3f})"


def record(folder: Path, name: str, variant: str, nsys: str | None, steps: int) -> None:
    """Record a program by itself."""
    program = [sys.executable, str(HERE / "workloads.py"), name, variant, "--steps", str(steps)]
    for kind in ("ours", "nsys"):
        (folder / kind).mkdir(exist_ok=True)
    output = str(folder / "ours" / f"{name}.{variant}.warpline")
    ours = [sys.executable, "-m", "warpline", "profile", "-q", "-f", "-o", output]
    subprocess.run(
        [*ours, "-c", "cudaProfilerApi", "--", *program], check=False, capture_output=True
    )
    if nsys is not None:
        output = str(folder / "nsys" / f"{name}.{variant}")
        theirs = [nsys, "profile", "-t", "cuda,nvtx", "-s", "none", "--cpuctxsw=none"]
        theirs += ["-c", "cudaProfilerApi", "--export=sqlite", "-f", "true", "-o", output]
        subprocess.run([*theirs, *program], check=False, capture_output=True)
        Path(f"{output}.nsys-rep").unlink(missing_ok=True)


def main() -> int:
    """Measure and record."""
    parser = argparse.ArgumentParser(description="Steps of programs with faults and without.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("names", nargs="*", default=PAIRS)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--nsys", help="its path")
    parser.add_argument("--limit", type=float, default=float("inf"), help="seconds for all rounds")
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        serve()
        return 0
    options.folder.mkdir(parents=True, exist_ok=True)
    begun = time.monotonic()
    found: dict[str, Steps] = {}
    with servers(options.folder) as running:
        heads = (f"{variant} {kind}" for variant in VARIANTS for kind in running)
        print(f"{'':16}" + "".join(f"{head:>27}" for head in heads), flush=True)
        for name in options.names:
            if time.monotonic() - begun > options.limit:
                break
            found[name] = rounds(running, name, options.rounds, options.steps)
            columns = "".join(f"   {summary(values)}" for values in found[name].values())
            print(f"{name:16}{columns}", flush=True)
            (options.folder / "steps.json").write_text(json.dumps(found))
    for name in found:
        for variant in VARIANTS:
            record(options.folder, name, variant, options.nsys, options.steps)
    return 0


if __name__ == "__main__":
    sys.exit(main())
