"""Matching of collectives across ranks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from warpline.derived import derived
from warpline.derived.collectives.end_pairs import LEAST_PAIRS, EndPairs, pair_ends
from warpline.derived.collectives.kinds import collective_kinds
from warpline.derived.kernels.categories import collective_kernel, operation_categories
from warpline.derived.texts import number_texts
from warpline.derived.time_parts import TimePart
from warpline.derived.work.operations import operations
from warpline.ops.arrays import I64
from warpline.ops.group import factorize_rows
from warpline.result import Skipped
from warpline.trace import Trace
from warpline.units import plural

# These end on no rank before all ranks have started. A broadcast may end early on its root.
TOGETHER = ("AllReduce", "AllGather", "AllGatherV", "ReduceScatter", "AllToAll", "Barrier")

_ONE_CLOCK_NS = 1_000_000  # on one clock, ends further apart belong to different collectives

RECORD_HINT = "profile every rank with --trace=cuda,nvtx and pass all recordings"


@dataclass(frozen=True)
class Lead:
    """The clock offset between two ranks, measured at the ends of collectives.

    Attributes:
        first: One rank, a place in the matches' ranks.
        second: The other rank.
        lead_ns: How far the second clock is ahead: the median.
        spread_ns: 90% of the ends agree within this distance, allowing for drift.
        drift_ns: The change of the offset over the recording.
        count: The number of collectives used.
    """

    first: int
    second: int
    lead_ns: float
    spread_ns: float
    drift_ns: float
    count: int

    @property
    def error_ns(self) -> float:
        """90% of the ends on the two clocks, as they are, agree within this distance."""
        return abs(self.lead_ns) + self.spread_ns


@dataclass(frozen=True)
class CollectiveMatches:
    """Collectives of several ranks, sorted by collective, then rank.

    A rank is one process on one device, numbered from 0 in the order of both.

    Attributes:
        collective: Shape (n,), int64, numbers of the collectives: 0, 0, 1, 1...
        rank: Shape (n,), int64, the rank of this part.
        operation: Shape (n,), int64, the kernel, a place in `operations`.
        lead_ns: Shape (n,), int64, how far the rank's clock is ahead of that of the collective's
            first rank; 0 if they share a clock or agree within the error.
        error_ns: Shape (n,), int64, the error of the clock alignment between the collective's
            ranks; 0 for one clock.
        rank_process: Shape (ranks,), int64, rows of the process table.
        rank_device: Shape (ranks,), int64, rows of the device table.
        leads: The clock offsets between ranks.
        unmatched: Number of collective kernels without a match on another rank.
        notes: The reason, for the user.
    """

    collective: I64
    rank: I64
    operation: I64
    lead_ns: I64
    error_ns: I64
    rank_process: I64
    rank_device: I64
    leads: tuple[Lead, ...]
    unmatched: int
    notes: tuple[str, ...]

    @property
    def count(self) -> int:
        """Number of collectives."""
        return int(self.collective[-1]) + 1 if len(self.collective) else 0

    @property
    def first(self) -> I64:
        """Shape (count,), int64, the place of each collective's first part."""
        return np.flatnonzero(np.diff(self.collective, prepend=-1))


class _Kernels(NamedTuple):
    """Kernels of collectives that end on all ranks together, sorted by rank and time.

    Attributes:
        operation: Shape (n,), int64, places in `operations`.
        rank: Shape (n,), int64.
        kind: Shape (n,), int64, equal for one kind of operation in one communicator.
        sequence: Shape (n,), int64, number of the call in its communicator, -1 if unknown.
    """

    operation: I64
    rank: I64
    kind: I64
    sequence: I64


class _Series(NamedTuple):
    """The collectives of one kind on one rank, in order: rows of `_Kernels`."""

    rank: int
    rows: I64


