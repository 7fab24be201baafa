"""The sentence on how a run ended, which summary and analyze say first."""

from __future__ import annotations

from dataclasses import replace

import pytest

from warpline.result.ends import how_it_ended
from warpline.trace import ProcessEnd

S = 1_000_000_000
KILLED = ProcessEnd(
    7,
    "killed",
    5 * S,
    is_program=True,
    signal="SIGKILL",
    open_ranges=1,
    path=("step_1",),
    opened_ns=2 * S,
    last_event_ns=2 * S,
    tid=7,
)
STOPPED = replace(KILLED, cause="stopped", signal=None, stopped_by="interrupt")
CRASHED = replace(KILLED, cause="crashed", signal="SIGSEGV")


@pytest.mark.parametrize(
    ("end", "said"),
    [
        (KILLED, "The program was killed (SIGKILL) in `step_1`, open for 3.00 s."),
        (CRASHED, "The program crashed (SIGSEGV) in `step_1`, open for 3.00 s."),
        (
            replace(KILLED, is_program=False, path=("run", "step_1", "forward")),
            "Process 7 was killed (SIGKILL) in `run/step_1/forward`, open for 3.00 s.",
        ),
        (
            replace(KILLED, path=("a", "b", "c", "d", "e")),
            "The program was killed (SIGKILL) in `a/.../e`, open for 3.00 s.",
        ),
        (
            replace(KILLED, tid=9),
            "The program was killed (SIGKILL) in `step_1` of thread 9, open for 3.00 s.",
        ),
        (
            replace(KILLED, path=(), opened_ns=None, last_event_ns=None),
            "The program was killed (SIGKILL).",
        ),
        (
            replace(KILLED, path=("x" * 100,)),
            f"The program was killed (SIGKILL) in `{'x' * 57}...`, open for 3.00 s.",
        ),
        (
            replace(KILLED, cause="exited", signal=None, exit_status=1),
            "The program exited with status 1 in `step_1`, open for 3.00 s.",
        ),
        (
            replace(KILLED, cause="died", signal=None, is_program=False),
            "Process 7 ended abruptly in `step_1`, open for 3.00 s.",
        ),
        (
            replace(KILLED, cause="unwatched", signal=None),
            "Recording was cut off in `step_1`, open for at least 3.00 s.",
        ),
        (STOPPED, "Recording stopped (Ctrl-C) in `step_1`, open for 3.00 s."),
        (
            replace(STOPPED, stopped_by="steps"),
            "Recording stopped after --steps in `step_1`, open for 3.00 s.",
        ),
        (
            replace(STOPPED, stopped_by="warpline stop"),
            "Recording stopped (warpline stop) in `step_1`, open for 3.00 s.",
        ),
        (
            replace(STOPPED, stopped_by="duration", is_program=False),
            "Recording stopped at the end of -d in `step_1` of process 7, open for 3.00 s.",
        ),
        (
            replace(STOPPED, stopped_by="something new"),
            "Recording stopped in `step_1`, open for 3.00 s.",
        ),
    ],
)
def test_one_process(end, said):
    assert how_it_ended([end]) == said


@pytest.mark.parametrize(
    "end",
    [
        replace(KILLED, cause="exited", signal=None, exit_status=0),
        replace(KILLED, cause="exited", signal=None),
        replace(KILLED, cause="replaced", signal=None),
        replace(KILLED, cause="something new", signal=None),
        replace(STOPPED, last_event_ns=5 * S - 1000),  # it was at work
        replace(STOPPED, path=(), opened_ns=None, last_event_ns=None),
    ],
)
def test_nothing_to_say(end):
    assert how_it_ended([end]) is None


def test_in_order():
    assert how_it_ended([]) is None


def test_the_first_that_died_is_named():
    rank = replace(CRASHED, pid=8, tid=8, is_program=False)
    later = [replace(KILLED, pid=pid, tid=pid, ended_ns=6 * S) for pid in (7, 9)]
    assert how_it_ended([rank, *later]) == (
        "Process 8 crashed (SIGSEGV) in `step_1`, open for 3.00 s."
        " 2 more processes ended abnormally."
    )


def test_the_program_is_named_if_it_died_with_others():
    child = replace(KILLED, pid=8, is_program=False, ended_ns=5 * S - 1_000_000)
    said = how_it_ended([child, KILLED])
    assert said is not None
    assert said.startswith("The program was killed (SIGKILL) in `step_1`")
    assert said.endswith(". 1 more process ended abnormally.")


def test_ranks_that_hang_when_recording_stops():
    ranks = [replace(STOPPED, pid=pid, tid=pid, is_program=False) for pid in (8, 9)]
    assert how_it_ended([replace(ranks[0], opened_ns=S), ranks[1]]) == (
        "Recording stopped (Ctrl-C) in `step_1` of process 8, open for 4.00 s."
        " 1 more process had an open range without events for at least 1.00 s."
    )
