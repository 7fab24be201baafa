"""Sessions recorded on a real GPU, finished; counts are from the tests' own decoder."""

from __future__ import annotations

import tarfile
from pathlib import Path

import numpy as np
import pytest

import warpline
from warpline.capture.finishing.finish import finish

DATA = Path(__file__).parents[1] / "data" / "raw"

COUNTS = {
    "pageable_h2d.bad": {
        "kernel": 204,
        "memcpy": 24,
        "memset": 80,
        "api_call": 540,
        "range": 50,
        "graph_launch": 0,
    },
    "tiny_kernels.graph": {"kernel": 771, "api_call": 1627, "range": 20, "graph_launch": 10},
    "tiny_kernels.node": {
        "kernel": 7171,
        "api_call": 1627,
        "range": 20,
        "graph_launch": 10,
        "memory_event": 484,
        "graph_node": 1921,
    },
}


@pytest.fixture(params=COUNTS)
def session(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[str, warpline.Trace]:
    with tarfile.open(DATA / f"{request.param}.tar.xz") as archive:
        archive.extractall(tmp_path, filter="data")
    (folder,) = tmp_path.iterdir()
    output = tmp_path / "run.warpline"
    finished = finish(folder, output)
    assert (finished.lost, finished.damaged_logs, finished.warnings) == (0, 0, ())
    return request.param, warpline.open(output)


def test_every_record_becomes_a_row(session: tuple[str, warpline.Trace]) -> None:
    name, trace = session
    assert {table: trace.row_count(table) for table in COUNTS[name]} == COUNTS[name]


def test_device_work_follows_the_call_that_launched_it(
    session: tuple[str, warpline.Trace],
) -> None:
    _, trace = session
    calls = trace.columns("api_call", "start_ns", "correlation_id")
    begins = dict(
        zip(calls["correlation_id"].values, calls["start_ns"].values, strict=True),
    )
    kernels = trace.columns("kernel", "start_ns", "end_ns", "correlation_id")
    called = np.array([begins[number] for number in kernels["correlation_id"].values])
    assert (called < kernels["start_ns"].values).all()
    assert (kernels["start_ns"].values < kernels["end_ns"].values).all()


def test_the_device_is_known(session: tuple[str, warpline.Trace]) -> None:
    _, trace = session
    (device,) = trace["device"].to_dicts()
    assert device["name"] == "NVIDIA H100 80GB HBM3"
    assert (device["sm_count"], device["compute_major"]) == (132, 9)


def test_copies_are_what_the_program_copies(session: tuple[str, warpline.Trace]) -> None:
    name, trace = session
    if name != "pageable_h2d.bad":
        pytest.skip("it copies nothing")
    rows = warpline.stats(trace, "cuda_gpu_mem_size_sum").rows()
    by_name = {row[7]: (row[1], row[0]) for row in rows}
    # 10 batches of 128 MiB, of which the model gets a copy; the rest set the model up.
    assert by_name["[CUDA memcpy Device-to-Device]"] == (10, 10 * (128 << 20))
    assert by_name["[CUDA memcpy Host-to-Device]"][0] == 14
