"""States tile the recorded life of each thread, whatever the tables have."""

from __future__ import annotations

from unittest import mock

import numpy as np
from hypothesis import given, settings
from support.any_trace import AnyTrace, any_traces

from warpline.derived.host import thread_rows
from warpline.derived.host.states import Reason, State, thread_lives, thread_states


@settings(max_examples=60)
@given(any_traces())
def test_states_tile_the_life_of_each_thread(any_trace: AnyTrace):
    trace = any_trace.trace()
    lives, states = thread_lives(trace), thread_states(trace)
    assert (states.end_ns > states.start_ns).all()
    is_blocked = states.state == State.BLOCKED
    assert ((states.reason != Reason.NONE) == is_blocked).all()
    for row, thread in enumerate(lives.thread_id.tolist()):
        own = np.flatnonzero(states.thread_id == thread)
        start, end = int(lives.start_ns[row]), int(lives.end_ns[row])
        assert (
            states.start_ns[own].tolist() == [start, *states.end_ns[own][:-1].tolist()][: len(own)]
        )
        assert int((states.end_ns - states.start_ns)[own].sum()) == end - start
    with mock.patch.object(thread_rows, "_ROWS_PER_BLOCK", 1):  # each thread alone
        apart = thread_states(any_trace.trace())
    # Names are numbered in the order in which they are met.
    for name in states._fields[:-1]:
        found, expected = getattr(apart, name).tolist(), getattr(states, name).tolist()
        if name == "name":
            found, expected = named(apart, found), named(states, expected)
        assert found == expected, name


def named(states, numbers):
    return [states.names[number] if number >= 0 else None for number in numbers]
