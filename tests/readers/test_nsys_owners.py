"""Processes, threads, GPUs, contexts and streams of small exports, and what belongs to them."""

from __future__ import annotations

import numpy as np
import pytest
from support.nsys_exports import (
    OTHER_PROCESS,
    OTHER_THREAD,
    PLACE,
    PROCESS,
    THREAD,
    call,
    event,
    global_id,
    kernel,
    strings,
)

KERNELS = "CUPTI_ACTIVITY_KIND_KERNEL"
CALLS = "CUPTI_ACTIVITY_KIND_RUNTIME"
SYNC = "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION"
CONTEXTS = "TARGET_INFO_CUDA_CONTEXT_INFO"


def test_the_same_correlation_in_two_processes_stays_apart(opened, rows_of):
    calls = [call(1, 2), call(3, 4, globalTid=OTHER_THREAD)]
    kernels = [kernel(5, 6), kernel(7, 8, globalPid=OTHER_PROCESS)]
    trace = opened({"StringIds": strings("k"), CALLS: calls, KERNELS: kernels})
    assert rows_of(trace, "kernel", "correlation_id", "process_id") == [(1, 0), (1, 1)]
    assert rows_of(trace, "api_call", "correlation_id", "process_id") == [(1, 0), (1, 1)]
    assert rows_of(trace, "process", "pid") == [(4242,), (4300,)]


def test_contexts_and_streams_of_two_processes_have_rows_of_their_own(opened, rows_of):
    kernels = [kernel(5, 6), kernel(7, 8, globalPid=OTHER_PROCESS)]
    trace = opened({"StringIds": strings("k"), KERNELS: kernels})
    assert rows_of(trace, "context", "process_id", "native_id") == [(0, 1), (1, 1)]
    assert rows_of(trace, "stream", "process_id", "context_id", "native_id") == [
        (0, 0, 7),
        (1, 1, 7),
    ]
    assert rows_of(trace, "kernel", "context_id", "stream_id") == [(0, 0), (1, 1)]


def test_visible_devices_are_mapped_to_gpus(opened, rows_of):
    gpus = [
        {"id": index, "name": f"GPU {index}", "uuid": f"u{index}", "smCount": 132, "vmId": 1}
        for index in (3, 1)
    ]
    visible = [
        {"gpuId": 3, "cudaId": 0, "pid": 4242},
        {"gpuId": 1, "cudaId": 0, "pid": 4300},
    ]
    copies = [{"start": 1, "end": 2, **PLACE, "bytes": 1, "copyKind": 10, "dstDeviceId": 5}]
    trace = opened(
        {
            "StringIds": strings("k"),
            "TARGET_INFO_GPU": gpus,
            "TARGET_INFO_CUDA_DEVICE": visible,
            KERNELS: [kernel(5, 6), kernel(7, 8, globalPid=OTHER_PROCESS)],
            "CUPTI_ACTIVITY_KIND_MEMCPY": copies,
        }
    )
    assert rows_of(trace, "device", "gpu_index", "name_id", "sm_count") == [
        (1, "GPU 1", 132),
        (3, "GPU 3", 132),
        (5, None, None),  # named by a copy only
    ]
    assert rows_of(trace, "kernel", "process_id", "device_id") == [(0, 1), (1, 0)]
    assert rows_of(trace, "memcpy", "src_device_id", "dst_device_id") == [(None, 2)]


def test_exports_without_devices_of_processes_have_the_number_of_cuda(opened, rows_of):
    """Of a node with 4 A100: nsys and CUDA count in opposite orders."""
    gpus = [
        {"id": index, "name": f"GPU {index}", "busLocation": f"0000:{bus}:00.0", "cuDevice": number}
        for index, bus, number in ((0, "c1", 3), (3, "03", 0), (2, "41", 1), (1, "82", 2))
    ]
    tables = {"StringIds": strings("k"), KERNELS: [kernel(5, 6), kernel(7, 8, deviceId=1)]}
    trace = opened({**tables, "TARGET_INFO_GPU": gpus})
    assert rows_of(trace, "device", "gpu_index", "bus_id")[3] == (3, "0000:03:00.0")
    assert rows_of(trace, "kernel", "device_id") == [(3,), (2,)]


