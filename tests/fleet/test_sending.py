"""Sends and receives of a recording: what kernels do, by the calls that they come from."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.ranks import MadeRun

from warpline.fleet.chains import chains_of
from warpline.fleet.jobs import job_of
from warpline.fleet.summarizing import summarize
from warpline.fleet.summary import RankSummary, packed, unpacked
from warpline.trace import MemorySource, Run, Trace, TraceMeta

MS = 1_000_000
KERNEL = "ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)"
GEMM = "ampere_sgemm_128x64_tn"
Call = tuple[str, int]  # operation and peer


def recording(
    rank: int, ranks: int, groups: Sequence[Sequence[Call]], *, steps: int = 3
) -> RankSummary:
    """Return the summary of a rank that makes groups of calls in each step.

    A group of calls has one kernel. Before each, there is a GEMM of 2 ms, launched by another call.
    """
    kernels: list[tuple[int, int, int, str, int]] = []
    apis: list[tuple[int, int, int]] = []
    calls: list[tuple[int, int, str, int]] = []
    ranges: list[tuple[int, int, str]] = []
    at = 0
    for step in range(steps):
        begin = at
        for group in groups:
            apis.append((at, at + 5_000, len(apis)))
            kernels.append((at + 10_000, at + 2 * MS, len(apis) - 1, GEMM, 7))
            at += 2 * MS
            first = at
            for number, (operation, peer) in enumerate(group):
                start = first + 1_000 * number
                calls.append((start, start + 500, f"nccl{operation}", peer))
            at += 1_000 * len(group) + 20_000
            apis.append((at, at + 5_000, len(apis)))
            kernels.append((at + 10_000, at + MS, len(apis) - 1, KERNEL, 9))
            at += MS
        ranges.append((begin, at, f"step_{step}"))
    return _summarized(rank, ranks, kernels, apis, calls, ranges)


def _summarized(
    rank: int,
    ranks: int,
    kernels: Sequence[tuple[int, int, int, str, int]],
    apis: Sequence[tuple[int, int, int]],
    calls: Sequence[tuple[int, int, str, int]],
    ranges: Sequence[tuple[int, int, str]],
) -> RankSummary:
    def columns(rows: Sequence[tuple[object, ...]], *names: str) -> dict[str, list[object]]:
        return {name: [row[at] for row in rows] for at, name in enumerate(names)}

    def shared(rows: Sequence[object], *names: str) -> dict[str, list[object]]:
        return {name: [0] * len(rows) for name in names}

    streams = [row[4] for row in kernels]
    tables: dict[str, dict[str, Any]] = {
        "process": {"pid": [1000 + rank], "name": ["python"], "rank": [rank]},
        "thread": {"process_id": [0], "tid": [1000 + rank]},
        "device": {"gpu_index": [rank], "uuid": [f"GPU-{rank}"]},
        "stream": {"process_id": [0, 0], "context_id": [0, 0], "native_id": [7, 9]},
        "kernel": {
            **columns(kernels, "start_ns", "end_ns", "correlation_id", "name"),
            **shared(kernels, "process_id", "device_id"),
            "stream_id": [int(stream == 9) for stream in streams],
        },
        "api_call": {
            **columns(apis, "start_ns", "end_ns", "correlation_id"),
            **shared(apis, "process_id", "thread_id"),
            "name": ["cudaLaunchKernel"] * len(apis),
        },
        "range": {
            **columns(ranges, "start_ns", "end_ns", "name"),
            **shared(ranges, "process_id", "thread_id"),
        },
        "collective": {
            **columns(calls, "start_ns", "end_ns", "operation", "peer"),
            **shared(calls, "process_id", "thread_id"),
            "bytes": [8 << 20] * len(calls),
            "communicator": ["0x00000000deadbeef"] * len(calls),
            "rank": [rank] * len(calls),
            "rank_count": [ranks] * len(calls),
            "sequence": list(range(len(calls))),
        },
        "nccl_op": {
            "time_ns": [0],
            "process_id": [0],
            "thread_id": [0],
            "name": ["Send"],
            "communicator": ["0x00000000deadbeef"],
            "communicator_name": ["pp"],
            "rank": [rank],
            "algorithm": ["RING"],
        },
    }
    meta = TraceMeta((Path(f"run.rank{rank}.warpline"),), "memory", origin_utc_ns=0)
    (found,) = summarize(Run(Trace(MemorySource(tables, meta))))
    return unpacked(packed([found]))[0]


def operations(found: RankSummary) -> list[str]:
    return [found.kinds[code].operation for code in found.exchanges.kind.tolist()]


def pipeline(rank: int, ranks: int = 3) -> RankSummary:
    """Return a stage: two microbatches forward and backward, the last group has both."""
    groups: list[list[Call]] = []
    for _ in range(2):
        if rank > 0:
            groups.append([("Recv", rank - 1)])
        if rank < ranks - 1:
            groups.append([("Send", rank + 1), ("Recv", rank + 1)])
        if rank > 0:
            groups.append([("Send", rank - 1)])
    return recording(rank, ranks, groups)


def test_kernels_do_what_their_calls_do() -> None:
    found = pipeline(1)
    assert operations(found)[:3] == ["Recv", "SendRecv", "Send"]
    assert {kind.communicator for kind in found.kinds} == {"0x00000000deadbeef"}
    assert {kind.bytes for kind in found.kinds} == {8 << 20}
    assert {kind.label for kind in found.kinds} == {"pp"}
    assert found.identity.sends
    assert len(found.collectives.start_ns) == 0
    length = found.exchanges.end_ns - found.exchanges.start_ns
    assert set(length.tolist()) == {MS - 10_000}


def test_stages_are_in_order_and_microbatches_counted() -> None:
    job = job_of([pipeline(rank) for rank in (2, 0, 1)])
    (chain,) = chains_of(job)
    assert (chain.ranks, chain.shape, chain.is_round) == ((0, 1, 2), "chain", False)
    assert chain.units == pytest.approx(2.0)


def test_data_that_goes_round_is_no_pipeline() -> None:
    every = [
        recording(rank, 3, [[("Send", (rank + 1) % 3), ("Recv", (rank - 1) % 3)]] * 4)
        for rank in range(3)
    ]
    (chain,) = chains_of(job_of(every))
    assert (chain.shape, chain.is_round) == ("ring", True)


def test_sends_to_all_ranks_are_an_all_to_all() -> None:
    calls = [(name, peer) for peer in range(2) for name in ("Send", "Recv")]
    found = recording(0, 2, [calls] * 3)
    assert operations(found) == []
    assert [found.kinds[code].operation for code in found.collectives.kind] == ["AllToAll"] * 9
    assert not found.identity.sends
    assert found.peers == () or all(call.peer != 0 for call in found.peers)
    # From its end to the next one: one GEMM.
    assert np.abs(found.gemm_ns[:-1] - (2 * MS - 10_000)).max() == 0
    assert found.gemm_ns[-1] == 0


def test_sends_to_two_neighbors_are_none() -> None:
    both = [("Send", 0), ("Recv", 0), ("Send", 2), ("Recv", 2)]
    assert set(operations(recording(1, 3, [both] * 3))) == {"SendRecv"}


def test_without_calls_peers_are_unknown() -> None:
    found = recording(0, 2, [[]] * 3)
    assert set(operations(found)) == {"SendRecv"}
    assert found.identity.sends
    assert chains_of(job_of([found, recording(1, 2, [[]] * 3)])) == []


@pytest.mark.parametrize(
    ("name", "algorithm"),
    [
        ("ncclKernel_AllReduce_TREE_LL128_Sum_float(ncclDevComm*)", "TREE"),
        ("ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)", ""),
    ],
)
def test_algorithms_are_those_of_exact_names(name: str, algorithm: str) -> None:
    made = MadeRun(ranks=2, clock_ns=(0, 0), steps=3, per_step=5, straggler=0, kernel_name=name)
    (found,) = summarize(Run(Trace(made.source(0))))
    assert {kind.algorithm for kind in found.kinds} == {algorithm}
