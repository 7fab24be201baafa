"""The collectives of a recording's ranks, and their sends and receives, as summaries have them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from warpline.derived.breakdown.overlaps import OverlapKind, overlaps
from warpline.derived.collectives.kinds import UNKNOWN, CollectiveKinds, collective_kinds
from warpline.derived.collectives.matches import TOGETHER, stream_places
from warpline.derived.collectives.nccl_kernels import nccl_choices
from warpline.derived.kernels.categories import collective_kernel, operation_categories
from warpline.derived.steps.times import NO_STEP, Windows
from warpline.derived.texts import number_texts
from warpline.derived.time_parts import TimePart
from warpline.derived.work.operations import operations
from warpline.fleet.collectives import QUARTERS, SHARES, CollectiveKind, Collectives, fewest_kinds
from warpline.fleet.inside import Rank
from warpline.fleet.sending import SENDS, sent_by
from warpline.ops.arrays import I64, U8, BoolArray
from warpline.ops.group import distinct_values, factorize_rows
from warpline.trace import Trace

_LONGEST_TEXT = 200
_MOST_SIZES = 64  # of all-to-alls, which may differ in each call: beyond, they are rounded
_KEPT_BITS = 3


class OfRank(NamedTuple):
    """What a summary has of a rank's communication."""

    kinds: tuple[CollectiveKind, ...]
    collectives: Collectives
    exchanges: Collectives
    gemm_ns: I64


@dataclass(frozen=True)
class Communication:
    """The collectives, sends and receives of a recording, by start.

    Attributes:
        process: Shape (n,), int64.
        device: Shape (n,), int64.
        kinds: Shape (n,), the kind of each.
        rows: Its times.
        gemm_ns: Shape (n,), int64, GEMMs between an all-to-all and the next one; 0 for others.
    """

    process: I64
    device: I64
    kinds: Sequence[CollectiveKind]
    rows: Collectives
    gemm_ns: I64

    def of(self, rank: Rank) -> OfRank:
        """Return what a rank has."""
        own = self.device == rank.device
        if rank.process >= 0:
            own &= self.process == rank.process
        places = np.flatnonzero(own)
        kinds, code = fewest_kinds([self.kinds[place] for place in places.tolist()])
        operation = np.array([kind.operation for kind in kinds], object)[code]
        is_sent = np.isin(operation, SENDS)
        every = self.rows
        both = []
        for chosen in (~is_sent, is_sent):
            rows = places[chosen]
            both.append(
                Collectives(
                    every.start_ns[rows],
                    every.end_ns[rows],
                    every.hidden[rows],
                    code[chosen],
                    every.sequence[rows],
                )
            )
        return OfRank(kinds, both[0], both[1], self.gemm_ns[places[operation == "AllToAll"]])


def communication(trace: Trace) -> Communication:
    """Return the collectives that ranks end together, and the sends and receives."""
    work = operations(trace)
    place = np.flatnonzero(operation_categories(trace) == TimePart.COLLECTIVE)
    kinds = _told(trace, work.row[place], collective_kinds(trace, place))
    wanted = [
        code for code, name in enumerate(kinds.operations) if name in TOGETHER or name in SENDS
    ]
    chosen = np.flatnonzero(np.isin(kinds.operation, wanted))
    chosen = chosen[np.lexsort((work.end_ns[place[chosen]], work.start_ns[place[chosen]]))]
    place = place[chosen]
    start, end = work.start_ns[place], np.maximum(work.end_ns[place], work.start_ns[place])
    rank = factorize_rows(work.process[place], work.device[place]).codes.astype(np.int64)
    names = np.array(kinds.operations, object)[kinds.operation[chosen]]
    streams = np.zeros(len(place), np.int64)
    for own in (np.isin(names, SENDS), ~np.isin(names, SENDS)):
        # Streams of sends do not number those of collectives.
        streams[own] = stream_places(rank[own], work.stream[place[own]])
    return Communication(
        work.process[place],
        work.device[place],
        _kinds(trace, kinds, chosen, streams, work.row[place]),
        Collectives(
            start,
            end,
            _hidden(trace, work.device[place], start, end),
            np.zeros(len(start), np.uint16),
            kinds.sequence[chosen],
        ),
        _gemm_between(trace, place, kinds.communicator[chosen], names == "AllToAll"),
    )


