"""Finishing CUDA rows by the ten thousand: shapes that are shared, order, lengths of any size."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from capture.cuda_writer import CudaLog
from capture.finished import of_process, read_cuda, rows

from warpline import native

pytestmark = pytest.mark.skipif(native.core() is None, reason="needs the native core")

SHAPES = 3_000  # the table by which shared rows are found grows several times
BLOCK = 1 << 16  # rows that are sorted at a time, see native/core/src/raw/order.h


@pytest.mark.parametrize("disorder", [300, 10**9], ids=["nearly in order", "in no order"])
def test_many_kernels_of_many_shapes(tmp_path: Path, disorder: int) -> None:
    chance = random.Random(7)
    log = of_process()
    written = []
    for number in range(BLOCK + 5_000):
        shape = chance.randrange(SHAPES)
        start = number * 100 + chance.randrange(disorder)
        # More than 32 bits, as a kernel that waits for others may have; few, but of several shapes.
        length = chance.choice((1, 2**32 - 1, 2**32, 2**40 + 5)) if shape < 9 else shape
        name, grid = f"k{shape % 50}", (shape, shape % 7 + 1, 1)
        log.kernel(name, start, start + length, number + 1, grid=grid, shared=(0, shape % 5))
        dynamic = shape % 5
        written.append((start, start + length, number + 1, name, grid[0], grid[1], dynamic))
    trace, finished = read_cuda(tmp_path, log)
    names = ("start_ns", "end_ns", "correlation_id", "short_name", "grid_x", "grid_y")
    assert finished.kernels == len(written)
    assert rows(trace, "kernel", *names, "dynamic_shared_bytes") == sorted(written)


def test_calls_of_threads_are_brought_into_one_order(tmp_path: Path) -> None:
    logs, written = [], []
    for thread in range(3):
        log = of_process(tid=200 + thread, number=thread)
        for number in range(2_000):
            start, correlation = number * 10 + thread, number * 3 + thread + 1
            log.launch(start, start + 4, correlation, status=number % 2)
            written.append((start, start + 4, correlation, number % 2))
        logs.append(log)
    trace, _ = read_cuda(tmp_path, *logs)
    names = ("start_ns", "end_ns", "correlation_id", "return_value")
    assert rows(trace, "api_call", *names) == sorted(written)


def test_a_call_without_its_kernel_is_found_among_many(tmp_path: Path) -> None:
    log = of_process()
    missing = {511, 512, 513, 70_000}  # at the edges of the sets that correlations are kept in
    for number in range(1, 1_500):
        correlation = number if number < 1_400 else number + 68_600
        log.launch(number * 10, number * 10 + 4, correlation)
        if correlation not in missing:
            log.kernel("k", number * 10 + 5, number * 10 + 9, correlation)
    _, finished = read_cuda(tmp_path, log)
    assert any(f"{len(missing)} kernels of process" in text for text in finished.warnings)


def test_nodes_of_a_graph_make_one_launch_however_they_are_mixed(tmp_path: Path) -> None:
    log = CudaLog()
    log.collecting(0)
    log.device()
    log.context()
    chance = random.Random(3)
    nodes = [(launch, node) for launch in range(40) for node in range(20)]
    chance.shuffle(nodes)
    for launch in range(40):
        log.graph_call(launch * 1_000, launch + 1)
    for launch, node in nodes:
        start = launch * 1_000 + 100 + node * 10
        log.kernel("k", start, start + 8, launch + 1, node=node + 1, graph=5)
    trace, _ = read_cuda(tmp_path, log)
    names = ("start_ns", "end_ns", "correlation_id", "node_count", "graph_id")
    expected = [(n * 1_000 + 100, n * 1_000 + 298, n + 1, 20, 5) for n in range(40)]
    assert rows(trace, "graph_launch", *names) == expected
