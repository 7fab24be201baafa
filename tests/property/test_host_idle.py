"""Idle time by the state of the launching thread, on random programs: it sums to each cause."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from support.sampled_programs import HOLDING, MAIN, WAITING, SampledProgram

import warpline
from warpline.derived.breakdown.host_idle import host_idle
from warpline.derived.breakdown.host_lines import blocked_lines, running_lines
from warpline.derived.breakdown.partition import step_partition
from warpline.derived.time_parts import IDLE
from warpline.trace import Run

OTHER = ("other", "/home/me/other.py", 7)
TIMES = st.tuples(st.integers(0, 4000), st.integers(1, 900), st.integers(0, 2))


@st.composite
def programs(draw: st.DrawFn) -> SampledProgram:
    """Return four steps with random samples, switches, OS calls, and holders of the GIL."""
    program = SampledProgram(workers=1)
    for number in range(4):
        at = program.step(number)
        if draw(st.booleans()):
            program.batch(at + draw(st.integers(310, 900)))
    stacks = [program.stack(MAIN), program.stack(MAIN, OTHER)]
    for at, length, thread in draw(st.lists(TIMES, max_size=12)):
        kind = draw(st.sampled_from(("sample", "seen", "switch", "call", "gil")))
        stack = draw(st.sampled_from(stacks))
        if kind == "sample":
            program.runs(at, at + length, stack, thread)
        elif kind == "seen":
            program.seen(at, at + length, stack, thread, is_running=draw(st.booleans()))
        elif kind == "switch":
            program.switch(at, runs=False, thread=thread, state=draw(st.sampled_from((1, 2))))
            program.switch(at + length, runs=True, thread=thread)
        elif kind == "call" and thread < 2:
            program.os_call(at, at + length, "poll", thread)
        elif kind == "gil" and thread < 2:
            program.gil(at, at + length, thread, draw(st.sampled_from((HOLDING, WAITING))))
    return program


@settings(max_examples=25, deadline=None)
@given(programs())
def test_states_sum_to_each_cause_and_lines_to_no_more_than_the_time(
    program: SampledProgram,
) -> None:
    trace = program.trace()
    run = Run(trace)
    parts = step_partition(run)
    for cause in IDLE:
        idle = host_idle(run, cause)
        sums = np.bincount(idle.window, idle.ns, len(parts.ns)).astype(np.int64)
        assert sums.tolist() == parts.ns[:, cause].tolist()
        for lines in (running_lines, blocked_lines):
            found = lines(trace, idle.by_thread())
            assert sum(line.ns for line in found.lines) <= found.named_ns + 1
            assert found.named_ns <= found.ns + 1
    assert not [item for item in warpline.analyze(trace).not_judged if item.is_failure]
