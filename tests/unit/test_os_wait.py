"""The rule os-wait, on programs that sleep or wait in their loop, and others. In microseconds."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from support.idle_programs import DEVICE, PINNED, TO_DEVICE, US, Program

import warpline
from warpline.result import Finding
from warpline.trace import Trace

STEPS = 12


def looped(in_loop: Callable[[Program, int], None], period: int = 1000) -> Trace:
    """Return a program of steps: work for 300 us, then something that the loop does until 1000."""
    program = Program()
    for step in range(STEPS):
        at = period * step
        program.launch(at, at + 10, at + 150)
        program.launch(at + 20, at + 150, at + 300)
        in_loop(program, at)
        owner = {"process_id": 0, "thread_id": 0, "style": 0}
        program.add("range", at, at + period, name=f"step_{step}", **owner)
        program.add("range", at + 300, at + period - 1, name=f"wait {step}", **owner)
    return program.trace()


def found(trace: Trace) -> dict[str, Finding]:
    return {item.rule: item for item in warpline.analyze(trace).findings}


def sleeps(program: Program, at: int) -> None:
    program.add("os_call", at + 400, at + 900, process_id=0, thread_id=0, name="clock_nanosleep")


def test_a_sleep_in_the_loop():
    items = found(looped(sleeps))
    assert next(iter(items)) == "os-wait"
    assert "launch-bound" not in items or not items["launch-bound"].changes
    item = items["os-wait"]
    # The GPU is idle from 300 to 1010 of each step, and the CPU sleeps for 500 us of that.
    assert item.title == "The CPU waits in clock_nanosleep while the GPU is idle 50.0% of the time"
    assert item.claim == (
        "GPU idle 500 us per step (50.0%) while the launching thread sleeps, is blocked, or is off"
        " the CPU: clock_nanosleep 500 us. 100.0% of it is in range wait *."
    )
    assert item.severity == "high"
    assert item.evidence[0].count == STEPS - 1
    assert item.evidence[0].windows_ns[0] == (400 * US, 900 * US)
    assert item.saving_ns is not None
    assert 490 * US <= item.saving_ns <= 500 * US


def test_a_sleep_behind_which_the_gpu_works_costs_nothing():
    def overlapped(program: Program, at: int) -> None:
        program.launch(at + 30, at + 300, at + 1005)
        sleeps(program, at)

    assert "os-wait" not in found(looped(overlapped))


def test_a_loop_that_does_not_wait():
    def computes(program: Program, at: int) -> None:
        pass

    item = found(looped(computes))
    assert "os-wait" not in item
    assert item["launch-bound"].severity == "high"


def test_several_functions_and_time_off_the_processor():
    def waits(program: Program, at: int) -> None:
        owner = {"process_id": 0, "thread_id": 0}
        program.add("os_call", at + 320, at + 520, name="pthread_mutex_lock", **owner)
        program.add("os_call", at + 530, at + 730, name="fsync", **owner)
        for time, runs in ((740, False), (940, True)):
            row = {"time_ns": (at + time) * US, "cpu": 0, "thread_id": 0, "is_sched_in": runs}
            program.tables.setdefault("sched_event", []).append(row)

    item = found(looped(waits))["os-wait"]
    assert item.title == "The CPU sleeps or is blocked while the GPU is idle 60.0% of the time"
    listed = item.claim.partition("CPU: ")[2].partition(". ")[0]
    assert set(listed.split(", ")) == {
        "pthread_mutex_lock 200 us",
        "fsync 200 us",
        "off the CPU 200 us",
    }


def test_a_wait_in_few_steps_saves_nothing_in_the_median():
    def once(program: Program, at: int) -> None:
        if at == 5000:
            program.add("os_call", 5310, 5990, process_id=0, thread_id=0, name="flock")

    trace = looped(once)
    item = found(trace)["os-wait"]
    assert item.severity == "low"
    assert item.claim.endswith(f"Affects only 1 of {STEPS - 1} steps.")
    assert item.saving_ns is None


def test_a_wait_for_data_names_its_function():
    def fetches(program: Program, at: int) -> None:
        owner = {"process_id": 0, "thread_id": 0}
        program.add("os_call", at + 350, at + 750, name="pthread_cond_wait", **owner)
        program.add("os_call", at + 760, at + 900, name="read", **owner)
        call = program.call(at + 905, at + 910, "cudaMemcpyAsync_v3020")
        memory = {"src_memory": PINNED, "dst_memory": DEVICE}
        program.copy(at + 915, at + 990, call, kind=TO_DEVICE, bytes=1 << 20, **memory)

    items = found(looped(fetches))
    assert next(iter(items)) == "input-bound"
    assert "os-wait" not in items
    assert "prepares data: pthread_cond_wait 400 us, read 140 us." in items["input-bound"].claim


def test_data_is_prepared_where_the_cpu_runs():
    def prepares(program: Program, at: int) -> None:
        for time, runs in ((360, False), (460, True)):
            row = {"time_ns": (at + time) * US, "cpu": 0, "thread_id": 0, "is_sched_in": runs}
            program.tables.setdefault("sched_event", []).append(row)
        call = program.call(at + 905, at + 910, "cudaMemcpyAsync_v3020")
        memory = {"src_memory": PINNED, "dst_memory": DEVICE}
        program.copy(at + 915, at + 990, call, kind=TO_DEVICE, bytes=1 << 20, **memory)

    claim = found(looped(prepares))["input-bound"].claim
    # Idle from 300 to 915, of which 100 off the CPU; 20 us behind the copy are charged to it, too.
    assert claim == (
        "GPU idle 635 us per step (63.5%) while the CPU loads or prepares data: off the CPU 100 us."
        " It runs for 535 us of that."
    )


def test_a_thread_off_the_processor_in_a_capture(capture: Callable[[str], Path]):
    item = found(warpline.open(capture("rich_metrics_sampling")))["os-wait"]
    assert item.title.startswith("The launching thread is off the CPU while the GPU is idle 22.8%")
    assert "Affects only 1 of 2 steps" in item.claim


@pytest.mark.parametrize("name", ["host_sync.bad", "tiny_kernels.fixed", "ddp_serial.bad.rank0"])
def test_captures_that_do_not_wait(name: str, capture: Callable[[str], Path]):
    assert "os-wait" not in found(warpline.open(capture(name)))
