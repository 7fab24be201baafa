"""States tile the recorded life of each thread, whatever the tables have."""

from __future__ import annotations

from typing import Any, NamedTuple
from unittest import mock

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from support.any_trace import AnyTrace, any_traces

from warpline.derived.host import thread_rows
from warpline.derived.host.states import Reason, State, thread_lives, thread_states
from warpline.trace import MemorySource, Trace


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


# A plain model of a thread without CPU samples: its state at each time.
TIMES = st.integers(0, 40)
SPANS = st.lists(st.tuples(TIMES, st.integers(0, 8), st.integers(0, 1)), max_size=6)
SWITCH = st.tuples(TIMES, st.integers(0, 1), st.booleans(), st.sampled_from([1, 2, 3]))
ON_CPU, RUNNABLE, DISK = 1, 1, 3


@given(st.lists(SWITCH, max_size=8, unique_by=lambda row: row[:2]), SPANS, SPANS, SPANS, st.data())
def test_states_are_those_of_a_walk_through_time(switched, calls, gil, sampled, data):
    runs = data.draw(st.lists(st.booleans(), min_size=len(sampled), max_size=len(sampled)))
    calls, gil = sorted(calls), sorted(gil)
    sampled = sorted((*row, run) for row, run in zip(sampled, runs, strict=True))
    trace = Trace(MemorySource(host_tables(sorted(switched), calls, gil, sampled)))
    states = thread_states(trace)
    lives = thread_lives(trace)
    ends = [time for time, *_ in switched]
    for row, thread in enumerate(lives.thread_id.tolist()):
        own = np.flatnonzero(states.thread_id == thread).tolist()
        tables = [(sorted(switched), 1), (calls, 2), (gil, 2), (sampled, 2)]
        mine = [[each for each in rows if each[at] == thread] for rows, at in tables]
        known = Known(
            mine[0], mine[1], mine[2], mine[3], (min(ends, default=0), max(ends, default=0))
        )
        for at in range(int(lives.start_ns[row]), int(lives.end_ns[row])):
            here = next(each for each in own if states.start_ns[each] <= at < states.end_ns[each])
            found = State(states.state[here]).name, Reason(states.reason[here]).name
            assert found == known.at(at)


class Known(NamedTuple):
    """What tables say of one thread, and when any context switch was recorded."""

    switched: list[Any]
    calls: list[Any]
    gil: list[Any]
    sampled: list[Any]
    recorded: tuple[int, int]

    def at(self, at: int) -> tuple[str, str]:
        state, is_disk = self._switched(at)
        if state is None:
            state, is_disk = self._weaker(at), False
        if state != "BLOCKED":
            return state, "NONE"
        if _around(self.gil, at):
            return state, "GIL"
        if _around(self.calls, at):
            return state, "SLEEP"
        return state, "PAGE_FAULT" if is_disk else "UNKNOWN"

    def _switched(self, at: int) -> tuple[str | None, bool]:
        if not self.switched or not self.recorded[0] <= at < self.recorded[1]:
            return None, False
        before = [row for row in self.switched if row[0] <= at]
        if not before:
            return ("BLOCKED" if self.switched[0][2] else "RUNNING"), False
        _, _, is_in, state = before[-1]
        if is_in:
            return "RUNNING", False
        return ("RUNNABLE" if state == RUNNABLE else "BLOCKED"), state == DISK

    def _weaker(self, at: int) -> str:
        samples = _around(self.sampled, at)
        if samples:
            return "RUNNING" if samples[0][3] else "BLOCKED"
        return "BLOCKED" if _around(self.gil, at) or _around(self.calls, at) else "NOT_RECORDED"


def _around(rows: list[Any], at: int) -> list[Any]:
    return [row for row in rows if row[0] <= at < row[0] + row[1]]


def host_tables(switched, calls, gil, sampled):
    def span(rows):
        return {
            "start_ns": [start for start, *_ in rows],
            "end_ns": [start + length for start, length, *_ in rows],
            "thread_id": [row[2] for row in rows],
            "process_id": [0] * len(rows),
        }

    return {
        "process": {"pid": [7]},
        "thread": {"process_id": [0, 0], "tid": [7, 8]},
        "sched_event": {
            "time_ns": [time for time, *_ in switched],
            "thread_id": [row[1] for row in switched],
            "cpu": [0] * len(switched),
            "is_sched_in": [row[2] for row in switched],
            "state": [row[3] for row in switched],
        },
        "os_call": {**span(calls), "name": ["nanosleep"] * len(calls)},
        "gil_span": {**span(gil), "state": [2] * len(gil)},
        "python_sample": {
            "time_ns": [start for start, *_ in sampled],
            "period_ns": [row[1] for row in sampled],
            "thread_id": [row[2] for row in sampled],
            "is_running": [row[3] for row in sampled],
        },
    }
