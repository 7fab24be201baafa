"""Finishing CUDA: synchronization, memory, overhead, and which tables exist."""

from __future__ import annotations

from pathlib import Path

import pytest
from capture.cuda_writer import DRIVER, NONE, CudaLog
from capture.finished import of_process, read_cuda, rows
from capture.raw_writer import record

import warpline
from warpline import api, native
from warpline.capture.finishing.cuda_tables import TABLES as CUDA_TABLES
from warpline.errors import AgentMissingError
from warpline.result import cuda_unrecorded
from warpline.trace import Trace

pytestmark = pytest.mark.skipif(native.core() is None, reason="needs the native core")


def test_a_core_of_another_version_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = Path("old/libwarpline_core.so")
    status = native.NativeStatus(available=False, path=path, abi=2, reason="it has version 2")
    monkeypatch.setattr(native, "core", lambda: None)
    monkeypatch.setattr(native, "status", lambda: status)
    with pytest.raises(AgentMissingError, match="it has version 2") as raised:
        read_cuda(tmp_path, of_process())
    assert f"together with {path}" in (raised.value.hint or "")


def test_a_recording_with_an_event_of_any_kind_is_not_empty(tmp_path: Path) -> None:
    silent = of_process()
    silent.overhead(1, 5, 6)
    _, finished = read_cuda(tmp_path, silent)
    assert finished.is_empty  # profiling itself is no event of the program
    for number, add in enumerate((CudaLog.fill, CudaLog.copy)):
        log = of_process()
        add(log, 10, 20, 1, 64)
        (tmp_path / str(number)).mkdir()
        _, finished = read_cuda(tmp_path / str(number), log)
        assert (finished.kernels, finished.cuda_calls, finished.is_empty) == (0, 0, False)


def test_polls_are_no_waits(tmp_path: Path) -> None:
    log = of_process()
    log.call("cudaEventQuery_v3020", 10, 12, 1)
    log.wait(1, 10, 11, 1, event=5)
    log.call("cuStreamQuery", 20, 22, 2, domain=DRIVER)
    log.wait(3, 20, 21, 2, stream=7)
    log.call("cudaEventQueryLater", 30, 32, 3)
    log.wait(1, 30, 31, 3, event=5, sync=9)
    log.wait(4, 40, 41, 4)
    log.wait(2, 50, 51, 5, event=5, sync=9, stream=8)
    log.wait(2, 60, 61, 6, stream=8)
    trace, _ = read_cuda(tmp_path, log)
    names = ("start_ns", "kind", "event_id", "event_sync_id")
    assert rows(trace, "host_wait", *names) == [
        (30, "Event", 5, 9),
        (40, "Context", None, None),
        (60, "Stream", None, None),
    ]
    assert rows(trace, "stream_wait", "start_ns", "event_id") == [(50, 5)]
    assert trace["host_wait"]["stream_id"].to_list() == [None, None, 1]


def test_waits_and_events_are_on_the_device_of_their_context(tmp_path: Path) -> None:
    log = CudaLog()
    log.device(0)
    log.device(1)
    log.context(3, device=1)
    log.wait(3, 10, 20, 1, context=3, stream=7)
    log.wait(4, 30, 40, 2, context=NONE)
    log.event(5, 3, context=3, stream=9, sync=2, time=25)
    trace, _ = read_cuda(tmp_path, log)
    assert rows(trace, "host_wait", "device_id", "context_id") == [(1, 0), (1, 0)]
    names = ("device_id", "event_id", "event_sync_id", "device_time_ns")
    assert rows(trace, "event_record", *names) == [(1, 5, 2, 25)]


def test_overhead_names_the_thread_that_paid(tmp_path: Path) -> None:
    log = of_process(tid=101)
    log.overhead(1 << 16, 10, 20, tid=101)
    log.overhead(1, 30, 40, tid=999)
    log.overhead(77, 50, 60)
    trace, _ = read_cuda(tmp_path, log)
    assert rows(trace, "overhead", "thread_id", "name") == [
        (0, "CUPTI Buffer flush"),
        (None, "CUDA driver compiler"),
        (None, "Unknown"),
    ]


