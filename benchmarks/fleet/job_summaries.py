"""Summaries of the ranks of a simulated job, without recordings.

They have the simulated times of collectives and steps, and the parts of the real step, stretched as
`recordings` stretches its events. `proof.py same` compares both.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
from job_recordings import Template
from job_timeline import F64, Timeline

from warpline.derived.time_parts import TimePart
from warpline.fleet.collectives import QUARTERS, CollectiveKind, Collectives
from warpline.fleet.summarizing import summarize
from warpline.fleet.summary import HostSteps, RankSummary, RankWindows
from warpline.ops.arrays import I64
from warpline.trace import Run

_KIND = CollectiveKind("AllReduce", "stream 0", "", is_named=False, bytes=-1)


def base_of(base: Template, number: int = 2) -> RankSummary:
    """Return the summary of the template's recording with one step only."""
    whole = summarize(Run(base.trace))[0]
    row = np.flatnonzero(whole.windows.step == number)
    windows = RankWindows(*(column[row] for column in whole.windows))
    return replace(whole, windows=windows, ranges=(), os_calls=(), cpu_gaps_ns=None, calls=())


def summaries(base: RankSummary, times: Timeline, hosts: int = 8) -> Iterator[RankSummary]:
    """Yield the summary of each rank.

    Args:
        base: From `base_of`.
        times: The times of the job.
        hosts: Ranks per machine.
    """
    for rank in range(len(times.begin_ns)):
        yield _summary(base, times, rank, hosts)


def _summary(base: RankSummary, times: Timeline, rank: int, hosts: int) -> RankSummary:
    count = times.arrival_ns.shape[1]
    begin = np.rint(times.on_clock(rank, times.begin_ns[rank])).astype(np.int64)
    start, end = (
        np.rint(times.on_clock(rank, values[rank])).astype(np.int64)
        for values in (times.arrival_ns, times.end_ns)
    )
    length = np.diff(begin)
    parts = _parts(base, length, (end - start).sum(axis=1), times.gap_ns[rank])
    ratio = parts[:, TimePart.GEMM] / base.windows.parts_ns[0, TimePart.GEMM]
    number = np.repeat(base.windows.number, count, axis=0)
    work = np.rint(base.windows.work_ns * ratio[:, None]).astype(np.int64)
    steps = np.arange(count)
    none = np.zeros(count, np.int64)
    flat = start.reshape(-1)
    return RankSummary(
        identity=replace(
            base.identity,
            path=f"run.rank{rank}.warpline",
            rank=rank,
            host=f"n{rank // hosts:03d}",
            end_ns=int(begin[-1]),
        ),
        steps=HostSteps(
            number=steps,
            loop=none,
            period_ns=length,
            setup_calls=none,
            is_last=none,
            has_work=none + 1,
            is_cut=none,
            host_period_ns=length,
            cpu_idle_ns=none - 1,
            included=none + 1,
        ),
        windows=RankWindows(steps, begin[:-1], begin[1:], parts, number, work),
        kinds=(_KIND,),
        collectives=Collectives(
            flat,
            end.reshape(-1),
            np.zeros((len(flat), QUARTERS), np.uint8),
            np.zeros(len(flat), np.uint16),
            np.full(len(flat), -1, np.int64),
        ),
        ranges=(),
        cpu_gaps_ns=None,
        os_calls=(),
        calls=(),
    )


def _parts(
    base: RankSummary,
    length: I64,
    collective: I64,
    gap: F64,
) -> I64:
    """Return the parts of each step: those of the template, stretched to the step's work."""
    one = base.windows.parts_ns[0].astype(np.float64)
    one[TimePart.COLLECTIVE] = 0.0
    rest = length - collective - gap
    parts: I64 = np.rint(one * (rest / one.sum())[:, None]).astype(np.int64)
    parts[:, TimePart.COLLECTIVE] = collective
    parts[:, TimePart.LAUNCH_BOUND] += length - parts.sum(axis=1)
    return parts


def paths(folder: Path, ranks: int) -> list[Path]:
    """Return the recordings of a job's ranks."""
    return [folder / f"run.rank{rank}.warpline" for rank in range(ranks)]
