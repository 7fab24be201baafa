"""Finishing CUDA: the same tables as from nsys's exports, and what exports do not show."""

from __future__ import annotations

import io
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from capture.cuda_writer import (
    CAPTURES,
    COOPERATIVE,
    COOPERATIVE_MULTI,
    DRIVER,
    IS_GRAPH,
    LAUNCHES,
    NONE,
    CudaLog,
    write_from_nsys,
)
from capture.raw_writer import ORIGIN_NS, record, write_session

import warpline
from warpline import api, native, plugins
from warpline.capture.cuda_tables import TABLES as CUDA_TABLES
from warpline.capture.finishing import Finished, finish
from warpline.errors import AgentMissingError
from warpline.render import RENDERERS, Options
from warpline.result import Document, Result
from warpline.trace import Trace

pytestmark = pytest.mark.skipif(native.core() is None, reason="needs the native core")

EXPORTS = [
    "cuda_graph_level",
    "ddp_serial.bad.rank0",
    "host_sync.bad",
    "pageable_h2d.fixed",
    "tiny_kernels.fixed",
]
COMPARED = [
    *("kernel", "memcpy", "memset", "graph_launch", "api_call", "host_wait", "stream_wait"),
    *("event_record", "memory_event", "graph_node", "device", "context", "stream"),
]
# What an agent is not told: the name of the chip, the graph that an instance was made from, and
# the call chains. Priorities are signed, which nsys's exports do not show.
UNTOLD = {"chip", "graph_id", "chain_id", "priority", "thread_id"}
REPORTS = [
    *("cuda_gpu_kern_sum", "cuda_gpu_mem_time_sum", "cuda_gpu_mem_size_sum", "cuda_api_sum"),
    *("cuda_gpu_trace", "cuda_gpu_kern_gb_sum", "cuda_kern_exec_sum", "cuda_api_gpu_sum"),
]


def read(folder: Path, *logs: CudaLog, **facts: Any) -> tuple[Trace, Finished]:
    session = write_session(folder / "x.warpline.raw", *logs, **{"collected": ["cuda"], **facts})
    finished = finish(session, folder / "x.warpline")
    return warpline.open(folder / "x.warpline"), finished


def rows(trace: Trace, table: str, *names: str) -> list[tuple[Any, ...]]:
    return trace[table].select(names).rows()


def of_process(pid: int = 100, **more: Any) -> CudaLog:
    """Return a log of a process with one device and one context."""
    log = CudaLog(pid, **more)
    log.collecting(0)
    log.device()
    log.context()
    return log


@pytest.fixture(scope="module")
def both(
    capture: Callable[[str], Path], tmp_path_factory: pytest.TempPathFactory
) -> Callable[[str], tuple[Trace, Trace]]:
    """Return the traces of an export and of the session that would have led to it."""
    folder = tmp_path_factory.mktemp("sessions")

    def traces(name: str) -> tuple[Trace, Trace]:
        output = folder / f"{name}.warpline"
        if not output.exists():
            session = write_from_nsys(capture(name), folder / f"{name}.warpline.raw")
            assert finish(session, output).lost == 0
        return warpline.open(capture(name)), warpline.open(output)

    return traces


@pytest.mark.parametrize("name", EXPORTS)
def test_tables_are_those_of_an_export(
    both: Callable[[str], tuple[Trace, Trace]], name: str
) -> None:
    theirs, ours = both(name)
    for table in COMPARED:
        if table not in theirs.tables:
            assert ours.row_count(table) == 0, table
            continue
        kept = [column for column in theirs[table].columns if column not in UNTOLD]
        left, right = theirs[table].select(kept), ours[table].select(kept)
        assert len(left) == len(right), table
        wrong = [c for c in kept if not left[c].equals(right[c], null_equal=True)]
        assert not wrong, (table, wrong)