def test_memory_events(tmp_path: Path) -> None:
    log = of_process()
    log.memory(2, 30, 2**63 + 1, 8, pool=2**40)
    log.memory(1, 20, 16, 8, context=0, kind=6, name="variable", correlation=5)
    trace, _ = read_cuda(tmp_path, log)
    names = ("time_ns", "context_id", "operation", "memory", "address", "pool_address", "name")
    assert rows(trace, "memory_event", *names) == [
        (20, None, "Allocation", "Device Static", 16, None, "variable"),
        (30, 0, "Deallocation", "Device", 1 - 2**63, 2**40, None),
    ]


def test_migrations_are_copies_that_nobody_launched(tmp_path: Path) -> None:
    log = of_process()
    log.copy(10, 20, 5, 64)
    place = {"context": 0, "stream": 0, "memory": (0, 0)}
    log.copy(30, 40, 0, 4096, kind=11, migration=(2**46, 2), **place)
    log.copy(50, 60, 0, 8192, kind=12, migration=(2**46 + 4096, 9), **place)
    log.copy(70, 80, 0, 16, kind=14)
    trace, _ = read_cuda(tmp_path, log)
    names = ("start_ns", "correlation_id", "kind", "src_memory", "migration_cause")
    assert rows(trace, "memcpy", *names, "virtual_address") == [
        (10, 5, "Host-to-Device", "Pageable", None, None),
        (30, None, "Unified Host-to-Device", "Unknown", "Page fault", 2**46),
        (50, None, "Unified Device-to-Host", "Unknown", "Unknown", 2**46 + 4096),
        (70, None, "Unknown", "Pageable", None, None),
    ]


def test_page_faults(tmp_path: Path) -> None:
    log = CudaLog()
    log.device(0)
    log.device(1)
    log.collecting(5, 2048 | 4096)
    log.gpu_fault(30, 40, 2**46, device=1, access=2, faults=7)
    log.gpu_fault(20, 25, 2**46 + 4096, access=9, faults=1)
    log.gpu_fault(None, None, 64, faults=1)
    log.cpu_fault(60, 2**46, 0x401000)
    log.cpu_fault(50, 2**46, 0)
    trace, _ = read_cuda(tmp_path, log)
    of_gpu = ("start_ns", "end_ns", "device_id", "process_id", "address", "faults", "access")
    assert rows(trace, "um_gpu_page_fault", *of_gpu) == [
        (20, 25, 0, 0, 2**46 + 4096, 1, "Unknown"),
        (30, 40, 1, 0, 2**46, 7, "Write"),
    ]
    assert trace.meta.lost == {"CUDA records without a time": 1}
    of_cpu = ("time_ns", "process_id", "address", "pc", "function", "module")
    assert rows(trace, "um_cpu_page_fault", *of_cpu) == [
        (50, 0, 2**46, None, None, None),
        (60, 0, 2**46, 0x401000, "0x401000", "[unknown]"),
    ]


def test_page_faults_have_the_times_of_the_gpu(tmp_path: Path) -> None:
    log = CudaLog(cupti_origin_ns=7 * 10**15)
    log.device(0)
    log.cuda_clock(0, 0)
    log.cuda_clock(1000, 1000)
    log.gpu_fault(30, 40, 64, faults=1)
    log.cpu_fault(60, 64, 0)
    trace, _ = read_cuda(tmp_path, log)
    assert rows(trace, "um_gpu_page_fault", "start_ns", "end_ns") == [(30, 40)]
    assert rows(trace, "um_cpu_page_fault", "time_ns") == [(60,)]


def tables_of(trace: Trace) -> set[str]:
    return {*trace.tables} & {*CUDA_TABLES}


def test_what_was_recorded_is_there_though_empty(tmp_path: Path) -> None:
    log = CudaLog()
    log.collecting(10, 2 | 4)
    log.collecting(20, 0)
    trace, _ = read_cuda(tmp_path, log)
    dimensions = {"device", "context", "stream"}
    assert tables_of(trace) == {"kernel", "memcpy", "graph_launch", *dimensions}


@pytest.mark.parametrize(
    ("gpus", "kinds", "is_told"), [(2, 22, True), (1, 22, False), (2, 6, False)]
)
def test_peer_copies_that_whole_graphs_leave_out_are_told(
    tmp_path: Path, gpus: int, kinds: int, is_told: bool
) -> None:
    log = CudaLog()
    log.collecting(10, kinds)
    for number in range(gpus):
        log.device(number)
    trace, _ = read_cuda(tmp_path, log)
    told = [text for text in trace.meta.warnings if text.startswith("copies between GPUs")]
    assert bool(told) == is_told


