"""Collectives in buckets, overlapped with the compute that produces their data."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from warpline.ops.arrays import I64, BoolArray
from warpline.ops.group import distinct_values
from warpline.ops.tiling import by_group
from warpline.replay.draft import Draft
from warpline.replay.host import NONE

# The last part of the compute before a step's collectives produces their data: the backward pass
# takes twice as long as the forward pass.
_PRODUCING_RATIO = 2 / 3
# Collectives with more launches in between belong to different parts of a step.
_MOST_BETWEEN = 20
# Minimum time of a collective within one host, regardless of message size.
COLLECTIVE_LATENCY_NS = 20_000


def overlap_collectives(
    draft: Draft, items: I64, step: I64, buckets: int, moving_ratio: float
) -> None:
    """Run the collectives of each step in buckets, each as soon as its data is ready.

    A bucket takes the time of its collectives minus their fixed latencies: for each, the shortest
    one's time, at most `COLLECTIVE_LATENCY_NS`. The CPU no longer spends time on each collective.

    Args:
        draft: The graph.
        items: The collectives.
        step: The step of each collective.
        buckets: Maximum number of buckets per step.
        moving_ratio: Share of their time that moves data instead of waiting.
    """
    done = draft.graph.item_done[items]
    draft.set_lengths(items, np.rint(draft.length_ns[done] * moving_ratio).astype(np.int64))
    process = draft.graph.queued.process[items]
    collective = np.zeros(len(draft.graph.queued), np.bool_)
    collective[items] = True
    ranks = [_runs(draft, items[rows], step[rows]) for rows in by_group(process)]
    bucketed: list[_Bucketed] = []
    for number in range(max(map(len, ranks), default=0)):
        groups = [runs[number] for runs in ranks if number < len(runs)]
        together = len({len(group) for group in groups}) == 1
        parts = [groups] if together else [[group] for group in groups]
        for part in parts:
            # Ranks that meet use equal buckets.
            length = np.mean(
                [draft.length_ns[draft.graph.item_done[each]] for each in part], axis=0
            )
            cut = _buckets(np.rint(length).astype(np.int64), min(buckets, len(length)))
            bucketed.extend(_bucketed(draft, group, cut, collective) for group in part)
    _overlap(draft, bucketed)


def _buckets(length_ns: I64, count: int) -> I64:
    """Return the bucket of each collective: consecutive ones, of about equal total length."""
    moving = length_ns - min(int(length_ns.min()), COLLECTIVE_LATENCY_NS)
    middle = np.cumsum(moving) - moving // 2
    bucket: I64 = np.minimum(middle * count // max(int(moving.sum()), 1), count - 1)
    return bucket


def _runs(draft: Draft, items: I64, step: I64) -> list[I64]:
    """Return the collectives of a process in groups: one step, with little work in between."""
    queue = draft.graph.queued
    by_launch = np.argsort(queue.asked_ns[items], kind="stable")
    order, step = items[by_launch], step[by_launch]
    others = np.flatnonzero((queue.operation >= 0) & (queue.process == queue.process[items[0]]))
    others = np.sort(queue.asked_ns[np.setdiff1d(others, items)])
    between = np.diff(np.searchsorted(others, queue.asked_ns[order]), prepend=0)
    # One or two operations between two collectives prepare or scale their data.
    opens = np.flatnonzero((between > _MOST_BETWEEN) | (np.diff(step, prepend=step[:1]) != 0))
    return [run for run in np.split(order, opens) if len(run)]


class _Bucketed(NamedTuple):
    """A run of collectives in buckets.

    Attributes:
        firsts: Shape (buckets,), int64, the remaining items, one per bucket.
        length_ns: Shape (buckets,), int64.
        others: The removed items.
        calls: The removed calls.
        producers: Shape (buckets,), int64, the items that produce the last of each bucket's data;
            empty if unknown.
        consumer: The first item that needs the results, or NONE.
    """

    firsts: I64
    length_ns: I64
    others: I64
    calls: I64
    producers: I64
    consumer: int


def _bucketed(draft: Draft, group: I64, bucket: I64, collective: BoolArray) -> _Bucketed:
    """Return one run of collectives in buckets."""
    length = draft.length_ns[draft.graph.item_done[group]]
    least = min(int(length.min()), COLLECTIVE_LATENCY_NS)
    opens = np.append(True, np.diff(bucket) != 0)
    firsts = group[opens]
    moving = np.add.reduceat(length - least, np.flatnonzero(opens))
    producers = _producers(draft, group, collective)
    if len(producers):
        share = (np.arange(len(firsts)) + 1) / len(firsts)
        producers = producers[np.ceil(share * len(producers)).astype(np.int64) - 1]
    # Other calls between them are attributed to the collectives.
    calls = draft.calls_between(draft.graph.queued.call[group], group)
    others = np.setdiff1d(group, firsts)
    consumer = _consumer(draft, group, collective)
    return _Bucketed(
        firsts=firsts,
        length_ns=least + moving,
        others=others,
        calls=calls,
        producers=producers,
        consumer=consumer,
    )


def _overlap(draft: Draft, runs: Sequence[_Bucketed]) -> None:
    """Apply buckets to runs of collectives."""
    if not runs:
        return
    firsts, length, others, calls = (
        np.concatenate([run[place] for run in runs]) for place in range(4)
    )
    draft.set_lengths(firsts, length)
    draft.drop_items(others)
    draft.drop_calls(calls, keeps_gap=False)
    early = [run.firsts for run in runs if len(run.producers)]
    draft.unlaunch(np.concatenate([others[:0], *early]))
    for run in runs:
        draft.move_to_own_streams(run.firsts)
        if len(run.producers):
            draft.add_dependencies(run.firsts, run.producers)
        if run.consumer != NONE:
            draft.add_dependencies(np.full(len(run.firsts), run.consumer), run.firsts)


def _producers(draft: Draft, group: I64, collective: BoolArray) -> I64:
    """Return the operations that produce the data, in launch order.

    These are the operations launched by another thread than the step's first operation, as autograd
    does. Otherwise they are the last part of the operations launched since the previous
    collectives.
    """
    queue, host = draft.graph.queued, draft.graph.host
    before: I64 = _others(draft, group, collective)
    before = before[queue.asked_ns[before] < queue.asked_ns[group[0]]]
    earlier = np.flatnonzero(collective & (queue.process == queue.process[group[0]]))
    earlier = earlier[queue.asked_ns[earlier] < queue.asked_ns[group[0]]]
    if len(earlier):
        before = before[queue.asked_ns[before] > queue.asked_ns[earlier].max()]
    thread = host.thread[queue.call[before]]
    elsewhere: I64 = before[thread != thread[:1]]
    last: I64 = before[-round(len(before) * _PRODUCING_RATIO) :]
    return elsewhere if len(elsewhere) else last


def _consumer(draft: Draft, group: I64, collective: BoolArray) -> int:
    """Return the first operation launched after the collectives, NONE without one."""
    queue = draft.graph.queued
    after = _others(draft, group, collective)
    after = after[queue.asked_ns[after] > queue.asked_ns[group[-1]]]
    return int(after[0]) if len(after) else NONE


def _others(draft: Draft, group: I64, collective: BoolArray) -> I64:
    """Return the operations of the process that are not collectives, in launch order.

    Some programs communicate on separate streams. Other operations on these streams, such as
    scaling of results, belong to the collectives. Other programs communicate and compute on the
    same stream.
    """
    queue = draft.graph.queued
    launched = (queue.operation >= 0) & (queue.call >= 0)
    launched &= queue.process == queue.process[group[0]]
    own = np.isin(queue.stream, distinct_values(queue.stream[group]))
    others = launched & ~collective
    if np.count_nonzero(others & own) < np.count_nonzero(others & ~own):
        others &= ~own
    items = np.flatnonzero(others)
    return items[np.argsort(queue.asked_ns[items], kind="stable")]
