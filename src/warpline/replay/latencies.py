"""Launch latencies, and gaps between consecutive operations of a stream."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from warpline.derived.idle.causes import launch_latency_ns
from warpline.derived.work.operations import operations
from warpline.ops.arrays import I64, BoolArray
from warpline.ops.group import distinct_values
from warpline.replay.edges import NEVER
from warpline.replay.host import host_side
from warpline.replay.queued import queued
from warpline.replay.waits import call_costs, held_copies
from warpline.trace import Run

DEFAULT_GAP_NS = 1_200
_LONGEST_NS = 50_000
_FEWEST_SAMPLES = 20
# For long launch calls, the launch latency exceeds the call by this much.
_AFTER_CALL_NS = 500


class Moments(NamedTuple):
    """Recorded times of items.

    Attributes:
        start_ns: Shape (items,), int64, the start.
        called_ns: Shape (items,), int64, the start of its call; NEVER if unknown.
        ready_ns: Shape (items,), int64, when all its predecessors were done; NEVER without any.
    """

    start_ns: I64
    called_ns: I64
    ready_ns: I64


class Latencies(NamedTuple):
    """Launch latency and stream gap of each item; 0 for events.

    Attributes:
        launch_ns: Shape (items,), int64, measured from the start of the call.
        gap_ns: Shape (items,), int64, measured from the end of the predecessors.
        usual_launch_ns: Shape (items,), int64, the median of similar operations.
        usual_gap_ns: Shape (items,), int64, likewise.
        expected_ns: Shape (items,), int64, the expected start with these medians; NEVER if unknown.
    """

    launch_ns: I64
    gap_ns: I64
    usual_launch_ns: I64
    usual_gap_ns: I64
    expected_ns: I64


def latencies(run: Run, moments: Moments) -> Latencies:
    """Return the measured latencies and gaps, and the medians of the trace."""
    queue = queued(run)
    is_work, called = queue.operation >= 0, moments.called_ns != NEVER
    idle = called & is_work & (moments.called_ns >= moments.ready_ns)
    launch = np.where(called, moments.start_ns - np.where(called, moments.called_ns, 0), 0)
    usual_launch = _usual(launch, idle, _kind_of(run), launch_latency_ns(run.trace))
    usual_launch = np.where(is_work, np.maximum(usual_launch, _call_lengths(run)), 0)
    arrival = np.where(called, moments.called_ns + usual_launch, NEVER)
    has_ready = moments.ready_ns != NEVER
    is_queued = is_work & has_ready & (~called | (arrival <= moments.ready_ns))
    gap = np.where(has_ready, moments.start_ns - np.where(has_ready, moments.ready_ns, 0), 0)
    usual_gap = np.where(is_work, _usual(gap, is_queued, _kind_of(run), DEFAULT_GAP_NS), 0)
    follow = np.where(has_ready, moments.ready_ns + usual_gap, NEVER)
    by_launch = called & (arrival >= follow)
    return Latencies(
        launch_ns=np.where(
            is_work, np.where(by_launch, launch, np.minimum(launch, usual_launch)), 0
        ),
        gap_ns=np.where(is_work, np.where(by_launch, np.minimum(gap, usual_gap), gap), 0),
        usual_launch_ns=usual_launch,
        usual_gap_ns=usual_gap,
        expected_ns=np.where(is_work, np.maximum(arrival, follow), NEVER),
    )


def _usual(value: I64, sample: BoolArray, kind: I64, default: int) -> I64:
    """Return the median of each kind's samples, or of all kinds where samples are few."""
    sane = sample & (value >= 0) & (value <= _LONGEST_NS)
    everything = value[sane]
    common = int(np.median(everything)) if len(everything) >= _FEWEST_SAMPLES else default
    usual = np.full(len(value), common)
    for each in distinct_values(kind).tolist():
        own = value[sane & (kind == each)]
        if len(own) >= _FEWEST_SAMPLES:
            usual[kind == each] = int(np.median(own))
    return usual


def _kind_of(run: Run) -> I64:
    """Return the kind of each item: its table, whether in a graph, whether it blocks its call."""
    queue, work = queued(run), operations(run.trace)
    kind = np.where(queue.operation >= 0, work.table[queue.operation].astype(np.int64), -1)
    kind[held_copies(run).item] = 16
    same = np.append(False, (queue.call[1:] == queue.call[:-1]) & (queue.call[1:] >= 0))
    kind[same[: len(kind)]] += 32
    return kind


def _call_lengths(run: Run) -> I64:
    """Return the minimum time from the start of each item's call to the item's start."""
    queue, host = queued(run), host_side(run)
    length = np.append(call_costs(run).own_ns, 0)[queue.call]
    if len(host):
        length[held_copies(run).item] = 0
    return length + np.where(length > 0, _AFTER_CALL_NS, 0)
