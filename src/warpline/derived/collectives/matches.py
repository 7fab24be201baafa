"""Which collectives of different ranks belong together."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from warpline.derived import derived
from warpline.derived.collectives.end_pairs import LEAST_PAIRS, EndPairs, pair_ends
from warpline.derived.collectives.kinds import collective_kinds
from warpline.derived.kernels.categories import (
    BUSY_CATEGORIES,
    collective_kernel,
    operation_categories,
)
from warpline.derived.texts import number_texts
from warpline.derived.work.operations import operations
from warpline.ops.arrays import I64
from warpline.ops.group import factorize_rows
from warpline.result import Skipped
from warpline.trace import Trace
from warpline.units import plural

# None of these ends on a rank before all ranks have begun; a broadcast's root may, for one.
TOGETHER = ("AllReduce", "AllGather", "AllGatherV", "ReduceScatter", "AllToAll", "Barrier")

_ONE_CLOCK_NS = 1_000_000  # ends further apart than this on one clock are not of one collective

RECORD_HINT = "profile every rank with --trace=cuda,nvtx and name all recordings"


@dataclass(frozen=True)
class Lead:
    """How far the clock of one rank is ahead of another's, as ends of collectives tell.

    Attributes:
        first: The one rank, a lane of the matches.
        second: The other.
        lead_ns: How far the second is ahead: a median.
        spread_ns: Nine of ten ends agree with that within this, or with its drift.
        drift_ns: By how much it changed over the recording.
        count: From how many collectives it is known.
    """

    first: int
    second: int
    lead_ns: float
    spread_ns: float
    drift_ns: float
    count: int


@dataclass(frozen=True)
class CollectiveMatches:
    """Collectives that several ranks took part in, by collective, then rank.

    A rank is a lane here: what one process did on one device.

    Attributes:
        collective: Shape (n,), int64, numbers of the collectives: 0, 0, 1, 1...
        lane: Shape (n,), int64, which rank this part of it is of.
        operation: Shape (n,), int64, the kernel, a place in `operations`.
        lead_ns: Shape (n,), int64, how far the rank's clock is ahead of that of the collective's
            first rank; 0 where they are told by one clock, or agree as far as can be told.
        error_ns: Shape (n,), int64, what the clocks of the collective's ranks cannot tell from
            nothing; 0 for one clock.
        lane_process: Shape (lanes,), int64, rows of the process table.
        lane_device: Shape (lanes,), int64, rows of the device table.
        leads: What the ends tell of the ranks' clocks.
        unmatched: Collective kernels whose counterpart on other ranks was not found.
        notes: Why, for the user.
    """

    collective: I64
    lane: I64
    operation: I64
    lead_ns: I64
    error_ns: I64
    lane_process: I64
    lane_device: I64
    leads: tuple[Lead, ...]
    unmatched: int
    notes: tuple[str, ...]

    @property
    def count(self) -> int:
        """How many collectives there are."""
        return int(self.collective[-1]) + 1 if len(self.collective) else 0

    @property
    def first(self) -> I64:
        """Shape (count,), int64, the place of each collective's first part."""
        return np.flatnonzero(np.diff(self.collective, prepend=-1))


class _Kernels(NamedTuple):
    """Kernels of collectives that all ranks end together: by lane, in time.

    Attributes:
        operation: Shape (n,), int64, places in `operations`.
        lane: Shape (n,), int64.
        kind: Shape (n,), int64, equal for one kind of operation in one communicator.
        sequence: Shape (n,), int64, number of the call in its communicator, -1 if not known.
    """

    operation: I64
    lane: I64
    kind: I64
    sequence: I64


class _Series(NamedTuple):
    """The collectives of one kind on one rank, in their order: rows of `_Kernels`."""

    lane: int
    rows: I64


