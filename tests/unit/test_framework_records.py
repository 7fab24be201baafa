"""A recording gets the operators of PyTorch traces of its processes."""

from pathlib import Path

import numpy as np
import pytest

from warpline.errors import InputError
from warpline.trace import MemorySource, Trace
from warpline.trace.framework_records import with_framework_records
from warpline.trace.meta import TraceMeta

UTC = 1_790_000_000_000_000_000
NAMES = ["aten::linear", "aten::addmm"]


def meta(name, utc_ns=UTC, span_ns=(0, 10**12)):
    return TraceMeta((Path(name),), "memory", origin_utc_ns=utc_ns, span_ns=span_ns)


def recording(tables=None, **facts):
    known = {
        "process": {"pid": [7, 8]},
        "thread": {"process_id": [0, 1], "tid": [70, 80]},
        "device": {"gpu_index": [1, 0]},
    }
    return Trace(MemorySource({**known, **(tables or {})}, meta("ours.warpline", **facts)))


def torch_trace(tables=None, *, pid=7, starts=(100, 110), **facts):
    count = len(starts)
    operators = {
        "start_ns": list(starts),
        "end_ns": [start + 5 for start in starts],
        "thread_id": [0] * count,
        "name": (NAMES * count)[:count],
        "input_dtypes": ['["float"]'] * count,
    }
    known = {
        "process": {"pid": [pid]},
        "thread": {"process_id": [0, 0], "tid": [70, 71]},
        "device": {"gpu_index": [0]},
        "op": operators,
    }
    return Trace(MemorySource({**known, **(tables or {})}, meta("trace.json", **facts)))


def calls(starts, names=None, correlations=None):
    count = len(starts)
    return {
        "start_ns": list(starts),
        "end_ns": [start + 1 for start in starts],
        "thread_id": [0] * count,
        "name": names or ["cudaLaunchKernel"] * count,
        **({"correlation_id": correlations} if correlations else {}),
    }


def test_operators_are_shifted_by_utc_and_keep_their_texts():
    merged = with_framework_records(recording(), [torch_trace(utc_ns=UTC + 1000)])
    rows = merged["op"]
    assert rows["start_ns"].to_list() == [1100, 1110]
    assert rows["name"].to_list() == NAMES
    assert rows["input_dtypes"].to_list() == ['["float"]'] * 2
    assert merged.meta.warnings == ("trace.json: aligned by UTC only",)


def test_processes_and_threads_are_the_same_by_their_ids():
    trace = torch_trace(pid=8, tables={"thread": {"process_id": [0, 0], "tid": [81, 80]}})
    merged = with_framework_records(recording(), [trace])
    assert merged["op"]["process_id"].to_list() == [1, 1]
    tids = merged["thread"]["tid"].to_list()
    assert [tids[row] for row in merged["op"]["thread_id"].to_list()] == [81, 81]
    assert tids == [70, 80, 81]


def test_allocations_are_of_the_device_with_the_index():
    events = {"time_ns": [5, 6], "device_id": [0, None], "bytes": [1, 2], "operation": [0, 0]}
    merged = with_framework_records(recording(), [torch_trace({"allocator_event": events})])
    assert merged["allocator_event"]["device_id"].to_list() == [1, None]


def test_collectives_refer_to_their_operator():
    collectives = {"start_ns": [110], "end_ns": [115], "op_id": [1], "operation": ["allreduce"]}
    first = torch_trace()
    second = torch_trace({"collective": collectives}, pid=8, starts=(300, 310, 320))
    merged = with_framework_records(recording(), [first, second])
    row = merged["collective"]["op_id"].to_list()[0]
    assert merged["op"]["start_ns"].to_list()[row] == 310


def test_stated_monotonic_times_align_best():
    table = {
        "start_ns": [50, 80],
        "end_ns": [51, 81],
        "name": ["warpline.clock 1040", "warpline.clock 1075"],
    }
    trace = torch_trace({"range": table | {"source_id": [0, 1]}}, utc_ns=UTC + 10**9)
    merged = with_framework_records(recording(), [trace], monotonic_origin_ns=900)
    # 1075 - 900 - 80 = 95 is the larger shift: its range began sooner after its time.
    assert merged["op"]["start_ns"].to_list() == [195, 205]
    assert not merged.has("range") or not merged.row_count("range")