@pytest.mark.parametrize("name", EXPORTS)
def test_what_an_export_shows_otherwise(
    both: Callable[[str], tuple[Trace, Trace]], name: str
) -> None:
    theirs, ours = both(name)
    unsigned = ours["stream"]["priority"].to_list()
    wrapped = [None if value is None else value % 2**32 for value in unsigned]
    assert wrapped == theirs["stream"]["priority"].to_list()
    calls = [
        trace["api_call"].join(trace["thread"].with_row_index("row"), left_on="thread_id",
                               right_on=pl.col("row").cast(pl.Int32))["tid"].to_list()
        for trace in (theirs, ours)
    ]  # fmt: skip
    assert calls[0] == calls[1]


@pytest.mark.parametrize("name", EXPORTS)
def test_reports_are_those_of_an_export_byte_for_byte(
    both: Callable[[str], tuple[Trace, Trace]], name: str
) -> None:
    plugins.load("renderers")
    theirs, ours = both(name)
    for report in REPORTS:
        assert csv(ours, report) == csv(theirs, report), report


def csv(trace: Trace, report: str) -> str | None:
    outcome = api.run(trace, report)
    if not isinstance(outcome, Result):
        return None
    out = io.StringIO()
    RENDERERS.get("csv").render(Document("", {}, (outcome,)), out, Options())
    return out.getvalue()


def test_launches_of_every_kind(tmp_path: Path) -> None:
    log = of_process()
    log.kernel("plain", 10, 20, 1)
    log.kernel("together", 30, 40, 2, flags=COOPERATIVE, cluster=(2, 1, 4))
    log.kernel("over GPUs", 50, 60, 3, flags=COOPERATIVE_MULTI)
    log.kernel(None, 70, 80, 4)
    trace, _ = read(tmp_path, log)
    names = ("name", "short_name", "mangled_name", "launch_kind", "cluster_x", "cluster_z")
    assert rows(trace, "kernel", *names) == [
        ("plain", "plain", "plain", "Regular", None, None),
        ("together", "together", "together", "Cooperative", 2, 4),
        ("over GPUs", "over GPUs", "over GPUs", "Cooperative multi-device", None, None),
        ("[unknown]", "[unknown]", None, "Regular", None, None),
    ]


NAMES = {
    # No such name stands in the captures: pointers to functions, arrays, operators, members,
    # values that depend on template arguments, packs, references.
    "_Z1fPFviE": "f(void (*)(int))",
    "_Z1fRA5_Kc": "f(const char (&)[5])",
    "_Z1fM1AFvvE": "f(void (A::*)())",
    "_Z1fM1Ai": "f(int A::*)",
    "_Z1fPKPKcPVi": "f(const char *const *, volatile int *)",
    "_ZN1AplERKS_": "A::operator +(const A &)",
    "_ZN1AC2EOS_": "A::A(A &&)",
    "_ZNK1AcviEv": "A::operator int() const",
    "_Z1fIJidEEvDpT_": "void f<int, double>(T1...)",
    "_Z1fIiEvP1AIXplT_Li3EEE": "void f<int>(A<(T1 + (int)3)> *)",
    "_Z1fILin3ELb1EEvv": "void f<(int)-3, (bool)1>()",
    "_Z1fISaIcESsEvv": "void f<std::allocator<char>, std::string>()",
    "_ZN12_GLOBAL__N_11fEv": "<unnamed>::f()",
    "_Z1fI1AEDTcldtfp_1gEET_": "decltype({param 1}.g()) f<A>(T1)",
    "_ZL1fv": "f()",
    # As nsys 2025.3 shows cuRAND's gen_sequenced: its argument without result and parameters.
    "_Z1gIXadL_Z1fIiEdPT_iEEEvv": "void g<&f<int>>()",
    "plain_name": "plain_name",
    # These are no names of functions, or end too early: they stay as they are.
    "_ZTV1A": "_ZTV1A",
    "_Z": "_Z",
    "_Z1fS5_": "_Z1fS5_",
    "_Z9fv": "_Z9fv",
    "_Z1fI": "_Z1fI",
    "_Z1fvE": "_Z1fvE",
    "_Z99999999999999999999f": "_Z99999999999999999999f",
}


