"""Kernels that all ranks run and that take longer on one of them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from warpline.derived import derived
from warpline.derived.breakdown.step_scope import step_scope
from warpline.derived.kernels.categories import operation_categories
from warpline.derived.ranks.kinds import kinds_of_work
from warpline.derived.ranks.peers import category_sums, has_same_program, working_ranks
from warpline.derived.time_parts import TimePart
from warpline.derived.work.operations import operations
from warpline.ops.arrays import I64
from warpline.ops.group import distinct_values, factorize_rows
from warpline.trace import Run

_SAME_NUMBER = 0.1  # relative difference
_LEAST_SLOWER = 1.03  # longer by less is within the variation between GPUs
_EVERYWHERE = 0.8  # of the time of the compared kernels
_LEAST_CATEGORIES = 3
_LEVEL = 0.1  # of the logarithm of ratios: closer ones are one change


class LongerWork(NamedTuple):
    """Work of one rank that takes longer than the same work on the others.

    Attributes:
        ns: By how much per step, compared with the median of the other ranks.
        ratio: Time of all of it, relative to the others.
        category: The category with the largest difference.
        is_everywhere: Whether nearly all work takes longer: the GPU is slower, not the work larger.
        scaled: The operations in categories that take longer, in all steps, with the time of the
            same operations on the others relative to the rank's.
    """

    ns: float
    ratio: float
    category: TimePart
    is_everywhere: bool
    scaled: tuple[tuple[I64, float], ...]


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
    codes, longer = np.flatnonzero(alike), np.flatnonzero(more > 0).tolist()
    return LongerWork(
        ns=float(more.sum()),
        ratio=ratio,
        category=TimePart.at(int(codes[np.argmax(more)])),
        is_everywhere=bool(is_everywhere),
        scaled=_scaled(run, place, {int(codes[at]): others[at] / own[at] for at in longer}),
    )


def _scaled(run: Run, place: int, ratios: dict[int, float]) -> tuple[tuple[I64, float], ...]:
    """Return the operations of a rank by how long the same operations take on the others.

    The same operation has the same place among those of its name and range in a step. Operations
    with nearly equal ratios are returned together. Those that the others do not run, such as other
    kernels for the same math, have the ratio of their category.

    Args:
        run: The trace, and the choice of its steps.
        place: The rank.
        ratios: Time of the others relative to that of the rank, by category.
    """
    kinds, work = kinds_of_work(run), operations(run.trace)
    category = operation_categories(run.trace)[kinds.operation]
    own = (kinds.rank == place) & np.isin(category, list(ratios))
    counted = step_scope(run).operations[kinds.operation]
    length = (work.end_ns - work.start_ns)[kinds.operation]
    same = factorize_rows(kinds.code, kinds.ordinal)
    is_own = kinds.rank == place
    sums, numbers = (
        [
            np.bincount(same.codes[rows], values[rows], same.n_groups)
            for rows in (counted & is_own, counted & ~is_own & (kinds.rank >= 0))
        ]
        for values in (length, np.ones(len(length)))
    )
    mean, others = (
        total / np.maximum(number, 1) for total, number in zip(sums, numbers, strict=True)
    )
    known = (mean > 0) & (others > 0)
    level = np.zeros(same.n_groups, np.int64)
    level[known] = np.rint(np.log(others[known] / mean[known]) / _LEVEL).astype(np.int64)
    rows = np.flatnonzero(own & known[same.codes])
    scaled = []
    for each in distinct_values(level[same.codes[rows]]).tolist():
        chosen = rows[level[same.codes[rows]] == each]
        codes = same.codes[chosen]
        scaled.append((kinds.operation[chosen], float(others[codes].sum() / mean[codes].sum())))
    for part, ratio in ratios.items():
        alone = np.flatnonzero(own & ~known[same.codes] & (category == part))
        if len(alone):
            scaled.append((kinds.operation[alone], ratio))
    return tuple(scaled)
