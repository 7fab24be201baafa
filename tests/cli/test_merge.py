"""``warpline merge``: operators of a PyTorch trace in a recording of the same run."""

from __future__ import annotations

import pytest
from support.kineto_files import PID, call, event, write

import warpline

BASE = 1_790_000_000_000_000_000


@pytest.fixture(autouse=True)
def _in_an_empty_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def ours(tmp_path):
    """Return a recording with launches and a range, but without operators."""
    launches = [call("cudaLaunchKernel", 100 + 10 * place, 2, place) for place in range(1, 9)]
    step = event("user_annotation", "step", 95, 200)
    source = write(tmp_path / "run.json", [*launches, step], baseTimeNanoseconds=BASE)
    warpline.export(warpline.open(source), tmp_path / "run.warpline")
    return "run.warpline"


def torch_trace(tmp_path, *, pid=PID, name="trace.json", shift_us=0):
    at = {"pid": pid, "tid": pid}
    launches = [call("cudaLaunchKernel", 100 + 10 * n + shift_us, 2, n, **at) for n in range(1, 9)]
    operator = event("cpu_op", "aten::mm", 108 + shift_us, 30, **at)
    operator["args"] = {"Input Dims": [[2, 3], [3, 4]], "Input type": ["float", "float"]}
    step = event("user_annotation", "step", 95 + shift_us, 200, **at)
    own = event("user_annotation", "forward", 96 + shift_us, 80, **at)
    events = [*launches, operator, step, own]
    return write(tmp_path / name, events, baseTimeNanoseconds=BASE).name


def test_operators_are_added_at_their_time(run, ours, tmp_path):
    done = run("merge", ours, torch_trace(tmp_path, shift_us=40))
    assert (done.status, done.out) == (0, "run.merged.warpline\n")
    assert "aligned by 8 CUDA API calls of the same correlation: off by 0 ns" in done.err
    before, merged = warpline.open(ours), warpline.open("run.merged.warpline")
    assert merged["range"]["name"].to_list() == ["step", "forward"]
    assert merged.row_count("api_call") == before.row_count("api_call")
    launches = merged["api_call"]["start_ns"].to_list()
    operator = merged["op"].row(0, named=True)
    # The first launches, at 110, 120 and 130 us, are inside it: from 108 to 138 us.
    inside = [operator["start_ns"] <= start < operator["end_ns"] for start in launches]
    assert inside == [True] * 3 + [False] * 5
    assert operator["input_dtypes"] == '["float", "float"]'


def test_another_output_and_several_traces(run, ours, tmp_path):
    first = torch_trace(tmp_path)
    done = run("merge", ours, first, "-o", "out.warpline", "-q")
    assert (done.status, done.out, done.err) == (0, "out.warpline\n", "")
    assert run("merge", ours, first, "-o", "out.warpline", "-q").status == 2
    assert run("merge", ours, first, "-o", "out.warpline", "-q", "-f").status == 0
    twice = run("merge", ours, first, first, "-o", "out.warpline", "-f")
    assert twice.status == 1
    assert "has operators of the time of trace.json already" in twice.err


def test_a_trace_of_another_run_is_refused(run, ours, tmp_path):
    done = run("merge", ours, torch_trace(tmp_path, pid=99))
    assert done.status == 1
    assert done.err == (
        f"error: trace.json is of process 99, run.warpline of process {PID}\n"
        "hint: merge the trace that was written in the recorded run\n"
    )
