"""Idle time after waits, of the CPU for the GPU and for data. Times are in microseconds."""

from __future__ import annotations

import pytest
from support.idle_programs import DEVICE, PINNED, TO_DEVICE, US, Program, started


def test_a_wait_is_charged_what_the_host_lost_in_it():
    program = started()
    program.call(10, 104, "cudaStreamSynchronize_v3020")
    program.launch(150, 157, 200)
    # Inside the call until 104; lost in it while the device ran: 94 - 5 - 4 us.
    assert program.idle() == [(100, 157, "host-sync")]
    program.launch(300, 307, 310)
    program.launch(315, 322, 330)
    left = 85 - 53
    assert program.idle() == [
        (100, 157, "host-sync"),
        (200, 200 + left, "host-sync"),
        (200 + left, 307, "launch-bound"),
        (310, 322, "launch-bound"),
    ]


def test_a_wait_that_cost_nothing_is_not_blamed():
    program = started()
    program.call(101, 104, "cudaStreamSynchronize_v3020")
    program.launch(150, 157, 200)
    assert program.idle() == [
        (100, 101, "launch-bound"),
        (101, 104, "host-sync"),
        (104, 157, "launch-bound"),
    ]


def test_a_smaller_wait_does_not_take_the_place_of_a_larger_one():
    program = started()
    program.call(10, 102, "cudaFree_v3020")
    program.call(103, 120, "cudaStreamSynchronize_v3020")
    program.launch(150, 157, 160)
    # cudaFree lost 90 us while the device ran. The wait after it lost nothing then.
    assert program.idle() == [
        (100, 103, "allocator"),
        (103, 120, "host-sync"),
        (120, 157, "allocator"),
    ]


def test_what_came_before_the_first_operation_is_owed_nothing_later():
    program = Program()
    program.call(0, 2_000_000, "cudaMalloc_v3020")  # creates the context
    program.launch(2_000_010, 2_000_017, 2_000_030)
    program.launch(2_000_090, 2_000_097, 2_000_120)
    assert program.idle() == [(2_000_030, 2_000_097, "launch-bound")]


def test_time_lost_while_nothing_ran_is_owed_nothing_later():
    program = started()
    program.call(90, 300, "cudaMalloc_v3020")
    program.launch(310, 317, 330)
    program.launch(400, 407, 430)
    # Of the 210 us in the call, the device was busy for 10: only they come back later.
    assert program.idle() == [
        (100, 310, "allocator"),
        (310, 317, "launch-bound"),
        (330, 407, "launch-bound"),
    ]


def test_a_thread_that_was_silent_was_held_by_the_one_that_handed_over():
    program = started()
    program.launch(10, 100, 101, thread=1)
    program.call(102, 200, "cudaStreamSynchronize_v3020", thread=1)
    program.launch(220, 227, 300)
    assert program.idle() == [
        (101, 102, "launch-bound"),
        (102, 200, "host-sync"),
        (200, 227, "launch-bound"),
    ]


def test_a_thread_that_only_waits_does_not_hold_the_others():
    program = started()
    program.call(0, 1000, "cudaEventSynchronize_v3020", thread=1)
    program.launch(220, 227, 300)
    assert program.idle() == [(100, 227, "launch-bound")]


def test_a_wait_costs_nothing_while_another_thread_issues_work():
    program = Program()
    program.launch(0, 7, 100)
    program.call(10, 100, "cudaStreamSynchronize_v3020")
    program.call(10, 98, "cudaEventQuery_v3020", thread=1)
    program.launch(102, 109, 151, thread=1)
    program.launch(152, 159, 300)
    # Thread 0 lost 85 us in its wait, but thread 1 was in calls for 88 us of it.
    assert program.idle() == [(100, 109, "launch-bound"), (151, 159, "launch-bound")]


def test_another_process_has_its_own_debts():
    program = started()
    program.call(10, 100, "cudaStreamSynchronize_v3020")
    program.launch(120, 127, 130, thread=2, stream_id=2, context_id=1)
    program.launch(150, 157, 160)
    assert program.idle() == [(100, 127, "launch-bound"), (130, 157, "host-sync")]


