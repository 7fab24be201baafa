"""Which collectives of the ranks are the same one, and the clocks of the ranks in them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from warpline.derived.collectives.end_pairs import LEAST_PAIRS
from warpline.fleet.collectives import CollectiveRows
from warpline.fleet.fitting import (
    LEAST_ERROR_NS,
    TOLERANCE_NS,
    Line,
    line_between,
    pair,
    relative,
)
from warpline.fleet.summary import RankSummary
from warpline.ops.arrays import F64, I32, I64, repeated

_FEW = 4  # groups among which a recording that begins later is looked for
_PANEL = 24  # ranks whose ends make the common time of a group: more do not make it better


class Member(NamedTuple):
    """A rank in a group.

    Attributes:
        rank: Its place in the job.
        rows: Shape (n,), int32, its collectives, places in its summary.
        place: Shape (n,), int32, which collective of the group each is, ascending.
        base_ns: What its times count from.
        line: How far its clock, from there on, is ahead of the group's time.
    """

    rank: int
    rows: I32
    place: I32
    base_ns: int
    line: Line

    def on_common_time(self, own_ns: I64) -> F64:
        """Return times of the rank on the group's time."""
        return self.line.removed(relative(own_ns, self.base_ns))


class Group(NamedTuple):
    """Ranks that share collectives of one operation and communicator.

    Attributes:
        operation: Such as AllReduce.
        communicator: Its id or name, or the place of the stream.
        members: The ranks, ascending.
        total: Number of collectives, as the rank with most of them has them.
        error_ns: How closely the ends of most collectives agree on all ranks.
    """

    operation: str
    communicator: str
    members: tuple[Member, ...]
    total: int
    error_ns: float


class Matches(NamedTuple):
    """The groups of a job, and how many collectives have no match on another rank."""

    groups: tuple[Group, ...]
    collectives: int
    unmatched: int


class _Series(NamedTuple):
    """The collectives of one kind on one rank, by start.

    Attributes:
        rank: The place of the rank in the job.
        rows: Shape (n,), int32, places in its collectives.
        every: All its collectives.
        numbers: Their numbers in the communicator: shape (n,), int64; the first one, if each is one
            more than the one before; None if unknown.
    """

    rank: int
    rows: I32
    every: CollectiveRows
    numbers: I64 | int | None

    @property
    def end_ns(self) -> I64:
        """Shape (n,), int64: decoded on each use, as a job has too many to keep them."""
        return self.every.taken(self.rows).end_ns

    @property
    def sequence(self) -> I64:
        """Shape (n,), int64, -1 if unknown."""
        if self.numbers is None:
            return repeated(np.full(1, -1, np.int64), len(self.rows))
        if isinstance(self.numbers, int):
            return self.numbers + np.arange(len(self.rows))
        return self.numbers


def _shared(places: I64 | I32, count: int) -> I32:
    """Return ascending places as int32; those of all collectives are one array for all ranks."""
    if len(places) == count and np.array_equal(places, _all(count)):
        return _all(count)
    return places.astype(np.int32)


@lru_cache(maxsize=64)
def _all(count: int) -> I32:
    found = np.arange(count, dtype=np.int32)
    found.flags.writeable = False
    return found


def _numbers(sequence: I64) -> I64 | int | None:
    if not len(sequence) or (sequence < 0).all():
        return None
    return int(sequence[0]) if bool((np.diff(sequence) == 1).all()) else sequence


class _Paired(NamedTuple):
    """A series and its pairs with the reference of its group."""

    series: _Series
    first: I32  # places in the reference
    second: I32  # places in the series
    line: Line


