"""Samples on the timeline: what is drawn of each, and the time that it represents."""

from __future__ import annotations

import numpy as np
from support import sampled_stacks
from support.sampled_stacks import MS

from warpline.derived.flame.call_tree import function_sums
from warpline.derived.flame.weighted import Choice
from warpline.trace import MemorySource, Trace

# Times and weights in ms: the first two represent more than the time to the next one.
TIMES, WEIGHTS = (1, 2, 3, 9), (3, 2, 4, 5000)


def dense():
    """Return a recording of one thread whose samples represent more time than is between them."""
    tables = sampled_stacks.tables()
    stacks = [row for row in tables["cpu_sample"]["stack_id"] if row is not None][: len(TIMES)]
    tables["cpu_sample"] = {
        "time_ns": [MS * time for time in TIMES],
        "thread_id": [0] * len(TIMES),
        "period_ns": [MS * weight for weight in WEIGHTS],
        "cycles": [1] * len(TIMES),
        "stack_id": stacks,
    }
    return Trace(MemorySource(tables))


def test_a_sample_is_drawn_until_the_next_and_weighs_all_of_its_time(read):
    events = read(dense()).events("thread0/cpu-samples")
    assert [(one.start_ns, one.end_ns - one.start_ns) for one in events[:3]] == [
        (1 * MS, 1 * MS),
        (2 * MS, 1 * MS),
        (3 * MS, 4 * MS),
    ]
    assert [one.weight for one in events] == [MS * weight for weight in WEIGHTS]


def test_the_weights_of_a_time_range_are_the_sum_of_the_flame_graph_of_it(read):
    trace = dense()
    events = read(trace).events("thread0/cpu-samples")
    for start, end in ((0, 20), (2, 3), (2, 9), (1, 9)):
        inside = [one for one in events if start * MS <= one.start_ns < end * MS]
        shown = sum(one.weight or 0 for one in inside)
        part = trace.window(start * MS, end * MS)
        assert shown == int(function_sums(part, Choice("cpu")).self_ns.sum())
        assert shown == MS * sum(
            weight for time, weight in zip(TIMES, WEIGHTS, strict=True) if start <= time < end
        )


def test_a_part_of_a_recording_has_the_weights_of_the_whole():
    """Without periods, weights are estimated from context switches, also those out of the part."""
    tables = sampled_stacks.tables()
    del tables["cpu_sample"]["period_ns"]
    trace = Trace(MemorySource(tables))
    whole = function_sums(trace, Choice("cpu")).self_ns.sum()
    parts = [
        function_sums(trace.window(*span), Choice("cpu")).self_ns
        for span in ((None, 3 * MS), (3 * MS, None))
    ]
    assert int(np.concatenate(parts).sum()) == int(whole) > 0
