"""Kernels of a recording appear in PyTorch's tables and files: a program with the fake CUDA."""

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

import warpline
from warpline.capture.machine.agent import agent_library
from warpline.errors import AgentMissingError

pytest.importorskip("torch")
pytestmark = pytest.mark.torch

PROGRAM = Path(__file__).with_name("fake_cuda_program.py")
# Of two steps with kernels of 1 and 3 us in an operator, 0.5 us in another thread, 2 us outside:
# name, count, device, own time on the GPU, total time on the GPU
STEPS = [
    ["ProfilerStep*", 2, "CPU", 0, 8],
    ["ProfilerStep*", 2, "CUDA", 4, 4],  # what is launched in it and in nothing within
    ["cudaLaunchKernel", 8, "CPU", 0, 0],
    ["elsewhere", 2, "CUDA", 1, 1],
    ["fake::launch", 4, "CPU", 8, 8],
    ["first", 2, "CUDA", 2, 2],
    ["forward", 2, "CPU", 0, 8],
    ["second", 2, "CUDA", 6, 6],
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("files")


@pytest.fixture(scope="module")
def told(folder):
    """What the program found."""
    try:
        fake = agent_library().parent / "agent" / "tests"
    except AgentMissingError as error:
        pytest.skip(str(error))
    libraries = [fake / "libcuda.so.1", fake / "cupti13" / "libcupti.so.13"]
    if not all(library.exists() for library in libraries):
        pytest.skip("the fake CUDA is not built: cmake -DWARPLINE_TESTS=ON")
    done = subprocess.run(
        [sys.executable, PROGRAM, *libraries, folder], check=False, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def without(rows, *keys):
    """Rows without operators of PyTorch and with names that are the same in every step."""
    found = [row for row in rows if not row[0].startswith(("aten::", "outside_"))]
    return [row for row in found if row[:1] + row[2:3] not in [list(key) for key in keys]]


def test_rows_have_the_time_of_what_they_launched(told):
    first, second, _, table = told["scheduled"]
    for (step, rows), numbers in ((first, (2, 3)), (second, (6, 7))):
        assert step == numbers[1] + 1
        assert without(rows, ("forward", "CUDA")) == STEPS
        outside = [row for row in rows if row[0].startswith("outside_")]
        assert outside == [[f"outside_{number}", 1, "CUDA", 2, 2] for number in numbers]
        (block,) = (row for row in rows if row[:3] == ["forward", 2, "CUDA"])
        assert block[3] > 8  # from its first kernel to its last one
    assert "Self CUDA time total: 13.000us" in table


def test_events_have_their_kernels(told):
    expected = [["fake::launch", [["first", 1]]], ["fake::launch", [["second", 3]]]]
    assert told["scheduled"][2] == expected * 2


def test_events_of_several_cycles_together(told):
    assert without(told["accumulated"], ("forward", "CUDA")) == STEPS


def test_cuda_without_operators(told):
    assert told["without_operators"] == [
        ["cudaLaunchKernel", 4, "CPU", 0, 0],
        ["elsewhere", 1, "CUDA", 0.5, 0.5],
        ["first", 1, "CUDA", 1, 1],
        ["outside_0", 1, "CUDA", 2, 2],
        ["second", 1, "CUDA", 3, 3],
    ]


def test_chosen_activities(told):
    assert told["kernels_only"] == []


def test_a_pause_is_left_out(told):
    assert [row[0] for row in told["paused"]] == ["outside_0", "outside_2"]


def test_without_an_agent_pytorch_records_cuda(told):
    (text,) = told["refused"]
    assert text.startswith("PyTorch records CUDA, not Warpline: cannot load /nowhere/agent.so")


def test_the_trace_is_read_as_one_of_pytorch(told, folder):
    trace = warpline.open(folder / "trace.json")
    kernels = trace["kernel"].to_dicts()
    assert Counter(kernel["name"] for kernel in kernels) == {
        "first": 2,
        "second": 2,
        "elsewhere": 2,
        "outside_6": 1,
        "outside_7": 1,
    }
    calls = {call["correlation_id"]: call for call in trace["api_call"].to_dicts()}
    assert len(calls) == 8
    for kernel in kernels:
        call = calls[kernel["correlation_id"]]
        assert call["name"] == "cudaLaunchKernel"
        assert call["start_ns"] <= kernel["start_ns"]
    assert {"fake::launch", "aten::clone"} <= {*trace["op"]["name"]}
    plain = json.loads((folder / "trace.json").read_text())
    kernels = [event for event in plain["traceEvents"] if event.get("cat") == "kernel"]
    linked = Counter(event["name"] for event in kernels if "External id" in event["args"])
    assert linked == {"first": 2, "second": 2}
    assert plain["deviceProperties"] == [{"id": 0}]
    arrows = Counter(event["ph"] for event in plain["traceEvents"] if event.get("cat") == "ac2g")
    assert arrows == {"s": 8, "f": 8}
    blocks = [event for event in plain["traceEvents"] if event.get("cat") == "gpu_user_annotation"]
    assert sorted(event["name"] for event in blocks) == [
        *("ProfilerStep#6", "ProfilerStep#7"),
        *("forward", "forward"),
    ]


def test_a_trace_without_operators(told, folder):
    trace = warpline.open(folder / "cuda.json.gz")
    assert trace["kernel"].height == 4


def test_kept_recordings(told, folder):
    assert told["kept_recording"] == [str(folder / "kept-2.warpline")]
    for name, numbers in (("kept.warpline", (1, 2)), ("kept-2.warpline", (4, 5))):
        trace = warpline.open(folder / name)
        names = Counter(trace["kernel"]["name"])
        assert names["first"] == names["second"] == 2
        assert {f"outside_{number}" for number in numbers} <= names.keys()
        steps = [text for text in trace["range"]["name"] if text.startswith("ProfilerStep#")]
        assert sorted(steps) == [f"ProfilerStep#{number}" for number in numbers]
        shapes = Counter(zip(trace["op"]["name"], trace["op"]["input_shapes"], strict=True))
        assert shapes["fake::launch", "[[4], [], []]"] == 4
