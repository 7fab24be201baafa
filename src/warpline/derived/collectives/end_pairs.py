"""Which of one rank's collectives is which of another's, by when they end.

A collective that every rank waits in ends on all of them within microseconds, whoever came last.
So the differences of the ends of two ranks' collectives are nearly one number, how far their
clocks are apart, if and only if they are paired rightly.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from warpline.ops.arrays import F64, I64

# Ends of ranks of one host lie within 20 us of each other, also where collectives overlap others.
TOLERANCE_NS = 50_000
LEAST_PAIRS = 3
_MOST_PLACES = 2_000  # by which recordings may begin apart
_SAMPLE = 512  # pairs that are looked at for each of these places
_BLOCK = 32
_MOST_BLOCKS = 64
_IS_BETTER = 2.0  # a pairing is told from the next best one if it fits so many times better
_WITHIN = 0.9


class EndPairs(NamedTuple):
    """The pairs of two ascending series of ends.

    Attributes:
        first: Shape (n,), int64, places in the first series, ascending.
        second: Shape (n,), int64, places in the second one.
        lead_ns: Shape (n,), float64, how far the second's clock is ahead of the first's at each
            pair; it follows clocks that drift.
        spread_ns: Nine of ten pairs are no further than this from `lead_ns`.
    """

    first: I64
    second: I64
    lead_ns: F64
    spread_ns: float


def pair_ends(
    first_ns: I64, second_ns: I64, ordinals: tuple[I64, I64] | None = None
) -> EndPairs | None:
    """Return the pairs of two ranks' collectives of one kind, None if it cannot be told.

    Args:
        first_ns: Shape (n,), int64, the ends on one rank in the order of the calls.
        second_ns: Shape (m,), int64, those on the other.
        ordinals: The number of each call, ascending, where the recordings tell it; they need not
            begin with the same call.

    They are taken as they stand if both have as many, or by their numbers, if then the ends agree.
    Else the recordings may have begun or ended apart: the one shift at which the ends agree is
    taken, if no other does nearly as well.
    """
    if min(len(first_ns), len(second_ns)) < LEAST_PAIRS:
        return None
    if ordinals is not None:
        _, first, second = np.intersect1d(*ordinals, assume_unique=True, return_indices=True)
        found = _measured(first_ns, second_ns, first, second)
        if found is not None:
            return found
    if len(first_ns) == len(second_ns):
        places = np.arange(len(first_ns))
        found = _measured(first_ns, second_ns, places, places)
        if found is not None:
            return found
    shift = _best_shift(first_ns, second_ns)
    return None if shift is None else _measured(first_ns, second_ns, *_shifted(*shift))


def _measured(first_ns: I64, second_ns: I64, first: I64, second: I64) -> EndPairs | None:
    """Return the pairs with what they say of the clocks; None if the ends do not agree."""
    if len(first) < LEAST_PAIRS:
        return None
    apart = second_ns[second] - first_ns[first]
    lead = _smooth(apart)
    spread = float(np.quantile(np.abs(apart - lead), _WITHIN))
    return EndPairs(first, second, lead, spread) if spread <= TOLERANCE_NS else None


def _smooth(apart_ns: I64) -> F64:
    """Return the medians of blocks, and between their middles what lies between."""
    count = min(max(len(apart_ns) // _BLOCK, 1), _MOST_BLOCKS)
    bounds = np.linspace(0, len(apart_ns), count + 1).astype(np.int64)
    base = int(apart_ns[0])  # float64 holds no difference of clocks of decades to the nanosecond
    medians = [
        float(np.median(apart_ns[low:high] - base))
        for low, high in zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True)
    ]
    middles = (bounds[:-1] + bounds[1:] - 1) / 2
    return base + np.interp(np.arange(len(apart_ns)), middles, medians)


def _shifted(shift: int, n_first: int, n_second: int) -> tuple[I64, I64]:
    """Return the places of both series where the second begins `shift` after the first."""
    low, high = max(shift, 0), min(n_first, n_second + shift)
    first = np.arange(low, max(high, low))
    return first, first - shift


def _best_shift(first_ns: I64, second_ns: I64) -> tuple[int, int, int] | None:
    """Return the shift at which the ends agree best, if it stands out."""
    n_first, n_second = len(first_ns), len(second_ns)
    least = max(LEAST_PAIRS, min(n_first, n_second) // 2)
    shifts = range(max(least - n_second, -_MOST_PLACES), min(n_first - least, _MOST_PLACES) + 1)
    misfits = [_misfit(first_ns, second_ns, shift) for shift in shifts]
    order = np.argsort(misfits, kind="stable")
    if not len(order) or misfits[order[0]] > TOLERANCE_NS:
        return None
    if len(order) > 1 and misfits[order[1]] < _IS_BETTER * max(misfits[order[0]], 1.0):
        return None
    return shifts[int(order[0])], n_first, n_second


def _misfit(first_ns: I64, second_ns: I64, shift: int) -> float:
    """Return how far apart the differences of the ends are, in the middle of the common part."""
    first, second = _shifted(shift, len(first_ns), len(second_ns))
    middle = slice(max((len(first) - _SAMPLE) // 2, 0), (len(first) + _SAMPLE) // 2)
    apart = second_ns[second[middle]] - first_ns[first[middle]]
    from_median = np.abs(apart - np.median(apart))
    return float(np.quantile(from_median, _WITHIN))
