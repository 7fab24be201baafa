"""The rank that the others wait for in collectives."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from warpline.derived import derived
from warpline.derived.breakdown.step_scope import step_scope
from warpline.derived.collectives.kinds import collective_kinds
from warpline.derived.collectives.waits import collective_waits
from warpline.derived.ranks.waits import rank_waits
from warpline.derived.severity import MEASURABLE_RATIO
from warpline.derived.steps.counts import steps_counted
from warpline.derived.steps.times import steps
from warpline.ops.arrays import BoolArray
from warpline.trace import Run

_BEYOND_CHANCE = 0.25  # of the distance from an equal share of the waits to all of them
EXPLAINS = 0.25  # of the lateness: a difference of at least this share is its cause
_MOST_OF = 0.9  # of the waits: one kind of collective has nearly all


class Lateness(NamedTuple):
    """Ranks that wait for others in collectives.

    Attributes:
        rank: The rank that the others wait for, a place in `rank_waits`; -1 if each is late in
            turn.
        waited_ns: How long each other rank waits for it per step; in turn, the mean of all ranks.
        exposed_ns: The part of it in which its GPU computes nothing.
        operation: The kind of collectives with nearly all of the waits: "AllReduce"; empty if
            there are several.
    """

    rank: int
    waited_ns: float
    exposed_ns: float
    operation: str


@derived
def lateness(run: Run) -> Lateness | None:
    """Return which rank the others wait for.

    None with a single rank, or if the exposed waits are not a measurable share of the step. A rank
    is late if it causes well over an equal share of the waits.
    """
    ranks = rank_waits(run)
    if len(ranks) < 2:
        return None
    count, others = max(steps_counted(steps(run)), 1), len(ranks) - 1
    worst = int(np.argmax(ranks.exposed_ns))
    share_of_waits = ranks.exposed_ns[worst] / max(int(ranks.exposed_ns.sum()), 1)
    if share_of_waits > (1 + _BEYOND_CHANCE * others) / (others + 1):
        waited, exposed = (ns[worst] / others / count for ns in (ranks.caused_ns, ranks.exposed_ns))
    else:
        worst = -1
        waited, exposed = (ns.mean() / count for ns in (ranks.wait_ns, ranks.exposed_wait_ns))
    if step_scope(run).share(float(exposed)) < MEASURABLE_RATIO:
        return None
    return Lateness(worst, float(waited), float(exposed), _operation(run, worst))


def is_behind(run: Run, rank: int) -> BoolArray:
    """Return in which collectives a rank arrived last, shape (collectives,).

    Args:
        run: The trace, and the choice of its steps.
        rank: A place in `rank_waits`; -1 for any rank.
    """
    waits, ranks = collective_waits(run), rank_waits(run)
    if rank < 0:
        return np.ones(waits.count, np.bool_)
    last, matches = waits.rank[waits.last], waits.matches
    is_own = matches.rank_process[last] == ranks.process[rank]
    is_own &= matches.rank_device[last] == ranks.device[rank]
    behind: BoolArray = is_own
    return behind


def _operation(run: Run, rank: int) -> str:
    """Return the kind of collectives with nearly all waits for a rank."""
    waits = collective_waits(run)
    parts = np.flatnonzero(is_behind(run, rank)[waits.collective] & (waits.wait_ns > 0))
    kinds = collective_kinds(run.trace, waits.operation[parts])
    if not len(parts):
        return ""
    ns = np.bincount(kinds.operation, waits.wait_ns[parts], len(kinds.operations))
    most = int(np.argmax(ns))
    return kinds.operations[most] if ns[most] >= _MOST_OF * ns.sum() else ""