def test_names_of_kernels(tmp_path: Path) -> None:
    log = of_process()
    for number, name in enumerate(NAMES):
        log.kernel(name, number * 10 + 1, number * 10 + 2, number + 1)
    trace, _ = read(tmp_path, log)
    found = rows(trace, "kernel", "mangled_name", "name")
    assert dict(found) == NAMES


def test_names_that_unfold_without_end_stay_as_they_are(tmp_path: Path) -> None:
    deep = "_Z1f" + "P" * 60_000 + "i"
    doubled = "_Z1f1aIiE" + "".join(
        f"1aI{s}{s}E" for s in ("S_", *(f"S{i}_" for i in range(9))) * 9
    )
    log = of_process()
    log.kernel(deep, 1, 2, 1)
    log.kernel(doubled, 3, 4, 2)
    log.kernel("_Z1f" + "N" * 60_000, 5, 6, 3)
    trace, _ = read(tmp_path, log)
    assert rows(trace, "kernel", "name")[0] == (deep,)
    assert all(len(name) <= 65_535 for (name,) in rows(trace, "kernel", "name"))


def test_copies_between_devices_and_in_batches(tmp_path: Path) -> None:
    log = of_process()
    log.device(1)
    log.copy(10, 20, 1, 64, kind=10, memory=(3, 3), peers=(1, 0))
    log.copy(30, 40, 2, 2**40, kind=99, memory=(0, 9), count=5)
    log.fill(50, 60, 3, 7, value=0xFFFFFFFF, memory=2)
    trace, _ = read(tmp_path, log)
    names = ("bytes", "kind", "src_memory", "dst_memory", "src_device_id", "copy_count")
    assert rows(trace, "memcpy", *names) == [
        (64, "Peer-to-Peer", "Device", "Device", 1, 1),
        (2**40, "Unknown", "Unknown", "Unknown", None, 5),
    ]
    assert rows(trace, "memset", "bytes", "value", "memory") == [(7, 0xFFFFFFFF, "Pinned")]


def test_work_without_times_is_lost_and_told(tmp_path: Path) -> None:
    log = of_process()
    log.launch(1, 2, 1)
    log.kernel("f", None, None, 1)
    log.launch(3, 4, 2)
    log.kernel("f", 10, None, 2)
    log.wait(3, 0 - ORIGIN_NS, 9, 3)
    trace, finished = read(tmp_path, log)
    assert (len(trace["kernel"]), len(trace["host_wait"]), finished.lost) == (0, 0, 3)
    assert trace.meta.lost == {"CUDA records without a time": 3}
    assert "CUPTI gave 3 records of device work without a time" in trace.meta.warnings[0]


def test_what_a_killed_process_launched_last_is_lost(tmp_path: Path) -> None:
    log = of_process(closed=None)
    for number in range(1, 6):
        log.launch(number * 10, number * 10 + 5, number)
    log.call("cudaGraphLaunch_v10000", 80, 85, 6, flags=LAUNCHES | IS_GRAPH)
    log.call("cudaLaunchKernel_v7000", 90, 95, 7, flags=LAUNCHES, status=1)
    for number in (8, 9, 10, 11):
        log.call("cudaMemcpyAsync_v3020", 100, 105, number, flags=LAUNCHES)
    log.call("cuMemsetD8Async", 110, 112, 12, flags=LAUNCHES, domain=DRIVER)
    log.call("cudaMemcpy_v3020", 120, 122, 13)  # of no bytes
    log.kernel("f", 20, 30, 1)
    log.kernel("f", 30, 40, 2)
    log.copy(100, 110, 8, 64)
    log.copy(100, 110, 9, 64, kind=10, memory=(3, 3), peers=(0, 0))
    trace, finished = read(tmp_path, log)
    assert trace.meta.lost == {
        "kernels": 3,
        "CUDA graph launches": 1,
        "copies": 2,
        "memsets": 1,
    }
    assert finished.lost == 7
    told = (
        "3 kernels, 1 CUDA graph launch, 2 copies and 1 memset of process 100"
        " had no record when it was killed"
    )
    assert told in trace.meta.warnings


