"""The line between two clocks, by the ends of collectives that both saw."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from warpline.derived.collectives.end_pairs import LEAST_PAIRS, first_agreeing
from warpline.ops.arrays import F64, I64

TOLERANCE_NS = 50_000.0  # ends of one collective on two ranks agree within this
LEAST_ERROR_NS = 1_000.0  # ends are not closer than this, whatever the fit says
_MOST_DRIFT = 1e-3  # clocks of computers differ by less than 200 ppm
_MOST_BLOCKS = 48
_LEAST_IN_BLOCK = 4
_TRIMMED = 3.0  # times the spread: farther pairs do not count in the last fit
_WITHIN = 0.9
_SIGNIFICANT = 3.0  # standard errors
_MOST_PLACES = 2_000  # collectives by which the starts of two recordings may differ
_SAMPLE = 256  # pairs examined per shift, of the shifts that fit best
_CLOSEST = 32
_FEW = 33  # pairs that are examined first
_SURELY = 10.0  # times the tolerance: pairs that are not the same collectives
_IS_BETTER = 2.0  # a pairing is accepted if it fits this many times better than the next best


class Line(NamedTuple):
    """How far one clock is ahead of another: ``offset_ns + drift * time``.

    Attributes:
        offset_ns: At time 0 of the other clock.
        drift: Without unit: 1e-6 is one ppm.
        spread_ns: 90% of the pairs are within this distance of the line.
        pairs: Number of pairs.
    """

    offset_ns: float
    drift: float
    spread_ns: float
    pairs: int

    def at(self, time_ns: F64) -> F64:
        """Return how far the clock is ahead at times of the other clock."""
        return self.offset_ns + self.drift * time_ns

    def removed(self, own_ns: F64) -> F64:
        """Return times of the clock as times of the other clock."""
        return (own_ns - self.offset_ns) / (1.0 + self.drift)


class Pairs(NamedTuple):
    """Collectives that two series share: places in both, ascending, and the line of the clocks."""

    first: I64
    second: I64
    line: Line


def line_between(time_ns: F64, ahead_ns: F64) -> Line | None:
    """Return the line through differences of two clocks; None with fewer than three.

    The median of slopes between medians of blocks (Theil and Sen) is not moved by collectives that
    end at different times on the ranks. Least squares over the pairs near it then give the line.
    A drift that is not significant is left out.

    Args:
        time_ns: Shape (n,), float64, times on the one clock, ascending.
        ahead_ns: Shape (n,), float64, how far the other clock is ahead at each.
    """
    if len(time_ns) < LEAST_PAIRS:
        return None
    slope = _median_slope(time_ns, ahead_ns)
    offset = float(np.median(ahead_ns - slope * time_ns))
    rest = np.abs(ahead_ns - offset - slope * time_ns)
    near = np.flatnonzero(rest <= _TRIMMED * max(float(np.quantile(rest, 0.7)), 1.0))
    x, y = time_ns[near], ahead_ns[near]
    center = float(x.mean())
    square = float(((x - center) ** 2).sum())
    if square > 0:
        slope = float(((x - center) * (y - y.mean())).sum()) / square
        noise = float(np.sqrt(np.mean((y - y.mean() - slope * (x - center)) ** 2) / square))
        slope = 0.0 if abs(slope) < _SIGNIFICANT * noise else slope
    offset = float(y.mean()) - slope * center
    spread = float(np.quantile(np.abs(ahead_ns - offset - slope * time_ns), _WITHIN))
    return Line(offset, slope, spread, len(time_ns))


def _median_slope(x: F64, y: F64) -> float:
    count = min(len(x) // _LEAST_IN_BLOCK, _MOST_BLOCKS)
    if count >= 2:
        bounds = np.linspace(0, len(x), count + 1).astype(np.int64)
        pairs = list(zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True))
        x = np.array([np.median(x[low:high]) for low, high in pairs])
        y = np.array([np.median(y[low:high]) for low, high in pairs])
    low, high = np.triu_indices(len(x), 1)
    apart = x[high] - x[low]
    known = apart > 0
    slopes = (y[high] - y[low])[known] / apart[known]
    return float(np.median(slopes)) if len(slopes) else 0.0


def pair(
    first_ns: I64,
    second_ns: I64,
    ordinals: tuple[I64, I64] | None = None,
    *,
    is_shifted: bool = True,
) -> Pairs | None:
    """Return the pairs of two ranks' collectives of one kind; None if the pairing is ambiguous.

    By recorded call numbers; if there are none, one by one if both have equally many, else at the
    one shift at which the ends agree. In each case they must agree once offset and drift of the
    clocks are removed.

    Args:
        first_ns: Shape (n,), int64, the end times on one rank in call order.
        second_ns: Shape (m,), int64, the end times on the other rank.
        ordinals: The recorded call numbers, ascending. They may start at different calls.
        is_shifted: Whether one series may begin later than the other, which takes longer to find.
    """
    return first_agreeing(
        (len(first_ns), len(second_ns)),
        ordinals,
        lambda first, second: _measured(first_ns, second_ns, first, second),
        lambda: _best_shift(first_ns, second_ns) if is_shifted else None,
    )


def _measured(first_ns: I64, second_ns: I64, first: I64, second: I64) -> Pairs | None:
    if len(first) < LEAST_PAIRS:
        return None
    one, other = (
        relative(first_ns[first], int(first_ns[0])),
        relative(second_ns[second], int(second_ns[0])),
    )
    if len(one) > 2 * _FEW and _are_apart(one, other):
        return None
    line = line_between(one, other - one)
    if line is None or line.spread_ns > TOLERANCE_NS or abs(line.drift) > _MOST_DRIFT:
        return None
    return Pairs(first, second, line)


def _are_apart(one: F64, other: F64) -> bool:
    """Return whether a few of the pairs show that these are other collectives."""
    few = np.linspace(0, len(one) - 1, _FEW).astype(np.int64)
    spread = _misfits(one[few], other[few], np.zeros(1, np.int64), _FEW)
    return bool(spread[0] > _SURELY * TOLERANCE_NS)


def relative(time_ns: I64, base_ns: int) -> F64:
    """Return times from a base, in float64, which could not hold decades with ns precision."""
    return (time_ns - base_ns).astype(np.float64)


def _best_shift(first_ns: I64, second_ns: I64) -> int | None:
    """Return the shift at which the ends agree best, if it is clearly better than the others."""
    n_first, n_second = len(first_ns), len(second_ns)
    one, other = relative(first_ns, int(first_ns[0])), relative(second_ns, int(second_ns[0]))
    least = max(LEAST_PAIRS, min(n_first, n_second) // 2)
    low, high = max(least - n_second, -_MOST_PLACES), min(n_first - least, _MOST_PLACES)
    shifts = np.arange(low, high + 1)
    for sample in (min(_FEW, least), min(_SAMPLE, least)):
        misfits = _misfits(one, other, shifts, sample)
        order = np.argsort(misfits, kind="stable")[:_CLOSEST]
        shifts, misfits = shifts[order], misfits[order]
    if not len(shifts) or misfits[0] > TOLERANCE_NS:
        return None
    if len(shifts) > 1 and misfits[1] < _IS_BETTER * max(float(misfits[0]), 1.0):
        return None
    return int(shifts[0])


def _misfits(one: F64, other: F64, shifts: I64, sample: int) -> F64:
    """Return the spread of the ends' differences at each shift, less drift.

    Args:
        one: Shape (n,), float64, the ends on one rank.
        other: Shape (m,), float64, the ends on the other rank.
        shifts: Shape (k,), int64: the second series starts so many places after the first.
        sample: The number of pairs, in the middle of the common part, which has at least as many.
    """
    low = np.maximum(shifts, 0)
    common = np.minimum(len(one), len(other) + shifts) - low
    places = (low + (common - sample) // 2)[:, None] + np.arange(sample)
    x = one[places]
    y = other[places - shifts[:, None]] - x
    half = sample // 2
    apart = np.median(x[:, half:], axis=1) - np.median(x[:, :half], axis=1)
    slope = np.median(y[:, half:], axis=1) - np.median(y[:, :half], axis=1)
    slope = np.clip(slope / np.maximum(apart, 1.0), -_MOST_DRIFT, _MOST_DRIFT)
    rest = y - slope[:, None] * x
    from_median = np.abs(rest - np.median(rest, axis=1)[:, None])
    spread: F64 = np.quantile(from_median, _WITHIN, axis=1)
    return spread
