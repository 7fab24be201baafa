"""Kernels that all ranks run and that take longer on one of them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from warpline.derived import derived
from warpline.derived.ranks.peers import category_sums, has_same_program, working_ranks
from warpline.derived.time_parts import TimePart
from warpline.trace import Run

_SAME_NUMBER = 0.1  # relative difference
_LEAST_SLOWER = 1.03  # longer by less is within the variation between GPUs
_EVERYWHERE = 0.8  # of the time of the compared kernels
_LEAST_CATEGORIES = 3


class LongerWork(NamedTuple):
    """Work of one rank that takes longer than the same work on the others.

    Attributes:
        ns: By how much per step, compared with the median of the other ranks.
        ratio: Time of all of it, relative to the others.
        category: The category with the largest difference.
        is_everywhere: Whether nearly all work takes longer: the GPU is slower, not the work larger.
        factors: The time of the others relative to that of the rank, by category that takes longer.
    """

    ns: float
    ratio: float
    category: TimePart
    is_everywhere: bool
    factors: tuple[tuple[TimePart, float], ...]


@derived
def longer_work(run: Run, process: int, device: int) -> LongerWork | None:
    """Return how much longer a rank takes for as many operations of each category as the others.

    None if it does not, or if the ranks run different programs.

    Args:
        run: The trace, and the choice of its steps.
        process: Row of the process table.
        device: Row of the device table.
    """
    ranks, sums = working_ranks(run), category_sums(run)
    place = ranks.place(process, device)
    if place < 0 or len(ranks) < 2 or not has_same_program(run, place):
        return None
    number, ns = (
        np.median(np.delete(values, place, axis=0), axis=0) for values in (sums.number, sums.ns)
    )
    alike = (ns > 0) & (np.abs(sums.number[place] - number) <= _SAME_NUMBER * number)
    if not alike.any():
        return None
    own, others = sums.ns[place][alike], ns[alike]
    more, ratio = own - others, float(own.sum() / others.sum())
    if ratio < _LEAST_SLOWER:
        return None
    # Each category alone is at least half as much slower as all together.
    slower = own >= (1 + (ratio - 1) / 2) * others
    is_everywhere = (
        np.count_nonzero(alike) >= _LEAST_CATEGORIES
        and own[slower].sum() >= _EVERYWHERE * own.sum()
    )
    codes = np.flatnonzero(alike)
    return LongerWork(
        ns=float(more.sum()),
        ratio=ratio,
        category=TimePart.at(int(codes[np.argmax(more)])),
        is_everywhere=bool(is_everywhere),
        factors=tuple(
            (TimePart.at(int(codes[at])), float(others[at] / own[at]))
            for at in np.flatnonzero(more > 0).tolist()
        ),
    )
