"""The tables of kernels by class and of collectives, against independent sums."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import warpline
from warpline import api
from warpline.result import Result
from warpline.trace import MemorySource, Trace

SHARED = Path(__file__).parents[3] / "shared" / "data"
B200 = SHARED / "public" / "kineto" / "b200__eager_trace.json.gz"


def table(trace: Trace, call: str) -> Result:
    found = api.run(trace, call)
    assert isinstance(found, Result)
    return found


def rows(result: Result, *names: str) -> list[tuple[Any, ...]]:
    return list(zip(*(result.columns[name].to_list() for name in names), strict=True))


@pytest.mark.parametrize("name", ["host_sync.bad", "tiny_kernels.fixed", "ddp_serial.bad.rank1"])
def test_classes_divide_all_kernels(capture: Callable[[str], Path], name: str):
    trace = warpline.open(capture(name))
    classes, named = table(trace, "kernel_class_sum"), table(trace, "kernel_class_sum:name")
    frame = trace["kernel"]
    durations = frame["end_ns"] - frame["start_ns"]
    for found in (classes, named):
        assert sum(found.columns["total_ns"].to_list()) == durations.sum()
        assert sum(found.columns["instances"].to_list()) == len(frame)
        assert sum(found.columns["names"].to_list()) == frame["name"].n_unique()
        assert sum(found.columns["time_ratio"].to_list()) == pytest.approx(1)
    assert len(named) == frame["name"].n_unique()
    for total, busy, *_ in rows(classes, "total_ns", "busy_ns"):
        assert 0 < busy <= total


def test_a_kernel_that_no_rule_knows_is_noted():
    kernels: dict[str, list[Any]] = {
        "start_ns": [0, 10, 25],
        "end_ns": [10, 20, 35],
        "name": ["mystery", "mystery", "ampere_sgemm_128x64_nn"],
        "device_id": [0, 0, 0],
    }
    found = table(Trace(MemorySource({"kernel": kernels})), "kernel_class_sum:name")
    assert rows(found, "category", "origin", "rule", "total_ns", "busy_ns") == [
        ("other", "user", None, 20, 20),
        ("gemm", "cublas", "cublas-gemm", 10, 10),
    ]
    assert "2 kernels (66.7% of the time)" in found.notes[0]


def test_collectives_of_a_capture_have_the_sizes_of_their_calls(capture: Callable[[str], Path]):
    trace = warpline.open(capture("ddp_payloads.whole.rank0"))
    found = table(trace, "collective_kern_sum")
    calls = trace["collective"]
    for operation, family, instances, sized, size in rows(
        found, "operation", "family", "instances", "sized", "bytes"
    ):
        made = calls.filter(calls["operation"] == f"nccl{operation}")
        assert (family, instances, sized) == ("nccl", len(made), len(made))
        assert size == made["bytes"].sum()
    assert sum(found.columns["instances"].to_list()) == len(calls)


def test_what_a_name_leaves_out_is_taken_from_the_call():
    thread = {"process_id": 0, "thread_id": 0}
    calls = [(0, 5, "ncclAllGather"), (10, 15, "ncclAllReduce"), (20, 25, "allreduce")]
    tables: dict[str, list[dict[str, Any]]] = {
        "process": [{"pid": 1}],
        "thread": [{"tid": 1, "process_id": 0}],
        "device": [{"gpu_index": 3}],
        "collective": [
            {**thread, "start_ns": start, "end_ns": end, "operation": name, "bytes": 100 + start}
            | {"dtype": "BFloat16", "sequence": 0}
            for start, end, name in calls
        ],
        "api_call": [
            {**thread, "start_ns": start + 1, "end_ns": start + 2, "correlation_id": start}
            for start, _, _ in calls
        ],
        "kernel": [
            kernel(30, "ncclDevKernel_Generic_4(x)", 0),
            kernel(40, "ncclDevKernel_Generic_4(x)", 10),
            kernel(50, "ncclDevKernel_Generic_4(x)", 10),
            kernel(60, "strange", 20),
            kernel(70, "ncclDevKernel_SendRecv(x)", 99),
        ],
    }
    columns = {
        name: {key: [row[key] for row in made] for key in made[0]} for name, made in tables.items()
    }
    found = table(Trace(MemorySource(columns)), "collective_kern_sum")
    shown = rows(found, "operation", "family", "dtype", "gpu_index", "instances", "sized", "bytes")
    assert sorted(shown) == [
        ("AllGather", "rccl", "bf16", 3, 1, 1, 100),
        ("AllReduce", "rccl", "bf16", 3, 2, 1, 110),
        ("AllReduce", "unknown", "bf16", 3, 1, 1, 120),
        ("SendRecv", "nccl", None, 3, 1, 0, None),
    ]
    assert found.notes == ("the message size of 2 kernels is unknown",)


def kernel(start: int, name: str, correlation: int) -> dict[str, Any]:
    times = {"start_ns": start, "end_ns": start + 4}
    return {**times, "name": name, "correlation_id": correlation, "device_id": 0, "process_id": 0}


@pytest.mark.skipif(not B200.exists(), reason="the larger captures are not here")
def test_collectives_without_the_letters_nccl_are_found():
    found = table(warpline.open(B200), "collective_kern_sum")
    assert rows(found, "operation", "family", "instances", "total_ns") == [
        ("AllReduce", "symmetric-memory", 73, 2_119_548),
        ("AllGather", "nccl", 1, 21_953),
    ]
