"""What each kind of event of a PyTorch trace becomes, on small traces made by hand."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.kineto_files import (
    PID,
    Event,
    call,
    device_event,
    event,
    kernel,
    metadata,
    write,
)

import warpline
from warpline.trace import Trace

Open = Callable[..., Trace]
Rows = Callable[..., list[tuple[Any, ...]]]


@pytest.fixture(name="opened_events")
def opened_events_fixture(tmp_path: Path) -> Open:
    def open_events(*events: Event, **top: Any) -> Trace:
        return warpline.open(write(tmp_path / "trace.json", events, **top))

    return open_events


def test_kernels(opened_events: Open, rows_of: Rows):
    full = "void at::native::reduce_kernel<512, 1, (int)3>(at::native::Op<float>)"
    work = device_event(
        "kernel",
        full,
        10.5,
        2.25,
        correlation=7,
        grid=[4, 5, 6],
        block=[128, 2, 1],
        stream=13,
        **{"registers per thread": 40, "shared memory": 512, "graph node id": 99, "graph id": 3},
    )
    trace = opened_events(work, call("cudaLaunchKernel", 9, 1, 7))
    columns = ("start_ns", "end_ns", "name_id", "short_name_id", "correlation_id")
    assert rows_of(trace, "kernel", *columns) == [(1500, 3750, full, "reduce_kernel", 7)]
    sizes = [f"{what}_{axis}" for what in ("grid", "block") for axis in "xyz"]
    assert rows_of(trace, "kernel", *sizes) == [(4, 5, 6, 128, 2, 1)]
    more = ("registers_per_thread", "dynamic_shared_bytes", "graph_node_id", "graph_id")
    assert rows_of(trace, "kernel", *more) == [(40, 512, 99, 3)]
    assert rows_of(trace, "stream", "native_id") == [(13,)]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("Memcpy HtoD (Pageable -> Device)", ("Host-to-Device", "Pageable", "Device")),
        ("Memcpy DtoH (Device -> Pinned)", ("Device-to-Host", "Device", "Pinned")),
        ("Memcpy DtoD (Device -> Device)", ("Device-to-Device", "Device", "Device")),
        ("Memcpy PtoP (Device -> Device)", ("Peer-to-Peer", "Device", "Device")),
        ("Memcpy HtoD (Host -> Device)", ("Host-to-Device", None, "Device")),  # ROCm
        ("Memcpy DtoH (Device -> Managed Static)", ("Device-to-Host", "Device", "Managed Static")),
        ("CopyHostToDevice", ("Unknown", None, None)),
        ("Memcpy Unknown (Unknown -> Array)", ("Unknown", "Unknown", "Array")),
    ],
)
def test_copies(opened_events: Open, rows_of: Rows, name, expected):
    trace = opened_events(device_event("gpu_memcpy", name, 1, 2, bytes=4096))
    columns = ("kind", "src_memory", "dst_memory", "bytes")
    assert rows_of(trace, "memcpy", *columns) == [(*expected, 4096)]


def test_copies_between_devices(opened_events: Open, rows_of: Rows):
    peer = {"fromDevice": 1, "inDevice": 0, "toDevice": 0, "inContext": 1, "stream": 9, "bytes": 8}
    copy = event("gpu_memcpy", "Memcpy PtoP (Device -> Device)", 0, 5, pid=0, tid=9, args=peer)
    trace = opened_events(copy, kernel("k", 0, 1, device=1))
    assert rows_of(trace, "memcpy", "device_id", "src_device_id", "dst_device_id") == [(0, 1, 0)]
    assert rows_of(trace, "device", "gpu_index") == [(0,), (1,)]


@pytest.mark.parametrize(
    ("full", "expected"),
    [
        ("void (anonymous namespace)::with_index<int, f>(int)", "with_index"),
        ("ampere_sgemm_128x64_nn", "ampere_sgemm_128x64_nn"),
        ("void a::b<(c::d)1, e<f>>::kernel<g::operator->, 2>(h::i const*)", "kernel"),
        (
            "std::enable_if<(((8)>(0)))&&a::Convert<b>::exists, void>::type a::norm<b, 8>(b*)",
            "norm",
        ),
    ],
)
def test_base_names_of_kernels(opened_events: Open, rows_of: Rows, full, expected):
    trace = opened_events(kernel(full, 1, 1))
    assert rows_of(trace, "kernel", "short_name_id") == [(expected,)]


def test_memory_sets_and_old_categories(opened_events: Open, rows_of: Rows):
    at: dict[str, Any] = {"pid": 0, "tid": "stream 7"}
    args = {"device": 0, "context": 1, "stream": 7, "external id": 5, "correlation": 3}
    trace = opened_events(
        event("Kernel", "k(int)", 1, 2, **at, args={**args, "grid": [2, 1, 1], "block": [3, 1, 1]}),
        event("Memset", "Memset (Device)", 4, 2, **at, args={**args, "bytes": 64}),
        event("Memcpy", "Memcpy DtoH (Device -> Pageable)", 8, 2, **at, args={**args, "bytes": 9}),
        event("Runtime", "cudaLaunchKernel", 0, 1, tid="4093687616", args={"correlation": 3}),
        event("Operator", "aten::mm", 0, 2, tid="4093687616", args={"Input dims": [[2, 3]]}),
    )
    assert rows_of(trace, "kernel", "name_id", "grid_x") == [("k(int)", 2)]
    assert rows_of(trace, "memset", "bytes", "memory") == [(64, "Device")]
    assert rows_of(trace, "memcpy", "bytes") == [(9,)]
    assert rows_of(trace, "api_call", "name_id", "api") == [("cudaLaunchKernel", "Runtime")]
    assert rows_of(trace, "op", "name_id", "input_shapes_id") == [("aten::mm", "[[2, 3]]")]
    assert rows_of(trace, "thread", "tid") == [(4_093_687_616,)]
    assert rows_of(trace, "stream", "native_id") == [(7,)]


def test_work_of_rocm_takes_from_its_call_what_it_does_not_say(opened_events: Open, rows_of: Rows):
    launch = {"correlation": 4, "grid": [7, 1, 1], "block": [256, 1, 1], "stream": "0x0"}
    copy = {"correlation": 5, "size": 4096, "kind": "HtoD", "src": "0x1", "dst": "0x2"}
    trace = opened_events(
        event("cuda_runtime", "hipLaunchKernel", 1, 2, args=launch),
        event("cuda_runtime", "hipMemcpyWithStream", 4, 2, args=copy),
        event("kernel", "k", 5, 3, pid=2, tid=0, args={"device": 2, "stream": 0, "correlation": 4}),
        event(
            "gpu_memcpy",
            "Memcpy HtoD (Host -> Device)",
            9,
            3,
            pid=2,
            tid=0,
            args={"device": 2, "stream": 0, "correlation": 5},
        ),
    )
    assert rows_of(trace, "kernel", "grid_x", "block_x") == [(7, 256)]
    assert rows_of(trace, "memcpy", "bytes") == [(4096,)]
    assert rows_of(trace, "device", "gpu_index") == [(2,)]


def test_waits(opened_events: Open, rows_of: Rows):
    def wait(name: str, ts: int, correlation: int, stream: int = -1, **more: Any) -> Event:
        args = {"cuda_sync_kind": name, "correlation": correlation, **more}
        return device_event("cuda_sync", name, ts, 5, stream=stream, **args)

    of_event = {"wait_on_stream": 20, "wait_on_cuda_event_id": 9}
    trace = opened_events(
        call("cudaEventRecord", 1, 1, 30),
        call("cudaEventQuery", 4, 1, 31),
        call("cudaEventSynchronize", 10, 6, 32),
        call("cudaStreamWaitEvent", 20, 1, 33),
        call("cudaDeviceSynchronize", 30, 9, 34),
        call("cudaStreamSynchronize", 40, 9, 35),
        wait("Event Sync", 4, 31, wait_on_cuda_event_record_corr_id=30, **of_event),
        wait("Event Sync", 10, 32, wait_on_cuda_event_record_corr_id=30, **of_event),
        wait("Stream Wait Event", 20, 33, 24, wait_on_cuda_event_record_corr_id=30, **of_event),
        wait("Context Sync", 30, 34, 4_294_967_295),
        wait("Stream Sync", 40, 35, 24),
    )
    columns = ("kind", "correlation_id", "event_id", "event_sync_id")
    assert rows_of(trace, "host_wait", *columns) == [
        ("Event", 32, 9, 30),  # that with 31 only asked
        ("Context", 34, None, None),
        ("Stream", 35, None, None),
    ]
    streams = [native for (native,) in rows_of(trace, "stream", "native_id")]
    waiting = [row for (row,) in rows_of(trace, "host_wait", "stream_id")]
    assert [None if row is None else streams[row] for row in waiting] == [None, None, 24]
    assert rows_of(trace, "stream_wait", "correlation_id", "event_sync_id") == [(33, 30)]
    found = rows_of(trace, "event_record", "correlation_id", "event_id", "stream_id")
    assert [(c, e, streams[s]) for c, e, s in found] == [(30, 9, 20)]


def test_recordings_with_events_of_their_own(opened_events: Open, rows_of: Rows):
    recorded = device_event("cuda_event", "Event Record", 3, 0, event_id=5, correlation=30)
    trace = opened_events(recorded, call("cudaEventRecord", 2, 1, 30))
    columns = ("correlation_id", "event_id", "event_sync_id", "device_time_ns")
    assert rows_of(trace, "event_record", *columns) == [(30, 5, 30, None)]


def test_operators(opened_events: Open, rows_of: Rows):
    args = {
        "External id": 17,
        "Sequence number": 4,
        "Fwd thread id": 1,
        "Input Dims": [[2, 3], []],
        "Input type": ["float", "Scalar"],
        "Concrete Inputs": ["", "1.5"],
        "flops": 1_000_000_000_000,
        "Module Hierarchy": "Model.layer",
        "Call stack": "a.py(1): f;b.py(2): g",
    }
    trace = opened_events(event("cpu_op", "MmBackward0", 5, 1, tid=99, args=args))
    columns = ("name_id", "external_id", "sequence", "forward_thread", "flops")
    assert rows_of(trace, "op", *columns) == [("MmBackward0", 17, 4, 1, 10**12)]
    texts = ("input_shapes_id", "input_dtypes_id", "input_values_id", "module_id", "stack_id")
    shown = ("[[2, 3], []]", '["float", "Scalar"]', '["", "1.5"]')
    more = ("Model.layer", "a.py(1): f;b.py(2): g")
    assert rows_of(trace, "op", *texts) == [(*shown, *more)]
    assert rows_of(trace, "thread", "tid") == [(99,)]


def test_frames_and_modules(opened_events: Open, rows_of: Rows):
    def frame(name: str, ts: int, number: int, parent: int, **more: Any) -> Event:
        args = {"Python id": number, "Python parent id": parent, **more}
        return event("python_function", name, ts, 10, args=args)

    trace = opened_events(
        frame("train.py(12): main", 0, 1, 0),
        frame("nn.Module: Linear_3", 1, 2, 1, **{"Python module id": 3}),
        frame("<built-in function linear>", 2, 3, 2),
        event("user_annotation", "ProfilerStep#5", 0, 20),
    )
    columns = ("name_id", "kind", "frame_id", "parent_frame_id", "module_number")
    assert rows_of(trace, "python_frame", *columns) == [
        ("train.py(12): main", "Function", 1, None, None),
        ("nn.Module: Linear_3", "Module", 2, 1, 3),
        ("<built-in function linear>", "Built-in", 3, 2, None),
    ]
    assert rows_of(trace, "range", "name_id", "domain_id") == [
        ("ProfilerStep#5", None),
        ("Linear_3", "nn.Module"),
    ]


def test_allocations_marks_and_counters(opened_events: Open, rows_of: Rows):
    def instant(name: str, ts: int, **args: Any) -> Event:
        where = {"cat": "cpu_instant_event", "s": "t", "pid": PID, "tid": PID}
        return {"ph": "i", "name": name, "ts": ts, **where, "args": args}

    def memory(ts: int, size: int, kind: int, device: int) -> Event:
        args = {"Bytes": size, "Device Type": kind, "Device Id": device, "Addr": 140 << 40}
        return instant("[memory]", ts, **args, **{"Total Allocated": 50, "Total Reserved": 60})

    trace = opened_events(
        memory(1, 512, 1, 0),
        memory(2, -512, 1, 0),
        memory(3, 64, 0, -1),
        instant("checkpoint", 4),
        {"ph": "C", "name": "GPU clock", "ts": 5, "pid": 0, "args": {"value": 1.5}},
        {"ph": "i", "name": "Record Window End", "s": "g", "pid": "", "tid": "", "ts": 9},
        kernel("k", 6, 1),
    )
    columns = ("time_ns", "memory", "device_id", "operation", "bytes", "total_allocated_bytes")
    assert rows_of(trace, "allocator_event", *columns) == [
        (0, "Device", 0, "Allocation", 512, 50),
        (1000, "Device", 0, "Deallocation", 512, 50),
        (2000, "Host", None, "Allocation", 64, 50),
    ]
    assert rows_of(trace, "allocator_event", "address")[0] == (140 << 40,)
    assert rows_of(trace, "mark", "name_id") == [("checkpoint",)]
    assert rows_of(trace, "counter", "time_ns", "device_id", "value") == [(4000, 0, 1.5)]
    assert rows_of(trace, "metric", "name_id") == [("GPU clock",)]


def test_collectives(opened_events: Open, rows_of: Rows):
    def comms(name: str, ts: int, given: int, taken: int, **more: Any) -> Event:
        group = {"Process Group Name": "3", "Process Group Ranks": "[4, 5, 6]", "Group size": 3}
        sizes = {"In msg nelems": given, "Out msg nelems": taken, "dtype": "BFloat16"}
        args = {"Collective name": name, **group, **sizes, **more}
        return event("cpu_op", "record_param_comms", ts, 5, args=args)

    trace = opened_events(
        event("cpu_op", "aten::mm", 0, 1),
        comms("allreduce", 10, 100, 100, Rank=2),
        comms("_reduce_scatter_base", 20, 300, 100),
        comms("wait", 30, 0, 0),
        comms("send", 40, 7, 7, **{"Dst Rank": 1}),
        distributedInfo={"backend": "nccl", "rank": 5, "world_size": 8},
    )
    columns = ("operation_id", "bytes", "dtype_id", "communicator_id", "rank", "rank_count")
    assert rows_of(trace, "collective", *columns) == [
        ("allreduce", 200, "BFloat16", "3", 2, 3),
        ("_reduce_scatter_base", 200, "BFloat16", "3", 1, 3),
        ("send", 14, "BFloat16", "3", 1, 3),
    ]
    assert rows_of(trace, "process", "rank", "rank_count") == [(5, 8)]
    assert rows_of(trace, "collective", "peer", "sequence", "op_id", "ranks_id") == [
        (None, 0, 1, "[4, 5, 6]"),
        (None, 1, 2, "[4, 5, 6]"),
        (1, 2, 4, "[4, 5, 6]"),
    ]


def test_collectives_that_only_kernels_tell(opened_events: Open, rows_of: Rows):
    told = {"Collective name": "allreduce", "In msg nelems": 8, "dtype": "Float", "Group size": 2}
    trace = opened_events(
        call("cudaLaunchKernelExC", 3, 4, 11, tid=77),
        kernel("ncclDevKernel_AllReduce", 10, 5, correlation=11, **told),
    )
    columns = ("operation_id", "bytes", "start_ns", "end_ns", "op_id")
    assert rows_of(trace, "collective", *columns) == [("allreduce", 32, 0, 4000, None)]
    assert rows_of(trace, "thread", "tid") == [(77,)]


def test_overhead_of_the_profiler(opened_events: Open, rows_of: Rows):
    cost = event("overhead", "Buffer Flush", 5, 2, pid=-1, tid=0)
    trace = opened_events(cost, kernel("k", 1, 1))
    assert rows_of(trace, "overhead", "name_id", "start_ns", "thread_id") == [
        ("Buffer Flush", 4000, None)
    ]


def test_names_of_processes_and_threads(opened_events: Open, rows_of: Rows):
    trace = opened_events(
        metadata("process_name", PID, 0, name="python3"),
        metadata("process_labels", PID, 0, labels="CPU"),
        metadata("process_name", 0, 0, name="python3"),
        metadata("process_labels", 0, 0, labels="GPU 0"),
        metadata("thread_name", 0, 7, name="stream 7 "),
        metadata("thread_name", PID, 5, name="thread 5 (pt_autograd_0)"),
        metadata("thread_name", PID, 5, name="thread 5 (python3)"),
        event("cpu_op", "aten::mm", 1, 1, tid=5),
        event("cpu_op", "aten::mm", 1, 1, tid=-1234),
        event("cpu_op", "aten::mm", 1, 1, tid="worker"),
        kernel("k", 3, 1),
    )
    assert rows_of(trace, "process", "pid", "name_id") == [(PID, "python3")]
    assert set(rows_of(trace, "thread", "tid", "name_id")) == {
        (5, "pt_autograd_0"),
        (-1234, None),
        (0, "worker"),
    }


def test_work_belongs_to_the_process_whose_call_launched_it(opened_events: Open, rows_of: Rows):
    trace = opened_events(
        call("cudaLaunchKernel", 0, 1, 5, pid=300, tid=1),
        call("cudaLaunchKernel", 2, 1, 6, pid=200, tid=1),
        kernel("a", 10, 1, correlation=5),
        kernel("b", 20, 1, correlation=6),
    )
    pids = [pid for (pid,) in rows_of(trace, "process", "pid")]
    found = rows_of(trace, "kernel", "name_id", "process_id")
    assert [(name, pids[process]) for name, process in found] == [("a", 300), ("b", 200)]


def test_time_zero_is_the_start_of_recording(opened_events: Open):
    span = event("Trace", "PyTorch Profiler (0)", 50, 100, pid="Spans", tid="PyTorch Profiler")
    base = 1_790_857_026_000_000_000
    trace = opened_events(kernel("k", 49.5, 1), kernel("k", 60, 1), span, baseTimeNanoseconds=base)
    assert trace.columns("kernel", "start_ns")["start_ns"].values.tolist() == [-500, 10_000]
    assert trace.meta.origin_utc_ns == base + 50_000
    assert trace.meta.span_ns == (0, 100_000)


def test_what_is_not_read_is_counted(opened_events: Open):
    trace = opened_events(
        kernel("k", 1, 1),
        event("user_annotation", "step", 1, 1),
        event("gpu_user_annotation", "step", 1, 1, pid=0, tid=7),
        event("gpu_user_annotation", "alone", 1, 1, pid=0, tid=7),
        event("hpu_op", "x", 1, 1),
        {"ph": "b", "cat": "request", "name": "r", "id": 1, "pid": PID, "tid": 1, "ts": 3},
    )
    assert trace.meta.unread == {
        "gpu_user_annotation without its user_annotation": 1,
        "hpu_op of phase X": 1,
        "request of phase b": 1,
    }


def test_events_without_a_time_are_lost_not_placed_at_zero(opened_events: Open):
    now = 4_360_860_517_098
    trace = opened_events(
        {"ph": "X", "cat": "cpu_op", "name": "no time", "pid": PID, "tid": 1},
        kernel("k", 0, 0, correlation=1),
        kernel("k", now, 5, correlation=2),
        call("cudaLaunchKernel", now - 9, 1, 1),
    )
    assert trace.row_count("kernel") == 1
    assert trace.span() == (0, 14_000)
    assert trace.meta.lost == {"events without a recorded time": 2}
    assert not trace.meta.unread


def test_a_trace_of_the_host_alone(opened_events: Open):
    trace = opened_events(event("cpu_op", "aten::mm", 1, 1), deviceProperties=[])
    assert not trace.has("kernel")
    assert trace.row_count("device") == 0
    assert trace.row_count("op") == 1


def test_what_the_profiler_logged_is_told(opened_events: Open):
    logged = {"ERROR": ["ERROR: out of buffers"], "WARNING": [f"w{n}" for n in range(7)]}
    found = opened_events(kernel("k", 1, 1), **logged).meta.warnings
    assert found[0] == "the profiler logged: ERROR: out of buffers"
    assert len(found) == 7
