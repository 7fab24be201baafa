"""How often two runs of the same program count as different, and how often a slowdown is found.

    python benchmarks/compare/false_alarms.py resampled [--recordings FOLDER] [--trials 4000]
    python benchmarks/compare/false_alarms.py gated [--recordings FOLDER] [--trials 2000]
    python benchmarks/compare/false_alarms.py programs [--trials 500]
    python benchmarks/compare/false_alarms.py recorded [--runs 300] [--command PROGRAM]

`resampled` makes runs of the noise of real step times (and of synthetic series with correlation,
outliers and drift), with known variation between runs. `gated` lets `warpline gate` judge such runs
at its default limit. `programs` runs a small program, a process
for each run, once alone and once beside a neighbor that takes CPU time in bursts. `recorded`
records a program with NVTX ranges by Warpline's own agent and reads its steps. Each prints shares
with 95% limits (Clopper and Pearson).
"""

from __future__ import annotations

import argparse
import itertools
import math
import os
import random
import shlex
import signal
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

import warpline
from warpline.comparison import limits as limits_of
from warpline.comparison.gate import judge
from warpline.comparison.statistics import ALPHA, RatioEstimate, step_ratio, verdict
from warpline.comparison.summary import Summary
from warpline.derived.steps.times import steps
from warpline.trace import Run

F64 = npt.NDArray[np.float64]
RECORDINGS = Path(__file__).parents[2] / "tests" / "data"
WORK = 4000  # of a step of the small program: 0.2 ms
SLOWDOWNS = (0.01, 0.03, 0.05, 0.10)
PROGRAM = """
import warpline
for _ in range(32):
    with warpline.annotate("step"):
        sum(number * number for number in range(4000))
"""


class Noise(NamedTuple):
    """Where the steps of a resampled run come from.

    Attributes:
        name: Name of the series.
        run: Makes the steps of a run around 1.
    """

    name: str
    run: Callable[[np.random.Generator, int], F64]


