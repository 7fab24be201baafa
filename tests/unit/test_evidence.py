"""More evidence about the CPU never makes a verdict worse.

Each recording is stripped of its tables about CPU threads: OS calls, context switches, CPU samples,
ranges, operators and Python frames, in all combinations. With more tables,

- no moment of a GPU's time that had a cause becomes unknown,
- a cause that a CUDA API call, the profiler or the GPU itself gave stays as it is; only time that
  is launch-bound, input for the lack of calls alone, or charged to an earlier call, may get the
  cause of a wait that is recorded,
- launch-bound time does not grow, and
- the first finding of the whole recording is the true one.

CPU samples stand for context switches where there are none, so these replace them.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from support.idle_programs import DEVICE, DIMENSIONS, PINNED, TO_DEVICE, US, Program
from support.stripping import HOST_TABLES, subsets, with_only

import warpline
from warpline import plugins
from warpline.derived.breakdown.segments import Segments, device_segments
from warpline.derived.idle.host_blocking import blocking
from warpline.derived.time_parts import TimePart, is_busy
from warpline.trace import MemorySource, Trace, TraceMeta
from warpline.trace.reading import read
from warpline.trace.source import TableSource

plugins.load("readers")

SHARED = Path(__file__).parents[3] / "shared" / "data"
# Causes that follow from the lack of a call, and what evidence may make of them.
REFINED = {
    TimePart.LAUNCH_BOUND: {TimePart.LAUNCH_BOUND, TimePart.INPUT, TimePart.OS_WAIT},
    TimePart.INPUT: {TimePart.INPUT, TimePart.OS_WAIT},
}
# Idle time after a blocking call is charged to it, unless an earlier wait cost more.
CHARGED = {TimePart.HOST_SYNC, TimePart.PAGEABLE_COPY, TimePart.ALLOCATOR}
WAITS = {TimePart.INPUT, TimePart.OS_WAIT}
STEPS = 8
PERIOD = 10_000
Recording = tuple[TableSource, str]


def causes_at(segments: Segments, device: int, moments: np.ndarray) -> np.ndarray:
    """Return the part at each moment."""
    rows = np.flatnonzero(segments.device == device)
    place = np.searchsorted(segments.start_ns[rows], moments, side="right") - 1
    return segments.part[rows[np.maximum(place, 0)]]


def assert_refines(more: Trace, less: Trace) -> None:
    """Check that time whose cause differs had no direct evidence before, and has some now."""
    now, before = device_segments(more), device_segments(less)
    for device in np.unique(before.device).tolist():
        times = [of.start_ns[of.device == device] for of in (now, before)]
        # What else is recorded changes where a recording begins and ends.
        ran = np.flatnonzero((before.device == device) & is_busy(before.part))
        moments = np.union1d(*times)
        moments = moments[moments >= before.start_ns[ran[0]]]
        moments = moments[moments < before.end_ns[ran[-1]]]
        before_then, now_then = (causes_at(of, device, moments) for of in (before, now))
        for place in np.flatnonzero(before_then != now_then).tolist():
            was, becomes = (TimePart.at(int(of[place])) for of in (before_then, now_then))
            allowed = REFINED.get(was, set())
            if was in CHARGED and not is_inside(less, was, int(moments[place])):
                allowed = WAITS
            assert becomes in allowed, (was, becomes, moments[place])


def is_inside(trace: Trace, cause: TimePart, moment: int) -> bool:
    """Return whether a thread is blocked for a cause at a moment."""
    held = blocking(trace)
    inside = (held.start_ns <= moment) & (moment < held.end_ns) & (held.cause == cause)
    return bool(inside.any())


def total_ns(trace: Trace, part: TimePart) -> int:
    """Return the idle time of a cause."""
    segments = device_segments(trace)
    return int((segments.end_ns - segments.start_ns)[segments.part == part].sum())


def first_rule(trace: Trace) -> str:
    """Return the rule of the first finding about the program."""
    found = [item.rule for item in warpline.analyze(trace).findings]
    return next((rule for rule in found if rule not in {"capture-quality", "debug-switch"}), "")


def check(source: TableSource, truth: str) -> None:
    every = list(subsets(source))
    assert len(every) > 1, "nothing to strip"
    traces = {kept: with_only(source, kept) for kept in every}
    for more in every:
        for table in more:
            less = more - {table}
            if table == "sched_event" and "cpu_sample" in more:
                continue
            assert_refines(traces[more], traces[less])
            for part in (TimePart.LAUNCH_BOUND, TimePart.UNKNOWN):
                assert total_ns(traces[more], part) <= total_ns(traces[less], part)
    whole = every[0]
    firsts = {
        kept: first_rule(traces[kept]) for kept in every if len(whole - kept) <= 1 or not kept
    }
    assert firsts[whole] == truth, firsts


@pytest.mark.parametrize(
    ("name", "truth"),
    [
        ("rich_metrics_sampling", "host-sync"),
        ("host_sync.bad", "host-sync"),
        ("ddp_serial.bad.rank1", "exposed-communication"),
    ],
)
def test_captures(name: str, truth: str, capture: Callable[[str], Path]) -> None:
    check(read(capture(name)), truth)


@pytest.mark.parametrize(
    ("path", "truth"),
    [
        ("nsys/pageable_h2d.bad.sqlite", "pageable-copy"),
        ("nsys/loop_optimizer.bad.sqlite", "unfused-optimizer"),
        ("kineto/host_sync.bad.json.gz", "host-sync"),
        ("public/kineto/resnet50_num_workers_0__worker0.pt.trace.2d19c6.json.gz", "input-bound"),
        ("public/kineto/b200__eager_trace.json.gz", "launch-bound"),
        (
            "public/nsys/hpcgroup+pipit__pipit_tests_data_saxpy-mpi-cuda_nsys_perlmutter0.sqlite",
            "input-bound",
        ),
    ],
)
def test_recordings_of_others(path: str, truth: str) -> None:
    if not (SHARED / path).exists():
        pytest.skip("needs recordings that are not in the repository")
    check(read(SHARED / path), truth)


def rich(waits_in: str, frame: str, *, clears_first: bool, copies: bool) -> MemorySource:
    """Return a training loop that is recorded with everything, in steps of 10 ms.

    The main thread waits from 1000 to 8900 in a function. It launches a kernel, if gradients are
    cleared first, and a copy of 1 MiB to the device, then the forward pass. Then it waits for the
    second thread, which launches the backward pass, and launches the optimizer.
    """
    program = Program()
    main, other = ({"process_id": 0, "thread_id": thread} for thread in (0, 1))
    memory = {"src_memory": PINNED, "dst_memory": DEVICE}
    sampled: list[tuple[int, int]] = []
    for step in range(STEPS):
        at = PERIOD * step
        program.add("range", at, at + PERIOD, name=f"step_{step}", style=0, **main)
        program.add("range", at + 900, at + 8950, name="next batch", style=0, **main)
        program.add("os_call", at + 1000, at + 8900, name=waits_in, **main)
        program.add("python_frame", at + 990, at + 8910, name=frame, kind=1, **main)
        program.add("op", at + 8920, at + 9200, name="aten::conv2d", external_id=step, **main)
        for time, runs in ((1010, False), (8890, True)):
            row = {"time_ns": (at + time) * US, "cpu": 0, "thread_id": 0, "is_sched_in": runs}
            program.tables.setdefault("sched_event", []).append(row)
        sampled += [(at + time, 0) for time in (*range(0, 1000, 100), *range(8900, 9500, 100))]
        now = at + 9000
        if clears_first:
            program.launch(now, now + 8, now + 12)
            now += 20
        if copies:
            call = program.call(now, now + 5, "cudaMemcpyAsync_v3020")
            program.copy(now + 10, now + 60, call, kind=TO_DEVICE, bytes=1 << 20, **memory)
            now += 20
        for number in range(8):
            program.launch(now, max(now + 8, at + 9100 + 10 * number), at + 9110 + 10 * number)
            now += 10
        # Autograd: the main thread waits, and the other one launches.
        program.add("os_call", now, at + 9700, name="pthread_cond_wait", **main)
        program.add("os_call", at - 250, now + 5, name="pthread_cond_wait", **other)
        for number in range(20):
            begin = now + 20 + 15 * number
            program.launch(begin, begin + 8, begin + 20, thread=1, stream_id=1)
        program.launch(at + 9720, at + 9728, at + 9760)
    rows = [{"time_ns": time * US, "thread_id": 0, "cpu": 0, "cycles": 1} for time, _ in sampled]
    program.tables["cpu_sample"] = [dict(row) for row in rows]
    tables = {
        name: {key: [row[key] for row in of] for key in of[0]} for name, of in _items(program)
    }
    return MemorySource({**DIMENSIONS, **tables}, TraceMeta((Path("rich"),), "memory"))


def _items(program: Program) -> list[tuple[str, list]]:  # type: ignore[type-arg]
    return list(program.tables.items())


ACQUIRE = "<built-in method acquire of _thread.lock object at 0x7f12>"
SLEEP = "<built-in function sleep>"


@pytest.mark.parametrize(
    ("function", "frame", "clears_first", "copies", "truth"),
    [
        ("pthread_cond_wait", ACQUIRE, False, True, "input-bound"),
        ("pthread_cond_wait", ACQUIRE, True, True, "input-bound"),
        ("poll", ACQUIRE, True, True, "input-bound"),
        ("poll", ACQUIRE, False, False, "os-wait"),
        ("clock_nanosleep", SLEEP, False, True, "os-wait"),
        ("clock_nanosleep", SLEEP, True, False, "os-wait"),
    ],
)
def test_a_loop_recorded_with_everything(
    function: str, frame: str, clears_first: bool, copies: bool, truth: str
) -> None:
    source = rich(function, frame, clears_first=clears_first, copies=copies)
    assert {name for name in HOST_TABLES if source.row_count(name)} == set(HOST_TABLES)
    check(source, truth)
    # Each kind of evidence about waits is enough by itself, besides ranges for the steps.
    kinds = ("os_call", "sched_event", "cpu_sample", "python_frame")
    firsts = {kind: first_rule(with_only(source, {"range", kind})) for kind in kinds}
    named = {kind: firsts[kind] for kind in ("os_call", "python_frame")}
    assert set(named.values()) == {truth}, firsts
    # Without a function's name, a sleep before a copy looks like a wait for data.
    is_ambiguous = function == "clock_nanosleep" and copies
    unnamed = "input-bound" if is_ambiguous else truth
    assert {firsts["sched_event"], firsts["cpu_sample"]} == {unnamed}, firsts