def matches(ranks: Sequence[RankSummary]) -> Matches:
    """Return the collectives that ranks share.

    As in a trace of all ranks, collectives of one communicator and operation are matched by call
    number, or by their order, and their ends must agree once the clocks are aligned. Ranks whose
    ends do not agree are in different groups.
    """
    groups, unmatched, total = [], 0, 0
    for key, every in _series(ranks).items():
        total += sum(len(series.rows) for series in every)
        for reference, others in _grouped(every):
            if not others:
                unmatched += len(reference.rows)
                continue
            groups.append(_group(key[3], key[1], reference, others))
            paired = sum(len(other.first) for other in others)
            unmatched += sum(len(other.series.rows) for other in others) - paired
    order = sorted(groups, key=lambda group: (-len(group.members), -group.total))
    return Matches(tuple(order), total, unmatched)


_Key = tuple[bool, str, str, str]


def _series(ranks: Sequence[RankSummary]) -> dict[_Key, list[_Series]]:
    """Return the collectives of each communicator and operation, by rank."""
    found: dict[_Key, list[_Series]] = {}
    for place, rank in enumerate(ranks):
        rows = rank.collectives
        keys = [
            (kind.is_named, kind.communicator, kind.members, kind.operation) for kind in rank.kinds
        ]
        numbers = {key: number for number, key in enumerate(dict.fromkeys(keys))}
        if not numbers:
            continue
        code, sequence = (
            np.array([numbers[key] for key in keys], np.int64)[rows.kind],
            rows.sequence,
        )
        for key, number in numbers.items():
            own = _shared(np.flatnonzero(code == number), len(code))
            if not len(own):  # a kind of sends
                continue
            series = _Series(place, own, rows, _numbers(sequence[own]))
            found.setdefault(key, []).append(series)
    return found


def _grouped(every: Sequence[_Series]) -> Iterator[tuple[_Series, list[_Paired]]]:
    """Yield the series that are on one clock with each other: a reference, and the others."""
    groups: list[tuple[_Series, list[_Paired]]] = []
    reference_ns: list[I64] = []
    for series in sorted(every, key=lambda each: -len(each.rows)):
        end_ns = series.end_ns
        # That one recording begins later takes long to find, so all groups are tried without first.
        places = range(len(groups))
        tried = [*((place, False) for place in places), *((place, True) for place in places[:_FEW])]
        for place, is_shifted in tried:
            reference, others = groups[place]
            ordinals = _ordinals(reference, series)
            found = pair(reference_ns[place], end_ns, ordinals, is_shifted=is_shifted)
            if found is not None:
                first = _shared(found.first, len(reference.rows))
                second = _shared(found.second, len(series.rows))
                others.append(_Paired(series, first, second, found.line))
                break
        else:
            groups.append((series, []))
            reference_ns.append(end_ns)
    yield from groups


def _ordinals(first: _Series, second: _Series) -> tuple[I64, I64] | None:
    numbers = first.sequence, second.sequence
    return numbers if all(_ascends(each) for each in numbers) else None


def _ascends(numbers: I64) -> bool:
    return bool(numbers[0] >= 0) and bool((np.diff(numbers) > 0).all())


def _group(operation: str, communicator: str, first: _Series, others: list[_Paired]) -> Group:
    """Return a group whose common time is the median of many ranks' clocks."""
    every = _all(len(first.rows))
    own = _Paired(first, every, every, Line(0.0, 0.0, 0.0, len(every)))
    members = [own, *others]
    common = _common_time(members)
    found = []
    for member in members:
        end_ns = member.series.end_ns
        base_ns = int(end_ns[0])
        time = common[member.first]
        ahead = relative(end_ns[member.second], base_ns) - time
        line = line_between(time, ahead) or member.line
        is_whole = member.second is _all(len(end_ns))
        rows = member.series.rows if is_whole else member.series.rows[member.second]
        found.append(Member(member.series.rank, rows, member.first, base_ns, line))
    found.sort(key=lambda member: member.rank)
    error = max(*(member.line.spread_ns for member in found), LEAST_ERROR_NS)
    return Group(operation, communicator, tuple(found), len(every), error)


