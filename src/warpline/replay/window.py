"""Which steps of a trace are replayed, and the stretch of host time that holds them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from warpline.derived import derived
from warpline.derived.steps.times import Steps, steps
from warpline.ops.arrays import I64
from warpline.trace import Trace

MOST_STEPS = 20
# Before them a few more, so that what the first ones found on the device plays no part.
_LEAD_STEPS = 2


class ReplayWindow(NamedTuple):
    """What is replayed.

    Attributes:
        start_ns: Calls that begin from here on are replayed,
        end_ns: until here.
        step: Shape (k,), int64, places in `steps` of all steps in it, by lane and time; empty
            where the trace has no steps, so that all of it is replayed.
    """

    start_ns: int
    end_ns: int
    step: I64


@derived
def replay_window(trace: Trace, name: str | None = None) -> ReplayWindow:
    """Return the steps to replay: at most `MOST_STEPS` that stand for the run, in each lane."""
    found = steps(trace, name)
    parts = [_of_lane(found, lane) for lane in np.unique(found.lane).tolist()]
    chosen = np.concatenate([np.zeros(0, np.int64), *parts])
    if not len(chosen):
        low, high = trace.span()
        return ReplayWindow(low, high + 1, chosen)
    low, high = found.host_start_ns[chosen].min(), found.host_end_ns[chosen].max()
    return ReplayWindow(int(low), int(high), chosen)


def _of_lane(found: Steps, lane: int) -> I64:
    """Return the steps of one lane from its first on, or near the first ones that count."""
    places = np.flatnonzero(found.lane == lane)
    included = np.flatnonzero(found.included[places])
    if not len(included):
        return places[:MOST_STEPS]
    first = 0 if len(places) <= MOST_STEPS + _LEAD_STEPS else max(included[0] - _LEAD_STEPS, 0)
    last = included[min(len(included), MOST_STEPS) - 1]
    if last + 2 == len(places) and _is_only_last(found, int(places[-1])):
        last += 1
    return places[first : last + 1]


def _is_only_last(found: Steps, step: int) -> bool:
    """Return whether a step was left out only because none follows, so that it has no period."""
    reasons = {reason for place, reason in found.excluded if place == step}
    return found.has_ranges and reasons == {"last"}
