"""Pairing of two ranks' collectives by their end times.

A collective in which every rank waits ends on all ranks within microseconds, whichever was last.
If two ranks' collectives are paired correctly, the differences of their ends are nearly constant:
the offset of the two clocks. With a wrong pairing they vary.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, TypeVar

import numpy as np

from warpline.ops.arrays import F64, I64

# Ranks on one host end within 20 us of each other, even where collectives overlap.
TOLERANCE_NS = 50_000
LEAST_PAIRS = 3
_MOST_PLACES = 2_000  # collectives by which the starts of two recordings may differ
_SAMPLE = 512  # pairs examined per shift
_BLOCK = 32
_MOST_BLOCKS = 64
_IS_BETTER = 2.0  # a pairing is accepted if it fits this many times better than the next best
_WITHIN = 0.9

Found = TypeVar("Found")


class EndPairs(NamedTuple):
    """Pairs of elements of two ascending series of end times.

    Attributes:
        first: Shape (n,), int64, places in the first series, ascending.
        second: Shape (n,), int64, places in the second one.
        lead_ns: Shape (n,), float64, how far the second clock is ahead of the first at each pair.
            It follows drifting clocks.
        spread_ns: 90% of the pairs are within this distance of `lead_ns`.
    """

    first: I64
    second: I64
    lead_ns: F64
    spread_ns: float


def pair_ends(
    first_ns: I64, second_ns: I64, ordinals: tuple[I64, I64] | None = None
) -> EndPairs | None:
    """Return the pairs of two ranks' collectives of one kind; None if the pairing is ambiguous.

    Args:
        first_ns: Shape (n,), int64, the end times on one rank in call order.
        second_ns: Shape (m,), int64, the end times on the other rank.
        ordinals: The recorded call numbers, ascending. They may start at different calls.

    Pairing by call number comes first, then one-to-one pairing of series of equal length. Either is
    accepted if the ends agree. Otherwise the recordings may start or end at different collectives:
    the one shift at which the ends agree is accepted, unless another shift fits nearly as well.
    """
    return first_agreeing(
        (len(first_ns), len(second_ns)),
        ordinals,
        lambda first, second: _measured(first_ns, second_ns, first, second),
        lambda: _best_shift(first_ns, second_ns),
    )


def first_agreeing(
    counts: tuple[int, int],
    ordinals: tuple[I64, I64] | None,
    measured: Callable[[I64, I64], Found | None],
    best_shift: Callable[[], int | None],
) -> Found | None:
    """Return what is measured of the first pairing of two series whose ends agree; None for none.

    Args:
        counts: Their lengths.
        ordinals: The recorded call numbers, ascending.
        measured: Examines pairs, given by their places in both series; None if they do not agree.
        best_shift: Finds how many places after the first series the second one starts.
    """
    if min(counts) < LEAST_PAIRS:
        return None
    if ordinals is not None:
        _, first, second = np.intersect1d(*ordinals, assume_unique=True, return_indices=True)
        if (found := measured(first, second)) is not None:
            return found
    if counts[0] == counts[1]:
        places = np.arange(counts[0])
        if (found := measured(places, places)) is not None:
            return found
    shift = best_shift()
    return None if shift is None else measured(*shifted(shift, *counts))


def _measured(first_ns: I64, second_ns: I64, first: I64, second: I64) -> EndPairs | None:
    """Return the pairs with their clock offsets; None if the ends do not agree."""
    if len(first) < LEAST_PAIRS:
        return None
    apart = second_ns[second] - first_ns[first]
    lead = _smooth(apart)
    spread = float(np.quantile(np.abs(apart - lead), _WITHIN))
    return EndPairs(first, second, lead, spread) if spread <= TOLERANCE_NS else None


def _smooth(apart_ns: I64) -> F64:
    """Return the medians of blocks, interpolated between block centers."""
    count = min(max(len(apart_ns) // _BLOCK, 1), _MOST_BLOCKS)
    bounds = np.linspace(0, len(apart_ns), count + 1).astype(np.int64)
    base = int(apart_ns[0])  # float64 cannot hold offsets of decades with ns precision
    medians = [
        float(np.median(apart_ns[low:high] - base))
        for low, high in zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True)
    ]
    middles = (bounds[:-1] + bounds[1:] - 1) / 2
    return base + np.interp(np.arange(len(apart_ns)), middles, medians)


def shifted(shift: int, n_first: int, n_second: int) -> tuple[I64, I64]:
    """Return the places of both series where the second starts `shift` places after the first."""
    low, high = max(shift, 0), min(n_first, n_second + shift)
    first = np.arange(low, max(high, low))
    return first, first - shift


def _best_shift(first_ns: I64, second_ns: I64) -> int | None:
    """Return the shift at which the ends agree best, if it is clearly better than the others."""
    n_first, n_second = len(first_ns), len(second_ns)
    least = max(LEAST_PAIRS, min(n_first, n_second) // 2)
    shifts = range(max(least - n_second, -_MOST_PLACES), min(n_first - least, _MOST_PLACES) + 1)
    misfits = [_misfit(first_ns, second_ns, shift) for shift in shifts]
    order = np.argsort(misfits, kind="stable")
    if not len(order) or misfits[order[0]] > TOLERANCE_NS:
        return None
    if len(order) > 1 and misfits[order[1]] < _IS_BETTER * max(misfits[order[0]], 1.0):
        return None
    return shifts[int(order[0])]


def _misfit(first_ns: I64, second_ns: I64, shift: int) -> float:
    """Return the spread of the end differences in the middle of the common part."""
    first, second = shifted(shift, len(first_ns), len(second_ns))
    middle = slice(max((len(first) - _SAMPLE) // 2, 0), (len(first) + _SAMPLE) // 2)
    apart = second_ns[second[middle]] - first_ns[first[middle]]
    from_median = np.abs(apart - np.median(apart))
    return float(np.quantile(from_median, _WITHIN))
