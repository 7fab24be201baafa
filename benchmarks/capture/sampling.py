"""Step sampling: exactness of the samples, and overhead in pauses. Needs a GPU and PyTorch.

Usage: PYTHONPATH=src:benchmarks WARPLINE_CORE=... WARPLINE_AGENT=... \
           python benchmarks/capture/sampling.py [--rounds 6] [--steps 600] [--unmarked | --rest]

The program launches small kernels in steps. First, the kernels in the recording are counted, with
a GPU that lags behind by many steps. Then whole processes, alone and sampled, take turns: the
median step in pauses, and the steps in which a sample starts or ends.

With --unmarked, steps are not ranges and are detected from the launches. With a synchronization at
the end of each step, only that call is intercepted in pauses. Without one (the last two lines),
pauses are timed. During detection all launches are intercepted, up to 80,000: medians of steps 10
to 30. Medians in pauses are over all steps after the first 400, few of which are in a sample.

With --rest, only the time of a launch in pauses is compared, in --rounds sets of processes that
take turns: alone, with CUPTI detached, with CUPTI attached and graphs traced at graph level or node
level, and before cudaProfilerStart. Only the first step is recorded. The output is medians and
quintiles of the sets.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import Any

import turns

SAMPLED, EVERY = 5, 100
_RESTING = 2000  # launches in a turn
_REST = range(20, 95)  # of each EVERY: steps well away from a sample
_TOLD = 400  # steps after which the launches have shown what a step is
_SEARCHING = slice(10, 30)  # and while they have not


def program(steps: int, launches: int, spin: int, is_marked: int, waits: int) -> None:
    """Run the steps and print the duration of each in seconds."""
    import torch  # noqa: PLC0415 - the program alone needs it

    values = torch.ones(1024, device="cuda")
    torch.cuda.synchronize()
    took = []
    for step in range(steps):
        began = time.perf_counter()
        if is_marked:
            torch.cuda.nvtx.range_push(f"step_{step}")
        else:
            values.mul_(1.0)  # what occurs once
        for _ in range(launches):
            values.add_(1.0)
        if spin:
            torch.cuda._sleep(spin)  # noqa: SLF001 - as PyTorch's own tests do
        if is_marked:
            torch.cuda.nvtx.range_pop()
        if waits:
            torch.cuda.synchronize()
        took.append(time.perf_counter() - began)
    torch.cuda.synchronize()
    sys.stdout.write(json.dumps(took) + "\n")


def rest(folder: str) -> None:
    """Take turns launching small kernels, and report ns per launch."""
    import torch  # noqa: PLC0415 - the program alone needs it

    values = torch.ones(1024, device="cuda")

    def work() -> turns.Figures:
        for _ in range(_RESTING // 10):
            values.add_(1.0)
        torch.cuda.synchronize()
        began = time.perf_counter()
        with torch.cuda.nvtx.range("step_0"):
            for _ in range(_RESTING):
                values.add_(1.0)
        torch.cuda.synchronize()
        return {"launch": (time.perf_counter() - began) / _RESTING * 1e9}

    turns.serve(folder, work)


def run(folder: Path, *words: object, is_sampled: bool) -> list[float]:
    """Run the program, recorded or alone, and return its step times."""
    command = [sys.executable, __file__, "--program", *map(str, words)]
    if is_sampled:
        flags = ["--no-summary", "-f", "-o", str(folder / "run")]
        flags += ["--steps", str(SAMPLED), "--every", str(EVERY)]
        command = [sys.executable, "-m", "warpline", "profile", *flags, *command]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(done.stderr)
    sys.stderr.write(done.stderr)
    took: list[float] = json.loads(done.stdout)
    return took


def check(folder: Path, steps: int, launches: int, spin: int) -> None:
    """Count the kernels in the recording of a run whose GPU lags behind."""
    trace = _recorded(folder, steps, launches, spin, 1, int(not spin))
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


def check_unmarked(folder: Path, steps: int, launches: int, spin: int, waits: int) -> None:
    """Count the kernels of a run without ranges: whole steps of them, in every window."""
    trace = _recorded(folder, steps, launches, spin, 0, waits)
    starts = trace.columns("api_call", "start_ns", "name_id")["start_ns"].values
    windows = trace.meta.windows_ns or ()
    in_step = launches + 1 + bool(spin)
    kernels = trace.row_count("kernel")
    # The program's end may cut off the last window just before the first kernel of a step.
    left = kernels - (len(windows) - 1) * SAMPLED * in_step
    is_whole = windows and 0 <= left <= SAMPLED * in_step and (left + 1) % in_step <= 1
    verdict = "ok" if is_whole else "BAD"
    print(
        f"{verdict} {kernels} kernels, {kernels / in_step:g} steps of {in_step},"
        f" {len(starts)} calls, {len(windows)} windows; {trace.meta.lost or 'nothing lost'};"
        f" {'; '.join(trace.meta.warnings)}"
    )


def _recorded(folder: Path, *words: int) -> Any:
    import warpline  # noqa: PLC0415 - the program is to start without it

    run(folder, *words, is_sampled=True)
    return warpline.open(folder / "run.warpline")


def cost(folder: Path, rounds: int, steps: int, launches: int) -> None:
    """Compare the median step in pauses."""
    alone, rest, begins, ends, within = [], [], [], [], []
    for _ in range(rounds):
        took = run(folder, steps, launches, 0, 1, 1, is_sampled=False)
        alone.append(_median_of(took, _REST))
        took = run(folder, steps, launches, 0, 1, 1, is_sampled=True)
        rest.append(_median_of(took, _REST))
        begins.append(_median_of(took, range(1)))
        ends.append(_median_of(took, range(SAMPLED, SAMPLED + 1)))
        within.append(_median_of(took, range(1, SAMPLED)))
    print(
        f"{launches} launches a step, medians of {rounds} processes each:"
        f" alone {_ms(alone)}, at rest {_ms(rest)} ({_ratios(alone, rest)}),"
        f" within a sample {_ms(within)}, first step of a sample {_ms(begins)},"
        f" first step after it {_ms(ends)}"
    )


def cost_unmarked(folder: Path, rounds: int, steps: int, launches: int, waits: int) -> None:
    """Compare the median step during and after step detection."""
    alone, rest, told = [], [], []
    for _ in range(rounds):
        took = run(folder, steps, launches, 0, 0, waits, is_sampled=False)
        alone.append(statistics.median(took[_TOLD:]))
        took = run(folder, steps, launches, 0, 0, waits, is_sampled=True)
        rest.append(statistics.median(took[_TOLD:]))
        told.append(statistics.median(took[_SEARCHING]))
    print(
        f"unmarked, {launches} launches a step, {'a' if waits else 'no'} wait in each, medians of"
        f" {rounds} processes each: alone {_ms(alone)}, while searching {_ms(told)}"
        f" ({_ratios(alone, told)}), at rest {_ms(rest)} ({_ratios(alone, rest)})"
    )


def compare_rests(folder: Path, sets: int) -> None:
    """Compare the time of a launch in pauses, by CUPTI's state: processes take turns."""
    profile = [sys.executable, "-m", "warpline", "profile", "--no-summary", "-f", "true"]
    sample = ["--steps", "1", "--every", "65535"]
    keeps = [*sample, "--cuda-detach=false"]
    ways = {
        "alone": [],
        "detached": [*profile, "-o", str(folder / "d"), *sample],
        "whole graphs": [*profile, "-o", str(folder / "a"), *keeps, "--cuda-graph-trace=graph"],
        "nodes of graphs": [*profile, "-o", str(folder / "b"), *keeps],
        "not begun": [*profile, "-o", str(folder / "c"), "-c", "cudaProfilerApi"],
    }
    commands: dict[str, turns.Command] = {
        way: partial(_rest_command, before) for way, before in ways.items()
    }
    told = [turns.in_turn(commands, 100, warm=5) for _ in range(sets)]
    for way in ways:
        ns = statistics.median(turns.median(one, way, "launch") for one in told)
        ratios = (turns.ratio(one, way, "alone", "launch") for one in told)
        ratio, low, high = turns.quintiles(ratios)
        print(f"{way}: {ns:,.0f} ns per launch at rest, {ratio:.4f} ({low:.4f} to {high:.4f})")


