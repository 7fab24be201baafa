"""States of threads: from context switches, samples and calls. Times in microseconds."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import warpline
from warpline.derived.host.blocking import Reason, plain_name, reason_of
from warpline.derived.host.lines import leaf_lines, leaf_places
from warpline.derived.host.states import State, thread_lives, thread_states
from warpline.trace import MemorySource, Trace

US = 1000
RUNNING, BLOCKED, TERMINATED = 1, 2, 5
NATIVE, PYTHON = 1, 3
Rows = dict[str, dict[str, list[Any]]]

# Stacks by number: native over Python over native.
FRAMES = [
    ("main", "/app/train", None, NATIVE),
    ("step", "/app/train.py", 12, PYTHON),
    ("get", "/usr/lib/python3.12/queue.py", 171, PYTHON),
    ("take_gil", "/usr/bin/python3.12", None, NATIVE),
    ("__futex_abstimed_wait_common64", "libc.so.6", None, NATIVE),
    ("__GI___clock_nanosleep", "libc.so.6", None, NATIVE),
    ("__memmove_avx_unaligned_erms", "libc.so.6", None, NATIVE),
    ("cuEventSynchronize", "libcuda.so.1", None, NATIVE),
    ("crunch", "/app/lib.so", None, NATIVE),
    ("exc_page_fault", "[kernel]", None, NATIVE),
    ("clear_page_erms", "[kernel]", None, NATIVE),
    ("__x64_sys_read", "[kernel]", None, NATIVE),
]
STACKS = [  # caller, frame
    *((None, 0), (0, 1), (1, 2), (1, 3), (2, 4), (1, 5), (1, 6), (1, 7), (1, 8)),
    (3, 4),  # take_gil waits for a futex
    *((8, 9), (10, 10), (8, 11)),  # crunch touches fresh memory, or reads
]
IN_QUEUE, SLEEPS, COPIES, IN_CUDA, CRUNCHES, WANTS_GIL = 4, 5, 6, 7, 8, 9


def tables(**more: dict[str, list[Any]]) -> Rows:
    symbols, modules, lines, kinds = (list(column) for column in zip(*FRAMES, strict=True))
    parents = [parent for parent, _ in STACKS]
    depths: list[int] = []
    for parent in parents:
        depths.append(0 if parent is None else depths[parent] + 1)
    return {
        "process": {"pid": [7]},
        "thread": {
            "process_id": [0, 0, 0, 0],
            "tid": [7, 8, 9, 10],
            "name": ["main", "worker", "idle", "pool"],
        },
        "frame": {
            "symbol": symbols,
            "module": modules,
            "line": lines,
            "kind": kinds,
            "is_unresolved": [False] * len(symbols),
        },
        "stack": {"parent_id": parents, "frame_id": [f for _, f in STACKS], "depth": depths},
        **more,
    }


def switches(*rows: tuple[int, int, bool, int, int | None]) -> dict[str, list[Any]]:
    """Return rows of (time, thread, whether it runs, its new state, stack)."""
    names = ("time_ns", "thread_id", "is_sched_in", "state", "stack_id")
    columns = dict(zip(names, map(list, zip(*rows, strict=True)), strict=True))
    columns["time_ns"] = [US * time for time in columns["time_ns"]]
    return columns | {"cpu": [0] * len(rows)}


def spans(*rows: tuple[Any, ...], **columns: list[Any]) -> dict[str, list[Any]]:
    """Return rows of (start, end, thread, name or state)."""
    start, end, thread, *_ = (list(column) for column in zip(*rows, strict=True))
    times = {"start_ns": [US * at for at in start], "end_ns": [US * at for at in end]}
    return times | {"thread_id": thread, "process_id": [0] * len(rows)} | columns


def states(trace: Trace, thread: int) -> list[tuple[int, int, str, str, str | None]]:
    """Return start, end, state, reason and name of a thread's states."""
    found = thread_states(trace)
    rows = np.flatnonzero(found.thread_id == thread).tolist()
    return [
        (
            int(found.start_ns[row]) // US,
            int(found.end_ns[row]) // US,
            State(found.state[row]).name,
            Reason(found.reason[row]).name,
            found.names[found.name[row]] if found.name[row] >= 0 else None,
        )
        for row in rows
    ]