def test_what_ran_when_recording_ended_is_told_but_not_lost(tmp_path: Path) -> None:
    log = of_process()
    log.launch(10, 15, 1)
    trace, finished = read(tmp_path, log)
    assert finished.lost == 0
    told = "1 kernel of process 100 has no record: recording ended before it"
    assert trace.meta.warnings == (told,)


def test_copies_that_were_not_recorded_are_not_missing(tmp_path: Path) -> None:
    log = of_process(closed=None)
    log.collecting(5, 2)
    log.call("cudaMemcpy_v3020", 10, 12, 1, flags=LAUNCHES)
    log.call("cudaMemset_v3020", 20, 22, 2, flags=LAUNCHES)
    log.collecting(30, 4)
    log.call("cudaMemcpy_v3020", 40, 42, 3, flags=LAUNCHES)
    log.call("cudaMemset_v3020", 50, 52, 4, flags=LAUNCHES)
    log.call("cudaStreamBeginCapture_v10000", 60, 62, 5, flags=CAPTURES)
    log.call("cudaMemcpyAsync_v3020", 70, 72, 6, flags=LAUNCHES)
    log.call("cudaStreamEndCapture_v10000", 80, 82, 7, flags=CAPTURES)
    trace, _ = read(tmp_path, log)
    assert trace.meta.lost == {"copies": 1}


def test_launches_into_a_capture_have_no_record(tmp_path: Path) -> None:
    log = of_process(closed=None)
    log.call("cudaStreamBeginCapture_v10000", 10, 12, 1, flags=CAPTURES)
    log.launch(20, 25, 2)
    log.call("cudaStreamEndCapture_v10000", 30, 32, 3, flags=CAPTURES)
    log.launch(40, 45, 4)
    log.call("cudaStreamBeginCapture_v10000", 50, 52, 5, flags=CAPTURES, status=900)
    log.launch(60, 65, 6)
    _, finished = read(tmp_path, log)
    assert finished.lost == 2


def test_launches_while_kernels_were_not_recorded_are_not_missing(tmp_path: Path) -> None:
    log = of_process(closed=None)
    log.launch(10, 15, 1)
    log.collecting(20, 1)
    log.launch(30, 35, 2)
    log.collecting(40, 3)
    log.launch(50, 55, 3)
    _, finished = read(tmp_path, log)
    assert finished.lost == 2


def test_a_core_of_another_version_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = Path("old/libwarpline_core.so")
    status = native.NativeStatus(available=False, path=path, abi=2, reason="it has version 2")
    monkeypatch.setattr(native, "core", lambda: None)
    monkeypatch.setattr(native, "status", lambda: status)
    with pytest.raises(AgentMissingError, match="it has version 2") as raised:
        read(tmp_path, of_process())
    assert f"{path} with it" in (raised.value.hint or "")


def test_correlations_belong_to_their_process(tmp_path: Path) -> None:
    first = of_process(100, closed=None)
    first.launch(10, 15, 1)
    second = of_process(200, incarnation=2, closed=None)
    second.kernel("f", 20, 30, 1)
    trace, finished = read(tmp_path, first, second)
    assert finished.lost == 1
    assert rows(trace, "kernel", "process_id", "device_id", "context_id") == [(1, 0, 1)]
    assert rows(trace, "context", "process_id", "native_id") == [(0, 1), (1, 1)]


