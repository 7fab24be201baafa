"""What each way of ending a program keeps, and that missing records are counted."""

from __future__ import annotations

import signal

import pytest
from agent_cuda import cuda_logs as logs

LAUNCH = "cudaLaunchKernel_v7000"


@pytest.mark.parametrize("words", [(), ("exit", 3)])
def test_all_is_written_at_an_exit_in_order(run, words):
    folder = run("init", "launch", 500, *words, status=3 if words else 0)
    assert logs.calls(folder) == {LAUNCH: 500}
    assert len(logs.found(folder, logs.KERNEL)) == 500
    assert all(log.closed_ns for log in logs.read(folder))


def test_a_buffer_whose_records_are_not_complete_is_written_at_exit(run):
    folder = run("init", "hold", "launch", 20, "sleep", 150, cuda_flush_ms=10)
    assert len(logs.found(folder, logs.KERNEL)) == 20


@pytest.mark.parametrize(("words", "status"), [(("kill",), -signal.SIGKILL), (("quit", 4), 4)])
def test_a_killed_program_loses_what_was_not_flushed_but_no_call(run, words, status):
    folder = run(
        *("init", "launch", 100, "sleep", 100, "launch", 7, *words),
        cuda_flush_ms=20,
        status=status,
    )
    assert logs.calls(folder) == {LAUNCH: 107}
    kernels = len(logs.found(folder, logs.KERNEL))
    assert 100 <= kernels <= 107
    # The last buffer was taken after the one before it was written, and written some time later.
    taken = ([0] + [one.time for one in logs.found(folder, logs.BUFFER)])[-2]
    late = [call for call in logs.found(folder, logs.CALL) if call.end > taken]
    assert 107 - kernels <= len(late)


NEVER = 3_600_000  # ms
WAIT = ("call", 37, 0)  # cudaDeviceSynchronize
COPY = ("call", 40, 0)  # cudaMemcpy
ASKED_IN_A_MOMENT = ("sleep", 400)
# They come after 0.1, 0.3, 0.7 and 1.5 s, or later; a wait within 50 ms of one asks for none.
BETWEEN_TWO_REGULAR_ONES = ("sleep", 950)


@pytest.mark.parametrize("wait", [WAIT, COPY])
def test_what_was_waited_for_is_kept_when_the_program_is_killed(run, wait):
    words = ("launch", 100, *wait, *ASKED_IN_A_MOMENT, "launch", 7, "kill")
    first = ("init", *BETWEEN_TWO_REGULAR_ONES)
    folder = run(*first, *words, cuda_flush_ms=NEVER, status=-signal.SIGKILL)
    assert len(logs.found(folder, logs.KERNEL)) == 100
    assert sum(logs.calls(folder).values()) == 108


def test_buffers_are_bounded_and_what_finds_none_is_counted(run):
    # Two buffers of 64 KiB hold some 600 kernels; none comes back while they are held.
    folder = run(
        *("init", "hold", "launch", 2000, "release", "sleep", 60, "launch", 10),
        cuda_buffer_bytes=65536,
        cuda_buffers=2,
        cuda_flush_ms=10,
    )
    kernels = len(logs.found(folder, logs.KERNEL))
    lost = sum(one.records for one in logs.found(folder, logs.LOST))
    assert lost > 0
    assert kernels + lost == 2010
    assert logs.calls(folder) == {LAUNCH: 2010}


def test_buffers_come_back_and_are_used_again(run):
    folder = run("init", "launch", 5000, cuda_buffer_bytes=65536, cuda_buffers=2)
    assert len(logs.found(folder, logs.KERNEL)) == 5000
    assert not logs.found(folder, logs.LOST)


def test_an_older_buffer_may_come_after_a_newer_one(run):
    folder = run(
        *("init", "hold", "launch", 300, "release", "launch", 300),
        cuda_buffer_bytes=65536,
        cuda_flush_ms=3_600_000,
    )
    correlations = [kernel.correlation for kernel in logs.found(folder, logs.KERNEL)]
    assert len(set(correlations)) == 600


def test_a_fork_ends_without_harm_to_either(run):
    folder = run("init", "launch", 5, "fork", "fork_launch", 2, "launch", 3)
    assert (folder / "stdout").read_text() == "child 0\nchild 0\n"
    parent = [log.pid for log in logs.read(folder) if any(f.kind == logs.KERNEL for f in log.found)]
    assert len(set(parent)) == 1
    in_parent = sum(
        found.kind == logs.CALL
        for log in logs.read(folder)
        if log.pid == parent[0]
        for found in log.found
    )
    assert in_parent == 8


def test_many_forks_while_threads_record(run):
    words = ["fork_launch", 1] * 20
    folder = run("init", "launch", 50, *words, "threads", 2, 20, cuda_flush_ms=10)
    assert (folder / "stdout").read_text() == "child 0\n" * 20
    assert logs.calls(folder)[LAUNCH] == 50 + 20 + 40


def test_a_fork_while_records_are_flushed(run):
    """The child finds no lock of CUPTI's that the agent's thread had at the fork."""
    words = ["fork_launch", 1] * 5
    slow = {"FAKE_CUPTI_FLUSH_MS": "40"}
    folder = run("init", "launch", 5, "sleep", 30, *words, cuda_flush_ms=10, environment=slow)
    assert (folder / "stdout").read_text() == "child 0\n" * 5
    assert logs.calls(folder)[LAUNCH] == 5 + 5