def test_numbers_of_cuda_that_are_not_distinct_are_not_used(opened, rows_of):
    gpus = [{"id": index, "name": "GPU", "cuDevice": 0} for index in (0, 1)]
    tables = {"StringIds": strings("k"), KERNELS: [kernel(7, 8, deviceId=1)]}
    trace = opened({**tables, "TARGET_INFO_GPU": gpus})
    assert rows_of(trace, "kernel", "device_id") == [(1,)]


def test_declared_contexts_and_streams(opened, rows_of):
    key = {"hwId": 0, "vmId": 1, "processId": 4242, "contextId": 1}
    trace = opened(
        {
            "StringIds": strings("k"),
            KERNELS: [kernel(5, 6, deviceId=2)],
            "TARGET_INFO_CUDA_CONTEXT_INFO": [
                {**key, "deviceId": 2, "nullStreamId": 7, "isGreenContext": 0},
                {**key, "deviceId": 2, "contextId": 4, "isGreenContext": 1, "parentContextId": 1},
            ],
            "TARGET_INFO_CUDA_STREAM": [{**key, "streamId": 13, "priority": -2, "flag": 2}],
        }
    )
    assert rows_of(trace, "context", "native_id", "is_green", "parent_native_id") == [
        (1, False, None),
        (4, True, 1),
    ]
    assert rows_of(trace, "stream", "native_id", "context_id", "priority", "kind") == [
        (7, 0, None, "Null"),
        (13, 0, -2, "Non-blocking"),
    ]


def test_a_process_that_only_declares_a_context_has_a_row(opened, rows_of):
    info = {"hwId": 0, "vmId": 1, "processId": 99, "deviceId": 0, "contextId": 1}
    tables = {"StringIds": strings("k"), KERNELS: [kernel(5, 6)]}
    trace = opened({**tables, "TARGET_INFO_CUDA_CONTEXT_INFO": [info]})
    assert rows_of(trace, "process", "pid") == [(99,), (4242,)]
    assert rows_of(trace, "context", "process_id") == [(0,), (1,)]


def test_a_stream_of_a_process_without_events_or_contexts_has_owners(opened, rows_of):
    stream = {"hwId": 0, "vmId": 1, "processId": 99, "contextId": 1, "streamId": 13, "flag": 1}
    tables = {"StringIds": strings("k"), KERNELS: [kernel(5, 6)]}
    trace = opened({**tables, "TARGET_INFO_CUDA_STREAM": [stream]})
    assert rows_of(trace, "process", "pid") == [(99,), (4242,)]
    assert rows_of(trace, "context", "process_id", "device_id") == [(0, 0), (1, 0)]
    assert rows_of(trace, "stream", "process_id", "native_id") == [(0, 13), (1, 7)]


def test_of_the_whole_machine_only_processes_with_events_are_kept(opened, rows_of):
    trace = opened(
        {
            "StringIds": strings("cudaMalloc", "main", "worker", "kworker", "mine"),
            CALLS: [call(1, 2)],
            "PROCESSES": [
                {"globalPid": PROCESS, "pid": 4242, "name": "python3"},
                {"globalPid": global_id(7), "pid": 7, "name": "kworker"},
            ],
            "ThreadNames": [
                {"nameId": 1, "globalTid": THREAD, "priority": 20},
                {"nameId": 2, "globalTid": global_id(4242, 5000), "priority": 10},
                {"nameId": 3, "globalTid": global_id(7, 7), "priority": 20},
            ],
            "NVTX_EVENTS": [event(0, kind=39, text="named by NVTX")],
        }
    )
    assert rows_of(trace, "process", "pid", "name_id") == [(4242, "python3")]
    assert rows_of(trace, "thread", "tid", "name_id", "priority") == [
        (4242, "named by NVTX", 20),
        (5000, "worker", 10),
    ]