def test_records_that_cupti_dropped(tmp_path: Path) -> None:
    log = of_process()
    log.launch(10, 15, 1)
    log.lost(20, 1234)
    trace, finished = read(tmp_path, log)
    assert (finished.lost, trace.meta.lost) == (1234, {"CUDA records": 1234})
    assert trace.meta.warnings == (
        "CUPTI dropped 1,234 records for want of buffers: record less at a time",
    )


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
    trace, _ = read(tmp_path, log)
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
    trace, _ = read(tmp_path, log)
    assert rows(trace, "host_wait", "device_id", "context_id") == [(1, 0), (1, 0)]
    names = ("device_id", "event_id", "event_sync_id", "device_time_ns")
    assert rows(trace, "event_record", *names) == [(1, 5, 2, 25)]


def test_streams_and_contexts_are_those_declared_and_those_used(tmp_path: Path) -> None:
    log = CudaLog()
    log.device()
    log.context(1)
    log.context(2, parent=1, green=True, null_stream=NONE)
    log.stream(13, -5)
    log.kernel("f", 10, 20, 1, context=2, stream=30)
    log.kernel("g", 30, 40, 2, context=5, stream=31)
    trace, _ = read(tmp_path, log)
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
    trace, _ = read(tmp_path, first, second, third)
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
    trace, _ = read(tmp_path, first, second)
    assert rows(trace, "device", "gpu_index", "bus") == [(3, "0000:06:00.0"), (6, "0000:09:00.0")]


def test_numbers_that_are_known_of_some_devices_only_do_not_count(tmp_path: Path) -> None:
    near, far = bytes(range(16)), bytes(range(16, 32))
    log = CudaLog()
    log.device(0, uuid=far, pci=struct.pack("<IHH", 0, 9, 0))
    log.device(1, uuid=near, pci=struct.pack("<IHH", 0, 6, 0), machine_number=1)
    trace, _ = read(tmp_path, log)
    assert rows(trace, "device", "gpu_index", "bus") == [(0, "0000:06:00.0"), (1, "0000:09:00.0")]


def test_a_device_that_nothing_describes(tmp_path: Path) -> None:
    log = CudaLog()
    log.kernel("f", 10, 20, 1, device=3)
    trace, _ = read(tmp_path, log)
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
    trace, finished = read(tmp_path, log)
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


def test_nodes_of_graphs_make_a_launch(tmp_path: Path) -> None:
    log = of_process()
    log.kernel("b", 30, 40, 1, node=12, graph=3, stream=9)
    log.kernel("a", 10, 20, 1, node=11, graph=3, stream=8)
    log.fill(35, 60, 1, 4, node=13, graph=3)
    log.kernel("a", 70, 80, 2, node=11, graph=3)
    log.kernel("plain", 90, 95, 3)
    log.graph(4, 100, 200, 5)
    trace, _ = read(tmp_path, log)
    names = ("start_ns", "end_ns", "level", "node_count", "graph_id", "graph_exec_id")
    assert rows(trace, "graph_launch", *names) == [
        (10, 60, "Node", 3, 3, None),
        (70, 80, "Node", 1, 3, None),
        (100, 200, "Graph", 0, None, 4),
    ]
    streams = trace["stream"]["native_id"].to_list()
    assert streams[trace["graph_launch"]["stream_id"][0]] == 8


def test_overhead_names_the_thread_that_paid(tmp_path: Path) -> None:
    log = of_process(tid=101)
    log.overhead(1 << 16, 10, 20, tid=101)
    log.overhead(1, 30, 40, tid=999)
    log.overhead(77, 50, 60)
    trace, _ = read(tmp_path, log)
    assert rows(trace, "overhead", "thread_id", "name") == [
        (0, "CUPTI Buffer flush"),
        (None, "CUDA driver compiler"),
        (None, "Unknown"),
    ]


