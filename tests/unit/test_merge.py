"""Several files as one trace."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from warpline.trace import MemorySource, Trace, TraceMeta
from warpline.trace.merge import merge


def _rank(name, uuid, origin_utc_ns, kernel_name, lost=None):
    meta = TraceMeta(
        (Path(name),), "memory", origin_utc_ns=origin_utc_ns, span_ns=(0, 100), lost=lost or {}
    )
    return MemorySource(
        {
            "process": {"pid": [7], "name": ["python"]},
            "device": {"gpu_index": [0], "uuid": [uuid]},
            "kernel": {
                "start_ns": [10, 20],
                "end_ns": [15, 25],
                "device_id": [0, 0],
                "context_id": [0, 0],
                "stream_id": [0, 0],
                "process_id": [0, 0],
                "correlation_id": [1, None],
                "name": [kernel_name, "shared"],
            },
            "os_call": {
                "start_ns": [1],
                "end_ns": [2],
                "process_id": [0],
                "thread_id": [0],
                "name": ["poll"],
                "stack_id": [1],
            },
            "stack": {"parent_id": [None, 0], "frame_id": [1, 0], "depth": [0, 1]},
            "frame": {"symbol": [kernel_name, "main"], "module": ["m", "m"]},
        },
        meta,
    )


@pytest.fixture
def two():
    sources = [_rank("a", "GPU-1", 1_000, "alpha"), _rank("b", "GPU-2", 1_003, "beta")]
    return Trace(merge(sources))


def test_one_file_stays_itself():
    source = _rank("a", "GPU-1", 0, "alpha")
    assert merge([source]) is source


def test_rows_are_ordered_on_the_first_files_clock(two):
    kernels = two["kernel"]
    assert kernels["start_ns"].to_list() == [10, 13, 20, 23]
    assert kernels["name"].to_list() == ["alpha", "beta", "shared", "shared"]
    assert kernels["correlation_id"].to_list() == [1, 1, None, None]
    assert two.meta.span_ns == (0, 103)


def test_lengths_of_time_are_on_no_clock():
    def source(name, origin_utc_ns):
        meta = TraceMeta((Path(name),), "memory", origin_utc_ns=origin_utc_ns, span_ns=(0, 100))
        rows = {"start_ns": [10], "end_ns": [12], "cpu_ns": [7], "process_id": [0]}
        return MemorySource({"process": {"pid": [7]}, "host_health": rows}, meta)

    frame = Trace(merge([source("a", 1_000), source("b", 1_003)]))["host_health"]
    assert frame.select("start_ns", "end_ns", "process_id", "cpu_ns").rows() == [
        (10, 12, 0, 7),
        (13, 15, 1, 7),
    ]


def test_equal_texts_share_a_row(two):
    name = two.columns("kernel", "name_id")["name_id"].values
    assert name[2] == name[3]


def test_processes_and_their_work_stay_apart(two):
    assert two.row_count("process") == 2
    kernels = two.columns("kernel", "process_id", "stream_id", "context_id")
    assert kernels["process_id"].values.tolist() == [0, 1, 0, 1]
    assert kernels["stream_id"].values.tolist() == [0, 1, 0, 1]
    assert two.columns("stream", "process_id")["process_id"].values.tolist() == [0, 1]


def test_devices_match_by_uuid(two):
    assert two["device"]["uuid"].to_list() == ["GPU-1", "GPU-2"]
    same = Trace(merge([_rank("a", "GPU-1", 0, "x"), _rank("b", "GPU-1", 0, "y")]))
    assert same["device"]["uuid"].to_list() == ["GPU-1"]
    assert set(same.table("kernel")["device_id"].tolist()) == {0}
    unknown = Trace(merge([_rank("a", None, 0, "x"), _rank("b", None, 0, "y")]))
    assert unknown.row_count("device") == 2


def test_stacks_stay_those_of_their_file(two):
    assert two["frame"]["symbol"].to_list() == ["alpha", "main", "beta", "main"]
    stacks = two["stack"]
    assert stacks["parent_id"].to_list() == [None, 0, None, 2]
    assert stacks["depth"].to_list() == [0, 1, 0, 1]
    called = two["os_call"]["stack_id"].to_list()
    assert called == [1, 3]
    assert [two["frame"]["symbol"][stacks["frame_id"][stack]] for stack in called] == [
        "alpha",
        "beta",
    ]


def test_without_an_anchor_clocks_stay_and_a_warning_says_so():
    trace = Trace(merge([_rank("a", "GPU-1", None, "x"), _rank("b", "GPU-2", 5, "y")]))
    assert trace.table("kernel")["start_ns"].tolist() == [10, 10, 20, 20]
    assert any("not aligned" in text for text in trace.meta.warnings)


def test_losses_add_up():
    first = _rank("a", "GPU-1", 0, "x", lost={"kernels": 3, "ranges": None})
    second = _rank("b", "GPU-2", 0, "y", lost={"kernels": 4, "ranges": 1})
    assert Trace(merge([first, second])).meta.lost == {"kernels": 7, "ranges": None}


def test_a_table_of_one_file_only_is_there(two):
    extra = MemorySource({"memset": {"start_ns": [1], "end_ns": [2], "device_id": [0]}})
    trace = Trace(merge([_rank("a", "GPU-1", 0, "x"), extra]))
    assert trace.row_count("memset") == 1
    assert trace.table("memset")["device_id"].tolist() == [1]
    assert trace.row_count("kernel") == 2


def test_variables_of_all_files_are_kept():
    sources = [_rank("a", "GPU-1", 0, "alpha"), _rank("b", "GPU-2", 0, "beta")]
    environments = ({"RANK": "0"}, {"RANK": "1", "CUDA_LAUNCH_BLOCKING": "1"})
    for source, environment in zip(sources, environments, strict=True):
        source.meta = replace(source.meta, environment=environment)
    assert merge(sources).meta.environment == {"RANK": "0", "CUDA_LAUNCH_BLOCKING": "1"}


@pytest.mark.parametrize(
    ("starts", "warned"),
    [
        ((0, 50), False),
        ((0, 900_000_000), False),
        ((0, 2_000_000_000), True),
        ((2_000_000_000, 0), True),
        ((0, None), False),
    ],
)
def test_files_of_different_times_are_hardly_ranks_of_one_run(starts, warned):
    sources = [_rank(name, f"GPU-{name}", at, "k") for name, at in zip("ab", starts, strict=True)]
    found = [text for text in merge(sources).meta.warnings if "--side-by-side" in text]
    assert bool(found) == warned
    if warned:
        first, last = ("a", "b") if starts[1] else ("b", "a")
        assert found[0].startswith(f"{first} ends 2.00 s before {last} begins.")