def main() -> None:
    """Measure what the command line names."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("what", choices=("resampled", "gated", "programs", "recorded"))
    parser.add_argument("--recordings", type=Path, action="append", default=[RECORDINGS])
    parser.add_argument("--trials", type=int, default=0)
    parser.add_argument("--runs", type=int, default=300)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--command", help="of `recorded`: another program, such as one for a GPU")
    args = parser.parse_args()
    if args.what == "resampled":
        resampled(noises(args.recordings), args.trials or 4000, args.seed)
    elif args.what == "gated":
        gated(noises(args.recordings), args.trials or 2000, args.seed)
    elif args.what == "programs":
        programs(args.trials or 500, args.seed)
    else:
        command = shlex.split(args.command or "") or [sys.executable, "-c", PROGRAM]
        recorded(command, args.runs, args.seed)


def resampled(sources: Sequence[Noise], trials: int, seed: int) -> None:
    """Compare resampled runs of the same program, then of a slower one."""
    print(f"{len(sources)} series: {', '.join(noise.name for noise in sources)}")
    print("\nFalse alarms: runs of one program, 20 steps each, variation between runs 0 to 2%")
    rng = np.random.default_rng(seed)
    spread = {noise.name: float(np.std(noise.run(rng, 2000))) for noise in sources}
    total = [0, 0]
    for runs, paired in ((1, False), (3, False), (3, True), (5, True), (10, False), (10, True)):
        flagged = sum(
            is_flagged(*sides(noise, rng, runs, sd, 0.0), paired=paired) is not None
            for noise, sd in draws(sources, rng, trials)
        )
        total = [total[0] + flagged, total[1] + trials]
        how = "in turn" if paired else "not in turn"
        say(f"{runs} of each side, {how}", flagged, trials)
    say("all", *total)
    some = max(trials // 20, 100)
    print("\nFound: 10 pairs run in turn, 100 steps each, by the variation of steps and of runs")
    for slowdown, sd in itertools.product(SLOWDOWNS, (0.003, 0.01)):
        shares = {}
        for noise in sources:
            found = (
                is_flagged(*sides(noise, rng, 10, sd, slowdown, steps=100), paired=True)
                for _ in range(some)
            )
            shares[noise.name] = sum(said == "slower" for said in found)
        quiet = [name for name, cv in spread.items() if cv < 0.1]
        what = f"{slowdown:.0%} slower, runs vary by {sd:.1%}"
        say(f"{what}, steps by < 10%", sum(shares[name] for name in quiet), some * len(quiet))
        for name in spread.keys() - set(quiet):
            say(f"  {name}, {spread[name]:.0%}", shares[name], some)


def gated(sources: Sequence[Noise], trials: int, seed: int) -> None:
    """Judge resampled runs of slower programs at the default limit, in turn."""
    rng = np.random.default_rng(seed)
    limit = limits_of.parse("step:2%")
    print("Limit 2%, 20 steps each, runs in turn that vary by 0 to 2%: fails, passes")
    for runs, slowdown in itertools.product((3, 5, 10), (0.0, *SLOWDOWNS)):
        outcomes = []
        for noise, sd in draws(sources, rng, trials):
            first, other = sides(noise, rng, runs, sd, slowdown)
            old, new = (
                Summary("", "", "range:step", (), tuple(map(tuple, side)), {"busy:gemm": (1.0,)})
                for side in (first, other)
            )
            outcomes.append(judge(old, new, limit, paired=True).outcome)
        what = f"{slowdown:.0%} slower, {runs} pairs"
        say(f"{what}: fails", outcomes.count("regression"), trials)
        say(f"{what}: passes", outcomes.count("pass"), trials)


def draws(
    sources: Sequence[Noise], rng: np.random.Generator, trials: int
) -> Iterator[tuple[Noise, float]]:
    """Yield a series and a variation between runs for each trial."""
    for place in range(trials):
        yield sources[place % len(sources)], float(rng.choice([0.0, 0.003, 0.01, 0.02]))


def sides(
    noise: Noise, rng: np.random.Generator, runs: int, sd: float, slowdown: float, steps: int = 20
) -> tuple[list[F64], list[F64]]:
    """Return the runs of both sides, in turn, on a machine that drifts by up to 2% meanwhile."""
    drift = np.exp(np.linspace(0.0, rng.uniform(-0.02, 0.02), 2 * runs))
    levels = drift * np.exp(rng.normal(0.0, sd, 2 * runs))
    made = [level * noise.run(rng, steps) for level in levels.tolist()]
    # The order of a pair alternates, as `warpline gate` runs them.
    first = [made[2 * pair + pair % 2] for pair in range(runs)]
    other = [made[2 * pair + 1 - pair % 2] * (1.0 + slowdown) for pair in range(runs)]
    return first, other


def is_flagged(before: Sequence[F64], after: Sequence[F64], *, paired: bool) -> str | None:
    """Return the verdict if it is a difference, at the default tolerance."""
    said = verdict(step_ratio(before, after, paired=paired))
    return said if said in ("faster", "slower") else None


def noises(folders: Sequence[Path]) -> list[Noise]:
    """Return the step times of recordings, and synthetic series."""
    found = [
        Noise("autoregressive, 0.6", lambda rng, n: autoregressive(rng, n, 0.6, 0.02)),
        Noise("autoregressive, 0.9", lambda rng, n: autoregressive(rng, n, 0.9, 0.01)),
        Noise("outliers", with_outliers),
        Noise("drift", with_drift),
    ]
    for path in sorted(path for folder in folders for path in folder.rglob("*")):
        if not path.name.endswith((".sqlite", ".json.gz", ".warpline")):
            continue
        try:
            series = step_times(path)
        except warpline.WarplineError:
            continue
        if len(series) >= 4:
            name = path.name.removesuffix(".sqlite")
            found.append(Noise(name, partial(blocks, series=series / series.mean())))
    return found


def step_times(path: Path) -> F64:
    """Return the times of the analyzed steps of a recording, on the GPU if it has work."""
    found = steps(Run(warpline.open(path), None))
    periods = found.period_ns[found.included]
    if not periods.any():
        periods = found.host_period_ns[found.included]
    return periods[periods > 0].astype(np.float64)


def blocks(rng: np.random.Generator, count: int, series: F64) -> F64:
    """Return steps that are drawn in pairs of successive ones."""
    starts = rng.integers(0, len(series), (count + 1) // 2)
    drawn: F64 = series[(starts[:, None] + np.arange(2)) % len(series)].reshape(-1)[:count]
    return drawn


def autoregressive(rng: np.random.Generator, count: int, share: float, sd: float) -> F64:
    """Return steps of which each resembles the one before."""
    values = rng.normal(0.0, sd, count)
    values[0] /= math.sqrt(1.0 - share * share)
    for place in range(1, count):
        values[place] += share * values[place - 1]
    return np.exp(values)


def with_outliers(rng: np.random.Generator, count: int) -> F64:
    """Return steps of which one in twenty takes up to three times as long."""
    return rng.normal(1.0, 0.01, count) + (rng.random(count) < 0.05) * rng.exponential(0.5, count)


def with_drift(rng: np.random.Generator, count: int) -> F64:
    """Return steps that become slower or faster by up to 5%."""
    slope: F64 = np.linspace(0.0, rng.uniform(-0.05, 0.05), count)
    steps: F64 = rng.normal(1.0, 0.01, count) * np.exp(slope - slope.mean())
    return steps


def programs(trials: int, seed: int) -> None:
    """Compare runs of a small program that were made in turn, alone and beside a neighbor."""
    for has_neighbor in (False, True):
        neighbor = start_neighbor(seed) if has_neighbor else None
        try:
            where = "beside a neighbor" if has_neighbor else "alone"
            for pairs in (3, 5):
                found = [compare_programs(pairs, WORK, WORK) for _ in range(trials)]
                said = [verdict(item) for item in found]
                flagged = trials - said.count("undecided") - said.count("same")
                say(f"{pairs} pairs, {where}", flagged, trials)
                say("    p at most 1%, any size", sum(item.p <= ALPHA for item in found), trials)
                widths = sorted(math.log(item.high / item.low) / 2.0 for item in found)
                print(f"    median interval +-{widths[trials // 2]:.0%}")
            for share in (0.03, 0.10):
                some = max(trials // 10, 20)
                slower = [
                    compare_programs(10, WORK, round(WORK * (1 + share))) for _ in range(some)
                ]
                count = sum(verdict(item) == "slower" for item in slower)
                say(f"{share:.0%} slower, 10 pairs, {where}", count, some)
        finally:
            if neighbor is not None:
                os.kill(neighbor, signal.SIGKILL)
                os.waitpid(neighbor, 0)


def compare_programs(pairs: int, work: int, other_work: int) -> RatioEstimate:
    """Run two programs in turn and return how they differ."""
    runs: tuple[list[F64], list[F64]] = ([], [])
    for pair in range(pairs):
        for side in (0, 1) if pair % 2 == 0 else (1, 0):
            runs[side].append(run_program(other_work if side else work))
    return step_ratio(*runs, paired=True)


def run_program(work: int, count: int = 20) -> F64:
    """Return the step times of a program in a process of its own, in ns."""
    read, write = os.pipe()
    child = os.fork()
    if not child:
        times = []
        for _ in range(count + 2):
            times.append(time.perf_counter_ns())
            sum(number * number for number in range(work))
        os.write(write, struct.pack(f"{count + 2}q", *times))
        os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as pipe:
        data = pipe.read()
    os.waitpid(child, 0)
    return np.diff(np.frombuffer(data, np.int64))[1:].astype(np.float64)


def start_neighbor(seed: int) -> int:
    """Start processes that take a CPU each in bursts; return the leader's id."""
    child = os.fork()
    if child:
        return child
    chance = random.Random(seed)
    while True:
        end = time.perf_counter() + chance.uniform(0.001, 0.05)
        while time.perf_counter() < end:
            pass
        time.sleep(chance.uniform(0.001, 0.05))


