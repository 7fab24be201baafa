"""Is a sampled run recorded exactly, and what does it cost at rest? Needs a GPU and PyTorch.

Usage: PYTHONPATH=src WARPLINE_CORE=... WARPLINE_AGENT=... \
           python benchmarks/capture/sampling.py [--rounds 6] [--steps 600]

The program launches small kernels in steps. First the kernels in the recording are counted, with a
device that lags behind by many steps. Then whole processes take turns, alone and sampled: the
median step at rest, and the steps in which a sample begins or ends.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

SAMPLED, EVERY = 5, 100
_REST = range(20, 95)  # of each EVERY: steps well away from a sample


def program(steps: int, launches: int, spin: int) -> None:
    """Run the steps and print how long each took, in seconds."""
    import torch  # noqa: PLC0415 - the program alone needs it

    values = torch.ones(1024, device="cuda")
    torch.cuda.synchronize()
    took = []
    for step in range(steps):
        began = time.perf_counter()
        torch.cuda.nvtx.range_push(f"step_{step}")
        for _ in range(launches):
            values.add_(1.0)
        if spin:
            torch.cuda._sleep(spin)  # noqa: SLF001 - as PyTorch's own tests do
        torch.cuda.nvtx.range_pop()
        if not spin:
            torch.cuda.synchronize()
        took.append(time.perf_counter() - began)
    torch.cuda.synchronize()
    sys.stdout.write(json.dumps(took) + "\n")


def run(folder: Path, *words: object, is_sampled: bool) -> list[float]:
    """Run the program, recorded or alone, and return what its steps took."""
    command = [sys.executable, __file__, "--program", *map(str, words)]
    if is_sampled:
        flags = ["--steps", str(SAMPLED), "--every", str(EVERY), "-f", "-o", str(folder / "run")]
        command = [sys.executable, "-m", "warpline", "profile", "--no-summary", *flags, *command]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(done.stderr)
    sys.stderr.write(done.stderr)
    took: list[float] = json.loads(done.stdout)
    return took


def check(folder: Path, steps: int, launches: int, spin: int) -> None:
    """Count what is in the recording of a run whose device lags behind."""
    import warpline  # noqa: PLC0415 - the program is to start without it

    run(folder, steps, launches, spin, is_sampled=True)
    trace = warpline.open(folder / "run.warpline")
    sampled = sum(step % EVERY < SAMPLED for step in range(steps))
    kernels, calls = trace.row_count("kernel"), trace.row_count("api_call")
    wanted = sampled * (launches + bool(spin))
    verdict = "ok" if kernels == wanted else "BAD"
    windows = trace.meta.windows_ns or ()
    ends = trace.columns("kernel", "end_ns")["end_ns"].values
    late = sum(int((ends > end).sum() > 0) for _, end in windows)
    print(
        f"{verdict} {kernels} kernels of {wanted}, {calls} calls, {len(windows)} windows,"
        f" {trace.recorded_ns() / 1e6:.1f} ms of {(trace.span()[1]) / 1e6:.1f},"
        f" {late} windows with work that ends later; {trace.meta.lost or 'nothing lost'}"
    )


def cost(folder: Path, rounds: int, steps: int, launches: int) -> None:
    """Compare the median step at rest."""
    alone, rest, begins, ends, within = [], [], [], [], []
    for _ in range(rounds):
        took = run(folder, steps, launches, 0, is_sampled=False)
        alone.append(_median_of(took, _REST))
        took = run(folder, steps, launches, 0, is_sampled=True)
        rest.append(_median_of(took, _REST))
        begins.append(_median_of(took, range(1)))
        ends.append(_median_of(took, range(SAMPLED, SAMPLED + 1)))
        within.append(_median_of(took, range(1, SAMPLED)))
    ratios = sorted(b / a for a, b in zip(alone, rest, strict=True))
    print(
        f"{launches} launches a step, medians of {rounds} processes each:"
        f" alone {_ms(alone)}, at rest {_ms(rest)} (ratio {statistics.median(ratios):.4f},"
        f" {ratios[0]:.4f} to {ratios[-1]:.4f}), within a sample {_ms(within)},"
        f" first step of a sample {_ms(begins)}, first step after it {_ms(ends)}"
    )


def _median_of(took: list[float], places: range) -> float:
    found = [took[step] for step in range(EVERY, len(took)) if step % EVERY in places]
    return statistics.median(found)


def _ms(values: list[float]) -> str:
    return f"{statistics.median(values) * 1e3:.3f} ms"


def main() -> None:
    """Read the words and run."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--program", nargs=3, type=int)
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--steps", type=int, default=600)
    args = parser.parse_args()
    if args.program:
        program(*args.program)
        return
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        check(folder, 350, 20, 4_000_000)
        check(folder, 350, 200, 0)
        cost(folder, args.rounds, args.steps, 200)
        cost(folder, args.rounds, args.steps, 2000)


if __name__ == "__main__":
    main()
