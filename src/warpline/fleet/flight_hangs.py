"""Why a job hangs, by the flight recorders of its ranks.

Calls of one process group correspond by their numbers. In the first one that has not completed,
some ranks wait; who did not come has made fewer calls. Ranks that do not come because they
wait themselves, in another group, are not the cause. Ranks whose calls of the same number differ
are a mismatch, and calls after it are not compared.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from warpline.fleet.flight_calls import CallState, FlightDump, Operation, ProcessGroup
from warpline.ops.arrays import I64, BoolArray

_P2P = re.compile(r"(send|recv) (\d{1,9})(?:->|<-)(\d{1,9})")
# Names of one collective: with and without a list of tensors, in place or not.
_SAME = {
    "_all_gather_base": "all_gather",
    "all_gather_single": "all_gather",
    "_reduce_scatter_base": "reduce_scatter",
    "reduce_scatter_single": "reduce_scatter",
    "all_reduce_barrier": "barrier",
    "_broadcast_oop": "broadcast",
    "_reduce_oop": "reduce",
    "all_to_all_single": "all_to_all",
    "all_to_all_v_single": "all_to_all",
    "alltoall": "all_to_all",
    "alltoall_base": "all_to_all",
}
_ANY = {"all_to_all", "all_gather_v", "reduce_scatter_v", "split"}
_ANY_INPUT = {"scatter", "_broadcast_oop", *_ANY}
_ANY_OUTPUT = {"gather", "_reduce_oop", *_ANY}
_ALL = "default_pg"  # the group of all ranks
LEAST_NS = 10_000_000_000  # less is not a hang


class Place(NamedTuple):
    """A call of a rank: the place of its dump, and of its row there."""

    dump: int
    row: int


@dataclass(frozen=True, eq=False)
class GroupCalls:
    """The collectives of one process group, on all ranks.

    Attributes:
        name, description: Of the group.
        members: Its ranks; if not known, those that have called something in it.
        are_known: Whether its ranks are: they are recorded, or all ranks are in it.
        is_whole: Whether there is a dump of every member, and members are recorded.
        dump: Shape (n,), int64, places of the dumps.
        row: Shape (n,), int64, rows in them.
        number: Shape (n,), int64, number of the call.
        kind: Shape (n,), int64, equal where calls fit together.
        is_open: Shape (n,), whether the call has not completed.
        kinds: What calls of each kind have in common.
    """

    name: str
    description: str
    members: tuple[int, ...]
    are_known: bool
    is_whole: bool
    dump: I64
    row: I64
    number: I64
    kind: I64
    is_open: BoolArray
    kinds: tuple[Kind, ...]

    @property
    def label(self) -> str:
        """How the group is called."""
        described = f" ({self.description})" if self.description else ""
        return f"group {self.name}{described}"

    def places(self, rows: I64) -> list[Place]:
        """Return calls as places in the dumps."""
        return [Place(int(self.dump[at]), int(self.row[at])) for at in rows]


class Part(NamedTuple):
    """What must be equal in one operation of a call on all ranks; None where it may differ."""

    name: str
    inputs: int | None
    outputs: int | None
    input_dtypes: tuple[str, ...]
    output_dtypes: tuple[str, ...]


Kind = tuple[Part, ...]


class Mismatch(NamedTuple):
    """A call that is another one on some ranks.

    Attributes:
        group: Its process group.
        number: Of the call.
        what: ``operation``, ``size`` or ``type``.
        sides: The calls of the ranks, by what they have in common, the most ranks first.
    """

    group: GroupCalls
    number: int
    what: str
    sides: tuple[tuple[Place, ...], ...]


class Stuck(NamedTuple):
    """A call that some ranks wait in.

    Attributes:
        label: Its process group.
        number: Of the call; -1 for sends and receives.
        waiting: Calls of the ranks that wait.
        missing: Ranks with a dump that did not call it.
        unknown: Ranks without a dump.
        strangers: Ranks that have called nothing in the group, if it is not known which it has.
        waited_ns: From the last of the calls to the dates of the files, which copying may change;
            None if these are earlier.
        seen_ns: From the last of the calls to the latest time in any dump, the least of it.
        timed_out: Whether PyTorch has given up waiting for it.
    """

    label: str
    number: int
    waiting: tuple[Place, ...]
    missing: tuple[int, ...]
    unknown: tuple[int, ...]
    strangers: tuple[int, ...]
    waited_ns: int | None
    seen_ns: int
    timed_out: bool

    @property
    def is_hang(self) -> bool:
        """Whether ranks have waited for so long that it is no ordinary wait."""
        is_long = self.waited_ns is None or max(self.waited_ns, self.seen_ns) >= LEAST_NS
        return self.timed_out or is_long


@dataclass(frozen=True, eq=False)
class FlightVerdict:
    """What the flight recorders of a job say.

    Attributes:
        dumps: The dumps, by rank.
        mismatches: The first mismatch of each group.
        stuck: Calls that ranks wait in, first those that explain the others.
        causes: Ranks that others wait for, and that wait for nobody; empty if all wait.
    """

    dumps: tuple[FlightDump, ...]
    mismatches: tuple[Mismatch, ...]
    stuck: tuple[Stuck, ...]
    causes: tuple[int, ...]


def verdict_of(dumps: Sequence[FlightDump]) -> FlightVerdict:
    """Return what dumps say, one per rank."""
    dumps = sorted(dumps, key=lambda dump: dump.rank)
    groups = list(_groups(dumps))
    differing = (_mismatch(dumps, group) for group in groups)
    mismatches = [found for found in differing if found is not None]
    stuck = [item for group in groups if (item := _stuck(dumps, group)) is not None]
    stuck += _stuck_p2p(dumps)
    waiting = {place.dump for item in stuck for place in item.waiting}
    blocked = {dumps[place].rank for place in waiting}
    missing = {rank for item in stuck for rank in (*item.missing, *item.unknown)}
    causes = missing - blocked

    def order(item: Stuck) -> tuple[bool, int]:
        is_cause = bool(causes.intersection((*item.missing, *item.unknown)))
        begun = min(int(dumps[at.dump].calls.created_ns[at.row]) for at in item.waiting)
        return not is_cause, begun

    return FlightVerdict(
        tuple(dumps), tuple(mismatches), tuple(sorted(stuck, key=order)), tuple(sorted(causes))
    )


def _groups(dumps: Sequence[FlightDump]) -> Iterator[GroupCalls]:
    """Yield the collectives of each group; groups of one name differ by their ranks."""
    known: dict[ProcessGroup, list[tuple[int, int]]] = {}
    for place, dump in enumerate(dumps):
        for at, group in enumerate(dump.groups):
            known.setdefault(group, []).append((place, at))
    kinds: dict[Kind, int] = {}
    kind_of = []
    for dump in dumps:
        # One operation may be part of very many calls.
        part_of = {id(one): one for parts in dump.operations for one in parts}
        made = {place: _part(one) for place, one in part_of.items()}
        of_calls = (tuple(made[id(one)] for one in parts) for parts in dump.operations)
        codes = [kinds.setdefault(kind, len(kinds)) for kind in of_calls]
        kind_of.append(np.array(codes, np.int64))
    ranks = {dump.rank for dump in dumps}
    for (name, description, recorded), owners in known.items():
        columns: list[tuple[I64, ...]] = []
        for place, at in owners:
            calls = dumps[place].calls
            rows = np.flatnonzero((calls.group == at) & (calls.is_p2p == 0))
            columns.append(
                (
                    np.full(len(rows), place, np.int64),
                    rows,
                    calls.number[rows],
                    kind_of[place][calls.operations[rows]],
                    calls.state[rows] != CallState.COMPLETED,
                )
            )
        of_dump, row, number, kind, is_open = (
            np.concatenate(parts) for parts in zip(*columns, strict=True)
        )
        callers = ranks if description == _ALL else {dumps[place].rank for place, _ in owners}
        members = recorded or tuple(sorted(callers))
        is_whole = recorded is not None and ranks.issuperset(recorded)
        yield GroupCalls(
            name,
            description,
            members,
            recorded is not None or description == _ALL,
            is_whole,
            of_dump,
            row,
            number,
            kind,
            is_open,
            tuple(kinds),
        )


def _part(operation: Operation) -> Part:
    name = _SAME.get(operation.name, operation.name)
    free = {operation.name, name}
    inputs, outputs = _elements(operation.input_sizes), _elements(operation.output_sizes)
    # A root has tensors that other ranks lack.
    return Part(
        name,
        inputs if free.isdisjoint(_ANY_INPUT) else None,
        outputs if free.isdisjoint(_ANY_OUTPUT) else None,
        tuple(sorted(set(operation.input_dtypes))) if free.isdisjoint(_ANY_INPUT) else (),
        tuple(sorted(set(operation.output_dtypes))) if free.isdisjoint(_ANY_OUTPUT) else (),
    )


def _elements(sizes: Sequence[Sequence[int]]) -> int:
    total = 0
    for shape in sizes:
        elements = 1
        for size in shape:
            elements *= size
        total += elements
    return total


def _mismatch(dumps: Sequence[FlightDump], group: GroupCalls) -> Mismatch | None:
    """Return the first call of a group that differs among its ranks, if any."""
    if not len(group.number):
        return None
    pairs = np.unique(np.stack((group.number, group.kind)), axis=1)
    numbers, times = np.unique(pairs[0], return_counts=True)
    differing = numbers[times > 1]
    uneven = _uneven(dumps, group)
    first = min((int(found[0]) for found in (differing, uneven) if len(found)), default=None)
    if first is None:
        return None
    rows = np.flatnonzero(group.number == first)
    sides = [rows[group.kind[rows] == kind] for kind in np.unique(group.kind[rows])]
    sides.sort(key=lambda side: (-len(side), int(side[0])))
    found = [group.kinds[int(group.kind[side[0]])] for side in sides]
    names = {tuple(part.name for part in kind) for kind in found}
    counts = {tuple((part.inputs, part.outputs) for part in kind) for kind in found}
    what = "operation" if len(names) > 1 else "type" if len(counts) == 1 < len(found) else "size"
    return Mismatch(group, first, what, tuple(tuple(group.places(side)) for side in sides))


def _uneven(dumps: Sequence[FlightDump], group: GroupCalls) -> I64:
    """Return the numbers of all-to-alls in which not as much is sent as is received, ascending.

    What each rank sends may differ, so this is known only of calls that all ranks have made.
    """
    names = [{part.name for part in kind} for kind in group.kinds]
    exchanges = [place for place, own in enumerate(names) if own == {"all_to_all"}]
    rows = np.flatnonzero(np.isin(group.kind, exchanges))
    if not len(rows) or not group.is_whole:
        return np.zeros(0, np.int64)
    more: dict[int, int] = {}
    callers: Counter[int] = Counter()
    for number, place in zip(group.number[rows].tolist(), group.places(rows), strict=True):
        dump = dumps[place.dump]
        for operation in dump.operations[int(dump.calls.operations[place.row])]:
            sent, got = _elements(operation.input_sizes), _elements(operation.output_sizes)
            more[number] = more.get(number, 0) + sent - got
        callers[number] += 1
    whole = (number for number in more if callers[number] == len(group.members))
    return np.array(sorted(number for number in whole if more[number]), np.int64)


def _stuck(dumps: Sequence[FlightDump], group: GroupCalls) -> Stuck | None:
    """Return the first call of a group that has not completed on some rank, if any."""
    if not group.is_open.any():
        return None
    first = int(group.number[group.is_open].min())
    waiting = group.places(np.flatnonzero(group.is_open & (group.number == first)))
    came = {dumps[place].rank for place in group.dump[group.number >= first].tolist()}
    of_rank = {dump.rank: dump for dump in dumps}
    # The calls of a rank may have been overwritten by those of its other groups.
    known = {dumps[place].rank for place in group.dump.tolist()}
    known |= {rank for rank, dump in of_rank.items() if not dump.lacks_first}
    missing = [rank for rank in group.members if rank not in came and rank in known]
    return Stuck(
        group.label,
        first,
        tuple(waiting),
        tuple(missing),
        tuple(rank for rank in group.members if rank not in of_rank),
        () if group.are_known else tuple(rank for rank in of_rank if rank not in group.members),
        *_waited(dumps, waiting),
    )


def _waited(dumps: Sequence[FlightDump], waiting: Sequence[Place]) -> tuple[int | None, int, bool]:
    """Return `waited_ns`, `seen_ns` and `timed_out` of a `Stuck`."""
    calls = [(dumps[place.dump], place.row) for place in waiting]
    waited = min(dump.written_ns - int(dump.calls.created_ns[row]) for dump, row in calls)
    last_call_ns = max(int(dump.calls.created_ns[row]) for dump, row in calls)
    seen = max(dump.last_ns for dump in dumps) - last_call_ns
    timed_out = any(dump.calls.timed_out[row] for dump, row in calls)
    return (waited if waited >= 0 else None), seen, timed_out


class _Transfer(NamedTuple):
    """What a send and its receive have in common: the group, from which rank, to which."""

    label: str
    source: int
    target: int


def _stuck_p2p(dumps: Sequence[FlightDump]) -> list[Stuck]:
    """Return sends and receives that have not completed, and whose other side has not begun."""
    sides: dict[tuple[_Transfer, bool], list[Place]] = {}
    for place, dump in enumerate(dumps):
        calls = dump.calls
        is_open = (calls.is_p2p == 1) & (calls.state != CallState.COMPLETED)
        for row in np.flatnonzero(is_open).tolist():
            side = _transfer(dump, row)
            if side is not None:
                sides.setdefault(side, []).append(Place(place, row))
    known = {dump.rank for dump in dumps}
    found = []
    for (transfer, is_send), own in sides.items():
        others = sides.get((transfer, not is_send), [])
        peer = transfer.target if is_send else transfer.source
        if len(own) > len(others):
            waiting = own[len(others) :][:1]
            lacking = (peer,)
            is_known = peer in known
            found.append(
                Stuck(
                    transfer.label,
                    -1,
                    tuple(waiting),
                    lacking if is_known else (),
                    () if is_known else lacking,
                    (),
                    *_waited(dumps, waiting),
                )
            )
    return found


def _transfer(dump: FlightDump, row: int) -> tuple[_Transfer, bool] | None:
    """Return what a call sends or receives, and whether it sends."""
    operation = dump.operations[int(dump.calls.operations[row])][0]
    named = _P2P.fullmatch(operation.name)
    group = dump.groups[int(dump.calls.group[row])]
    if named is None:
        return None
    is_send = named[1] == "send"
    own, other = int(named[2]), int(named[3])
    if group.members is not None and max(own, other) < len(group.members):
        own, other = group.members[own], group.members[other]
    described = f" ({group.description})" if group.description else ""
    label = f"group {group.name}{described}"
    source, target = (own, other) if is_send else (other, own)
    return _Transfer(label, source, target), is_send