def test_waiting_in_the_system_before_a_copy_is_waiting_for_data():
    program = started()
    program.add("os_call", 110, 300, process_id=0, thread_id=0, name="poll")
    call = program.call(310, 314, "cudaMemcpyAsync_v3020")
    memory = {"src_memory": PINNED, "dst_memory": DEVICE}
    program.copy(317, 400, call, kind=TO_DEVICE, bytes=1 << 20, **memory)
    assert program.idle() == [
        (100, 110, "launch-bound"),
        (110, 300, "input"),
        (300, 317, "launch-bound"),
    ]


@pytest.mark.parametrize("name", ["poll", "nanosleep", "pthread_mutex_lock", "fsync"])
def test_waiting_in_the_system_before_a_kernel_is_no_launching(name: str):
    program = started()
    program.add("os_call", 110, 300, process_id=0, thread_id=0, name=name)
    program.launch(310, 317, 400)
    assert program.idle() == [
        (100, 110, "launch-bound"),
        (110, 300, "os-wait"),
        (300, 317, "launch-bound"),
    ]


@pytest.mark.parametrize(
    ("name", "end", "thread"),
    [("pthread_cond_signal", 300, 0), ("poll", 159, 0), ("poll", 300, 1), ("my_poll", 300, 0)],
)
def test_what_is_no_long_wait_of_a_launching_thread(name: str, end: int, thread: int):
    program = started()
    program.add("os_call", 110, end, process_id=0, thread_id=thread, name=name)
    program.launch(310, 317, 400)
    assert program.idle() == [(100, 317, "launch-bound")]


def test_a_wait_inside_a_call_has_the_cause_of_the_call():
    program = started()
    program.call(105, 305, "cudaMalloc_v3020")
    program.add("os_call", 110, 300, process_id=0, thread_id=0, name="ioctl")
    program.add("os_call", 110, 300, process_id=0, thread_id=0, name="futex")
    program.launch(305, 312, 400)
    assert program.idle() == [
        (100, 105, "launch-bound"),
        (105, 305, "allocator"),
        (305, 312, "launch-bound"),
    ]


def test_a_builtin_function_of_python_that_waits():
    for name, waits in (
        ("<built-in function sleep>", True),
        ("<built-in method acquire of _thread.lock object at 0x7f12>", True),
        ("<method 'recv' of '_socket.socket' objects>", True),
        ("<built-in function linear>", False),
        ("train.py(7): sleep", False),
    ):
        program = started()
        frame = {"process_id": 0, "thread_id": 0, "kind": 1}
        program.add("python_frame", 110, 300, name=name, **frame)
        program.launch(310, 317, 400)
        assert [(110, 300, "os-wait")] * waits == [
            row for row in program.idle() if row[2] == "os-wait"
        ]


def test_two_threads_that_wait_for_each_other():
    for silent, cause in ((400, "launch-bound"), (800, "os-wait")):
        program = started()
        program.launch(10, 100, 101, thread=1)
        program.add("os_call", 20, 30 + silent, process_id=0, thread_id=0, name="futex")
        program.add("os_call", 20, 20 + silent, process_id=0, thread_id=1, name="futex")
        program.launch(50 + silent, 57 + silent, 1000)
        assert program.idle()[0][2] == cause
    # The other thread runs: the thread that waits for it is not what the device waits for.
    program = started()
    program.launch(10, 100, 101, thread=1)
    program.add("os_call", 20, 850, process_id=0, thread_id=0, name="futex")
    program.launch(860, 867, 1000)
    assert program.idle() == [(101, 867, "launch-bound")]


def test_a_thread_that_is_not_sampled_is_off_the_processor():
    program = started()
    sampled = [*range(100, 300, 10), *range(1000, 1100, 10)]
    row = {"thread_id": 0, "cpu": 0, "cycles": 1}
    program.tables["cpu_sample"] = [{"time_ns": at * US, **row} for at in sampled]
    program.launch(1200, 1207, 1300)
    # Sampled every 10 us until 290 and from 1000 on: off at the latest from 300 until 990.
    expected = [(100, 300, "launch-bound"), (300, 990, "os-wait"), (990, 1207, "launch-bound")]
    assert program.idle() == expected
    # Context switches are the better evidence: they say that it ran.
    switch = {"time_ns": 50 * US, "cpu": 0, "thread_id": 0, "is_sched_in": True}
    program.tables["sched_event"] = [switch]
    assert program.idle() == [(100, 1207, "launch-bound")]


