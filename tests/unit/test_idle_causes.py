"""Why a device was idle, on small traces worked out by hand. Times are in microseconds."""

from __future__ import annotations

import pytest
from support.idle_programs import (
    DEFAULT_STREAM,
    DEVICE,
    PAGEABLE,
    PINNED,
    TO_DEVICE,
    TO_HOST,
    US,
    Idle,
    Program,
    started,
)

from warpline.derived.breakdown.segments import device_segments
from warpline.derived.idle.causes import DEFAULT_LATENCY_NS, launch_latency_ns
from warpline.derived.idle.kinds import CallKind, call_kind, overhead_cause
from warpline.derived.time_parts import BUSY, IDLE, TimePart, is_busy
from warpline.trace import MemorySource, Trace


def test_a_launch_after_the_device_was_done_is_launch_bound():
    program = started()
    program.launch(150, 157, 200)
    assert program.idle() == [(100, 157, "launch-bound")]


def test_a_launch_that_came_in_time_waited_on_the_device():
    program = started()
    program.launch(20, 102, 200)
    assert program.idle() == [(100, 102, "dependency")]


def test_what_waited_behind_a_collective_is_communication():
    program = Program()
    program.launch(0, 7, 100, name="ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgs)")
    program.launch(20, 103, 200)
    assert program.idle() == [(100, 103, "communication-wait")]


def test_a_gap_that_outlasts_the_launch_is_divided():
    program = started()
    program.launch(120, 200, 300)
    # The launch of 120 arrives at 126.5, and nothing runs that its kernel could wait for.
    assert program.idle() == [(100, 126.5, "launch-bound"), (126.5, 200, "unknown")]


def test_a_dependency_needs_work_to_depend_on():
    for start, cause in ((150, "dependency"), (151, "unknown"), (4100, "unknown")):
        program = started()
        program.launch(20, start, start + 10)
        assert program.idle() == [(100, start, cause)]


def test_a_long_wait_behind_a_collective_is_not_recorded_either():
    program = Program()
    program.launch(0, 7, 100, name="ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgs)")
    program.launch(20, 151, 200)
    assert program.idle() == [(100, 151, "unknown")]


def test_work_of_the_process_on_another_device_can_be_awaited():
    program = started()
    program.launch(5, 50, 300, device_id=1)
    program.launch(20, 400, 500)
    assert program.idle(0) == [(100, 300, "dependency"), (300, 400, "unknown")]
    program = started()
    program.launch(5, 50, 300, thread=2, device_id=1, stream_id=2, context_id=1)
    program.launch(20, 400, 500)
    assert program.idle(0) == [(100, 400, "unknown")], "work of another process"


def test_long_gaps_inside_a_graph_are_its_own():
    program = Program()
    graph = program.call(0, 5, "cudaGraphLaunch_v10000")
    program.kernel(10, 100, graph, graph_node_id=1)
    program.kernel(103, 200, graph, graph_node_id=2)
    program.kernel(64_200, 64_300, graph, graph_node_id=3)
    program.kernel(64_400, 64_500, program.call(6, 10, "cudaGraphLaunch_v10000"), graph_node_id=1)
    assert program.idle() == [
        (100, 103, "dependency"),
        (200, 64_200, "graph-internal"),
        (64_300, 64_400, "unknown"),
    ]


def test_without_the_launching_call_the_cause_is_unknown():
    program = started()
    program.kernel(150, 200, None)
    assert program.idle() == [(100, 150, "unknown")]


def test_the_ends_of_a_recording_are_its_tail():
    program = started(span_ns=(-50 * US, 130 * US))
    found = device_segments(program.trace())
    parts = [TimePart.at(part).label for part in found.part.tolist()]
    assert parts == ["tail", "other", "tail"]
    assert found.operation.tolist() == [0, 0, -1]
    assert (found.start_ns[0], found.end_ns[-1]) == (-50 * US, 130 * US)


