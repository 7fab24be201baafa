"""Ranks that stopped: the last collective of each, who did not come, who called another one.

What has completed on one rank has completed on all. So the ranks of a communicator agree in the
collective before the one that they wait in, whatever part of the run was recorded, and numbers of
calls need not be compared: these count from the start of each recording.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from warpline.fleet.jobs import Job
from warpline.fleet.summary import LastCall

_LEAST_NS = 10_000_000_000  # without an end of the collective: less is not a hang
# Collectives of which all ranks have messages of one size.
_EVEN = ("AllReduce", "AllGather", "ReduceScatter", "Broadcast", "Reduce")


class Hang(NamedTuple):
    """A collective that some ranks called and others did not.

    Attributes:
        communicator: Its communicator.
        operation: Such as AllReduce.
        sequence: Number of the call in the communicator; None if the recordings begin at different
            calls.
        missing: Ranks that did not call it, places in the job.
        waiting: Ranks that called it.
        waited_ns: From its last call to the end of the recordings.
    """

    communicator: str
    operation: str
    sequence: int | None
    missing: tuple[int, ...]
    waiting: tuple[int, ...]
    waited_ns: int


class Difference(NamedTuple):
    """A collective that is another one on some ranks.

    Attributes:
        communicator: Its communicator.
        sides: Ranks, places in the job, by what they called: operation and message size.
        waited_ns: From the last of the calls to the end of the recordings.
    """

    communicator: str
    sides: tuple[tuple[tuple[int, ...], str, int], ...]
    waited_ns: int


class _Communicator(NamedTuple):
    name: str
    waiting: tuple[tuple[int, LastCall], ...]
    missing: tuple[tuple[int, LastCall], ...]

    def waited_ns(self, job: Job) -> int:
        return min(job.ranks[at].identity.end_ns - call.start_ns for at, call in self.waiting)


def hang_of(job: Job) -> Hang | None:
    """Return the collective in which ranks wait at the end of their recordings; None without.

    Ranks wait if their last calls have no kernel that ended for 10 s before the recording ends. Who
    did not come has completed all calls that it made in the same communicator.
    """
    found = []
    for every in _communicators(job):
        if not every.missing:
            continue
        first = every.waiting[0][1]
        completed = {call.sequence - call.pending for _, call in every.waiting}
        completed |= {call.sequence for _, call in every.missing}
        found.append(
            Hang(
                every.name,
                first.open_operation or first.operation,
                first.sequence - first.pending + 1 if len(completed) == 1 else None,
                tuple(place for place, _ in every.missing),
                tuple(place for place, _ in every.waiting),
                every.waited_ns(job),
            )
        )
    # What others wait for in the first collective that hung explains the later ones.
    return max(found, key=lambda hang: hang.waited_ns, default=None)


def difference_of(job: Job) -> Difference | None:
    """Return the collective in which all ranks wait as they called different ones; None without."""
    found = []
    for every in _communicators(job):
        if every.missing:
            continue
        sides: dict[tuple[str, int], list[int]] = {}
        for place, call in every.waiting:
            size = call.open_bytes if call.open_operation in _EVEN else -1
            sides.setdefault((call.open_operation, size), []).append(place)
        if len(sides) > 1 and all(operation for operation, _ in sides):
            order = sorted(sides.items(), key=lambda side: (-len(side[1]), side[1]))
            kinds = tuple((tuple(places), *kind) for kind, places in order)
            found.append(Difference(every.name, kinds, every.waited_ns(job)))
    return max(found, key=lambda difference: difference.waited_ns, default=None)


def _communicators(job: Job) -> Iterator[_Communicator]:
    """Yield communicators in which ranks wait, if all others have completed their calls."""
    of_communicator: dict[tuple[str, str], list[tuple[int, LastCall]]] = {}
    for place, rank in enumerate(job.ranks):
        for call in rank.calls:
            of_communicator.setdefault((call.communicator, call.members), []).append((place, call))
    for (name, _), calls in of_communicator.items():
        most = max(call.sequence for _, call in calls)
        waiting = tuple((place, call) for place, call in calls if _waits(job, place, call))
        missing = tuple((place, call) for place, call in calls if _is_behind(call, most))
        if waiting and len(waiting) + len(missing) == len(calls):
            yield _Communicator(name, waiting, missing)


def _is_behind(call: LastCall, most: int) -> bool:
    return call.pending == 0 or (call.pending < 0 and call.sequence < most)


def _waits(job: Job, place: int, call: LastCall) -> bool:
    ended = job.ranks[place].identity.end_ns
    return call.pending > 0 and ended - call.start_ns >= _LEAST_NS
