"""Repetitions in a sequence of launches: the period, and where each repetition begins.

A run of 16 launches that occurs once per step recurs after one step. So the distances from each run
to its next occurrence reveal the periods of a sequence, such as layers and steps. An occasional
extra or missing launch shifts only the distances around it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from warpline.ops.arrays import F64, I64, U64, BoolArray

# Lengths of the runs whose recurrence is measured.
_RUN_LENGTHS = (1, 4, 16)
# Number of periods tried between two powers of two, those with most runs first.
_MAX_TRIED = 3
# A longer period is a step of shorter ones if it adds this fraction of a shorter one: an optimizer
# after several accumulated gradients, or a head after layers, but not occasional logging.
_LEAST_NEW_PART = 0.05
# A sequence repeats if repetitions cover this fraction of it. Repetitions are alike if they share
# this fraction of their launches.
_LEAST_REGION = 0.4
_LEAST_ALIKE = 0.8
_LEAST_EQUAL = 0.9
_LEAST_TWICE = 8
# Largest remainder after the last repetition that need not be the start of another one.
_MOST_TAIL = 0.03
_FULL = 0.98
# Repetitions this short may be identical parts of a step. Then up to this many are checked for
# longer gaps between launches at equal intervals.
_SHORT_NS = 1_000_000
_LEAST_SHORT = 12
_MOST_SHORT = 2048
# Sequences diverge where most of this many launches differ, and converge again after a detour where
# they are equal.
_AHEAD = 6
_MAX_DETOURS = 1024
# The launches before the first and after the last position of a chain are compared with those at up
# to this many other positions, each of which may have additional launches.
_MOST_COMPARED = 4
# Steps begin at a pause if it is this much longer than the one at the start of the recording, or of
# the repetitions.
_MUCH_LONGER = 3.0
_LONGER = 1.5
# Largest accepted probability that gaps at equal intervals are a coincidence.
_CHANCE = 1e-3


class Repetitions(NamedTuple):
    """The repetitions of a sequence.

    Attributes:
        bounds: Shape (k + 1,), int64, ascending: repetition i is the sequence's part
            ``[bounds[i], bounds[i + 1])``.
        is_whole: Whether the last one is complete; otherwise the sequence ends within it.
    """

    bounds: I64
    is_whole: bool

    def __len__(self) -> int:
        return len(self.bounds) - 1


class _Runs(NamedTuple):
    """Runs of one length and their next occurrences.

    Attributes:
        order: Shape (n,), positions of the runs, equal ones contiguous and ascending.
        distance: Shape (n,), in the order of `order`: to the next equal run, 0 for the last one.
    """

    order: I64
    distance: I64


class _Chain(NamedTuple):
    """Occurrences of one run, one period apart.

    Attributes:
        period: The median distance.
        places: Shape (m,), int64, ascending.
        new: Approximate number of launches per period that do not recur sooner.
    """

    period: int
    places: I64
    new: float


def find_repetitions(tokens: I64, time_ns: I64) -> Repetitions | None:
    """Return the repetitions of a sequence, or None if it does not repeat.

    The longest period with at least three repetitions is chosen. A longer period must add launches
    to the repetitions of a shorter one. Two repetitions are accepted only if nothing else repeats.
    Repetitions begin where the most whole ones fit and, among such positions, where the gap before
    the launch is longest.

    Args:
        tokens: Shape (n,), int64, launches; equal numbers are equal launches.
        time_ns: Shape (n,), int64, ascending, launch times.
    """
    if len(tokens) < 3:
        return None
    candidates = [
        (chain, repetitions)
        for chain in _chains(tokens)
        for repetitions in (_repetitions(chain, tokens, time_ns),)
        if repetitions is not None
    ]
    best = None
    for chain, repetitions in sorted(candidates, key=lambda pair: pair[0].period):
        if best is None or _replaces(chain, repetitions, *best):
            best = chain, repetitions
    return None if best is None else _joined_by_gaps(best[1], time_ns)


def _replaces(chain: _Chain, made: Repetitions, shorter: _Chain, old: Repetitions) -> bool:
    if len(made) < 3 and len(old) >= 3:
        return False
    if abs(chain.period - shorter.period) <= _slack(chain.period):
        return bool(np.ptp(made.bounds) > np.ptp(old.bounds))
    if len(old) < 3:
        return len(made) >= 3
    return chain.period > 1.5 * shorter.period and (
        chain.new >= max(1.0, _LEAST_NEW_PART * shorter.period)
    )


def _chains(tokens: I64) -> Iterator[_Chain]:
    """Yield a chain for each possible period."""
    seen: list[tuple[int, float]] = []
    for length in _RUN_LENGTHS:
        if length >= len(tokens):
            return
        runs = _runs(tokens, length)
        for period, count in _periods(runs.distance):
            new = count * period / max(len(tokens) - period, 1)
            if any(abs(p - period) <= _slack(period) and least >= new for p, least in seen):
                continue
            # A new launch makes all runs that contain it new.
            chain = _longest_chain(runs, period, new - (length - 1))
            if len(chain.places) >= 2:
                seen.append((period, new))
                yield chain


def _slack(period: int) -> int:
    """Return the number of launches by which repetitions of a period may differ."""
    return max(period // 33, min(2, period // 8))


def _runs(tokens: I64, length: int) -> _Runs:
    hashes = _hashes(tokens, length)
    order = np.argsort(hashes, kind="stable")
    ordered = hashes[order]
    distance = np.zeros(len(order), np.int64)
    distance[:-1] = np.where(ordered[1:] == ordered[:-1], np.diff(order), 0)
    return _Runs(order, distance)


def _hashes(tokens: I64, length: int) -> U64:
    """Return a hash of the run of `length` (a power of two) tokens starting at each position."""
    hashes = _mixed(tokens.astype(np.uint64))
    size = 1
    while size < length:
        hashes = _mixed(hashes[:-size] * np.uint64(31) + hashes[size:])
        size *= 2
    return hashes


def _mixed(values: U64) -> U64:
    # The finalizer of splitmix64 (Steele, Lea, Flood 2014).
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return values ^ (values >> np.uint64(31))


def _periods(distance: I64) -> list[tuple[int, int]]:
    """Return frequent distances and the number of distances near each, best first."""
    counts = np.bincount(distance)
    counts[0] = 0
    total = np.append(0, np.cumsum(counts))
    each = np.flatnonzero(counts[: len(distance) // 2 + 2])
    slack = np.maximum(each // 33, np.minimum(2, each // 8))
    near = total[np.minimum(each + slack, len(counts) - 1) + 1] - total[each - slack]
    # Enough for a run that occurs once per period, in at least two periods.
    able = np.flatnonzero(near * each >= _LEAST_REGION * (len(distance) - each))
    able = able[np.lexsort((-counts[each[able]], -near[able]))]
    octave = np.frexp(each.astype(np.float64))[1]
    taken: list[tuple[int, int]] = []
    tried = np.zeros(int(octave.max(initial=0)) + 1, np.int64)
    while len(able):
        best = able[0]
        taken.append((int(each[best]), int(near[best])))
        tried[octave[best]] += 1
        away = np.abs(each[able] - each[best]) > slack[best]
        able = able[away & (tried[octave[able]] < _MAX_TRIED)]
    return taken


def _longest_chain(runs: _Runs, period: int, new: float) -> _Chain:
    """Return the run that recurs most often in a row after one period; of equals, the first."""
    links = np.flatnonzero(np.abs(runs.distance - period) <= _slack(period))
    breaks = np.diff(links) > 1
    begins = links[np.append(True, breaks)]
    ends = links[np.append(breaks, True)] + 1
    length = ends - begins
    best = np.lexsort((runs.order[begins], -length))[0]
    places = runs.order[begins[best] : ends[best] + 1]
    return _Chain(int(np.median(np.diff(places))), places, new)


def _repetitions(chain: _Chain, tokens: I64, time_ns: I64) -> Repetitions | None:
    """Return the repetitions around a chain; None if they do not make up the sequence."""
    places, period = chain.places, chain.period
    if places[-1] - places[0] + 2 * period < _LEAST_REGION * len(tokens):
        return None
    exact = _from_start_to_end(chain, tokens)
    if exact is not None:
        return exact
    reach = slice(0, period + _slack(period))
    before = max(
        _alike(tokens[: places[0]][::-1][reach], tokens[:place][::-1][reach])
        for place in places[1:_MOST_COMPARED].tolist()
    )
    after = max(
        _alike(tokens[places[-1] :][reach], tokens[place:][reach])
        for place in places[-_MOST_COMPARED:-1].tolist()
    )
    low, high = int(places[0]) - min(before, period), int(places[-1]) + after
    if high - low < _LEAST_REGION * len(tokens):
        return None
    if len(tokens) - high > max(1, _MOST_TAIL * period):
        return None
    bounds = _snapped(places - _offset(chain, low, high, time_ns), tokens, period)
    if int(bounds[-1]) + period <= high + _slack(period):
        bounds = np.append(bounds, min(int(bounds[-1]) + period, len(tokens)))
    bounds = bounds[bounds >= max(low - _slack(period), 0)]
    return _checked(bounds, period, tokens)


def _from_start_to_end(chain: _Chain, tokens: I64) -> Repetitions | None:
    """Return the repetitions if whole ones make up the sequence from start to end."""
    places, period = chain.places, chain.period
    if places[0] >= period or len(tokens) - places[-1] > period + _slack(period):
        return None
    bounds = _snapped(places - places[0], tokens, period)
    starts = _starts(bounds, tokens, period)
    if np.median(starts == starts[0]) < 1:
        return None
    if abs(len(tokens) - int(bounds[-1]) - period) > _slack(period):
        return None
    return _checked(bounds, period, tokens)


def _checked(bounds: I64, period: int, tokens: I64) -> Repetitions | None:
    """Return repetitions up to the end of the sequence, if they are alike."""
    rest = len(tokens) - int(bounds[-1])
    if rest <= _slack(period) and len(bounds) > 1:
        made = Repetitions(np.append(bounds[:-1], len(tokens)), is_whole=True)
    else:
        is_whole = abs(rest - period) <= _slack(period)
        made = Repetitions(np.append(bounds, len(tokens)), is_whole)
    return made if len(made) >= 2 and _are_alike(made, tokens) else None


def _alike(one: I64, other: I64) -> int:
    """Return the length up to which a sequence follows another one.

    Single launches may differ, and either may have a few extra launches.
    """
    place = beside = 0
    for _ in range(_MAX_DETOURS):
        same = _same(one[place:], other[beside:])
        place, beside = place + same, beside + same
        if place >= len(one) or beside >= len(other):
            break
        detour = _detour(one[place : place + 3 * _AHEAD], other[beside : beside + 3 * _AHEAD])
        if detour is None:
            break
        place, beside = place + detour[0], beside + detour[1]
    return min(place, len(one))


def _same(one: I64, other: I64) -> int:
    """Return the length up to which two sequences are equal except for single launches."""
    size, done = min(len(one), len(other)), 0
    while done < size:
        part = slice(done, min(done + 4096, size))
        differ = np.append(one[part] != other[part], np.ones(_AHEAD, np.bool_))
        ahead = np.append(0, np.cumsum(differ))
        # They diverge where most of the next launches differ.
        parted = differ[: 1 - _AHEAD] & (ahead[_AHEAD:] - ahead[:-_AHEAD] > _AHEAD // 2)
        place = int(np.argmax(parted))
        done += place
        if place < part.stop - part.start - _AHEAD or part.stop == size:
            break
    return done


def _detour(one: I64, other: I64) -> tuple[int, int] | None:
    """Return how many launches to skip in each until they converge again."""
    for together in range(1, 2 * _AHEAD):
        for left in range(together + 1):
            ahead = one[left : left + _AHEAD], other[together - left : together - left + _AHEAD]
            size = min(len(part) for part in ahead)
            if size >= _AHEAD // 2 and np.array_equal(ahead[0][:size], ahead[1][:size]):
                return left, together - left
    return None


def _offset(chain: _Chain, low: int, high: int, time_ns: I64) -> int:
    """Return the offset from the start of repetitions to the chain's positions."""
    period, places = chain.period, chain.places
    offsets = np.arange(period)
    first = np.where(places[0] - offsets >= low, 0, 1)
    # Whole repetitions from the first to the last position, and the rest after it.
    rest = high - (places[-1] - offsets)
    whole = len(places) - 1 - first + np.floor((rest + (1 - _FULL) * period) / period)
    gap = np.append(0, np.diff(time_ns))
    at = places[:, None] - offsets[None, :] if len(places) * period <= len(gap) * 4 else None
    if at is None:
        at = places[:: len(places) // 64 + 1, None] - offsets[None, :]
    gaps: F64 = np.median(gap[np.maximum(at, 0)], axis=0)
    candidates = np.flatnonzero(whole == whole.max())
    begins = int(places[0]) - low
    longest = int(candidates[np.argmax(gaps[candidates])])
    # A repetition begins at the first repeating launch, unless recording began within one: then
    # another position has a significantly longer gap.
    much = _MUCH_LONGER if low == 0 else _LONGER
    if begins in candidates and gaps[longest] < much * max(gaps[begins], 1.0):
        return begins
    return longest


def _snapped(places: I64, tokens: I64, period: int) -> I64:
    """Return the positions shifted to the launches that most repetitions begin with."""
    reach = _slack(period)
    if not reach:
        return places[places >= 0]
    shifts = np.array(sorted(range(-reach, reach + 1), key=abs), np.int64)
    at = places[:, None] + shifts[None, :]
    starts = _starts(at, tokens, period)
    kinds, counts = np.unique(starts[:, 0], return_counts=True)
    fits = (starts == kinds[np.argmax(counts)]) & (at >= 0) & (at < len(tokens))
    has_fit = fits.any(axis=1)
    moved = np.where(has_fit, at[np.arange(len(places)), fits.argmax(axis=1)], places)
    return moved[moved >= 0]


def _starts(places: I64, tokens: I64, period: int) -> U64:
    """Return equal numbers for positions followed by the same few launches."""
    starts = np.zeros(places.shape, np.uint64)
    for further in range(min(4, period)):
        there = tokens[np.clip(places + further, 0, len(tokens) - 1)].astype(np.uint64)
        starts = _mixed(starts * np.uint64(31) + there)
    return starts


def _are_alike(made: Repetitions, tokens: I64) -> bool:
    """Return whether repetitions have the same launches as the median one, in any order."""
    _, codes = np.unique(tokens, return_inverse=True)
    codes = codes.reshape(-1)
    bounds = made.bounds if made.is_whole else made.bounds[:-1]
    if len(bounds) < 3:
        return len(bounds) == 2
    if len(bounds) == 3:
        # Two repetitions are weak evidence: nearly all launches must match in order.
        one, other = tokens[bounds[0] : bounds[1]], tokens[bounds[1] : bounds[2]]
        size = min(len(one), len(other))
        return size >= _LEAST_TWICE and bool(np.mean(one[:size] == other[:size]) >= _LEAST_EQUAL)
    chosen = np.arange(len(bounds) - 1)[:: len(bounds) // 256 + 1]
    n_kinds = int(codes.max()) + 1
    held = np.stack(
        [np.bincount(codes[bounds[i] : bounds[i + 1]], minlength=n_kinds) for i in chosen]
    )
    usual = np.median(held, axis=0)
    shared = np.minimum(held, usual).sum(axis=1) / np.maximum(held.sum(axis=1), usual.sum())
    alike: BoolArray = shared >= _LEAST_ALIKE
    return bool(alike.mean() >= _LEAST_ALIKE)


def _joined_by_gaps(made: Repetitions, time_ns: I64) -> Repetitions:
    """Return the longer repetitions that short ones are part of, if launch gaps reveal them.

    A step may consist of one repeated sequence. Then only longer CPU gaps between steps reveal it.
    Of all divisions into equal intervals, the one is chosen whose shortest gap ranks highest among
    the gaps at that position of the sequence, if this is not a coincidence.
    """
    period = int(made.bounds[1] - made.bounds[0])
    count = len(made)
    is_even = made.is_whole and bool(np.all(np.diff(made.bounds) == period))
    spent = int(time_ns[-1] - time_ns[made.bounds[0]])
    if not is_even or not _LEAST_SHORT <= count <= _MOST_SHORT or spent > count * _SHORT_NS:
        return made
    gap = np.diff(time_ns)[made.bounds[1:-1] - 1]
    longer = np.empty(len(gap), np.float64)  # the fraction of all pauses that are at least as long
    longer[np.argsort(-gap, kind="stable")] = np.arange(1, len(gap) + 1) / len(gap)
    divisors = [size for size in range(2, count // 2 + 1) if count % size == 0]
    best, chance = 1, _CHANCE
    for size in divisors:
        pauses = longer[size - 1 :: size]
        likely = len(divisors) * float(pauses.max()) ** len(pauses)
        if likely < chance:
            best, chance = size, likely
    return Repetitions(made.bounds[::best], is_whole=True)
