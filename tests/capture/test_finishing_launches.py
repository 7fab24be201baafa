"""Launches, copies and graphs, and the names of kernels."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest
from capture.cuda_writer import CAPTURES, COOPERATIVE, COOPERATIVE_MULTI, CudaLog
from capture.finished import of_process, read_cuda, rows
from capture.raw_writer import ORIGIN_NS

from warpline import native

pytestmark = pytest.mark.skipif(native.core() is None, reason="needs the native core")


def test_launches_of_every_kind(tmp_path: Path) -> None:
    log = of_process()
    log.kernel("plain", 10, 20, 1)
    log.kernel("together", 30, 40, 2, flags=COOPERATIVE, cluster=(2, 1, 4))
    log.kernel("over GPUs", 50, 60, 3, flags=COOPERATIVE_MULTI)
    log.kernel(None, 70, 80, 4)
    trace, _ = read_cuda(tmp_path, log)
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
    trace, _ = read_cuda(tmp_path, log)
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
    trace, _ = read_cuda(tmp_path, log)
    assert rows(trace, "kernel", "name")[0] == (deep,)
    assert all(len(name) <= 65_535 for (name,) in rows(trace, "kernel", "name"))


def test_copies_between_devices_and_in_batches(tmp_path: Path) -> None:
    log = of_process()
    log.device(1)
    log.copy(10, 20, 1, 64, kind=10, memory=(3, 3), peers=(1, 0))
    log.copy(30, 40, 2, 2**40, kind=99, memory=(0, 9), count=5)
    log.fill(50, 60, 3, 7, value=0xFFFFFFFF, memory=2)
    trace, _ = read_cuda(tmp_path, log)
    names = ("bytes", "kind", "src_memory", "dst_memory", "src_device_id", "copy_count")
    assert rows(trace, "memcpy", *names) == [
        (64, "Peer-to-Peer", "Device", "Device", 1, 1),
        (2**40, "Unknown", "Unknown", "Unknown", None, 5),
    ]
    assert rows(trace, "memset", "bytes", "value", "memory") == [(7, 0xFFFFFFFF, "Pinned")]


def test_launches_into_a_capture_have_no_record(tmp_path: Path) -> None:
    log = of_process(closed=None)
    log.call("cudaStreamBeginCapture_v10000", 10, 12, 1, flags=CAPTURES)
    log.launch(20, 25, 2)
    log.call("cudaStreamEndCapture_v10000", 30, 32, 3, flags=CAPTURES)
    log.launch(40, 45, 4)
    log.call("cudaStreamBeginCapture_v10000", 50, 52, 5, flags=CAPTURES, status=900)
    log.launch(60, 65, 6)
    _, finished = read_cuda(tmp_path, log)
    assert finished.lost == 2


def test_correlations_belong_to_their_process(tmp_path: Path) -> None:
    first = of_process(100, closed=None)
    first.launch(10, 15, 1)
    second = of_process(200, incarnation=2, closed=None)
    second.kernel("f", 20, 30, 1)
    trace, finished = read_cuda(tmp_path, first, second)
    assert finished.lost == 1
    assert rows(trace, "kernel", "process_id", "device_id", "context_id") == [(1, 0, 1)]
    assert rows(trace, "context", "process_id", "native_id") == [(0, 1), (1, 1)]


def test_nodes_of_graphs_make_a_launch(tmp_path: Path) -> None:
    log = of_process()
    log.kernel("b", 30, 40, 1, node=12, graph=3, stream=9)
    log.kernel("a", 10, 20, 1, node=11, graph=3, stream=8)
    log.fill(35, 60, 1, 4, node=13, graph=3)
    log.kernel("a", 70, 80, 2, node=11, graph=3)
    log.kernel("plain", 90, 95, 3)
    log.graph_call(98, 5)
    log.graph(4, 100, 200, 5)
    trace, _ = read_cuda(tmp_path, log)
    names = ("start_ns", "end_ns", "level", "node_count", "graph_id", "graph_exec_id")
    assert rows(trace, "graph_launch", *names) == [
        (10, 60, "Node", 3, 3, None),
        (70, 80, "Node", 1, 3, None),
        (100, 200, "Graph", 0, None, 4),
    ]
    streams = trace["stream"]["native_id"].to_list()
    assert streams[trace["graph_launch"]["stream_id"][0]] == 8


def test_graphs_launched_while_recording_rested_are_left_out(tmp_path: Path) -> None:
    log = of_process(closed=None)
    log.graph_call(10, 1)
    log.collecting(20, 0)
    log.graph(4, 30, 40, 1)  # launched before
    log.graph(4, 50, 60, 2)
    log.collecting(70)
    log.graph(4, 65, 80, 3)  # launched at rest, ends later
    log.graph_call(90, 4)
    log.graph(4, 91, 99, 4)
    log.graph_call(100, 5)
    bare = CudaLog(200, incarnation=2)
    bare.collecting(0, 16)  # no calls
    bare.graph(6, 10, 20, 2)
    trace, finished = read_cuda(tmp_path, log, bare)
    found = rows(trace, "graph_launch", "process_id", "correlation_id")
    assert sorted(found) == [(0, 1), (0, 4), (1, 2)]
    assert (finished.lost, trace.meta.lost) == (1, {"CUDA graph launches": 1})


def test_a_call_whose_name_is_not_in_the_log(tmp_path: Path) -> None:
    log = CudaLog()
    log.launch(10, 20, 1)
    log.add(66, 2 << 16 | 500, body=struct.pack("<QQII", ORIGIN_NS + 30, ORIGIN_NS + 40, 2, 0))
    trace, _ = read_cuda(tmp_path, log)
    assert trace["api_call"]["name"].to_list() == ["cudaLaunchKernel_v7000", "[unknown call 500]"]
