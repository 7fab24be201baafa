"""The steps of each rank on its GPU, side by side with those of the other ranks."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from warpline.derived import derived
from warpline.derived.collectives.waits import collective_waits
from warpline.derived.steps.times import Windows, steps
from warpline.derived.work.operations import operations
from warpline.ops.arrays import I64, BoolArray
from warpline.ops.group import factorize_rows
from warpline.ops.interval import union
from warpline.ops.tiling import Grouped, cut
from warpline.trace import Run


class RankSteps(NamedTuple):
    """Each step on each device of its process, included or not, by rank and start.

    Attributes:
        windows: The time of each.
        rank: Shape (n,), int64, number of the process and device, ascending by both.
        behind_ns: Shape (n,), int64, how much longer it took than the step with the same number on
            the fastest rank.
        has_peers: Shape (n,), bool, whether another rank has a step with that number.
        wait_ns: Shape (n,), int64, time of the window in which the rank waited for another one in
            a collective.
        has_wait: Shape (n,), bool, whether that is known: the step is included, and some
            collective of the rank is matched.
    """

    windows: Windows
    rank: I64
    behind_ns: I64
    has_peers: BoolArray
    wait_ns: I64
    has_wait: BoolArray


@derived
def rank_steps(run: Run) -> RankSteps:
    """Return the steps of each rank."""
    run_steps = steps(run)
    step, device = run_steps.window_step, run_steps.window_device
    order = np.lexsort((run_steps.window_start_ns, device, run_steps.process[step]))
    windows = run_steps.windows(order)
    rank = factorize_rows(windows.process, windows.device).codes.astype(np.int64)
    length = windows.end_ns - windows.start_ns
    number = factorize_rows(run_steps.index[windows.step])
    fastest = np.full(number.n_groups, np.iinfo(np.int64).max)
    np.minimum.at(fastest, number.codes, length)
    pairs = factorize_rows(number.codes, rank)
    ranks_with = np.bincount(number.codes[pairs.first], minlength=number.n_groups)
    wait, has_wait = _waits(run, windows, rank)
    return RankSteps(
        windows=windows,
        rank=rank,
        behind_ns=length - fastest[number.codes],
        has_peers=ranks_with[number.codes] > 1,
        wait_ns=wait,
        has_wait=has_wait & run_steps.included[windows.step],
    )


def _waits(run: Run, windows: Windows, rank: I64) -> tuple[I64, BoolArray]:
    """Return the waiting time in each window, and whether its rank is in a matched collective."""
    waits = collective_waits(run)
    wait_ns, has_wait = np.zeros(len(rank), np.int64), np.zeros(len(rank), np.bool_)
    matches = waits.matches
    start = operations(run.trace).start_ns[waits.operation]
    for number in range(int(rank.max(initial=-1)) + 1):
        rows = np.flatnonzero(rank == number)
        own = matches.rank_process[waits.rank] == windows.process[rows[0]]
        own &= matches.rank_device[waits.rank] == windows.device[rows[0]]
        if not own.any():
            continue
        # Waits in several collectives at once count once.
        waiting = union(start[own], start[own] + waits.wait_ns[own])
        one = np.zeros(len(waiting.start), np.int64)
        pieces = cut(
            Grouped(windows.start_ns[rows], windows.end_ns[rows], np.zeros(len(rows), np.int64)),
            Grouped(waiting.start, waiting.end, one),
        )
        np.add.at(wait_ns, rows[pieces.span], pieces.end_ns - pieces.start_ns)
        has_wait[rows] = True
    return wait_ns, has_wait
