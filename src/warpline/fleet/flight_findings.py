"""Findings of a job's flight recorders, and where each rank is, in words."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime

import numpy as np

from warpline.fleet.findings import ORDER_FIX, doing
from warpline.fleet.flight_calls import CallState, FlightDump, Operation
from warpline.fleet.flight_hangs import LEAST_NS, FlightVerdict, Mismatch, Place, Stuck
from warpline.fleet.naming import capital, listed
from warpline.result.fleet import FleetCall, FleetDump, FleetFinding
from warpline.units import format_ns, plural

_MOST = 3  # findings of a kind
_MOST_TENSORS = 4  # of an operation, in words


def found_in(known: FlightVerdict, ranges: Mapping[int, Sequence[str]]) -> Iterator[FleetFinding]:
    """Yield the problems that flight recorders show, those that explain the others first.

    Args:
        known: What they say.
        ranges: The ranges that ranks had open at the end, of those that were recorded, too.
    """
    for mismatch in known.mismatches[:_MOST]:
        yield _mismatch(known.dumps, mismatch)
    # A call that waits for one that is another one on some ranks is explained by that.
    explained = {mismatch.group.label: mismatch.number for mismatch in known.mismatches}
    stuck = [
        item
        for item in known.stuck
        if item.label not in explained or item.number < explained[item.label]
    ]
    told: set[tuple[int, ...]] = set()
    for item in stuck:
        absent = (*item.missing, *item.unknown)
        causes = tuple(rank for rank in absent if rank in known.causes)
        if known.causes and absent and (not causes or causes in told):
            continue  # it waits for ranks that wait in another one
        told.add(causes)
        if len(told) > _MOST:
            return
        others = len(stuck) - 1
        found = _hang(known.dumps, item, others=others if len(told) == 1 else 0)
        more = (doing(f"rank {rank}", ranges.get(rank, ())) for rank in absent[:_MOST])
        yield replace(found, claim=found.claim + "".join(more))


def dumps_of(known: FlightVerdict) -> tuple[FleetDump, ...]:
    """Return the dumps with the last call of each rank, and the call that it waits in."""
    return tuple(_dump(dump) for dump in known.dumps)


def _dump(dump: FlightDump) -> FleetDump:
    calls = dump.calls
    is_open = np.flatnonzero(calls.state != CallState.COMPLETED)
    last = len(calls.number) - 1
    return FleetDump(
        name=f"rank {dump.rank}",
        rank=dump.rank,
        path=dump.path,
        version=dump.version,
        calls=len(calls.number),
        waits_in=_call(dump, int(is_open[0])) if len(is_open) else None,
        last_call=_call(dump, last) if last >= 0 else None,
    )


def _call(dump: FlightDump, row: int) -> FleetCall:
    calls = dump.calls
    group = dump.groups[int(calls.group[row])]
    stack = int(calls.stack[row])
    return FleetCall(
        group=group.name,
        group_description=group.description,
        operation=_name(dump, row),
        number=int(calls.number[row]),
        state=CallState(int(calls.state[row])).word,
        tensors=_tensors(dump.operations[int(calls.operations[row])]),
        utc_ns=int(calls.created_ns[row]),
        called_from=dump.places[stack],
        stack=dump.stacks[stack],
    )


def _name(dump: FlightDump, row: int) -> str:
    """Return the name of a call, or of all operations of a coalesced one."""
    names = [part.name for part in dump.operations[int(dump.calls.operations[row])]]
    distinct = list(dict.fromkeys(names))
    more = f" and {len(distinct) - 2} more" if len(distinct) > 2 else ""
    return "+".join(distinct[:2]) + more


def _tensors(parts: Sequence[Operation]) -> str:
    """Return the sizes and types of a call's tensors: ``[16, 4] Float to [32, 4] Float``."""
    if len(parts) != 1:
        return plural(len(parts), "operation")
    (part,) = parts
    given = _shapes(part.input_sizes, part.input_dtypes)
    got = _shapes(part.output_sizes, part.output_dtypes)
    return given if given == got or not got else f"{given} to {got}" if given else got


def _shapes(sizes: Sequence[Sequence[int]], dtypes: Sequence[str]) -> str:
    texts = [str(list(shape)) for shape in sizes[:_MOST_TENSORS]]
    more = f" and {len(sizes) - _MOST_TENSORS} more" if len(sizes) > _MOST_TENSORS else ""
    types = " ".join(dict.fromkeys(dtypes))
    return f"{', '.join(texts)}{more} {types}".strip()


def _at(dumps: Sequence[FlightDump], place: Place) -> str:
    """Return where a call was made: `` from train.py:88 in step``, or nothing."""
    dump = dumps[place.dump]
    where = dump.places[int(dump.calls.stack[place.row])]
    return f" from {where}" if where else ""


def _ranks(dumps: Sequence[FlightDump], places: Sequence[Place]) -> list[int]:
    return sorted({dumps[place.dump].rank for place in places})


