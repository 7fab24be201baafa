"""Collectives that run in buckets beside the computation that makes their data."""

from __future__ import annotations

import numpy as np

from warpline.ops.arrays import I64, BoolArray
from warpline.ops.tiling import by_group
from warpline.replay.draft import Draft
from warpline.replay.host import NONE

# Of what is computed before the collectives of a step, the last part makes their data: a backward
# pass takes twice as long as the forward pass before it.
_PRODUCING_RATIO = 2 / 3
# Collectives with more launches between them are of different parts of a step.
_MOST_BETWEEN = 20
# A collective within a host takes about this long however little it moves.
COLLECTIVE_LATENCY_NS = 20_000


def overlap_collectives(
    draft: Draft, items: I64, step: I64, buckets: int, moving_ratio: float
) -> None:
    """Let the collectives of each step run in buckets, each when its part of the data is made.

    A bucket takes as long as its collectives did, less what each of them took in addition to
    moving its data: the shortest one's time, at most `COLLECTIVE_LATENCY_NS`. The host no longer
    spends time on each of them.

    Args:
        draft: The graph.
        items: The collectives.
        step: Of each of them, the step that it is of.
        buckets: How many there are at most in a step.
        moving_ratio: The part of their time in which they move data, and do not wait.
    """
    done = draft.graph.item_done[items]
    draft.set_lengths(items, np.rint(draft.length_ns[done] * moving_ratio).astype(np.int64))
    process = draft.graph.lanes.process[items]
    collective = np.zeros(len(draft.graph.lanes), np.bool_)
    collective[items] = True
    ranks = [_runs(draft, items[rows], step[rows]) for rows in by_group(process)]
    for number in range(max(map(len, ranks), default=0)):
        groups = [runs[number] for runs in ranks if number < len(runs)]
        together = len({len(group) for group in groups}) == 1
        parts = [groups] if together else [[group] for group in groups]
        for part in parts:
            # Ranks that meet fill their buckets alike.
            length = np.mean(
                [draft.length_ns[draft.graph.item_done[each]] for each in part], axis=0
            )
            cut = _buckets(np.rint(length).astype(np.int64), min(buckets, len(length)))
            for group in part:
                _overlap(draft, group, cut, collective)


def _buckets(length_ns: I64, count: int) -> I64:
    """Return the bucket of each collective: following ones, of about the same length in all."""
    moving = length_ns - min(int(length_ns.min()), COLLECTIVE_LATENCY_NS)
    middle = np.cumsum(moving) - moving // 2
    bucket: I64 = np.minimum(middle * count // max(int(moving.sum()), 1), count - 1)
    return bucket


def _runs(draft: Draft, items: I64, step: I64) -> list[I64]:
    """Return the collectives of a process in groups: of a step, without much work between them."""
    lanes = draft.graph.lanes
    by_launch = np.argsort(lanes.asked_ns[items], kind="stable")
    order, step = items[by_launch], step[by_launch]
    others = np.flatnonzero((lanes.operation >= 0) & (lanes.process == lanes.process[items[0]]))
    others = np.sort(lanes.asked_ns[np.setdiff1d(others, items)])
    between = np.diff(np.searchsorted(others, lanes.asked_ns[order]), prepend=0)
    # One or two operations between two collectives prepare or scale what they send.
    opens = np.flatnonzero((between > _MOST_BETWEEN) | (np.diff(step, prepend=step[:1]) != 0))
    return [run for run in np.split(order, opens) if len(run)]


def _overlap(draft: Draft, group: I64, bucket: I64, collective: BoolArray) -> None:
    """Let one run of collectives go in buckets."""
    length = draft.length_ns[draft.graph.item_done[group]]
    least = min(int(length.min()), COLLECTIVE_LATENCY_NS)
    opens = np.append(True, np.diff(bucket) != 0)
    firsts = group[opens]
    moving = np.add.reduceat(length - least, np.flatnonzero(opens))
    producers = _producers(draft, group, collective)
    consumer = _consumer(draft, group, collective)
    calls = _calls_between(draft, group)
    draft.set_lengths(firsts, least + moving)
    draft.drop_items(np.setdiff1d(group, firsts))
    draft.drop_calls(calls, keeps_gap=False)
    draft.move_to_own_streams(firsts)
    if len(producers):
        share = (np.arange(len(firsts)) + 1) / len(firsts)
        place = np.ceil(share * len(producers)).astype(np.int64) - 1
        draft.unlaunch(firsts)
        draft.add_dependencies(firsts, producers[place])
    if consumer != NONE:
        draft.add_dependencies(np.full(len(firsts), consumer), firsts)


def _producers(draft: Draft, group: I64, collective: BoolArray) -> I64:
    """Return the work that makes the data, in the order of its launches.

    It is what another thread launched than the step's first work, as autograd does; else the
    last part of what was launched before the collectives, since the ones before them.
    """
    lanes, host = draft.graph.lanes, draft.graph.host
    before: I64 = _others(draft, group, collective)
    before = before[lanes.asked_ns[before] < lanes.asked_ns[group[0]]]
    earlier = np.flatnonzero(collective & (lanes.process == lanes.process[group[0]]))
    earlier = earlier[lanes.asked_ns[earlier] < lanes.asked_ns[group[0]]]
    if len(earlier):
        before = before[lanes.asked_ns[before] > lanes.asked_ns[earlier].max()]
    thread = host.thread[lanes.call[before]]
    elsewhere: I64 = before[thread != thread[:1]]
    last: I64 = before[-round(len(before) * _PRODUCING_RATIO) :]
    return elsewhere if len(elsewhere) else last


def _consumer(draft: Draft, group: I64, collective: BoolArray) -> int:
    """Return the first work that was launched after the collectives, NONE without."""
    lanes = draft.graph.lanes
    after = _others(draft, group, collective)
    after = after[lanes.asked_ns[after] > lanes.asked_ns[group[-1]]]
    return int(after[0]) if len(after) else NONE


def _others(draft: Draft, group: I64, collective: BoolArray) -> I64:
    """Return the operations of the process that are no collectives, by launch.

    Of two kinds of programs one computes in other streams than it sends in; what else stands in
    the latter, such as scaling what was sent, goes with the collectives. The other one sends in
    the stream in which it computes.
    """
    lanes = draft.graph.lanes
    launched = (lanes.operation >= 0) & (lanes.call >= 0)
    launched &= lanes.process == lanes.process[group[0]]
    own = np.isin(lanes.stream, np.unique(lanes.stream[group]))
    others = launched & ~collective
    if np.count_nonzero(others & own) < np.count_nonzero(others & ~own):
        others &= ~own
    found = np.flatnonzero(others)
    return found[np.argsort(lanes.asked_ns[found], kind="stable")]


def _calls_between(draft: Draft, group: I64) -> I64:
    """Return the calls of the thread from the first collective's to the last one's.

    Those that launched other work stay.
    """
    lanes, host = draft.graph.lanes, draft.graph.host
    calls = lanes.call[group]
    calls = calls[calls >= 0]
    if not len(calls):
        return calls
    between = np.arange(calls.min(), calls.max() + 1)
    between = between[host.thread[between] == host.thread[calls[0]]]
    others = np.setdiff1d(np.flatnonzero(lanes.operation >= 0), group)
    return np.setdiff1d(between, lanes.call[others])