def test_sleeping_before_a_batch_is_copied_is_not_waiting_for_data():
    program = started()
    program.add("os_call", 110, 5000, process_id=0, thread_id=0, name="clock_nanosleep")
    call = program.call(5010, 5014, "cudaMemcpyAsync_v3020")
    memory = {"src_memory": PINNED, "dst_memory": DEVICE}
    program.copy(5017, 5100, call, kind=TO_DEVICE, bytes=1 << 20, **memory)
    # Around the sleep, the CPU may have prepared the batch, as without the OS call.
    assert program.idle() == [
        (100, 110, "input"),
        (110, 5000, "os-wait"),
        (5000, 5017, "input"),
    ]


def test_data_may_be_copied_a_few_launches_after_a_long_wait_for_it():
    for waited, launches, cause in ((900, 15, "input"), (900, 16, "os-wait"), (300, 1, "os-wait")):
        program = started()
        program.add("os_call", 110, 110 + waited, process_id=0, thread_id=0, name="poll")
        at = 120 + waited
        for _ in range(launches):
            program.launch(at, at + 7, at + 9)
            at += 10
        call = program.call(at, at + 4, "cudaMemcpyAsync_v3020")
        memory = {"src_memory": PINNED, "dst_memory": DEVICE}
        program.copy(at + 7, at + 90, call, kind=TO_DEVICE, bytes=1 << 20, **memory)
        assert program.idle()[1] == (110, 110 + waited, cause)


def test_a_long_silence_before_a_batch_is_copied_is_the_making_of_data():
    for size, cause in ((1 << 15, "input"), (8, "launch-bound")):
        program = started()
        call = program.call(700, 704, "cudaMemcpyAsync_v3020")
        memory = {"src_memory": PINNED, "dst_memory": DEVICE}
        program.copy(707, 800, call, kind=TO_DEVICE, bytes=size, **memory)
        causes = [(start, end) for start, end, found in program.idle() if found == cause]
        # From the copy's call on, data is charged for what it cost while the device ran.
        assert causes == [(100, 707)]


def test_waiting_for_a_thread_that_issues_work_is_not_waiting_for_data():
    program = started()
    program.add("os_call", 5, 900, process_id=0, thread_id=0, name="pthread_cond_wait")
    for at in range(110, 900, 20):
        program.launch(at, at + 7, at + 10, thread=1)
    call = program.call(905, 909, "cudaMemcpyAsync_v3020")
    memory = {"src_memory": PINNED, "dst_memory": DEVICE}
    program.copy(912, 1000, call, kind=TO_DEVICE, bytes=1 << 20, **memory)
    waited = [(start, end) for start, end, cause in program.idle() if cause == "input"]
    assert waited == []


def test_time_off_the_processor_before_a_copy_is_waiting_for_data():
    program = started()
    for time, runs in ((110, False), (300, True), (305, False), (308, True)):
        row = {"time_ns": time * US, "cpu": 0, "thread_id": 0, "is_sched_in": runs}
        program.tables.setdefault("sched_event", []).append(row)
    call = program.call(310, 314, "cudaMemcpyAsync_v3020")
    memory = {"src_memory": PINNED, "dst_memory": DEVICE}
    program.copy(317, 400, call, kind=TO_DEVICE, bytes=1 << 20, **memory)
    # The absence of 3 us is too short to say anything.
    assert [row for row in program.idle() if row[2] == "input"] == [(110, 300, "input")]


def test_the_loader_of_pytorch_is_waiting_for_data():
    program = started()
    name = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"
    program.add("range", 110, 300, process_id=0, thread_id=0, name=name, source_id=0)
    program.launch(310, 317, 400)
    assert program.idle() == [
        (100, 110, "launch-bound"),
        (110, 300, "input"),
        (300, 317, "launch-bound"),
    ]