def test_calls_of_the_same_correlation_align():
    starts = np.arange(10) * 1000
    ours = recording({"api_call": calls((starts + 77).tolist(), correlations=list(range(10)))})
    names = ["cudaLaunchKernel_v7000"] * 10
    theirs = torch_trace(
        {"api_call": calls(starts.tolist(), names, list(range(10)))}, utc_ns=UTC + 5_000_000
    )
    merged = with_framework_records(ours, [theirs])
    assert merged["op"]["start_ns"].to_list() == [177, 187]
    assert "10 CUDA API calls of the same correlation: off by 0 ns" in merged.meta.warnings[0]


def test_names_align_a_part_of_a_run_where_the_clocks_are_off():
    rng = np.random.default_rng(0)
    steps = np.cumsum(rng.integers(9_000_000, 11_000_000, 60))
    names = [f"step {place % 3}" for place in range(60)]
    ours = recording({"range": calls(steps.tolist(), names) | {"source_id": list(range(60))}})
    part = steps[20:40] - 31_000_000 + rng.integers(0, 2000, 20)
    theirs = torch_trace(
        {"range": calls(part.tolist(), names[20:40]) | {"source_id": list(range(20))}},
        starts=(0, 10),
    )
    merged = with_framework_records(ours, [theirs])
    assert abs(merged["op"]["start_ns"].to_list()[0] - 30_999_000) < 1000
    assert "20 calls and ranges of the same name" in merged.meta.warnings[0]


def test_annotations_are_added_unless_the_recording_has_them():
    ours = recording({"range": calls([0], ["known"])})
    theirs = torch_trace({"range": calls([0, 4, 6], ["known", "new", "known"])})
    merged = with_framework_records(ours, [theirs])
    assert merged["range"]["name"].to_list() == ["known", "new", "known"]


@pytest.mark.parametrize(
    ("ours", "theirs", "message"),
    [
        (
            recording(),
            torch_trace(pid=9),
            "trace.json is of process 9, ours.warpline of processes 7, 8",
        ),
        (recording(), torch_trace(utc_ns=UTC + 10**15), "recorded at another time"),
        (recording(), torch_trace(utc_ns=None), "cannot be aligned"),
        (
            with_framework_records(recording(), [torch_trace()]),
            torch_trace(starts=(104, 120)),
            "has operators of the time of trace.json already",
        ),
    ],
)
def test_traces_of_other_runs_are_refused(ours, theirs, message):
    with pytest.raises(InputError, match=message):
        with_framework_records(ours, [theirs])


def test_operators_of_another_time_are_added():
    ours = with_framework_records(recording(), [torch_trace()])
    merged = with_framework_records(ours, [torch_trace(starts=(500, 510))])
    assert merged["op"]["start_ns"].to_list() == [100, 110, 500, 510]


def test_processes_of_a_session_that_recorded_nothing_else_are_added():
    empty: dict[str, dict[str, list[int]]] = {
        "process": {"pid": []},
        "thread": {"process_id": [], "tid": []},
    }
    trace = torch_trace({"range": calls([50], ["warpline.clock 1050"])})
    merged = with_framework_records(recording(empty), [trace], monotonic_origin_ns=1000)
    assert merged["process"]["pid"].to_list() == [7]
    assert merged["op"]["process_id"].to_list() == [0, 0]
    assert merged["thread"]["tid"].to_list() == [70, 71]


def test_calls_of_modules_are_not_added_to_those_that_the_recording_has():
    def ranges(name, start):
        return {"start_ns": [start], "end_ns": [start + 9], "name": [name], "domain": ["nn.Module"]}

    trace = torch_trace({"range": {**ranges("Net_0", 5), "thread_id": [0]}})
    for ours, names in (({}, ["Net_0"]), (ranges("Net", 700), ["Net"])):
        tables = {"range": {**ours, "thread_id": [0]}} if ours else None
        merged = with_framework_records(recording(tables), [trace])
        assert merged["range"]["name"].to_list() == names
