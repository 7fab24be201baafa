"""Checks and measures `warpline fleet analyze` with simulated jobs.

    python benchmarks/fleet/proof.py same RECORDING        recordings and summaries agree, and parts
                                                           of a recording are as planted
    python benchmarks/fleet/proof.py stragglers RECORDING  100 jobs with one slow rank, 100 without
    python benchmarks/fleet/proof.py scale RECORDING N     time and memory, from summaries alone
    python benchmarks/fleet/proof.py make RECORDING N DIR [STEPS]  recordings of N ranks

RECORDING is a recording of one rank with steps whose collectives do not overlap, such as
ddp_serial.bad.rank1.sqlite; it may be compressed (.xz).
"""

from __future__ import annotations

import lzma
import resource
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from job_recordings import Template, template, write
from job_summaries import base_of, paths, summaries
from job_timeline import Fault, Job, Timeline, timeline

from warpline import api
from warpline.derived.time_parts import TimePart
from warpline.fleet.matching import clocks, matches
from warpline.fleet.summarizing import summarize
from warpline.fleet.summary import RankSummary, drained, packed
from warpline.fleet.verdict import verdict_of
from warpline.result.fleet import Fleet
from warpline.trace import Run

DRAWS = 100
CLOCKS = Job(0, 0, offset_ns=50e6, drift=1e-4)
HOST = 8


def same(base: Template) -> None:
    """Compare recordings with summaries and with what was planted."""
    one = base_of(base)
    faults = (Fault("gap", (1,), 3e6), Fault("slow", (3,), 1.3))
    job = replace(CLOCKS, ranks=4, steps=8, seed=5, faults=faults)
    times = timeline(base.step, job)
    planned = list(summaries(one, times))
    with tempfile.TemporaryDirectory() as folder:
        for rank, path in enumerate(paths(Path(folder), job.ranks)):
            write(base, times, rank, path, f"n{rank}")
            found = summarize(Run(api.open(path)))[0]
            _compare(planned[rank], found, times, rank)


def _compare(planned: RankSummary, found: RankSummary, times: Timeline, rank: int) -> None:
    count = len(found.windows.step)
    for name in ("start_ns", "end_ns"):
        apart = getattr(planned.collectives, name) - getattr(found.collectives, name)
        assert np.abs(apart).max() <= 1, f"rank {rank}: {name} of collectives"
    apart = planned.windows.start_ns[:count] - found.windows.start_ns
    assert np.abs(apart).max() <= 1, "starts of steps"
    mine, theirs = planned.windows.parts_ns[:count], found.windows.parts_ns
    length = theirs.sum(axis=1)
    worst = (np.abs(mine - theirs).sum(axis=1) / length).max()
    idle = (theirs[:, TimePart.LAUNCH_BOUND] - mine[:, TimePart.LAUNCH_BOUND]) / length
    gap = times.gap_ns[rank].mean() / 1e6
    print(
        f"rank {rank}: {count} steps, gap {gap:.1f} ms: parts differ by at most {worst:.2%} of a"
        f" step, launch-bound by {np.abs(idle).max():.2%}"
    )
    assert worst < 0.05


def stragglers(base: Template, ranks: int = 16, steps: int = 12) -> None:
    """Count found and false stragglers, and check clocks and bounds."""
    one, rng = base_of(base), np.random.default_rng(7)
    step_ns = float(base.step.work_ns.sum() + base.step.transfer_ns.sum())
    found = false = covered = within = 0
    causes: dict[str, int] = {}
    for draw in range(DRAWS):
        who = int(rng.integers(ranks))
        is_gap = draw % 2 == 0
        fault = Fault("gap", (who,), 0.15 * step_ns) if is_gap else Fault("slow", (who,), 1.15)
        job = replace(CLOCKS, ranks=ranks, steps=steps, seed=draw, faults=(fault,))
        times = timeline(base.step, job)
        answer, every = _answer(one, times)
        is_right = [item.rank for item in answer.stragglers] == [who]
        found += is_right
        for item in answer.stragglers:
            key = f"{fault.kind}: {item.cause}"
            causes[key] = causes.get(key, 0) + 1
        covered += _clocks_covered(every, times)
        healthy = timeline(base.step, replace(job, faults=()))
        truth = float(np.diff(healthy.begin_ns, axis=1).mean())
        estimate = answer.findings[0].step_ns if answer.findings else None
        if estimate is not None:
            within += estimate.low <= truth <= estimate.high
        calm, _ = _answer(one, healthy)
        false += bool(calm.stragglers)
    print(
        f"{found} of {DRAWS} planted stragglers found, {false} false ones in {DRAWS} healthy jobs"
        f" ({ranks} ranks, {steps} steps, clocks off by up to 50 ms and 100 ppm)"
    )
    print(f"causes: {causes}")
    print(f"clocks within their stated error: {covered} of {DRAWS * (ranks - 1)}")
    print(f"step without the straggler within its bounds: {within} of {DRAWS}")


