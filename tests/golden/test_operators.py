"""op_sum and op_kern_sum against PyTorch's definitions, on real and small traces."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from support import kineto_files, operator_model
from support.kineto_files import PID, call, event, kernel, write

import warpline


def rows_of(trace, table):
    result = warpline.stats(trace, table)
    return [dict(zip(result.columns, row, strict=True)) for row in result.rows()]


@pytest.mark.parametrize("name", kineto_files.names())
def test_real_traces_agree_with_a_model_of_key_averages(name, tmp_path_factory):
    path = kineto_files.unpack(name, tmp_path_factory.getbasetemp())
    assert list(operator_model.differences(path)) == []


MORE = os.environ.get("WARPLINE_TRACES", "")
MORE_TRACES = sorted(Path(MORE).rglob("*.json*")) if MORE else []


@pytest.mark.skipif(not MORE_TRACES, reason="WARPLINE_TRACES names no folder with traces")
@pytest.mark.parametrize("path", MORE_TRACES, ids=lambda path: path.name[:40])
def test_more_traces_agree_with_it(path):
    assert list(operator_model.differences(path)) == []


def op(name, ts, dur, number=None, **more):
    args = {"External id": number, **more.pop("args", {})}
    return event("cpu_op", name, ts, dur, args=args, **more)


def opened(folder, events):
    return warpline.open(write(folder / "trace.json", events))


def test_self_time_leaves_out_calls_annotations_and_cuda_calls_inside(tmp_path):
    events = [
        op("aten::linear", 100, 50, 1),
        op("aten::addmm", 110, 30, 2),
        call("cudaLaunchKernel", 120, 8, 11),
        kernel("gemm", 200, 70, correlation=11),
        event("user_annotation", "mark", 142, 5),
    ]
    rows = {row["name"]: row for row in rows_of(opened(tmp_path, events), "op_sum")}
    assert rows["aten::linear"]["self_host_ns"] == (50 - 30 - 5) * 1000
    assert rows["aten::addmm"]["self_host_ns"] == (30 - 8) * 1000
    assert rows["aten::linear"]["device_ns"] == rows["aten::addmm"]["self_device_ns"] == 70_000
    assert rows["aten::linear"]["self_device_ns"] == 0
    assert rows["mark"]["kind"] == "Annotation"


def test_a_call_that_only_holds_its_like_is_one_with_it(tmp_path):
    events = [
        op("aten::to", 100, 50, 1),
        op("aten::to", 110, 30, 2),
        call("cudaLaunchKernel", 120, 8, 11),
        kernel("copy", 200, 70, correlation=11),
        op("aten::to", 300, 50, 3),
        op("aten::to", 310, 10, 4),
        op("aten::add", 330, 10, 5),
    ]
    trace = opened(tmp_path, events)
    row = next(row for row in rows_of(trace, "op_sum") if row["name"] == "aten::to")
    # The first two are merged; the third has other children too, so the fourth stays.
    assert row["calls"] == 3
    assert row["host_ns"] == (50 + 50 + 10) * 1000
    assert row["self_host_ns"] == (50 - 8 + 50 - 10) * 1000
    assert row["device_ns"] == row["self_device_ns"] == 70_000
    assert [pair["calls"] for pair in rows_of(trace, "op_kern_sum")] == [1]


def test_steps_share_a_name_and_helpers_of_the_profiler_are_left_out(tmp_path):
    events = [
        event("user_annotation", "ProfilerStep#3", 100, 50),
        op("profiler::_record_function_enter_new", 110, 5, 1),
        event("user_annotation", "ProfilerStep#4", 200, 50),
    ]
    rows = rows_of(opened(tmp_path, [*events, op("aten::add", 500, 1, 2)]), "op_sum")
    assert [(row["name"], row["calls"]) for row in rows] == [
        ("ProfilerStep*", 2),
        ("aten::add", 1),
    ]
    assert rows[0]["self_host_ns"] == 100_000


def test_another_thread_launches_for_itself(tmp_path):
    events = [
        op("aten::add", 100, 50, 1),
        call("cudaLaunchKernel", 120, 8, 11, tid=PID + 1),
        kernel("k", 200, 70, correlation=11),
    ]
    trace = opened(tmp_path, events)
    result = warpline.stats(trace, "op_sum")
    assert rows_of(trace, "op_sum")[0]["self_device_ns"] is None
    assert "1 of 1 GPU operations belong to no row" in result.notes[0]
    pair = rows_of(trace, "op_kern_sum")[0]
    assert (pair["kind"], pair["operator"], pair["name"], pair["calls"]) == (None, None, "k", 0)


def module(name, ts, dur, number):
    args = {"Python id": number, "Python parent id": None, "Python module id": 0}
    return event("python_function", f"nn.Module: {name}", ts, dur, args=args)


def function(name, ts, dur, number):
    return event("python_function", name, ts, dur, args={"Python id": number})


BACKWARD_THREAD = PID + 1
WITH_MODULES = [
    module("Net_0", 90, 200, 1),
    module("Linear_0", 100, 50, 2),
    function("net.py(7): forward", 101, 48, 3),
    function("<built-in linear>", 102, 46, 4),
    op("aten::linear", 105, 30, 1, args={"Sequence number": 5}),
    module("Linear_1", 160, 50, 5),
    op("aten::linear", 165, 30, 2, args={"Sequence number": 6}),
    op("LinearBackward0", 400, 40, 3, tid=BACKWARD_THREAD)
    | {"args": {"External id": 3, "Sequence number": 5, "Fwd thread id": 1}},
    op("aten::mm", 410, 20, 4, tid=BACKWARD_THREAD),
]


def test_backward_operators_have_the_module_and_lines_of_their_forward_ones(tmp_path):
    trace = opened(tmp_path, WITH_MODULES)
    rows = rows_of(trace, "op_sum:module")
    assert {(row["name"], row["module"]) for row in rows} == {
        ("aten::linear", "Net_0/Linear_0"),
        ("aten::linear", "Net_0/Linear_1"),
        ("LinearBackward0", "Net_0/Linear_0"),
        ("aten::mm", "Net_0/Linear_0"),
    }
    lines = {(row["name"], row["stack"]): row["calls"] for row in rows_of(trace, "op_sum:stack")}
    assert lines == {
        ("aten::linear", "net.py(7): forward"): 1,
        ("aten::linear", None): 1,
        ("LinearBackward0", "net.py(7): forward"): 1,
        ("aten::mm", "net.py(7): forward"): 1,
    }


@pytest.mark.parametrize(
    ("argument", "word"),
    [("shape", "input shapes"), ("module", "modules"), ("stack", "source lines")],
)
def test_what_was_not_recorded_is_said(tmp_path, argument, word):
    trace = opened(tmp_path, [op("aten::add", 100, 50, 1)])
    assert any(f"no {word}" in note for note in warpline.stats(trace, f"op_sum:{argument}").notes)


def test_shapes_are_one_line_however_the_file_is_spread(tmp_path):
    path = tmp_path / "trace.json"
    path.write_text(
        '{"traceEvents": [{"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 1, "tid": 1,'
        ' "ts": 1, "dur": 1, "args": {"Input Dims": [\n [\n  2,\n  3\n ],\n []\n]}}]}'
    )
    assert rows_of(warpline.open(path), "op_sum:shape")[0]["input_shapes"] == "[[2, 3], []]"


@pytest.mark.parametrize("category", ["Operator", "cpu_op", "user_annotation"])
def test_what_the_framework_annotates_is_a_range_whatever_its_category(tmp_path, category):
    marks = ["ProfilerStep#5", "Optimizer.step#SGD.step", "enumerate(DataLoader)#_Iter.__next__"]
    events = [event(category, name, 100 * n, 50) for n, name in enumerate(marks)]
    trace = opened(tmp_path, [*events, event("Operator", "aten::add", 900, 5)])
    assert trace["range"]["name"].to_list() == marks
    assert trace["op"]["name"].to_list() == ["aten::add"]