@pytest.mark.parametrize(
    ("busy_us", "stream_id", "cause"),
    [
        (50, 1, "tail"),
        (51, 1, "unknown"),  # the recording is under way
        (50, 0, "unknown"),  # the stream, too
    ],
)
def test_a_stream_may_run_earlier_work_when_recording_starts(
    busy_us: int, stream_id: int, cause: str
):
    program = Program()
    program.launch(0, 7, 7 + busy_us)
    program.launch(20, 4_000, 4_100, stream_id=stream_id)
    found = device_segments(program.trace())
    parts = [TimePart.at(part).label for part in found.part.tolist()]
    assert parts == ["tail", "other", cause, "other"]
    assert (found.start_ns[2], found.end_ns[2]) == ((7 + busy_us) * US, 4_000 * US)


def test_between_samples_nothing_is_known():
    program = Program(windows_ns=((0, 150 * US), (300 * US, 600 * US)), span_ns=(0, 600 * US))
    program.launch(0, 7, 100)
    program.launch(310, 317, 400)
    program.launch(450, 457, 500)
    assert program.idle() == [(150, 300, "unknown"), (400, 457, "launch-bound")]
    found = device_segments(program.trace())
    tails = [
        (start // US, end // US)
        for start, end, part in zip(found.start_ns, found.end_ns, found.part, strict=True)
        if TimePart.at(part).label == "tail"
    ]
    assert tails == [(0, 7), (100, 150), (300, 317), (500, 600)]


@pytest.mark.parametrize(
    ("name", "cause"),
    [
        ("cudaDeviceSynchronize", "host-sync"),
        ("cuStreamSynchronize_ptsz", "host-sync"),
        ("hipDeviceSynchronize", "host-sync"),
        ("cudaMalloc_v3020", "allocator"),
        ("cuMemCreate", "allocator"),
        ("cudaGraphInstantiateWithFlags_v11040", "graph-instantiation"),
        ("cuModuleLoadData", "module-load-or-JIT"),
        ("cudaFuncGetAttributes_v3020", "module-load-or-JIT"),
    ],
)
def test_what_holds_the_host_is_the_cause(name: str, cause: str):
    program = started()
    program.call(110, 290, name)
    program.launch(300, 307, 310)
    assert program.idle() == [
        (100, 110, "launch-bound"),
        (110, 290, cause),
        (290, 307, "launch-bound"),
    ]


def test_polling_is_not_waiting():
    program = started()
    program.call(110, 290, "cudaEventQuery_v3020")
    program.launch(300, 307, 310)
    assert program.idle() == [(100, 307, "launch-bound")]


def test_short_calls_about_functions_are_part_of_launching():
    program = started()
    program.call(110, 112, "cuKernelGetAttribute")
    program.launch(120, 127, 130)
    assert program.idle() == [(100, 127, "launch-bound")]


def test_a_slow_first_launch_loads_code_and_a_slow_later_one_does_not():
    program = started()
    call = program.call(110, 510, "cudaLaunchKernel_v7000")
    program.kernel(512, 600, call, name="first of its name")
    call = program.call(700, 1100, "cudaLaunchKernel_v7000")
    program.kernel(1102, 1200, call, name="first of its name")
    assert program.idle() == [
        (100, 110, "launch-bound"),
        (110, 510, "module-load-or-JIT"),
        (510, 512, "launch-bound"),
        (600, 1102, "launch-bound"),
    ]


def test_a_launch_that_returns_when_its_long_kernel_is_done_waits_for_it():
    program = Program()
    call = program.call(0, 104, "cudaLaunchKernel_v7000")
    program.kernel(7, 100, call)
    program.launch(130, 137, 200)
    assert program.idle() == [(100, 137, "host-sync")]
    program = Program()
    call = program.call(0, 60, "cudaLaunchKernel_v7000")
    program.kernel(7, 50, call)
    program.launch(130, 137, 200)
    assert program.idle() == [(50, 137, "launch-bound")]


def test_a_slow_first_launch_of_a_graph_uploads_it():
    program = started()
    for at in (110, 700):
        call = program.call(at, at + 400, "cudaGraphLaunch_v10000")
        graph = {"correlation_id": call, "graph_exec_id": 5, "level": 0}
        program.add("graph_launch", at + 402, at + 500, **graph, **DEFAULT_STREAM)
    assert program.idle() == [
        (100, 110, "launch-bound"),
        (110, 510, "graph-instantiation"),
        (510, 512, "launch-bound"),
        (610, 1102, "launch-bound"),
    ]


def copied(kind: int, host: int, size: int, name: str) -> Program:
    """Return a program that copies in a call from 110 to 500, on the device from 400 to 490."""
    program = started()
    call = program.call(110, 500, name)
    ends = (host, DEVICE) if kind == TO_DEVICE else (DEVICE, host)
    memory = {"src_memory": ends[0], "dst_memory": ends[1]}
    program.copy(400, 490, call, kind=kind, bytes=size, **memory)
    return program


@pytest.mark.parametrize(
    ("kind", "host", "size", "name", "cause"),
    [
        (TO_DEVICE, PAGEABLE, 1 << 20, "cudaMemcpyAsync_v3020", "pageable-copy"),
        (TO_DEVICE, PAGEABLE, 1 << 20, "cudaMemcpy_v3020", "pageable-copy"),
        (TO_HOST, PAGEABLE, 1 << 20, "cudaMemcpyAsync_v3020", "pageable-copy"),
        (TO_HOST, PAGEABLE, 4, "cudaMemcpyAsync_v3020", "host-sync"),
        (TO_HOST, PINNED, 1 << 20, "cudaMemcpy_v3020", "host-sync"),
        (TO_DEVICE, PINNED, 1 << 20, "cudaMemcpyAsync_v3020", "launch-bound"),
        (TO_DEVICE, PAGEABLE, 1 << 10, "cudaMemcpyAsync_v3020", "launch-bound"),
    ],
)
def test_copies_hold_the_host(kind: int, host: int, size: int, name: str, cause: str):
    found = copied(kind, host, size, name).idle()
    before: Idle = [(100, 110, "launch-bound")]
    after: Idle = [(110, 400, cause)]
    assert found == ([(100, 400, cause)] if cause == "launch-bound" else before + after)


def test_a_copy_to_the_host_arrives_before_its_call_returns():
    program = started()
    call = program.call(60, 500, "cudaMemcpyAsync_v3020")
    memory = {"src_memory": DEVICE, "dst_memory": PAGEABLE}
    # It waited for the kernel, not for the end of its own call.
    program.copy(103, 490, call, kind=TO_HOST, bytes=1 << 20, **memory)
    assert program.idle() == [(100, 103, "dependency")]


def test_the_profiler_comes_before_what_it_interrupts():
    program = started()
    program.call(105, 205, "cudaMalloc_v3020")
    program.add("overhead", 120, 140, thread_id=0, name="CUPTI Buffer flush")
    program.add("overhead", 150, 190, thread_id=1, name="CUPTI Buffer flush")
    program.launch(205, 212, 300)
    assert program.idle() == [
        (100, 105, "launch-bound"),
        (105, 120, "allocator"),
        (120, 140, "profiler-overhead"),
        (140, 205, "allocator"),
        (205, 212, "launch-bound"),
    ]


def test_a_full_command_buffer_is_no_overhead():
    assert overhead_cause("Command Buffer Full") is None
    assert overhead_cause("CUPTI: Buffer flush") == TimePart.PROFILER_OVERHEAD
    assert overhead_cause("Lazy function loading") == TimePart.MODULE_LOAD


def test_a_capture_builds_a_graph_from_its_beginning_to_its_end():
    program = started()
    program.call(110, 112, "cudaStreamBeginCapture_v10000")
    program.call(150, 160, "cudaLaunchKernel_v7000")
    program.call(200, 210, "cudaStreamEndCapture_v10000")
    program.launch(220, 227, 300)
    assert program.idle() == [
        (100, 110, "launch-bound"),
        (110, 210, "graph-instantiation"),
        # What it cost while the device ran is nothing, so it is not charged further.
        (210, 227, "launch-bound"),
    ]


def test_what_was_launched_before_a_part_of_a_recording_came_in_time():
    program = started()
    program.launch(20, 102, 200)
    program.launch(210, 217, 300)
    program.kernel(301, 302, None)
    part = program.trace().window(90 * US, 302 * US)
    found = device_segments(part)
    idle = [
        (start // US, end // US, TimePart.at(part).label)
        for start, end, part in zip(found.start_ns, found.end_ns, found.part, strict=True)
        if not is_busy(found.part[found.start_ns == start]).any()
    ]
    assert idle == [
        (100, 102, "dependency"),
        (200, 217, "launch-bound"),
        (300, 301, "unknown"),
    ]


def test_the_latency_of_launches_is_measured_where_the_device_was_idle():
    program = Program()
    for number in range(30):
        at = 100 * number
        program.launch(at, at + 9, at + 50)
        program.launch(at + 12, at + 51, at + 60)
    assert launch_latency_ns(program.trace()) == 9 * US
    assert launch_latency_ns(started().trace()) == DEFAULT_LATENCY_NS


def test_every_part_has_a_meaning_and_every_cause_comes_from_somewhere():
    assert all(part.meaning for part in TimePart)
    assert (*BUSY, *IDLE) == tuple(TimePart)
    assert call_kind("cudaLaunchKernelExC_v11060") == CallKind.LAUNCH
    assert call_kind("cudaMemcpyAsync_v3020") == CallKind.OTHER


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("cudaMalloc_v3020", "allocator"),
        ("cudaFreeHost_v3020", "allocator"),
        ("cudaIpcOpenMemHandle", "allocator"),
        ("cuMemMap", "allocator"),
        ("cuMemUnmap", "allocator"),
        ("cuMemAddressReserve", "allocator"),
        ("cuMemSetAccess", "allocator"),
        ("hipMalloc", "allocator"),
        ("cudaGraphInstantiate_v12000", "graph-instantiation"),
        ("cudaGraphLaunch_v10000", "graph-launch"),
        ("cudaStreamBeginCapture", "begin-capture"),
        ("cudaStreamEndCapture", "end-capture"),
        ("cuModuleLoadData", "module-load-or-JIT"),
        ("cuLibraryLoadData", "module-load-or-JIT"),
        ("cuFuncGetAttribute", "module-load-or-JIT"),
        ("cuKernelGetName", "module-load-or-JIT"),
        ("cudaEventSynchronize_v3020", "host-sync"),
        ("cuCtxSynchronize", "host-sync"),
        ("cudaMemcpy_v3020", "copy"),
        ("cuMemcpyHtoD_v2", "copy"),
        ("cuMemcpyHtoDAsync_v2", ""),
        ("cudaGetDevice_v3020", ""),
        ("cuLaunchHostFunc", ""),
        ("cudaLaunchHostFunc_v10000", ""),
    ],
)
def test_kinds_of_calls(name, kind):
    assert call_kind(name).label == kind


def test_an_empty_trace_has_no_segments():
    found = device_segments(Trace(MemorySource({})))
    assert len(found) == 0
    assert not is_busy(found.part).any()


def test_gaps_of_one_device_say_nothing_about_another():
    program = started()
    program.launch(150, 157, 200, device_id=1)
    program.launch(180, 187, 300)
    assert program.idle(0) == [(100, 187, "launch-bound")]
    assert program.idle(1) == []