@derived
def collective_matches(trace: Trace) -> CollectiveMatches:
    """Return the collectives shared by several ranks of the trace.

    Collectives of one communicator and operation are matched by call number, or by their order on
    the stream where no call is recorded. In both cases their ends must agree once the clocks are
    aligned, see `pair_ends`. Without recorded communicators, ranks whose ends do not agree are
    assumed to be in different ones. Broadcasts, reductions to one rank, sends, and receives are
    excluded, because ranks may end them at different times.
    """
    if not _has_collectives(trace):  # files without collectives open fast
        no = np.zeros(0, np.int64)
        return CollectiveMatches(
            collective=no,
            rank=no,
            operation=no,
            lead_ns=no,
            error_ns=no,
            rank_process=no,
            rank_device=no,
            leads=(),
            unmatched=0,
            notes=(),
        )
    kernels, process, device = _kernels(trace)
    files = _file_of(trace)[process] if len(process) else process
    parts: list[tuple[I64, I64, I64, I64]] = []  # number, row, lead and error of each part
    leads: list[Lead] = []
    count = 0
    for group in _groups(trace, kernels, files):
        rows, lead = _table(group, files)
        number = count + np.repeat(np.arange(rows.shape[1]), rows.shape[0])
        error = np.full(len(number), _error_ns(group, files))
        parts.append((number, rows.T.reshape(-1), lead.T.reshape(-1), error))
        leads += _leads(group)
        count += rows.shape[1]
    nothing = np.zeros(0, np.int64)
    number, rows, lead, error = (
        np.concatenate([nothing, *(part[place] for part in parts)]) for place in range(4)
    )
    return CollectiveMatches(
        collective=number,
        rank=kernels.rank[rows],
        operation=kernels.operation[rows],
        lead_ns=lead,
        error_ns=error,
        rank_process=process,
        rank_device=device,
        leads=tuple(leads),
        unmatched=len(kernels.operation) - len(rows),
        notes=_notes(len(process), len(kernels.operation), len(rows)),
    )


def cannot_match(trace: Trace, name: str) -> Skipped | None:
    """Return why ranks cannot be compared; None if they can."""
    matches = collective_matches(trace)
    if len(matches.rank_process) < 2:
        what = "one rank" if len(matches.rank_process) else "no collectives of several ranks"
        return Skipped(name, f"the trace contains {what}", "pass the recordings of all ranks")
    if not matches.count:
        return Skipped(
            name,
            "no collectives could be matched across ranks",
            "profile the same steps on every rank with --trace=cuda,nvtx",
        )
    return None


class _Group(NamedTuple):
    """Ranks that share collectives of one kind: the first, and its pairs with the others."""

    first: _Series
    others: tuple[tuple[_Series, EndPairs], ...]


def _groups(trace: Trace, kernels: _Kernels, files: I64) -> Iterator[_Group]:
    """Yield the ranks that share collectives, for each kind of them."""
    end = operations(trace).end_ns[kernels.operation]
    cells = factorize_rows(kernels.kind, kernels.rank)
    order = np.argsort(cells.codes, kind="stable")
    bounds = np.flatnonzero(np.diff(cells.codes[order], prepend=-1))
    by_kind: dict[int, list[_Series]] = {}
    for rows in np.split(order, bounds[1:]) if len(order) else []:
        kind, rank = int(kernels.kind[rows[0]]), int(kernels.rank[rows[0]])
        by_kind.setdefault(kind, []).append(_Series(rank, rows))
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
    is_one_clock = files[first.rank] == files[second.rank]
    if is_one_clock and abs(float(np.median(pairs.lead_ns))) > _ONE_CLOCK_NS:
        return None  # probably collectives of different steps
    return pairs


def _ascends(numbers: I64) -> bool:
    """Return whether all calls have numbers, without duplicates."""
    return bool(numbers[0] >= 0) and bool((np.diff(numbers) > 0).all())


def _table(group: _Group, files: I64) -> tuple[I64, I64]:
    """Return the rows of the collectives common to all ranks of a group, and their clock offsets.

    Both have the shape (ranks, collectives).
    """
    common = group.others[0][1].first
    for _, pairs in group.others[1:]:
        common = np.intersect1d(common, pairs.first, assume_unique=True)
    rows, leads = [group.first.rows[common]], [np.zeros(len(common), np.int64)]
    for series, pairs in group.others:
        place = np.searchsorted(pairs.first, common)
        is_one_clock = bool(files[group.first.rank] == files[series.rank])
        rows.append(series.rows[pairs.second[place]])
        leads.append(_correction(pairs, is_one_clock=is_one_clock)[place])
    order = np.argsort([group.first.rank, *(series.rank for series, _ in group.others)])
    return np.array(rows)[order], np.array(leads)[order]


def _correction(pairs: EndPairs, *, is_one_clock: bool) -> I64:
    """Return the correction of the second clock at each pair; 0 within the clock error."""
    if is_one_clock or np.abs(pairs.lead_ns).max() <= clock_error_ns(pairs.spread_ns):
        return np.zeros(len(pairs.first), np.int64)
    return np.rint(pairs.lead_ns).astype(np.int64)