@derived
def collective_matches(trace: Trace) -> CollectiveMatches:
    """Return the collectives that several ranks of the trace took part in.

    Those of one communicator and operation are paired by the number of the call, or where no
    call is recorded, by their order on the stream; in both cases their ends must agree once the
    clocks are aligned, see `pair_ends`. Where communicators are not known, ranks whose ends do
    not agree belong to different ones. Left out are broadcasts, reductions to one rank, and
    sends and receives: ranks may end those at different times.
    """
    if not _has_collectives(trace):  # so that files without any open in no time
        no = np.zeros(0, np.int64)
        return CollectiveMatches(no, no, no, no, no, no, no, leads=(), unmatched=0, notes=())
    kernels, process, device = _kernels(trace)
    files = _file_of(trace)[process] if len(process) else process
    found: list[tuple[I64, I64, I64, I64]] = []  # number, row, lead and error of each part
    leads: list[Lead] = []
    count = 0
    for group in _groups(trace, kernels, files):
        rows, lead = _table(group, files)
        number = count + np.repeat(np.arange(rows.shape[1]), rows.shape[0])
        error = np.full(len(number), _error_ns(group, files))
        found.append((number, rows.T.reshape(-1), lead.T.reshape(-1), error))
        leads += _leads(group)
        count += rows.shape[1]
    nothing = np.zeros(0, np.int64)
    number, rows, lead, error = (
        np.concatenate([nothing, *(part[place] for part in found)]) for place in range(4)
    )
    return CollectiveMatches(
        number,
        kernels.lane[rows],
        kernels.operation[rows],
        lead,
        error,
        process,
        device,
        tuple(leads),
        len(kernels.operation) - len(rows),
        _notes(len(process), len(kernels.operation), len(rows)),
    )


def cannot_match(trace: Trace, name: str) -> Skipped | None:
    """Return why nothing can be said about ranks, if so."""
    found = collective_matches(trace)
    if len(found.lane_process) < 2:
        what = "one rank" if len(found.lane_process) else "no collective of several ranks"
        return Skipped(name, f"the trace holds {what}", "name the recordings of all ranks")
    if not found.count:
        return Skipped(
            name,
            "no collective of one rank could be told to be one of another's",
            "profile the same steps of every rank, with --trace=cuda,nvtx",
        )
    return None


class _Group(NamedTuple):
    """Ranks whose collectives of one kind belong together: the first, and the others' pairs."""

    first: _Series
    others: tuple[tuple[_Series, EndPairs], ...]


def _groups(trace: Trace, kernels: _Kernels, files: I64) -> Iterator[_Group]:
    """Yield the ranks that share collectives, for each kind of them."""
    end = operations(trace).end_ns[kernels.operation]
    cells = factorize_rows(kernels.kind, kernels.lane)
    order = np.argsort(cells.codes, kind="stable")
    bounds = np.flatnonzero(np.diff(cells.codes[order], prepend=-1))
    by_kind: dict[int, list[_Series]] = {}
    for rows in np.split(order, bounds[1:]) if len(order) else []:
        kind, lane = int(kernels.kind[rows[0]]), int(kernels.lane[rows[0]])
        by_kind.setdefault(kind, []).append(_Series(lane, rows))
    for every in by_kind.values():
        groups: list[tuple[_Series, list[tuple[_Series, EndPairs]]]] = []
        for series in every:
            for first, others in groups:
                pairs = _pairs(first, series, kernels, end, files)
                if pairs is not None:
                    others.append((series, pairs))
                    break
            else:
                groups.append((series, []))
        yield from (_Group(first, tuple(others)) for first, others in groups if others)


def _pairs(
    first: _Series, second: _Series, kernels: _Kernels, end: I64, files: I64
) -> EndPairs | None:
    numbers = kernels.sequence[first.rows], kernels.sequence[second.rows]
    is_numbered = all(_ascends(each) for each in numbers)
    pairs = pair_ends(end[first.rows], end[second.rows], numbers if is_numbered else None)
    if pairs is None:
        return None
    is_one_clock = files[first.lane] == files[second.lane]
    if is_one_clock and abs(float(np.median(pairs.lead_ns))) > _ONE_CLOCK_NS:
        return None  # like another step's
    return pairs


def _ascends(numbers: I64) -> bool:
    """Return whether all calls have a number, and no two the same."""
    return bool(numbers[0] >= 0) and bool((np.diff(numbers) > 0).all())


def _table(group: _Group, files: I64) -> tuple[I64, I64]:
    """Return the rows of the collectives that all ranks of a group have, and their leads.

    Both have the shape (ranks, collectives).
    """
    common = group.others[0][1].first
    for _, pairs in group.others[1:]:
        common = np.intersect1d(common, pairs.first, assume_unique=True)
    rows, leads = [group.first.rows[common]], [np.zeros(len(common), np.int64)]
    for series, pairs in group.others:
        place = np.searchsorted(pairs.first, common)
        is_one_clock = bool(files[group.first.lane] == files[series.lane])
        rows.append(series.rows[pairs.second[place]])
        leads.append(_correction(pairs, is_one_clock=is_one_clock)[place])
    order = np.argsort([group.first.lane, *(series.lane for series, _ in group.others)])
    return np.array(rows)[order], np.array(leads)[order]


