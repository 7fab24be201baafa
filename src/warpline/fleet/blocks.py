"""The ranks of a job in few blocks, for a table of who waits for whom: ranks, machines, or more."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from warpline.fleet.jobs import Job
from warpline.ops.arrays import I64

MOST = 64  # blocks: more could not be read


class Blocks(NamedTuple):
    """Blocks of ranks.

    Attributes:
        names: The name of each.
        of_rank: Shape (ranks,), int64, the block of each rank.
    """

    names: tuple[str, ...]
    of_rank: I64


def blocks_of(job: Job) -> Blocks:
    """Return each rank as a block; if there are too many, each machine, or several next to it."""
    names, of_rank = [job.name(place) for place in range(len(job))], np.arange(len(job))
    if len(names) > MOST and job.hosts:
        hosts = [rank.identity.host or "" for rank in job.ranks]
        names = list(dict.fromkeys(hosts))  # by their first rank
        places = {name: place for place, name in enumerate(names)}
        of_rank = np.array([places[host] for host in hosts], np.int64)
    size = -(-len(names) // MOST)
    if size > 1:
        firsts = range(0, len(names), size)
        names = [_name(names[first : first + size]) for first in firsts]
        of_rank = of_rank // size
    return Blocks(tuple(names), of_rank)


def _name(names: list[str]) -> str:
    last = names[-1].removeprefix("rank ")
    return names[0] if len(names) == 1 else f"{names[0]} to {last}"