def _answer(one: RankSummary, times: Timeline) -> tuple[Fleet, list[RankSummary]]:
    every = list(summaries(one, times, HOST))
    return verdict_of("job", every), every


def _clocks_covered(every: Sequence[RankSummary], times: Timeline) -> int:
    """Return how many ranks' clocks, relative to rank 0, are within the stated error all along."""
    matched = matches(every)
    of_ranks = clocks(len(every), matched.groups)
    covered = 0
    for rank in range(1, len(every)):
        true = times.end_ns[rank].reshape(-1)[[0, -1]]
        pair = [(at, clock) for at in (0, rank) if (clock := of_ranks[at]) is not None]
        moments = [
            clock.job_time(np.rint(times.on_clock(at, true)).astype(np.int64)) for at, clock in pair
        ]
        apart = np.abs(moments[0] - moments[1]).max()
        error = max(clock.error_ns for _, clock in pair)
        covered += bool(apart <= error)
    return covered


def scale(base: Template, ranks: int, steps: int = 50) -> None:
    """Measure the answer from summaries alone: as they come from workers, in pieces."""
    one = base_of(base)
    job = replace(
        CLOCKS, ranks=ranks, steps=steps, seed=1, faults=(Fault("slow", (ranks // 3,), 1.15),)
    )
    times = timeline(base.step, job)
    content = [packed([summary]) for summary in summaries(one, times, HOST)]
    size = sum(map(len, content))
    per_step = (size / ranks - 16 * times.arrival_ns[0].size) / steps
    del times
    before = _memory()
    began, cpu = time.monotonic(), time.process_time()
    answer = verdict_of("job", drained(content))
    print(
        f"{ranks} ranks x {steps} steps: {time.monotonic() - began:.1f} s,"
        f" {time.process_time() - cpu:.1f} s of CPU; {size / 2**20:.0f} MiB of summaries"
        f" ({per_step:.0f} bytes per step besides 16 per collective), peak memory {_memory():,.0f}"
        f" MiB (before: {before:,.0f})"
    )
    print(answer.verdict)


def _memory() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def make(base: Template, ranks: int, folder: Path, steps: int = 50) -> None:
    """Write the recordings of a job of which one rank is late."""
    folder.mkdir(parents=True, exist_ok=True)
    job = replace(
        CLOCKS, ranks=ranks, steps=steps, seed=1, faults=(Fault("gap", (ranks // 3,), 4e6),)
    )
    times = timeline(base.step, job)
    for rank, path in enumerate(paths(folder, ranks)):
        write(base, times, rank, path, f"n{rank // HOST:03d}")


def _template(path: Path) -> Template:
    if path.suffix != ".xz":
        return template(path)
    with tempfile.TemporaryDirectory() as folder:
        plain = Path(folder) / path.stem
        plain.write_bytes(lzma.decompress(path.read_bytes()))
        return template(plain)


def main(words: Sequence[str]) -> None:
    """Run one of the checks."""
    what, recording, *rest = words
    base = _template(Path(recording))
    if what == "same":
        same(base)
    elif what == "stragglers":
        stragglers(base, *map(int, rest))
    elif what == "scale":
        scale(base, *map(int, rest))
    else:
        make(base, int(rest[0]), Path(rest[1]), *map(int, rest[2:]))


if __name__ == "__main__":
    main(sys.argv[1:])