def _rest_command(before: list[str], folder: str) -> list[str]:
    return [*before, sys.executable, __file__, "--rest-in", folder]


def _ratios(alone: list[float], other: list[float]) -> str:
    ratios = sorted(b / a for a, b in zip(alone, other, strict=True))
    return f"ratio {statistics.median(ratios):.4f}, {ratios[0]:.4f} to {ratios[-1]:.4f}"


def _median_of(took: list[float], places: range) -> float:
    found = [took[step] for step in range(EVERY, len(took)) if step % EVERY in places]
    return statistics.median(found)


def _ms(values: list[float]) -> str:
    return f"{statistics.median(values) * 1e3:.3f} ms"


def main() -> None:
    """Parse the arguments and run."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--program", nargs=5, type=int)
    parser.add_argument("--unmarked", action="store_true")
    parser.add_argument("--rest", action="store_true")
    parser.add_argument("--rest-in", help=argparse.SUPPRESS)
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--steps", type=int, default=600)
    args = parser.parse_args()
    if args.program:
        program(*args.program)
        return
    if args.rest_in:
        rest(args.rest_in)
        return
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if args.rest:
            compare_rests(folder, args.rounds)
            return
        if args.unmarked:
            steps = max(args.steps, 2 * _TOLD)
            check_unmarked(folder, steps, 600, 0, 1)
            check_unmarked(folder, steps, 20, 4_000_000, 0)
            for waits in (1, 0):
                cost_unmarked(folder, args.rounds, steps, 600, waits)
                cost_unmarked(folder, args.rounds, steps, 2000, waits)
            return
        check(folder, 350, 20, 4_000_000)
        check(folder, 350, 200, 0)
        cost(folder, args.rounds, args.steps, 200)
        cost(folder, args.rounds, args.steps, 2000)


if __name__ == "__main__":
    main()