def _mismatch(dumps: Sequence[FlightDump], found: Mismatch) -> FleetFinding:
    said = []
    for side in found.sides:
        dump, row = dumps[side[0].dump], side[0].row
        tensors = _tensors(dump.operations[int(dump.calls.operations[row])])
        what = f"{_name(dump, row)} with {tensors}" if tensors else _name(dump, row)
        said.append((listed(_ranks(dumps, side)), what, _at(dumps, side[0])))
    label = found.group.label
    if len(said) == 1:  # an all-to-all
        title = f"Ranks of {label} send and receive different amounts in call {found.number}"
        claim = (
            f"In all_to_all {found.number} of {label}, the tensors that ranks send have another"
            f" number of elements in all than those that they receive. {capital(said[0][0])}"
            f" called it{said[0][2]}."
        )
        wrong = found.sides[0]
    else:
        is_operation = found.what == "operation"
        short = [
            (who, what.split(" with ")[0] if is_operation else what) for who, what, _ in said[:2]
        ]
        title = (
            f"Call {found.number} of {label} is not the same on all ranks: {short[1][0]}"
            f" called {short[1][1]}, {short[0][0]} {short[0][1]}"
        )
        claim = " ".join(
            f"{capital(who)} called {what}{where}." for who, what, where in said[:_MOST_TENSORS]
        )
        claim += " Later calls of this group are not compared."
        # Where as many ranks called one as the other, neither is the usual one.
        is_even = len(found.sides[0]) == len(found.sides[1])
        wrong = tuple(place for side in found.sides[0 if is_even else 1 :] for place in side)
    return FleetFinding(
        "",
        "collective-mismatch",
        "high",
        title,
        claim,
        ORDER_FIX,
        tuple(f"rank {rank}" for rank in _ranks(dumps, wrong)),
    )


def _hang(dumps: Sequence[FlightDump], item: Stuck, *, others: int) -> FleetFinding:
    first = item.waiting[0]
    waiting = listed(_ranks(dumps, item.waiting))
    call = _name(dumps[first.dump], first.row)
    if item.number >= 0:
        call += f" {item.number}"
    call = f"{call} of {item.label}"
    absent = sorted((*item.missing, *item.unknown))
    who = listed(absent) if absent else ""
    if item.number >= 0:
        deed = f"{who} did not call {call}"
    else:
        deed = f"{who} did not join {call} of {waiting}"
    if not absent and item.strangers:
        deed = f"only {waiting} called {call}"
    elif not absent:
        deed = f"all ranks called {call}, and it has not completed"
    title = f"The job hangs: {deed}" if item.is_hang else f"{capital(deed)}, so far"
    states = {dumps[at.dump].calls.state[at.row] for at in item.waiting}
    state = CallState.STARTED if CallState.STARTED in states else CallState.SCHEDULED
    waits = "waits" if len(item.waiting) == 1 else "wait"
    claim = f"{capital(waiting)} called it{_at(dumps, first)} and {waits} ({state.word})"
    claim += f"{_duration(item)}."
    if item.timed_out:
        claim += " PyTorch has given up waiting for it."
    if not item.is_hang:
        claim += " Less than 10 s are no hang: dump again later."
    suspects = item.missing
    if not absent and item.strangers:
        suspects = item.strangers
        have = "has" if len(suspects) == 1 else "have"
        claim += (
            " Which ranks the group has is not recorded, and"
            f" {listed(suspects)} {have} called nothing in it."
        )
    claim += "".join(_whereabouts(dumps, rank) for rank in suspects[:_MOST])
    if item.unknown:
        claim += f" There is no dump of {listed(item.unknown)}."
    if others > 0:
        claim += f" {capital(plural(others, 'other call'))} {'waits' if others == 1 else 'wait'}."
    return FleetFinding(
        "",
        "hang",
        "high" if item.is_hang else "low",
        title,
        claim,
        _fix(item, who),
        tuple(f"rank {rank}" for rank in absent),
    )


def _duration(item: Stuck) -> str:
    """Return how long ranks have waited and how that is known, or nothing."""
    texts = []
    if item.seen_ns >= LEAST_NS:
        texts.append(f"at least {format_ns(item.seen_ns)} by the times of other calls")
    if item.waited_ns is not None:
        texts.append(f"{format_ns(item.waited_ns)} by the dates of the files")
    return f", for {', '.join(texts)}" if texts else ""


def _fix(item: Stuck, who: str) -> str:
    if item.missing:
        return (
            f"Look at what {who} did after its last call: other code, an exception, a wait for"
            " a file or another process (py-spy dump --pid PID, while it hangs)."
        )
    if item.unknown:
        return f"Look for the end of {who} in its log: an exception, out of memory, a dead machine."
    if item.strangers:
        return (
            "If the group has one of the ranks that called nothing in it, look at what that rank"
            " did after its last call (py-spy dump --pid PID). Else, look for the network or a GPU."
        )
    return (
        "Look for the network or a GPU: errors in dmesg (Xid), nvidia-smi nvlink -e, NCCL's own"
        " log (NCCL_DEBUG=INFO)."
    )


def _whereabouts(dumps: Sequence[FlightDump], rank: int) -> str:
    """Return a sentence about the last call of a rank that did not come."""
    dump = next(item for item in dumps if item.rank == rank)
    last = len(dump.calls.number) - 1
    if last < 0:
        return f" Rank {rank} has called nothing."
    call = _call(dump, last)
    when = datetime.fromtimestamp(call.utc_ns / 1e9, UTC).strftime("%H:%M:%S.%f")[:-3]
    place = f" from {call.called_from}" if call.called_from else ""
    group = dump.groups[int(dump.calls.group[last])].name
    return (
        f" The last call of rank {rank} is {call.operation} {call.number} of group"
        f" {group}{place}, {call.state}, at {when} UTC."
    )
