"""Findings that name lines: samples, context switches and the GIL during idle time of the GPU."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from support.sampled_programs import (
    HOLDING,
    MAIN,
    RUNNING,
    UNINTERRUPTIBLE,
    WAITING,
    SampledProgram,
)

import warpline
from warpline.derived.breakdown.host_idle import host_idle
from warpline.derived.breakdown.partition import step_partition
from warpline.derived.host.states import State
from warpline.derived.time_parts import IDLE, TimePart
from warpline.result import Finding
from warpline.trace import Run, Trace

STEPS = 12
DECODE = ("decode_jpeg", "/home/me/dataset.py", 41)
COLLATE = ("collate", "/home/me/dataset.py", 60)
QUEUE = ("get", "/usr/lib/python3.12/queue.py", 171)
DUMPS = ("dumps", "/home/me/logger.py", 12)


def made(in_step: Callable[[SampledProgram, float], None], workers: int = 0) -> Trace:
    program = SampledProgram(workers)
    for number in range(STEPS):
        in_step(program, program.step(number))
    return program.trace()


def found(trace: Trace) -> dict[str, Finding]:
    return {item.rule: item for item in warpline.analyze(trace).findings}


def saved_ns(item: Finding) -> int:
    assert item.saving_ns is not None
    return item.saving_ns


def decodes_in_workers(program: SampledProgram, at: float) -> None:
    """Wait 600 us for a batch: worker 2 decodes and collates, worker 3 is off the CPU."""
    program.os_call(at + 310, at + 910, "poll")
    program.batch(at + 915)
    decode, collate = program.stack(MAIN, DECODE), program.stack(MAIN, COLLATE)
    for thread, until in ((2, 900), (3, 400)):
        program.switch(at + 310, runs=True, thread=thread, cpu=thread)
        program.switch(at + until, runs=False, thread=thread, cpu=thread)
    program.runs(at + 310, at + 800, decode, 2)
    program.runs(at + 800, at + 900, collate, 2)
    program.runs(at + 310, at + 400, decode, 3)


def test_input_bound_names_the_line_of_the_worker() -> None:
    item = found(made(decodes_in_workers, workers=2))["input-bound"]
    assert item.title.endswith(", mostly for decode_jpeg (dataset.py:41)")
    lines = "85.3% of the stall is in decode_jpeg (dataset.py:41), 14.7% collate (dataset.py:60)"
    assert f" {lines}." in item.claim
    assert " 1 of 2 worker processes is off the CPU for most of it." in item.claim
    assert item.evidence[1].table == "cpu_sample"
    assert item.saving_ns


def test_input_bound_names_the_line_of_the_launching_thread() -> None:
    def loads(program: SampledProgram, at: float) -> None:
        program.runs(at + 30, at + 900, program.stack(MAIN, DECODE))
        program.batch(at + 905)

    item = found(made(loads))["input-bound"]
    assert " 97.6% of the stall is in decode_jpeg (dataset.py:41)." in item.claim
    assert item.title.endswith(", mostly for decode_jpeg (dataset.py:41)")


def test_a_worker_that_sleeps_in_the_program_s_line_counts_but_not_one_without_work() -> None:
    def waits(program: SampledProgram, at: float) -> None:
        program.os_call(at + 310, at + 910, "poll")
        program.batch(at + 915)
        program.seen(at, at + 990, program.stack(QUEUE), 1)  # a thread of a library
        program.seen(at, at + 300, program.stack(MAIN, QUEUE), 2)
        program.seen(at + 300, at + 910, program.stack(MAIN, DECODE), 2)
        program.seen(at + 910, at + 1000, program.stack(MAIN, QUEUE), 2)

    claim = found(made(waits, workers=1))["input-bound"].claim
    assert "decode_jpeg (dataset.py:41)" in claim
    assert "queue.py" not in claim
    assert "train.py" not in claim


def test_a_forked_worker_is_not_in_the_line_that_forked_it() -> None:
    begin = ("BaseProcess._bootstrap", "/usr/lib/python3.12/multiprocessing/process.py", 314)
    library = ("collate", "/usr/lib/python3/dist-packages/torch/utils/data/collate.py", 55)

    def collates(program: SampledProgram, at: float) -> None:
        program.os_call(at + 310, at + 910, "poll")
        program.batch(at + 915)
        program.runs(at + 310, at + 610, program.stack(MAIN, begin, library), 2)
        program.runs(at + 610, at + 910, program.stack(MAIN, begin, DECODE), 2)

    claim = found(made(collates, workers=1))["input-bound"].claim
    assert "decode_jpeg (dataset.py:41)" in claim
    assert "collate (collate.py:55)" in claim
    assert "train.py" not in claim


def test_a_sleep_names_its_line() -> None:
    def sleeps(program: SampledProgram, at: float) -> None:
        program.os_call(at + 400, at + 900, "clock_nanosleep")
        program.seen(at + 400, at + 900, program.stack(MAIN))

    item = found(made(sleeps))["os-wait"]
    assert item.title.startswith("The CPU waits in time.sleep (train.py:88) while the GPU is idle")
    assert "500 us per step in time.sleep (train.py:88)." in item.claim


def test_python_samples_alone_show_a_wait() -> None:
    def sleeps(program: SampledProgram, at: float) -> None:
        program.seen(at, at + 400, program.stack(MAIN, DUMPS), is_running=True)
        program.seen(at + 400, at + 900, program.stack(MAIN))
        program.seen(at + 900, at + 1000, program.stack(MAIN, DUMPS), is_running=True)

    items = found(made(sleeps))
    item = items["os-wait"]
    assert item.title.startswith("The CPU waits in train (train.py:88) while the GPU is idle 50.0%")
    assert items["slow-host-function"].title.endswith("for dumps (logger.py:12)")


def test_a_switch_with_a_stack_names_its_line() -> None:
    def sleeps(program: SampledProgram, at: float) -> None:
        program.switch(at + 400, runs=False, stack_id=program.stack(MAIN))
        program.switch(at + 900, runs=True)
        program.os_call(at + 400, at + 900, "clock_nanosleep")
        program.runs(at, at + 400, program.stack(MAIN))

    item = found(made(sleeps))["os-wait"]
    assert "500 us per step in time.sleep (train.py:88)." in item.claim


def test_a_sleep_that_only_a_stack_shows_is_no_wait_for_input() -> None:
    nap = ("clock_nanosleep", "/lib/libc.so.6", 0)

    def sleeps(program: SampledProgram, at: float) -> None:
        program.switch(at + 310, runs=False, stack_id=program.stack(nap, kind=1))
        program.switch(at + 900, runs=True)
        program.batch(at + 905)

    items = found(made(sleeps))
    assert "input-bound" not in items
    title = "The launching thread is asleep while the GPU is idle 59.0% of the time"
    assert items["os-wait"].title == title


def test_workers_without_a_core() -> None:
    program = SampledProgram(2)
    for number in range(STEPS):
        at = program.step(number)
        program.os_call(at + 310, at + 910, "poll")
        program.batch(at + 915)
        program.switch(at + 310, runs=True, thread=2)
        program.switch(at + 500, runs=False, thread=2, state=RUNNING)
        program.switch(at + 800, runs=True, thread=2)
        program.switch(at + 910, runs=False, thread=2)
        program.runs(at + 310, at + 500, program.stack(MAIN, DECODE), 2)
        program.runs(at + 800, at + 910, program.stack(MAIN, DECODE), 2)
    claim = found(program.trace())["input-bound"].claim
    assert (
        " For 47.2% of the stall, workers could run but are not scheduled: too few CPU cores."
        in claim
    )


def test_more_workers_are_no_advice_where_workers_have_no_core() -> None:
    program = SampledProgram(2)
    for number in range(STEPS):
        at = program.step(number)
        program.os_call(at + 310, at + 910, "poll")
        program.batch(at + 915)
        for thread, (begun, ended) in ((2, (310, 410)), (3, (810, 910))):
            program.switch(at + begun, runs=True, thread=thread)
            program.switch(at + ended, runs=False, thread=thread, state=RUNNING)
    item = found(program.trace())["input-bound"]  # without samples
    assert "workers could run but are not scheduled: too few CPU cores" in item.claim
    assert "More workers do not help." in item.fix
    assert "num_workers" not in item.fix


def test_a_wait_for_the_disk_is_named_page_faults() -> None:
    def touches(program: SampledProgram, at: float) -> None:
        program.switch(at + 400, runs=False, state=UNINTERRUPTIBLE, stack_id=program.stack(MAIN))
        program.switch(at + 900, runs=True)
        program.runs(at, at + 400, program.stack(MAIN))

    item = found(made(touches))["os-wait"]
    assert "500 us per step in page faults (train.py:88)." in item.claim
    assert "MADV_WILLNEED" in item.fix


def test_the_gil_and_its_holder() -> None:
    def contends(program: SampledProgram, at: float) -> None:
        program.gil(at + 310, at + 900, 0, WAITING)
        program.gil(at + 310, at + 900, 1, HOLDING)
        program.runs(at + 310, at + 900, program.stack(DUMPS), 1)

    items = found(made(contends))
    item = items["gil-contention"]
    assert item.title == (
        "The launching thread waits for the GIL while the GPU is idle 59.0% of the time"
    )
    assert item.claim == (
        "GPU idle 590 us per step (59.0%) while the launching thread waits for Python's GIL."
        " GIL held by thread logger (11) 100.0% of that time, mostly in dumps (logger.py:12)."
    )
    assert "os-wait" not in items
    assert item.severity == "high"
    assert item.saving_ns is not None
    assert 500_000 <= item.saving_ns <= 600_000


def test_a_preempted_thread_and_what_runs_instead() -> None:
    def preempts(program: SampledProgram, at: float) -> None:
        program.switch(at + 310, runs=False, state=RUNNING)
        program.switch(at + 310, runs=True, thread=1)
        program.switch(at + 900, runs=False, thread=1)
        program.switch(at + 900, runs=True)

    items = found(made(preempts))
    item = items["cpu-oversubscribed"]
    assert item.title == (
        "The launching thread waits for a CPU core while the GPU is idle 59.0% of the time"
    )
    assert item.claim.endswith(
        "could run but is not scheduled. Its core runs thread logger (11) 100.0% of that time."
    )
    assert "os-wait" not in items
    assert item.saving_ns


def test_a_preempted_thread_before_a_copy_does_not_wait_for_input() -> None:
    def preempts(program: SampledProgram, at: float) -> None:
        program.switch(at + 310, runs=False, state=RUNNING)
        program.switch(at + 900, runs=True)
        program.batch(at + 905)

    items = found(made(preempts))
    assert "cpu-oversubscribed" in items
    assert "Threads of other programs run on its core instead." in items["cpu-oversubscribed"].claim
    assert "input-bound" not in items


def preempted_from(program: SampledProgram, start: float, end: float) -> None:
    program.switch(start, runs=False, state=RUNNING)
    program.switch(end, runs=True)


def test_a_thread_preempted_in_a_synchronization_does_not_wait_for_the_gpu() -> None:
    def spins(program: SampledProgram, at: float) -> None:
        program.call(at + 30, at + 900, "cudaStreamSynchronize_v3020")
        preempted_from(program, at + 100, at + 890)  # the GPU is busy until 300

    trace = made(spins)
    items = found(trace)
    assert "idle 59.0% of the time" in items["cpu-oversubscribed"].title
    assert "GPU idle 590 us per step (59.0%)" in items["cpu-oversubscribed"].claim
    assert saved_ns(items["cpu-oversubscribed"]) == pytest.approx(590_000, rel=0.03)
    # Without the call, the CPU could work while the GPU is busy; it would have no core either.
    assert saved_ns(items["host-sync"]) == pytest.approx(290_000, rel=0.03)


def test_a_synchronization_during_which_the_thread_runs_keeps_its_idle_time() -> None:
    def spins(program: SampledProgram, at: float) -> None:
        program.call(at + 30, at + 900, "cudaStreamSynchronize_v3020")
        preempted_from(program, at + 40, at + 280)  # while the GPU is busy

    items = found(made(spins))
    assert "cpu-oversubscribed" not in items
    assert "host-sync" in items


def test_a_thread_preempted_in_a_launch_is_not_launch_bound() -> None:
    def launches(program: SampledProgram, at: float) -> None:
        call = program.call(at + 310, at + 900, "cudaLaunchKernel_v7000")
        program.kernel(at + 902, at + 950, call, process_id=0)
        preempted_from(program, at + 312, at + 892)

    trace = made(launches)
    items = found(trace)
    assert "GPU idle 580 us per step (58.0%)" in items["cpu-oversubscribed"].claim
    assert saved_ns(items["cpu-oversubscribed"]) == pytest.approx(580_000, rel=0.03)
    run = Run(trace)
    idle = host_idle(run, TimePart.OS_WAIT)
    assert int(idle.ns.sum()) == int(step_partition(run).ns[:, TimePart.OS_WAIT].sum())
    assert (idle.state == State.RUNNABLE).all()


def test_a_thread_preempted_while_it_loads_data_does_not_wait_for_input() -> None:
    def loads(program: SampledProgram, at: float) -> None:
        owner = {"process_id": 0, "thread_id": 0, "style": 0}
        name = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"
        program.add("range", at + 310, at + 900, name=name, **owner)
        preempted_from(program, at + 320, at + 800)
        program.batch(at + 905)

    items = found(made(loads))
    assert "GPU idle 480 us per step" in items["cpu-oversubscribed"].claim
    assert "480" not in items["input-bound"].claim


def test_a_blocked_thread_is_not_preempted() -> None:
    def blocks(program: SampledProgram, at: float) -> None:
        program.switch(at + 310, runs=False)
        program.switch(at + 900, runs=True)

    items = found(made(blocks))
    assert "cpu-oversubscribed" not in items
    assert items["os-wait"].title.startswith("The launching thread is off the CPU")


FAULT = ("exc_page_fault", "[kernel]", 0)
CLEAR = ("clear_page_erms", "[kernel]", 0)
WRITE = ("vfs_write", "[kernel.kallsyms]", 0)


def test_page_faults_of_a_slow_function() -> None:
    def touches(program: SampledProgram, at: float) -> None:
        program.runs(at + 30, at + 600, program.stack(MAIN, DUMPS, FAULT, CLEAR))
        program.runs(at + 600, at + 990, program.stack(MAIN, DUMPS, WRITE))

    item = found(made(touches))["slow-host-function"]
    # Idle from 300 until the last sample at 985: 30 of 69 samples.
    assert " 43.5% of the CPU time meanwhile is in page faults." in item.claim
    assert "reuse buffers instead of allocating them in each step" in item.fix


def test_page_faults_of_a_worker_that_loads() -> None:
    def decodes(program: SampledProgram, at: float) -> None:
        program.os_call(at + 310, at + 910, "poll")
        program.batch(at + 915)
        program.runs(at + 310, at + 610, program.stack(MAIN, DECODE, FAULT), 2)
        program.runs(at + 610, at + 910, program.stack(MAIN, DECODE), 2)

    item = found(made(decodes, workers=1))["input-bound"]
    assert " 50.0% of the CPU time meanwhile is in page faults." in item.claim
    assert "pin memory once" in item.fix


def test_without_functions_of_the_kernel_nothing_is_said_about_page_faults() -> None:
    def touches(program: SampledProgram, at: float) -> None:
        program.runs(at + 30, at + 990, program.stack(MAIN, DUMPS))

    item = found(made(touches))["slow-host-function"]
    assert "fault" not in item.claim + item.fix


def test_a_slow_function_between_launches() -> None:
    def computes(program: SampledProgram, at: float) -> None:
        program.runs(at + 30, at + 700, program.stack(MAIN, DUMPS))
        program.runs(at + 700, at + 990, program.stack(MAIN))

    findings = warpline.analyze(made(computes)).findings
    first, second = (item for item in findings if item.rule == "slow-host-function")
    # Idle from 300, running until the last sample at 995: 695 us, of which 40 of 69 samples.
    assert first.title == "The GPU waits 40.3% of the time for dumps (logger.py:12)"
    assert "while the launching thread runs dumps (logger.py:12)" in first.claim
    assert second.title.endswith("for train (train.py:88)")
    assert first.evidence[0].table == "cpu_sample"
    assert first.saving_ns
    assert not any("CPU gaps leave" in item.title for item in findings)


def test_slow_steps_name_the_line_that_makes_them_slow() -> None:
    save = ("save", "/home/me/train.py", 70)
    program = SampledProgram()
    at = 0.0
    for number in range(STEPS):
        is_slow = number in (5, 8)
        length = 2000 if is_slow else 400
        program.launch(at, at + 10, at + 150)
        program.launch(at + 20, at + 150, at + 300)
        program.runs(at + 30, at + 390, program.stack(MAIN))
        if is_slow:
            program.runs(at + 390, at + 1990, program.stack(MAIN, save))
        owner = {"process_id": 0, "thread_id": 0, "style": 0}
        program.add("range", at, at + length, name=f"step_{number}", **owner)
        at += length
    claim = found(program.trace())["step-jitter"].claim
    assert "save (train.py:70) 1.60 ms" in claim


def test_synchronization_names_its_line() -> None:
    def reads(program: SampledProgram, at: float) -> None:
        program.call(at + 310, at + 700, "cudaStreamSynchronize_v3020")
        program.seen(at + 310, at + 700, program.stack(MAIN, COLLATE))

    claim = found(made(reads))["host-sync"].claim
    assert " 100.0% of that is in collate (dataset.py:60)." in claim


def test_native_functions_of_a_python_program_are_not_lines() -> None:
    def computes(program: SampledProgram, at: float) -> None:
        native = program.stack(("at::add", "/lib/libtorch.so", 0), kind=1)
        program.runs(at + 30, at + 990, native)

    assert "slow-host-function" not in found(made(computes))


def test_states_tile_each_cause() -> None:
    run = Run(made(decodes_in_workers, workers=2))
    parts = step_partition(run)
    for cause in IDLE:
        idle = host_idle(run, cause)
        assert int(idle.ns.sum()) == int(parts.ns[:, cause].sum())
        assert (idle.ns > 0).all()