def _told(trace: Trace, kernel: I64, kinds: CollectiveKinds) -> CollectiveKinds:
    """Return the kinds with what the calls show of kernels of sends and receives."""
    is_sent = np.isin(np.array(kinds.operations, object)[kinds.operation], SENDS)
    rows = np.flatnonzero(is_sent) if len(kernel) else np.zeros(0, np.int64)
    if not len(rows):
        return kinds
    sent = sent_by(trace, kernel[rows], kernel)
    known = np.flatnonzero(sent.call >= 0)
    if not len(known):
        return kinds
    operations_of = list(kinds.operations)
    names, operation = list(zip(kinds.communicators, kinds.members, strict=True)), {}
    for name in {sent.operation[at] for at in known.tolist()}:
        if name not in operations_of:
            operations_of.append(name)
        operation[name] = operations_of.index(name)
    columns = trace.columns("collective", "communicator_id", "ranks_id")
    told = [
        column.filled(UNKNOWN).astype(np.int64)[sent.call[known]] for column in columns.values()
    ]
    groups = factorize_rows(*told)
    code = np.full(groups.n_groups, UNKNOWN, np.int64)
    for at, first in enumerate(groups.first.tolist()):
        texts = tuple(
            trace.strings.text(int(column[first])) if column[first] >= 0 else "" for column in told
        )
        if not texts[0]:
            continue
        if texts not in names:
            names.append((texts[0], texts[1]))
        code[at] = names.index((texts[0], texts[1]))
    of_kernel = rows[known]
    for values, new in (
        (kinds.operation, [operation[sent.operation[at]] for at in known.tolist()]),
        (kinds.communicator, code[groups.codes]),
        (kinds.bytes, sent.bytes[known]),
        (kinds.sequence, np.full(len(known), UNKNOWN)),
    ):
        values[of_kernel] = new
    return kinds._replace(
        operations=tuple(operations_of),
        communicators=tuple(name for name, _ in names),
        members=tuple(members for _, members in names),
    )


def _hidden(trace: Trace, device: I64, start: I64, end: I64) -> U8:
    """Return in which share of each quarter of some collectives their GPU computed, in 255ths."""
    if not len(start):
        return np.zeros((0, QUARTERS), np.uint8)
    bounds = start[:, None] + (end - start)[:, None] * np.arange(QUARTERS + 1) // QUARTERS
    low, high = bounds[:, :-1].reshape(-1), bounds[:, 1:].reshape(-1)
    none = np.full(len(low), NO_STEP, np.int64)
    windows = Windows(np.repeat(device, QUARTERS), low, high, step=none, process=none)
    exposed = overlaps(trace, windows).ns[:, OverlapKind.EXPOSED_COMMUNICATION]
    shares = SHARES * np.maximum(high - low - exposed, 0) / np.maximum(high - low, 1)
    rounded: U8 = np.rint(shares).astype(np.uint8).reshape(-1, QUARTERS)
    return rounded


def _kinds(
    trace: Trace, kinds: CollectiveKinds, rows: I64, streams: I64, kernel: I64
) -> list[CollectiveKind]:
    """Return the kind of each collective."""
    owner = np.where(kinds.communicator[rows] >= 0, -1, streams)
    algorithm, algorithms = _algorithms(trace, kernel)
    labels, size = _labels(trace), kinds.bytes[rows].copy()
    for code, name in enumerate(kinds.operations):
        own = np.flatnonzero(kinds.operation[rows] == code) if name == "AllToAll" else rows[:0]
        if len(distinct_values(size[own])) > _MOST_SIZES:
            size[own] = _rounded(size[own])
    groups = factorize_rows(kinds.operation[rows], kinds.communicator[rows], size, owner, algorithm)
    distinct = []
    for first in groups.first.tolist():
        row, communicator = int(rows[first]), int(kinds.communicator[rows[first]])
        is_named = communicator >= 0
        name = kinds.communicators[communicator][:_LONGEST_TEXT] if is_named else ""
        distinct.append(
            CollectiveKind(
                kinds.operations[int(kinds.operation[row])],
                name if is_named else f"stream {int(streams[first])}",
                kinds.members[communicator] if is_named else "",
                is_named,
                int(size[first]),
                algorithms[int(algorithm[first])],
                labels.get(name, ""),
            )
        )
    return [distinct[code] for code in groups.codes.tolist()]


