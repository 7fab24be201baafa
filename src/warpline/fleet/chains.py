"""Ranks that send each other data: chains of them, such as the stages of a pipeline, and rings."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from typing import NamedTuple

from warpline.fleet.jobs import Job
from warpline.fleet.summary import PeerCalls

_BOTH_AT_ONCE = 0.99  # of the kernels: each sends and receives, as when data goes round a ring


class Chain(NamedTuple):
    """Ranks of which each sends data to its neighbors.

    Attributes:
        ranks: Places in the job, in order; the end with the lower number first.
        shape: ``chain``, ``ring`` (the last is linked with the first), or ``mesh``, if ranks have
            more than two neighbors.
        is_round: Whether data goes one way only, or all ranks send and receive at once.
        units: What the first sends to the second per step: messages of the largest size.
    """

    ranks: tuple[int, ...]
    shape: str
    is_round: bool
    units: float


Edges = Mapping[tuple[int, int], float]


def chains_of(job: Job) -> list[Chain]:
    """Return the chains of ranks whose sends and receives have known peers."""
    edges = _edges(job)
    near: dict[int, set[int]] = {}
    for one, other in edges:
        near.setdefault(one, set()).add(other)
        near.setdefault(other, set()).add(one)
    found, seen = [], set[int]()
    for rank in sorted(near):
        if rank in seen:
            continue
        own = _reached(near, rank)
        seen |= own
        found.append(_chain(job, edges, near, own))
    return found


def _reached(near: Mapping[int, set[int]], rank: int) -> set[int]:
    own, rest = {rank}, [rank]
    while rest:
        new = near[rest.pop()] - own
        own |= new
        rest += new
    return own


def _chain(job: Job, edges: Edges, near: Mapping[int, set[int]], own: set[int]) -> Chain:
    ends = [rank for rank in sorted(own) if len(near[rank]) == 1]
    if max(len(near[rank]) for rank in own) > 2:
        return Chain(tuple(sorted(own)), "mesh", is_round=False, units=0.0)
    order = [ends[0] if ends else min(own)]
    while len(order) < len(own):
        order.append(min(near[order[-1]] - set(order)))
    shape = "chain" if ends else "ring"
    one_way = shape == "ring" and all((b, a) not in edges for a, b in edges if a in own)
    both = one_way or ((shape == "ring" or len(own) == 2) and _is_at_once(job, own))
    return Chain(tuple(order), shape, both, edges.get((order[0], order[1]), 0.0))


def _is_at_once(job: Job, own: set[int]) -> bool:
    """Return whether nearly all kernels send and receive."""
    number: Counter[str] = Counter()
    for rank in own:
        summary = job.ranks[rank]
        kinds = Counter(summary.exchanges.kind.tolist())
        for kind, count in kinds.items():
            number[summary.kinds[kind].operation] += count
    return number["SendRecv"] >= _BOTH_AT_ONCE * max(sum(number.values()), 1)


def _edges(job: Job) -> Edges:
    """Return how many of the largest messages each rank sends to another per step."""
    places = _places(job)
    sent: dict[tuple[int, int], dict[tuple[bool, int], float]] = {}
    for rank, summary in enumerate(job.ranks):
        for call in summary.peers:
            peer = places.get((call.communicator, call.members), {}).get(call.peer, -1)
            if peer < 0 or peer == rank:
                continue
            is_send = call.operation == "Send"
            pair = (rank, peer) if is_send else (peer, rank)
            sizes = sent.setdefault(pair, {})
            key = (is_send, call.bytes)
            sizes[key] = sizes.get(key, 0.0) + call.per_step
    found = {}
    for pair, sizes in sent.items():
        # As the sender called it, if that is known.
        told = {size: n for (is_send, size), n in sizes.items() if is_send} or {
            size: n for (_, size), n in sizes.items()
        }
        found[pair] = told[max(told)]
    return found


def _places(job: Job) -> dict[tuple[str, str], dict[int, int]]:
    """Return the rank with each number of each communicator; -1 if several have it."""
    found: dict[tuple[str, str], dict[int, int]] = {}
    of_number = {number: place for place, number in enumerate(job.numbers) if number is not None}
    for rank, summary in enumerate(job.ranks):
        for call in summary.peers:
            numbers = found.setdefault((call.communicator, call.members), {})
            for number, member in enumerate(_listed(call)):
                if member in of_number:
                    numbers[number] = of_number[member]
            if call.rank >= 0:
                is_new = numbers.setdefault(call.rank, rank) == rank
                numbers[call.rank] = rank if is_new else -1
    return found


def _listed(call: PeerCalls) -> list[int]:
    """Return the ranks in a communicator, if all of them are listed."""
    text = call.members
    is_whole = text.endswith("]") and "..." not in text
    return [int(number) for number in re.findall(r"\d+", text)] if is_whole else []