def test_context_switches_say_when_a_thread_could_run_and_when_it_was_blocked():
    trace = Trace(
        MemorySource(
            tables(
                sched_event=switches(
                    (100, 0, True, RUNNING, None),
                    (200, 0, False, RUNNING, None),  # preempted
                    (210, 0, True, RUNNING, None),
                    (300, 0, False, BLOCKED, SLEEPS),
                    (900, 0, True, RUNNING, None),
                    (950, 0, False, BLOCKED, None),
                ),
            )
        )
    )
    assert states(trace, 0) == [
        (100, 200, "RUNNING", "NONE", None),
        (200, 210, "RUNNABLE", "NONE", None),
        (210, 300, "RUNNING", "NONE", None),
        (300, 900, "BLOCKED", "SLEEP", "clock_nanosleep"),
        (900, 950, "RUNNING", "NONE", None),
    ]
    (row,) = warpline.stats(trace, "thread_states").to_polars().rows(named=True)
    assert row["recorded_ns"] == 850 * US
    assert (row["running_ns"], row["runnable_ns"]) == (240 * US, 10 * US)
    assert (row["blocked_ns"], row["sleep_ns"]) == (600 * US, 600 * US)


def test_a_blocked_thread_waits_for_the_gil_then_cuda_then_the_os():
    trace = Trace(
        MemorySource(
            tables(
                sched_event=switches(
                    (0, 0, True, RUNNING, None),
                    (100, 0, False, BLOCKED, CRUNCHES),
                    (600, 0, True, RUNNING, None),
                    (1000, 0, False, BLOCKED, None),
                ),
                os_call=spans((90, 550, 0), (120, 130, 0), name=["poll", "read"]),
                api_call=spans((200, 400, 0), name=["cudaStreamSynchronize_v3020"]),
                gil_span=spans((300, 350, 0), (0, 90, 0), state=[2, 1]),
            )
        )
    )
    assert states(trace, 0)[1:-1] == [
        (100, 200, "BLOCKED", "IO", "poll"),
        (200, 300, "BLOCKED", "CUDA", "cudaStreamSynchronize"),
        (300, 350, "BLOCKED", "GIL", "GIL"),
        (350, 400, "BLOCKED", "CUDA", "cudaStreamSynchronize"),
        (400, 550, "BLOCKED", "IO", "poll"),
        (550, 600, "BLOCKED", "UNKNOWN", "crunch"),
    ]


@pytest.mark.parametrize(
    ("stack", "reason", "name"),
    [
        (IN_QUEUE, "LOCK", "futex_abstimed_wait_common"),
        (WANTS_GIL, "GIL", "take_gil"),
        (SLEEPS, "SLEEP", "clock_nanosleep"),
        (COPIES, "PAGE_FAULT", "memmove_avx_unaligned_erms"),
        (IN_CUDA, "CUDA", "cuEventSynchronize"),
        (CRUNCHES, "UNKNOWN", "crunch"),
        (None, "UNKNOWN", None),
    ],
)
def test_the_stack_says_what_a_thread_waits_for(stack: int | None, reason: str, name: str | None):
    events = switches((0, 0, False, BLOCKED, stack), (50, 0, True, RUNNING, None))
    trace = Trace(MemorySource(tables(sched_event=events)))
    assert states(trace, 0) == [(0, 50, "BLOCKED", reason, name)]


def test_threads_that_end_and_threads_that_last():
    trace = Trace(
        MemorySource(
            tables(
                sched_event=switches(
                    (0, 0, True, RUNNING, None),
                    (0, 1, True, RUNNING, None),
                    (10, 2, False, RUNNING, None),  # it ran before, and is preempted
                    (20, 3, False, BLOCKED, SLEEPS),
                    (100, 1, False, TERMINATED, None),
                    (200, 0, False, BLOCKED, None),
                    (300, 0, True, RUNNING, None),
                    (400, 0, False, TERMINATED, None),
                ),
                os_call=spans((4, 10, 2), name=["write"]),
            )
        )
    )
    assert states(trace, 1) == [(0, 100, "RUNNING", "NONE", None)]
    # These have not ended, so they stay as they stopped until their process ends.
    assert states(trace, 2) == [
        (4, 10, "RUNNING", "NONE", None),
        (10, 400, "RUNNABLE", "NONE", None),
    ]
    assert states(trace, 3) == [(20, 400, "BLOCKED", "SLEEP", "clock_nanosleep")]


def test_outside_of_the_time_of_context_switches_nothing_is_known_but_calls():
    trace = Trace(
        MemorySource(
            tables(
                sched_event=switches((100, 0, True, RUNNING, None), (200, 0, False, BLOCKED, None)),
                os_call=spans((0, 10, 0), (300, 400, 0), name=["getpid", "poll"]),
            )
        )
    )
    assert states(trace, 0) == [
        (0, 100, "NOT_RECORDED", "NONE", None),
        (100, 200, "RUNNING", "NONE", None),
        (200, 300, "NOT_RECORDED", "NONE", None),
        (300, 400, "BLOCKED", "IO", "poll"),
    ]


