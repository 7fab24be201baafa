"""Operations that NCCL told, and their kernels, on a trace small enough to count by hand."""

from __future__ import annotations

from typing import Any

import pytest

from warpline import api
from warpline.trace import MemorySource, Trace

RING_LL = "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
GENERIC = "ncclDevKernel_Generic_4(x)"


class Program:
    """What a process of 8 ranks did, in order."""

    def __init__(self) -> None:
        self.calls: list[dict[str, Any]] = []
        self.kernels: list[dict[str, Any]] = []
        self.told: list[dict[str, Any]] = []

    def launch(self, start: int, kernel: str | None, took: int = 0, thread: int = 0) -> None:
        """Launch a kernel that runs from 10,000 ns later on; none: it is captured."""
        place = {"process_id": 0, "correlation_id": len(self.calls)}
        name = "cuLaunchKernelEx"
        times = {"start_ns": start, "end_ns": start + 5}
        self.calls.append({**place, **times, "name": name, "thread_id": thread, "return_value": 0})
        if kernel is not None:
            times = {"start_ns": start + 10_000, "end_ns": start + 10_000 + took}
            self.kernels.append({**place, **times, "name": kernel, "device_id": 0})

    def call(self, start: int, name: str) -> None:
        """Make another call of CUDA."""
        row = {"process_id": 0, "correlation_id": len(self.calls), "name": name}
        self.calls.append(
            {**row, "start_ns": start, "end_ns": start + 1, "thread_id": 0, "return_value": 0}
        )

    def tell(self, time_ns: int, name: str, size: int, thread: int = 0, **more: Any) -> None:
        """NCCL tells of an operation."""
        chosen = {"algorithm": "NVLS", "protocol": "SIMPLE", "channels": 16, "dtype": "bfloat16"}
        row = {"time_ns": time_ns, "process_id": 0, "thread_id": thread, "name": name, "rank": 0}
        self.told.append({**row, "bytes": size, "rank_count": 8, **chosen, **more})

    @property
    def trace(self) -> Trace:
        """The recording."""
        tables = {
            "process": [{"pid": 1}],
            "thread": [{"tid": 1, "process_id": 0}, {"tid": 2, "process_id": 0}],
            "device": [{"gpu_index": 0}],
            "api_call": self.calls,
            "kernel": self.kernels,
            "nccl_op": self.told,
        }
        columns = {
            name: {key: [row[key] for row in rows] for key in rows[0]}
            for name, rows in tables.items()
            if rows
        }
        return Trace(MemorySource(columns))


def rows(trace: Trace, name: str, *fields: str) -> list[tuple[Any, ...]]:
    """Return columns of a table, row by row."""
    result = api.stats(trace, name)
    return list(zip(*(result.columns[field].to_list() for field in fields), strict=True))


def test_bandwidth_is_of_the_kernels_of_equal_operations() -> None:
    program = Program()
    for number, took in enumerate((4000, 1000, 2000)):
        program.launch(100 + 50 * number, RING_LL, took)
        program.call(110 + 50 * number, "cudaEventRecord")
        program.tell(120 + 50 * number, "AllReduce", 1 << 20)
    found = rows(
        program.trace,
        "nccl_sum",
        *("operation", "bytes", "dtype", "ranks", "algorithm", "protocol", "channels"),
        *("operations", "timed", "total_ns", "median_ns", "min_ns"),
    )
    kind = ("AllReduce", 1 << 20, "bf16", 8, "NVLS", "SIMPLE", 16)
    assert found == [(*kind, 3, 3, 7000, 2000.0, 1000)]
    ((algorithm, bus),) = rows(
        program.trace, "nccl_sum", "algorithm_bytes_per_s", "bus_bytes_per_s"
    )
    assert algorithm == pytest.approx((1 << 20) / 2000e-9)
    assert bus == pytest.approx(algorithm * 2 * 7 / 8)


def test_joined_operations_share_the_time_of_their_kernel() -> None:
    program = Program()
    program.launch(100, GENERIC, 9000)
    program.tell(110, "AllGather", 200)
    program.tell(111, "AllGather", 100)
    found = rows(program.trace, "nccl_sum", "bytes", "total_ns", "bus_bytes_per_s")
    # An all-gather of 8 ranks moves 7 parts over each link.
    assert found == [
        (200, 6000, pytest.approx(200 * 7 / 6e-6)),
        (100, 3000, pytest.approx(7e8 / 3)),
    ]


def test_kernels_of_others_are_no_operation_of_nccl() -> None:
    program = Program()
    program.launch(100, RING_LL, 1000)
    program.tell(105, "AllReduce", 8)
    program.launch(200, "gemm", 7)
    program.tell(205, "AllReduce", 16)  # by a thread of its own, or by copy engines
    program.launch(300, RING_LL, 3000)
    program.launch(310, None)  # captured
    program.tell(315, "AllReduce", 32)
    program.launch(400, RING_LL, 5000, thread=1)
    program.tell(405, "AllReduce", 64, thread=1)
    program.launch(500, RING_LL, 6000)
    program.tell(505, "AllReduce", 128, algorithm="CE", protocol=None)
    found = rows(program.trace, "nccl_sum", "bytes", "timed", "total_ns")
    timed = {(8, 1, 1000), (64, 1, 5000)}
    assert {*found} == timed | {(16, 0, None), (32, 0, None), (128, 0, None)}


def test_the_table_of_kernels_has_what_nccl_chose() -> None:
    program = Program()
    program.launch(100, RING_LL, 1000)
    program.tell(105, "AllReduce", 8)
    program.launch(200, RING_LL, 2000)
    program.tell(205, "AllReduce", 16, algorithm="RING", protocol="LL128")
    program.launch(300, RING_LL, 3000)
    program.tell(305, "AllReduce", 1)
    program.tell(306, "AllReduce", 2, algorithm="TREE")  # differs: the name counts
    program.launch(400, RING_LL, 4000)  # not told
    found = rows(
        program.trace, "collective_kern_sum", "total_ns", "algorithm", "protocol", "bytes", "sized"
    )
    assert sorted(found) == [
        (1000, "NVLS", "SIMPLE", 8, 1),
        (2000, "RING", "LL128", 16, 1),
        (7000, "RING", "LL", 3, 1),
    ]
