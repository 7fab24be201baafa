"""Devices, contexts, streams and the clock of CUPTI."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest
from capture.cuda_writer import NONE, CudaLog
from capture.finished import of_process, read_cuda, rows

from warpline import native

pytestmark = pytest.mark.skipif(native.core() is None, reason="needs the native core")


def test_streams_and_contexts_are_those_declared_and_those_used(tmp_path: Path) -> None:
    log = CudaLog()
    log.device()
    log.context(1)
    log.context(2, parent=1, green=True, null_stream=NONE)
    log.stream(13, -5)
    log.kernel("f", 10, 20, 1, context=2, stream=30)
    log.kernel("g", 30, 40, 2, context=5, stream=31)
    trace, _ = read_cuda(tmp_path, log)
    assert rows(trace, "context", "native_id", "is_green", "parent_native_id") == [
        (1, False, None),
        (2, True, 1),
        (5, False, None),
    ]
    assert rows(trace, "stream", "context_id", "native_id", "priority", "kind") == [
        (0, 7, None, "Null"),
        (0, 13, -5, "Non-blocking"),
        (1, 30, None, None),
        (2, 31, None, None),
    ]
    assert trace["kernel"]["green_context_id"].to_list() == [2, None]


def test_a_device_is_one_for_all_processes(tmp_path: Path) -> None:
    near, far = bytes(range(16)), bytes(range(16, 32))
    first, second, third = (CudaLog(pid, incarnation=pid) for pid in (100, 200, 300))
    first.device(0, uuid=far, pci=struct.pack("<IHH", 0, 9, 0))
    first.device(1, uuid=near, pci=struct.pack("<IHH", 0, 6, 0), l2=0)
    second.device(0, uuid=near, pci=struct.pack("<IHH", 0, 6, 0))
    third.kernel("f", 10, 20, 1, device=1)
    for number, log in enumerate((first, second)):
        log.kernel("f", 30 + number, 40, 1, device=0)
    trace, _ = read_cuda(tmp_path, first, second, third)
    assert rows(trace, "device", "gpu_index", "uuid", "bus", "l2_bytes") == [
        (0, "00010203-0405-0607-0809-0a0b0c0d0e0f", "0000:06:00.0", None),
        (1, "10111213-1415-1617-1819-1a1b1c1d1e1f", "0000:09:00.0", 50 << 20),
    ]
    assert rows(trace, "kernel", "process_id", "device_id") == [(2, 0), (0, 1), (1, 0)]


def test_a_device_has_the_machines_number(tmp_path: Path) -> None:
    # As under CUDA_VISIBLE_DEVICES=6,3: each process sees one that it calls 0.
    near, far = bytes(range(16)), bytes(range(16, 32))
    first, second = (CudaLog(pid, incarnation=pid) for pid in (100, 200))
    first.device(0, uuid=far, pci=struct.pack("<IHH", 0, 9, 0), machine_number=6)
    second.device(0, uuid=near, pci=struct.pack("<IHH", 0, 6, 0), machine_number=3)
    trace, _ = read_cuda(tmp_path, first, second)
    assert rows(trace, "device", "gpu_index", "bus") == [(3, "0000:06:00.0"), (6, "0000:09:00.0")]


def test_numbers_that_are_known_of_some_devices_only_do_not_count(tmp_path: Path) -> None:
    near, far = bytes(range(16)), bytes(range(16, 32))
    log = CudaLog()
    log.device(0, uuid=far, pci=struct.pack("<IHH", 0, 9, 0))
    log.device(1, uuid=near, pci=struct.pack("<IHH", 0, 6, 0), machine_number=1)
    trace, _ = read_cuda(tmp_path, log)
    assert rows(trace, "device", "gpu_index", "bus") == [(0, "0000:06:00.0"), (1, "0000:09:00.0")]


def test_a_device_that_nothing_describes(tmp_path: Path) -> None:
    log = CudaLog()
    log.kernel("f", 10, 20, 1, device=3)
    trace, _ = read_cuda(tmp_path, log)
    assert rows(trace, "device", "gpu_index", "name", "uuid", "sm_count") == [(3, None, None, None)]


def test_a_clock_of_its_own_becomes_the_hosts(tmp_path: Path) -> None:
    log = of_process(cupti_origin_ns=1_600_000_000_000_000_000)
    log.cuda_clock(1000, 100)
    log.cuda_clock(3000, 1100)  # CUPTI's clock runs twice as fast as the host's
    log.cuda_clock(4000, 2100)  # and as fast
    log.kernel("before", 0, 1000, 1)
    log.kernel("between", 2000, 3500, 2)
    log.kernel("after", 5000, 6000, 3)
    log.wait(4, 1000, 3000, 4)
    log.memory(1, 1000, 4096, 64)
    log.event(1, 5, time=3000)
    log.overhead(1 << 16, 1000, 3000)
    log.launch(77, 78, 1)
    trace, finished = read_cuda(tmp_path, log)
    assert rows(trace, "kernel", "name", "start_ns", "end_ns") == [
        ("before", -400, 100),
        ("between", 600, 1600),
        ("after", 3100, 4100),
    ]
    assert rows(trace, "host_wait", "start_ns", "end_ns") == [(100, 1100)]
    assert trace["memory_event"]["time_ns"].to_list() == [100]
    assert trace["event_record"]["device_time_ns"].to_list() == [1100]
    assert rows(trace, "overhead", "start_ns", "end_ns") == [(100, 1100)]
    assert rows(trace, "api_call", "start_ns", "end_ns") == [(77, 78)]
    assert finished.lost == 0
