"""Ranks that stopped: the last collective of each, and who did not come."""

from __future__ import annotations

from typing import NamedTuple

from warpline.fleet.jobs import Job
from warpline.fleet.summary import LastCall

_LEAST_NS = 10_000_000_000  # without an end of the collective: less is not a hang


class Hang(NamedTuple):
    """A collective that some ranks called and others did not.

    Attributes:
        communicator: Its communicator.
        operation: Such as AllReduce.
        sequence: Number of the call in the communicator.
        missing: Ranks that did not call it, places in the job.
        waiting: Ranks that called it.
        last_sequence: Number of the last call of the missing ranks.
        waited_ns: From its last call to the end of the recordings.
    """

    communicator: str
    operation: str
    sequence: int
    missing: tuple[int, ...]
    waiting: tuple[int, ...]
    last_sequence: int
    waited_ns: int


def hang_of(job: Job) -> Hang | None:
    """Return the collective in which ranks wait at the end of their recordings; None without.

    Ranks wait if their last calls have no kernel that ended for 10 s before the recording ends. Who
    did not come has made fewer calls in the same communicator.
    """
    of_communicator: dict[tuple[str, str], list[tuple[int, LastCall]]] = {}
    for place, rank in enumerate(job.ranks):
        for call in rank.calls:
            of_communicator.setdefault((call.communicator, call.members), []).append((place, call))
    found = []
    for (name, _), calls in of_communicator.items():
        most = max(call.sequence for _, call in calls)
        waiting = [
            (place, call)
            for place, call in calls
            if call.sequence == most and _waits(job, place, call)
        ]
        missing = [(place, call) for place, call in calls if call.sequence < most]
        if not waiting or not missing or len(waiting) + len(missing) < len(calls):
            continue
        waited = min(job.ranks[place].identity.end_ns - call.start_ns for place, call in waiting)
        found.append(
            Hang(
                name,
                waiting[0][1].operation,
                most,
                tuple(place for place, _ in missing),
                tuple(place for place, _ in waiting),
                min(call.sequence for _, call in missing),
                waited,
            )
        )
    # What others wait for in the first collective that hung explains the later ones.
    return max(found, key=lambda hang: hang.waited_ns, default=None)


def _waits(job: Job, place: int, call: LastCall) -> bool:
    ended = job.ranks[place].identity.end_ns
    return call.pending > 0 and ended - call.start_ns >= _LEAST_NS
