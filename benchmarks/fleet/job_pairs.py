"""Checks `warpline fleet compare` with simulated pairs of jobs: equal ones, and planted changes.

    python benchmarks/fleet/job_pairs.py RECORDING [PAIRS]

RECORDING is as for `proof.py`. A change makes all work and transfers of all ranks take a factor as
long, so the step takes exactly that factor. Jobs also differ from each other by a random factor,
as jobs that run one after another do. The template waits for the CPU for a third of its time; of
`busy` jobs, that time is counted as GEMMs instead.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
from job_recordings import Template, template
from job_summaries import base_of, summaries
from job_timeline import Fault, Job, timeline

from warpline.derived.time_parts import IDLE, TimePart
from warpline.fleet.comparing import compare_jobs
from warpline.fleet.sides import JobSide, side_of
from warpline.fleet.summary import RankSummary

RANKS, STEPS, HOST = 8, 30, 4
JOBS = 0.01  # relative standard deviation between jobs


class Case(NamedTuple):
    """What is compared: jobs per side, the planted factor, and whether GPUs are always busy."""

    jobs: int
    factor: float
    is_busy: bool


CASES = (
    *(Case(1, factor, is_busy) for is_busy in (True, False) for factor in (1.0, 0.97, 1.03)),
    *(Case(1, factor, is_busy) for is_busy in (True, False) for factor in (0.9, 1.1)),
    *(Case(5, factor, is_busy=False) for factor in (1.0, 0.97, 1.03, 0.9, 1.1)),
    *(Case(10, factor, is_busy=False) for factor in (1.0, 0.97, 1.03)),
)


class Outcome(NamedTuple):
    """The verdict, whether the interval has the planted factor, and stragglers that changed."""

    verdict: str
    is_covered: bool
    late: int


@cache
def _base(recording: Path, *, is_busy: bool) -> tuple[Template, RankSummary]:
    base = template(recording)
    one = base_of(base)
    if is_busy:
        parts = one.windows.parts_ns.copy()
        idle = [int(part) for part in IDLE]
        parts[:, TimePart.GEMM] += parts[:, idle].sum(axis=1)
        parts[:, idle] = 0
        one = replace(one, windows=one.windows._replace(parts_ns=parts))
    return base, one


def _job(recording: Path, case: Case, factor: float, seed: int) -> JobSide:
    base, one = _base(recording, is_busy=case.is_busy)
    vary = float(np.exp(JOBS * np.random.default_rng(seed).standard_normal()))
    faults = (
        Fault("slow", tuple(range(RANKS)), factor * vary),
        Fault("network", (), factor * vary),
    )
    job = Job(RANKS, STEPS, seed, faults=faults, offset_ns=50e6, drift=1e-4)
    times = timeline(base.step, job)
    return side_of(f"job {seed}", list(summaries(one, times, HOST)))


def pair(recording: Path, case: Case, draw: int) -> Outcome:
    """Compare one pair of sides."""
    seed = 2 * case.jobs * draw
    before = [_job(recording, case, 1.0, seed + place) for place in range(case.jobs)]
    seed += case.jobs
    after = [_job(recording, case, case.factor, seed + place) for place in range(case.jobs)]
    found = compare_jobs(before, after)
    step = found.steps.step
    assert step is not None
    assert step.low is not None
    assert step.high is not None
    # What is estimated: the factor of the program, whatever these jobs happened to draw.
    is_covered = step.low <= case.factor <= step.high
    return Outcome(found.verdict, is_covered, sum(x.change != "same" for x in found.stragglers))


def main(words: Sequence[str]) -> None:
    """Compare pairs of each case, and print a row for each."""
    recording, pairs = Path(words[0]), int(words[1]) if len(words) > 1 else 100
    print(f"{pairs} pairs each, {RANKS} ranks x {STEPS} steps, jobs differ by {JOBS:.0%}")
    print("jobs  GPUs       change  faster  slower  same  undecided  covered  late ranks changed")
    with ProcessPoolExecutor(2) as pool:
        for case in CASES:
            found = list(pool.map(partial(pair, recording, case), range(pairs)))
            verdicts = [one.verdict for one in found]
            counts = [verdicts.count(name) for name in ("faster", "slower", "same", "undecided")]
            covered, late = sum(one.is_covered for one in found), sum(one.late for one in found)
            kind = "busy" if case.is_busy else "waiting"
            print(
                f"{case.jobs:4}  {kind:9} {case.factor - 1:+7.0%}  {counts[0]:6}  {counts[1]:6}"
                f"  {counts[2]:4}  {counts[3]:9}  {covered:7}  {late:18}",
                flush=True,
            )


if __name__ == "__main__":
    main(sys.argv[1:])