def test_without_cuda_the_tables_are_there_if_it_was_asked_for(tmp_path: Path) -> None:
    trace, _ = read_cuda(tmp_path, CudaLog(), collected=["cuda", "nvtx"])
    assert {"kernel", "api_call", "host_wait", "graph_node"} <= tables_of(trace)
    assert "memory_event" not in tables_of(trace)
    assert not {"um_cpu_page_fault", "um_gpu_page_fault"} & tables_of(trace)
    trace, _ = read_cuda(tmp_path, CudaLog(), collected=["nvtx"])
    assert tables_of(trace) == set()


def test_where_cuda_could_not_be_recorded_no_table_says_so(tmp_path: Path) -> None:
    log = CudaLog()
    log.note(10, 65, "no CUPTI was found")
    log.note(20, 64, "CUPTI 130001 /lib/libcupti.so.13")
    trace, _ = read_cuda(tmp_path, log)
    assert tables_of(trace) == set()
    assert trace.meta.warnings == ("CUDA was not recorded: no CUPTI was found",)
    log.lost(30, 4)
    log.note(40, 66, "X holds CUPTI; stop it")
    trace, _ = read_cuda(tmp_path, log)
    assert trace.meta.warnings[:2] == (
        "CUDA was not recorded: no CUPTI was found",
        "CUDA was not recorded: X holds CUPTI; stop it",
    )
    assert "CUPTI dropped 4 records" in trace.meta.warnings[2]
    assert rows(trace, "diagnostic", "time_ns", "severity", "text")[1] == (
        20,
        "Info",
        "CUDA is recorded through CUPTI 130001 /lib/libcupti.so.13",
    )


@pytest.mark.parametrize(
    ("code", "why", "hint"),
    [
        (
            "held",
            "nsys is using CUPTI, which supports one profiler with this CUDA and driver",
            "stop it, or, if it can share CUPTI, update CUDA to 13.3 and the driver to r610",
        ),
        ("unshared", "nsys is using CUPTI and does not share it", "stop it to record CUDA"),
    ],
)
def test_who_held_cupti_is_data(tmp_path: Path, code: str, why: str, hint: str) -> None:
    log = CudaLog()
    log.note(10, 66, f"nsys\t{code}")
    log.note(20, 66, f"nsys\t{code}")
    trace, done = read_cuda(tmp_path, log)
    (cause,) = trace.meta.unrecorded
    assert (cause.api, cause.code, cause.parameter) == ("cuda", code, "nsys")
    assert (cause.why, cause.hint) == (why, hint)
    assert trace.meta.warnings == (f"CUDA was not recorded: {why}; {hint}",)
    assert done.unrecorded == (f"{why}; {hint}",)
    assert rows(trace, "diagnostic", "text") == [trace.meta.warnings] * 2
    assert [each.text for each in cuda_unrecorded(trace)] == [*trace.meta.warnings]
    api.export(trace, tmp_path / "copy.warpline", "warpline")
    assert warpline.open(tmp_path / "copy.warpline").meta.unrecorded == (cause,)


KINDS = range(64, 84)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("words", [0, 14])
def test_reading_stops_at_a_record_of_the_wrong_size(tmp_path: Path, kind: int, words: int) -> None:
    log = of_process()
    log.kernel("f", 10, 20, 1)
    log.body += record(kind, body=bytes(8 * words))
    log.kernel("g", 30, 40, 2)
    trace, finished = read_cuda(tmp_path, log)
    assert trace["kernel"]["name"].to_list() == ["f"]
    assert (finished.damaged_logs, finished.lost) == (1, 1)


def test_rows_are_written_in_their_order(tmp_path: Path) -> None:
    log = of_process()
    places = [(1, 8), (0, 9), (0, 7), (1, 7)]
    for number, (device, stream) in enumerate(places):
        log.kernel(f"k{number}", 10, 20, 9 - number, device=device, stream=stream)
    log.kernel("first", 5, 90, 20)
    log.kernel("short", 10, 12, 21)
    trace, _ = read_cuda(tmp_path, log)
    assert trace["kernel"]["name"].to_list() == ["first", "short", "k2", "k1", "k3", "k0"]
    assert trace.columns("kernel", "start_ns")["start_ns"].values.tolist() == [5, *[10] * 5]