def recorded(program: Sequence[str], runs: int, seed: int) -> None:
    """Record one program often, and compare runs that followed one another, in turn."""
    with tempfile.TemporaryDirectory() as folder:
        name = Path(folder) / "run.warpline"
        made = []
        for _ in range(runs):
            profile = [sys.executable, "-m", "warpline", "profile", "-q", "--force-overwrite=true"]
            subprocess.run(
                [*profile, "-o", str(name), "--", *program], check=True, stdout=subprocess.DEVNULL
            )
            made.append(step_times(name))
    means = np.array([run.mean() for run in made])
    print(f"{runs} recordings, variation between runs {means.std(ddof=1) / means.mean():.1%}")
    for pairs in (1, 3, 5):
        groups = [made[at : at + 2 * pairs] for at in range(0, runs - 2 * pairs + 1, 2 * pairs)]
        say(f"{pairs} of each side, each run once", *count_flagged(groups))
    rng = np.random.default_rng(seed)
    groups = [[made[at] for at in rng.permutation(runs)[:10].tolist()] for _ in range(1000)]
    say("5 pairs, drawn", *count_flagged(groups))


def count_flagged(groups: Sequence[Sequence[F64]]) -> tuple[int, int]:
    """Return how many groups of runs, in pairs, have a difference, and how many there are."""
    flagged = [is_flagged(group[::2], group[1::2], paired=True) for group in groups]
    return sum(item is not None for item in flagged), max(len(groups), 1)


def say(what: str, found: int, trials: int) -> None:
    """Print a share with its limits."""
    low, high = limits(found, trials)
    share = f"{found / trials:7.2%} ({low:.2%} to {high:.2%})"
    print(f"  {what:46} {found:5} of {trials:5}  {share}", flush=True)


def limits(found: int, trials: int) -> tuple[float, float]:
    """Return the 95% limits of a share (Clopper and Pearson), by bisection."""

    def at_most(count: int, share: float) -> float:
        logs = (
            math.lgamma(trials + 1)
            - math.lgamma(k + 1)
            - math.lgamma(trials - k + 1)
            + k * math.log(share)
            + (trials - k) * math.log1p(-share)
            for k in range(count + 1)
        )
        return sum(map(math.exp, logs))

    def solve(is_above: Callable[[float], bool]) -> float:
        low, high = 1e-12, 1.0 - 1e-12
        for _ in range(60):
            middle = (low + high) / 2.0
            low, high = (low, middle) if is_above(middle) else (middle, high)
        return low

    low = 0.0 if not found else solve(lambda share: 1.0 - at_most(found - 1, share) > 0.025)
    high = 1.0 if found == trials else solve(lambda share: at_most(found, share) < 0.025)
    return low, high


if __name__ == "__main__":
    main()