def _error_ns(group: _Group, files: I64) -> int:
    """Return the spread of a group's ends across ranks with clocks of different files."""
    here = files[group.first.rank]
    apart = [pairs.spread_ns for series, pairs in group.others if files[series.rank] != here]
    return round(max(apart, default=0.0))


def clock_error_ns(spread_ns: float) -> float:
    """Return the clock error: smaller offsets are not significant."""
    return max(25_000.0, spread_ns)


def file_errors(matches: CollectiveMatches, files: Sequence[int]) -> dict[int, int]:
    """Return the clock error of each file relative to the first, ns; only of files in collectives.

    Args:
        matches: The collectives of a trace.
        files: The file of each process.
    """
    errors: dict[int, float] = {}
    for lead in matches.leads:
        pair = {files[int(matches.rank_process[rank])] for rank in (lead.first, lead.second)}
        for file in pair - {files[0]} if len(pair) > 1 else ():
            errors[file] = max(errors.get(file, 0.0), lead.error_ns)
    return {file: round(error) for file, error in errors.items()}


def _leads(group: _Group) -> Iterator[Lead]:
    for series, pairs in group.others:
        yield Lead(
            first=group.first.rank,
            second=series.rank,
            lead_ns=float(np.median(pairs.lead_ns)),
            spread_ns=pairs.spread_ns,
            drift_ns=float(pairs.lead_ns[-1] - pairs.lead_ns[0]),
            count=len(pairs.first),
        )


def _notes(n_ranks: int, n_kernels: int, n_matched: int) -> tuple[str, ...]:
    missing = n_kernels - n_matched
    if n_ranks < 2 or not missing:
        return ()
    note = (
        f"{missing:,} of {plural(n_kernels, 'collective kernel')} could not be matched with"
        " another rank: their call numbers or end times differ, or there are fewer than"
        f" {LEAST_PAIRS}"
    )
    return (note,)


def _has_collectives(trace: Trace) -> bool:
    """Return whether any kernel may be a collective, by name or recorded call."""
    if not trace.has("kernel") or not trace.row_count("kernel"):
        return False
    if trace.has("collective") and trace.row_count("collective"):
        return True
    ids = trace.columns("kernel", "name_id", ordered=False)["name_id"].values
    distinct = number_texts(ids, len(trace.strings))[1]
    return any(collective_kernel(name) for name in trace.strings.texts(distinct.tolist()))


def _kernels(trace: Trace) -> tuple[_Kernels, I64, I64]:
    """Return the kernels, and the process and device of each rank."""
    work = operations(trace)
    is_collective = operation_categories(trace) == TimePart.COLLECTIVE
    place = np.flatnonzero(is_collective)
    kinds = collective_kinds(trace, place)
    ends_together = [code for code, name in enumerate(kinds.operations) if name in TOGETHER]
    chosen = np.isin(kinds.operation, ends_together)
    place, sequence = place[chosen], kinds.sequence[chosen]
    ranks = factorize_rows(work.process[place], work.device[place])
    rank = ranks.codes.astype(np.int64)
    communicator = kinds.communicator[chosen]
    is_named = communicator >= 0
    owner = np.where(is_named, communicator, stream_places(rank, work.stream[place]))
    groups = factorize_rows(is_named.astype(np.int64), owner, kinds.operation[chosen])
    order = np.lexsort((work.end_ns[place], work.start_ns[place], rank))
    parts = (place, rank, groups.codes.astype(np.int64), sequence)
    first = place[ranks.first]
    return _Kernels(*(part[order] for part in parts)), work.process[first], work.device[first]


def stream_places(rank: I64, stream: I64) -> I64:
    """Return the place of each kernel's stream among the rank's streams with collectives."""
    pairs = factorize_rows(rank, stream)
    first_rank = rank[pairs.first]
    before = np.searchsorted(first_rank, first_rank, side="left")
    return (np.arange(len(first_rank)) - before)[pairs.codes]


def _file_of(trace: Trace) -> I64:
    """Return the file of each process, shape (processes,)."""
    count = trace.row_count("process") if trace.has("process") else 0
    files = trace.meta.file_of_process
    return np.array(files if len(files) == count else [0] * count, np.int64)