def test_a_process_named_by_its_pid_alone(opened, rows_of):
    names = [{"globalPid": None, "pid": 4242, "name": "python3"}]
    trace = opened({"StringIds": strings("x"), CALLS: [call(1, 2)], "PROCESSES": names})
    assert rows_of(trace, "process", "name_id") == [("python3",)]


def test_null_and_negative_global_ids(opened, rows_of):
    profiler = -144115188075855872
    overheads = [
        {"start": 1, "end": 2, "globalTid": None, "nameId": 0, "returnValue": 0},
        {"start": 3, "end": 4, "globalTid": profiler, "nameId": 0, "returnValue": 0},
    ]
    tables = {"PROFILER_OVERHEAD": overheads, CALLS: [call(1, 2, globalTid=None)]}
    trace = opened({"StringIds": strings("x"), **tables})
    assert rows_of(trace, "thread", "tid", "process_id") == [(0, 0), (0, 1)]
    assert rows_of(trace, "overhead", "thread_id") == [(None,), (0,)]
    assert rows_of(trace, "api_call", "thread_id", "process_id") == [(1, 1)]


def test_a_diagnostic_of_the_profiler_makes_no_process(opened, rows_of):
    said = {"timestamp": 0, "severity": 1, "text": "hello", "globalPid": -144115188075855872}
    tables = {"DIAGNOSTIC_EVENT": [said, {**said, "globalPid": PROCESS}]}
    trace = opened({"StringIds": strings("x"), **tables})
    assert rows_of(trace, "diagnostic", "process_id", "text_id") == [(None, "hello"), (0, "hello")]
    assert rows_of(trace, "process", "pid") == [(4242,)]


def test_a_huge_table_of_dims_is_numbered_in_ascending_order(opened):
    rng = np.random.default_rng(1)
    streams = rng.permutation(500).tolist()
    kernels = [kernel(i, i + 1, streamId=stream) for i, stream in enumerate(streams)]
    trace = opened({"StringIds": strings("k"), KERNELS: kernels})
    native = trace.columns("stream", "native_id")["native_id"].values
    assert native.tolist() == list(range(500))
    assert native[trace.columns("kernel", "stream_id")["stream_id"].values].tolist() == streams


def wait(device, context, stream=7, **more):
    """Return a row of the table of waits, to which CUPTI tells no device."""
    row = {"start": 1, "end": 2, **PLACE, "correlationId": 5, "syncType": 1, "eventId": None}
    return {**row, "deviceId": device, "contextId": context, "streamId": stream, **more}


def context(device, number):
    return {"processId": 4242, "contextId": number, "deviceId": device, "hwId": 0, "vmId": 1}


@pytest.mark.parametrize(
    ("contexts", "devices"),
    [
        ([context(3, 1), context(2, 2)], [3, 2, 0]),  # as declared
        ([], [3, 0, 0]),  # as the work in the context says; where there is none, as the row says
        ([context(2, 1)], [2, 0, 0]),  # what is declared counts for more
        ([context(2, 1), context(3, 1)], [0, 0, 0]),  # an odd file: nobody knows
    ],
)
def test_a_wait_is_on_the_device_of_its_context(opened, rows_of, contexts, devices):
    trace = opened(
        {
            "StringIds": strings("k"),
            KERNELS: [kernel(5, 9, deviceId=3)],
            SYNC: [wait(0, 1), wait(0, 2), wait(0, 9)],
            CONTEXTS: contexts,
        }
    )
    gpus = [index for (index,) in rows_of(trace, "device", "gpu_index")]
    found = rows_of(trace, "host_wait", "device_id", "context_id")
    assert [gpus[device] for device, _ in found] == devices
    natives = rows_of(trace, "context", "native_id", "device_id")
    assert [natives[row] for _, row in found] == [
        (native, device) for native, (device, _) in zip((1, 2, 9), found, strict=True)
    ]