def test_without_context_switches_a_thread_that_is_not_sampled_waits():
    sampled = [*range(0, 1000, 100), *range(3000, 4000, 100)]
    trace = Trace(
        MemorySource(
            tables(
                cpu_sample={
                    "time_ns": [US * at for at in sampled],
                    "thread_id": [0] * len(sampled),
                    "period_ns": [100 * US] * len(sampled),
                },
                os_call=spans((1000, 2000, 0), name=["usleep"]),
            )
        )
    )
    assert states(trace, 0) == [
        (0, 1000, "RUNNING", "NONE", None),
        (1000, 2000, "BLOCKED", "SLEEP", "usleep"),
        (2000, 2900, "BLOCKED", "UNKNOWN", None),
        (2900, 3900, "RUNNING", "NONE", None),
    ]
    assert not thread_lives(trace).is_switched[0]


def sampled(*stacks: int | None, **more: dict[str, list[Any]]) -> Trace:
    """Return the trace of a thread with a CPU sample each 100 us."""
    columns: dict[str, list[Any]] = {
        "time_ns": [100 * US * (1 + number) for number in range(len(stacks))],
        "thread_id": [0] * len(stacks),
        "period_ns": [100 * US] * len(stacks),
        "stack_id": list(stacks),
    }
    return Trace(MemorySource(tables(cpu_sample=columns, **more)))


def test_running_time_in_page_faults_is_that_of_the_samples_within_them():
    # The handler itself, what it calls, other code of the kernel, the program, and no stack.
    trace = sampled(*([10] * 2 + [11] * 4 + [12] * 3 + [CRUNCHES] * 10 + [None]))
    (row,) = warpline.stats(trace, "thread_states").to_polars().rows(named=True)
    assert row["running_page_fault_ns"] == round(row["running_ns"] * 6 / 20)


def test_page_faults_are_unknown_without_functions_of_the_kernel_or_with_few_samples():
    for stacks in ([CRUNCHES] * 20, [10] * 9):
        (row,) = warpline.stats(sampled(*stacks), "thread_states").to_polars().rows(named=True)
        assert row.get("running_page_fault_ns") is None


def test_calls_never_say_that_a_thread_ran():
    calls = spans((0, 300, 1), (500, 600, 1), name=["poll", "getpid"])
    trace = Trace(MemorySource(tables(os_call=calls)))
    (row,) = warpline.stats(trace, "thread_states").to_polars().rows(named=True)
    assert (row["recorded_ns"], row["blocked_ns"]) == (600 * US, 300 * US)
    assert (row["running_ns"], row["running_ratio"]) == (None, None)


def test_python_samples_say_whether_a_thread_runs_and_in_which_stack():
    trace = Trace(
        MemorySource(
            tables(
                python_sample={
                    "time_ns": [0, 10 * US, 20 * US],
                    "thread_id": [1, 1, 1],
                    "period_ns": [10 * US, 10 * US, 80 * US],
                    "is_running": [True, True, False],
                    "stack_id": [1, 1, IN_QUEUE],
                }
            )
        )
    )
    assert states(trace, 1) == [
        (0, 20, "RUNNING", "NONE", None),
        (20, 100, "BLOCKED", "LOCK", "futex_abstimed_wait_common"),
    ]
    (row,) = warpline.stats(trace, "offcpu_sum").to_polars().rows(named=True)
    assert (row["total_ns"], row["reason"], row["line"]) == (80 * US, "lock", "step (train.py:12)")


def test_the_line_of_a_stack_is_in_the_programs_own_code():
    trace = Trace(MemorySource(tables()))
    ids = [IN_QUEUE, SLEEPS, 0, -1]
    assert leaf_lines(trace, ids) == [
        "step (train.py:12)",
        "step (train.py:12)",
        "main (train)",
        "",
    ]
    # queue.get of the standard library is further in.
    assert leaf_places(trace, np.array(ids)).is_innermost.tolist() == [False, True, False, False]


@pytest.mark.parametrize(
    ("name", "plain", "reason"),
    [
        ("__GI___libc_read", "read", Reason.IO),
        ("__read_nocancel", "read", Reason.IO),
        ("pread64", "pread", Reason.IO),
        ("___pthread_mutex_lock", "pthread_mutex_lock", Reason.LOCK),
        ("pthread_cond_wait@@GLIBC_2.3.2", "pthread_cond_wait", Reason.LOCK),
        ("<built-in function sleep>", "sleep", Reason.SLEEP),
        ("<method 'recv' of '_socket.socket' objects>", "recv", Reason.IO),
        ("cudaMemcpyAsync", "cudaMemcpyAsync", Reason.CUDA),
        ("custom", "custom", Reason.UNKNOWN),
        ("memcpy", "memcpy", Reason.PAGE_FAULT),
    ],
)
def test_names_of_functions_that_wait(name: str, plain: str, reason: Reason):
    assert plain_name(name) == plain
    assert reason_of(name) is reason