def test_memory_events(tmp_path: Path) -> None:
    log = of_process()
    log.memory(2, 30, 2**63 + 1, 8, pool=2**40)
    log.memory(1, 20, 16, 8, context=0, kind=6, name="variable", correlation=5)
    trace, _ = read(tmp_path, log)
    names = ("time_ns", "context_id", "operation", "memory", "address", "pool_address", "name")
    assert rows(trace, "memory_event", *names) == [
        (20, None, "Allocation", "Device Static", 16, None, "variable"),
        (30, 0, "Deallocation", "Device", 1 - 2**63, 2**40, None),
    ]


def test_a_call_whose_name_is_not_in_the_log(tmp_path: Path) -> None:
    log = CudaLog()
    log.launch(10, 20, 1)
    log.add(66, 2 << 16 | 500, body=struct.pack("<QQII", ORIGIN_NS + 30, ORIGIN_NS + 40, 2, 0))
    trace, _ = read(tmp_path, log)
    assert trace["api_call"]["name"].to_list() == ["cudaLaunchKernel_v7000", "[unknown call 500]"]


def tables_of(trace: Trace) -> set[str]:
    return {*trace.tables} & {*CUDA_TABLES}


def test_what_was_recorded_is_there_though_empty(tmp_path: Path) -> None:
    log = CudaLog()
    log.collecting(10, 2 | 4)
    log.collecting(20, 0)
    trace, _ = read(tmp_path, log)
    dimensions = {"device", "context", "stream"}
    assert tables_of(trace) == {"kernel", "memcpy", "graph_launch", *dimensions}


def test_without_cuda_the_tables_are_there_if_it_was_asked_for(tmp_path: Path) -> None:
    trace, _ = read(tmp_path, CudaLog(), collected=["cuda", "nvtx"])
    assert {"kernel", "api_call", "host_wait"} <= tables_of(trace)
    assert not {"memory_event", "graph_node"} & tables_of(trace)
    trace, _ = read(tmp_path, CudaLog(), collected=["nvtx"])
    assert tables_of(trace) == set()


def test_where_cuda_could_not_be_recorded_no_table_says_so(tmp_path: Path) -> None:
    log = CudaLog()
    log.note(10, 65, "no CUPTI was found")
    log.note(20, 64, "CUPTI 130001 /lib/libcupti.so.13")
    trace, _ = read(tmp_path, log)
    assert tables_of(trace) == set()
    assert trace.meta.warnings == ("CUDA is not recorded: no CUPTI was found",)
    assert rows(trace, "diagnostic", "time_ns", "severity", "text")[1] == (
        20,
        "Info",
        "CUDA is recorded through CUPTI 130001 /lib/libcupti.so.13",
    )


KINDS = range(64, 84)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("words", [0, 14])
def test_reading_stops_at_a_record_of_the_wrong_size(tmp_path: Path, kind: int, words: int) -> None:
    log = of_process()
    log.kernel("f", 10, 20, 1)
    log.body += record(kind, body=bytes(8 * words))
    log.kernel("g", 30, 40, 2)
    trace, finished = read(tmp_path, log)
    assert trace["kernel"]["name"].to_list() == ["f"]
    assert (finished.damaged_logs, finished.lost) == (1, 1)


def test_rows_are_written_in_their_order(tmp_path: Path) -> None:
    log = of_process()
    places = [(1, 8), (0, 9), (0, 7), (1, 7)]
    for number, (device, stream) in enumerate(places):
        log.kernel(f"k{number}", 10, 20, 9 - number, device=device, stream=stream)
    log.kernel("first", 5, 90, 20)
    log.kernel("short", 10, 12, 21)
    trace, _ = read(tmp_path, log)
    assert trace["kernel"]["name"].to_list() == ["first", "short", "k2", "k1", "k3", "k0"]
    assert trace.columns("kernel", "start_ns")["start_ns"].values.tolist() == [5, *[10] * 5]