def _common_time(members: Sequence[_Paired]) -> F64:
    """Return when each collective ended: the median of a panel of ranks, on the first's clock."""
    first = members[0].series.end_ns
    reference = relative(first, int(first[0]))
    chosen = np.unique(np.linspace(0, len(members) - 1, min(_PANEL, len(members))).astype(int))
    ends = np.full((len(chosen), len(reference)), np.nan)  # a rank may lack some collectives
    for row, place in enumerate(chosen.tolist()):
        series, paired, own, line = members[place]
        end_ns = series.end_ns
        ends[row, paired] = line.removed(relative(end_ns, int(end_ns[0]))[own])
    ends[0] = reference
    common: F64 = np.nanmedian(ends, axis=0)
    return common


class Clock(NamedTuple):
    """The clock of a rank relative to the job's time, that of its largest group.

    Attributes:
        base_ns: What its times count from.
        line: How far it is ahead from there on.
        error_ns: How closely the ends of its collectives agree with the common time (90%).
        pairs: Number of collectives.
    """

    base_ns: int
    line: Line
    error_ns: float
    pairs: int

    def job_time(self, own_ns: I64) -> F64:
        """Return times of the rank on the job's time, ns."""
        return self.line.removed(relative(own_ns, self.base_ns))

    def ahead_ns(self, moment_ns: float, origin_ns: int) -> float:
        """Return how far the clock is ahead at a moment of the job's time.

        Args:
            moment_ns: The moment.
            origin_ns: The time 0 of the job's time on the reference clock.
        """
        return self.base_ns - origin_ns + float(self.line.at(np.array([moment_ns]))[0])


def clocks(count: int, groups: Sequence[Group]) -> list[Clock | None]:
    """Return the clock of each rank; None where no chain of groups links it to the largest one.

    Args:
        count: Number of ranks.
        groups: Their groups, the largest first.
    """
    found: list[Clock | None] = [None] * count
    rest = list(groups)
    while rest:
        place = next((at for at, group in enumerate(rest) if _is_linked(group, found)), None)
        if place is None and any(clock is not None for clock in found):
            return found
        group = rest.pop(place or 0)
        to_job = _to_job_time(group, found) if place is not None else Line(0.0, 0.0, 0.0, 0)
        for member in group.members:
            if found[member.rank] is None:
                found[member.rank] = _clock(member, to_job)
    return found


def _is_linked(group: Group, found: Sequence[Clock | None]) -> bool:
    return any(found[member.rank] is not None for member in group.members)


def _clock(member: Member, to_job: Line) -> Clock:
    """Return the clock of a member, by its line and that of its group's time."""
    own = member.line
    drift = (1 + own.drift) * (1 + to_job.drift) - 1
    offset = own.offset_ns + (1 + own.drift) * to_job.offset_ns
    error = max(float(np.hypot(own.spread_ns, to_job.spread_ns)), LEAST_ERROR_NS)
    line = Line(offset, drift, own.spread_ns, own.pairs)
    return Clock(member.base_ns, line, error, own.pairs)


def _to_job_time(group: Group, found: Sequence[Clock | None]) -> Line:
    """Return how far a group's time is ahead of the job's: the median over ranks in both."""
    offsets, drifts, errors = [], [], []
    for member in group.members:
        clock = found[member.rank]
        if clock is None:
            continue
        # own = base + t_g + line(t_g) = base' + t_j + line'(t_j), so t_g as a line over t_j.
        scale = (1 + clock.line.drift) / (1 + member.line.drift)
        shift = clock.base_ns - member.base_ns + clock.line.offset_ns - member.line.offset_ns
        offsets.append(shift / (1 + member.line.drift))
        drifts.append(scale - 1)
        errors.append(clock.error_ns)
    return Line(float(np.median(offsets)), float(np.median(drifts)), float(np.median(errors)), 0)


def is_known(clock: Clock | None) -> bool:
    """Return whether a clock is aligned well enough to compare moments of ranks."""
    return clock is not None and clock.error_ns <= TOLERANCE_NS and clock.pairs >= LEAST_PAIRS