def _rounded(size: I64) -> I64:
    """Return sizes with few bits, within 6%, so that there are few different ones."""
    bits = np.floor(np.log2(np.maximum(size, 1))).astype(np.int64)
    unit = np.left_shift(np.int64(1), np.maximum(bits - _KEPT_BITS, 0))
    rounded: I64 = np.where(size > 0, (size + unit // 2) // unit * unit, size)
    return rounded


def _algorithms(trace: Trace, kernel: I64) -> tuple[I64, tuple[str, ...]]:
    """Return the algorithm of each kernel, and their names; "" where it is not known.

    As NCCL reported it, else by the kernel's name.
    """
    if not len(kernel):
        return kernel, ("",)
    ids = trace.columns("kernel", "name_id")["name_id"].values[kernel]
    number, distinct = number_texts(ids, len(trace.strings))
    kinds = [collective_kernel(text) for text in trace.strings.texts(distinct.tolist())]
    names = [
        "" if kind is None or kind.is_representative else kind.algorithm or "" for kind in kinds
    ]
    told = nccl_choices(trace).algorithm[kernel]
    texts = {row: trace.strings.text(row) for row in np.unique(told[told >= 0]).tolist()}
    known = tuple(dict.fromkeys(["", *names, *texts.values()]))
    code = np.array([known.index(name) for name in names], np.int64)[number]
    for row, text in texts.items():
        code[told == row] = known.index(text)
    return code, known


def _labels(trace: Trace) -> dict[str, str]:
    """Return the names that the program gave communicators, as NCCL reported them, by id."""
    if not trace.has("nccl_op") or not trace.row_count("nccl_op"):
        return {}
    columns = trace.columns("nccl_op", "communicator_id", "communicator_name_id")
    ids, names = (column.filled(UNKNOWN).astype(np.int64) for column in columns.values())
    groups = factorize_rows(ids, names)
    found = {}
    for row in groups.first.tolist():
        if ids[row] >= 0 and names[row] >= 0:
            text = trace.strings.text(int(names[row]))
            found[trace.strings.text(int(ids[row]))] = text[:_LONGEST_TEXT]
    return found


def _gemm_between(trace: Trace, place: I64, communicator: I64, is_all: BoolArray) -> I64:
    """Return the time of the GEMMs between each all-to-all and the next one of its communicator.

    Args:
        trace: The trace.
        place: Shape (n,), places of collectives in `operations`, by start.
        communicator: Shape (n,), int64.
        is_all: Shape (n,), which of them are all-to-alls.
    """
    total = np.zeros(len(place), np.int64)
    if not is_all.any():
        return total
    work = operations(trace)
    gemms = np.flatnonzero(operation_categories(trace) == TimePart.GEMM)
    gemms = gemms[np.argsort(work.start_ns[gemms], kind="stable")]
    all_rows = np.flatnonzero(is_all)
    series = factorize_rows(
        work.process[place[all_rows]], work.device[place[all_rows]], communicator[all_rows]
    )
    for number in range(series.n_groups):
        rows = all_rows[series.codes == number]
        one = int(place[rows[0]])
        own = gemms[
            (work.device[gemms] == work.device[one]) & (work.process[gemms] == work.process[one])
        ]
        sums = np.concatenate(([0], np.cumsum((work.end_ns - work.start_ns)[own])))
        begin, end = (
            sums[np.searchsorted(work.start_ns[own], times[place[rows]])]
            for times in (work.start_ns, work.end_ns)
        )
        total[rows[:-1]] = np.maximum(begin[1:] - end[:-1], 0)
    return total