def _correction(pairs: EndPairs, *, is_one_clock: bool) -> I64:
    """Return by how much to correct the second clock at each pair: by what is beyond doubt."""
    if is_one_clock or np.abs(pairs.lead_ns).max() <= clock_error_ns(pairs.spread_ns):
        return np.zeros(len(pairs.first), np.int64)
    return np.rint(pairs.lead_ns).astype(np.int64)


def _error_ns(group: _Group, files: I64) -> int:
    """Return how far the ends of a group agree where its ranks' clocks are of different files."""
    here = files[group.first.lane]
    apart = [pairs.spread_ns for series, pairs in group.others if files[series.lane] != here]
    return round(max(apart, default=0.0))


def clock_error_ns(spread_ns: float) -> float:
    """Return the offset that the ends of collectives cannot tell from none."""
    return max(25_000.0, spread_ns)


def _leads(group: _Group) -> Iterator[Lead]:
    for series, pairs in group.others:
        yield Lead(
            group.first.lane,
            series.lane,
            float(np.median(pairs.lead_ns)),
            pairs.spread_ns,
            float(pairs.lead_ns[-1] - pairs.lead_ns[0]),
            len(pairs.first),
        )


def _notes(n_lanes: int, n_kernels: int, n_matched: int) -> tuple[str, ...]:
    missing = n_kernels - n_matched
    if n_lanes < 2 or not missing:
        return ()
    note = (
        f"of {plural(n_kernels, 'kernel')} of collectives {missing:,} have no counterpart on"
        " another rank that could be told: their numbers or the times at which they ended differ,"
        f" or there are fewer than {LEAST_PAIRS}"
    )
    return (note,)


def _has_collectives(trace: Trace) -> bool:
    """Return whether any kernel may be a collective, by names and calls."""
    if not trace.has("kernel") or not trace.row_count("kernel"):
        return False
    if trace.has("collective") and trace.row_count("collective"):
        return True
    ids = trace.columns("kernel", "name_id", ordered=False)["name_id"].values
    distinct = number_texts(ids, len(trace.strings))[1]
    return any(collective_kernel(name) for name in trace.strings.texts(distinct.tolist()))


def _kernels(trace: Trace) -> tuple[_Kernels, I64, I64]:
    """Return the kernels, and the process and the device of each lane."""
    work = operations(trace)
    is_collective = operation_categories(trace) == BUSY_CATEGORIES.index("collective")
    place = np.flatnonzero(is_collective)
    kinds = collective_kinds(trace, place)
    ends_together = [code for code, name in enumerate(kinds.operations) if name in TOGETHER]
    chosen = np.isin(kinds.operation, ends_together)
    place, sequence = place[chosen], kinds.sequence[chosen]
    lanes = factorize_rows(work.process[place], work.device[place])
    lane = lanes.codes.astype(np.int64)
    communicator = kinds.communicator[chosen]
    is_named = communicator >= 0
    owner = np.where(is_named, communicator, _stream_places(lane, work.stream[place]))
    groups = factorize_rows(is_named.astype(np.int64), owner, kinds.operation[chosen])
    order = np.lexsort((work.end_ns[place], work.start_ns[place], lane))
    parts = (place, lane, groups.codes.astype(np.int64), sequence)
    first = place[lanes.first]
    return _Kernels(*(part[order] for part in parts)), work.process[first], work.device[first]


def _stream_places(lane: I64, stream: I64) -> I64:
    """Return the place of each kernel's stream among those with collectives on its lane."""
    pairs = factorize_rows(lane, stream)
    first_lane = lane[pairs.first]
    before = np.searchsorted(first_lane, first_lane, side="left")
    return (np.arange(len(first_lane)) - before)[pairs.codes]


def _file_of(trace: Trace) -> I64:
    """Return the file that each process was recorded in, shape (processes,)."""
    count = trace.row_count("process") if trace.has("process") else 0
    files = trace.meta.file_of_process
    return np.array(files if len(files) == count else [0] * count, np.int64)
