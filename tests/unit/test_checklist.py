"""The checklist: each check where it passes, fails, and is unknown."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from support.any_trace import any_traces

import warpline
from warpline import api
from warpline.result import Result
from warpline.schema.labels import COPY_KINDS
from warpline.trace import MemorySource, Trace

STEPS, STEP_NS = 12, 1_000_000
H2D = next(code for code, label in COPY_KINDS.items() if label == "Host-to-Device")
ELEMENTWISE = "void at::native::vectorized_elementwise_kernel<4, at::native::AddFunctor>(int)"
REORDER = "void cudnn::ops::nchwToNhwcKernel<float>(int)"
NCCL = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevComm*)"
OWNERS: dict[str, dict[str, list[Any]]] = {
    "process": {"pid": [1]},
    "thread": {"process_id": [0], "tid": [10]},
    "device": {"gpu_index": [0]},
    "context": {"process_id": [0], "device_id": [0], "native_id": [1], "is_green": [0]},
    "stream": {"process_id": [0, 0], "context_id": [0, 0], "native_id": [7, 13]},
}


def run_of(work, *, steps=STEPS, ranges=(), waits=(), calls=True, marked=True):
    """Return a trace of equal steps.

    Args:
        work: What each step does: (kind, start, end, stream, name) in ns from its start; kind is
            "kernel" or "memcpy"; each is launched 10 ns before it begins.
        steps: How many.
        ranges: (name, start, end) in each step.
        waits: (start, end) of calls that wait for a stream.
        calls: Whether launches are recorded.
        marked: Whether ranges mark the steps.
    """
    events = [
        (kind, STEP_NS * n + start, STEP_NS * n + end, stream, name)
        for n in range(steps)
        for kind, start, end, stream, name in sorted(work, key=lambda item: item[1])
    ]
    tables = dict(OWNERS)
    launches: list[tuple[Any, ...]] = []
    for table in ("kernel", "memcpy"):
        rows = [event for event in events if event[0] == table]
        ids = [len(launches) + 1 + n for n in range(len(rows))]
        launches += [
            (start - 10, start - 5, number, "cudaLaunchKernel")
            for (_, start, *_), number in zip(rows, ids, strict=True)
        ]
        if rows:
            tables[table] = {
                "start_ns": [row[1] for row in rows],
                "end_ns": [row[2] for row in rows],
                "stream_id": [row[3] for row in rows],
                "correlation_id": ids,
            }
            more = [row[4] for row in rows] if table == "kernel" else [H2D] * len(rows)
            tables[table]["name" if table == "kernel" else "kind"] = more
    for n in range(steps):
        for start, end in waits:
            times = (STEP_NS * n + start, STEP_NS * n + end)
            launches.append((*times, 10_000_000 + len(launches), "cudaStreamSynchronize"))
    if calls:
        columns = zip(*launches, strict=True)
        tables["api_call"] = dict(
            zip(
                ("start_ns", "end_ns", "correlation_id", "name"),
                map(list, columns),
                strict=True,
            )
        )
    spans = [(f"step_{n}", STEP_NS * n, STEP_NS * (n + 1)) for n in range(steps) if marked]
    spans += [
        (name, STEP_NS * n + start, STEP_NS * n + end)
        for n in range(steps)
        for name, start, end in ranges
    ]
    if spans:
        tables["range"] = {
            "name": [span[0] for span in spans],
            "start_ns": [span[1] for span in spans],
            "end_ns": [span[2] for span in spans],
        }
    return Trace(MemorySource(tables))


def kernel(start, end, name="sgemm_nt", stream=0):
    return ("kernel", start, end, stream, name)


def copy(start, end, stream=0):
    return ("memcpy", start, end, stream, "")


def lines(trace):
    result = api.run(trace, "checklist")
    assert isinstance(result, Result)
    return {row[-1]: dict(zip(result.columns, row, strict=True)) for row in result.rows()}


def state(trace, name):
    return lines(trace)[name]["state"]


FULL = [kernel(100, 990_000)]


def test_a_good_run_passes_everything_but_what_cannot_be_told():
    found = lines(run_of(FULL))
    states = {name: line["state"] for name, line in found.items()}
    assert states.pop("few-optimizer-launches") == "unknown"
    assert states.pop("copies-overlapped") == "unknown"
    assert set(states.values()) == {"pass"}
    busy = found["gpu-busy"]
    assert busy["value"] == pytest.approx(989_900 / STEP_NS)
    assert busy["unit"] == "ratio"


@pytest.mark.parametrize(("end", "wanted"), [(810_100, "pass"), (800_100, "fail"), (500, "fail")])
def test_device_busy(end, wanted):
    assert state(run_of([kernel(100, end)]), "gpu-busy") == wanted


@pytest.mark.parametrize(
    ("work", "wanted"),
    [
        ([kernel(100, 900_000), copy(900_000, 990_000)], "fail"),
        ([kernel(100, 990_000), copy(500_000, 590_000, stream=1)], "pass"),
        ([kernel(100, 950_000), copy(950_000, 990_000)], "pass"),
    ],
)
def test_copies_overlapped(work, wanted):
    assert state(run_of(work), "copies-overlapped") == wanted


@pytest.mark.parametrize(
    ("work", "small", "overlapped"),
    [
        ([kernel(100, 600_000), kernel(600_000, 990_000, NCCL)], "fail", "fail"),
        ([kernel(100, 990_000), kernel(600_000, 950_000, NCCL, 1)], "fail", "pass"),
        ([kernel(100, 900_000), kernel(900_000, 990_000, NCCL)], "pass", "pass"),
        (FULL, "pass", "pass"),
    ],
)
def test_communication(work, small, overlapped):
    found = lines(run_of(work))
    assert found["little-communication"]["state"] == small
    assert found["communication-overlapped"]["state"] == overlapped


def test_needless_waits():
    work = [kernel(100, 500_000), kernel(700_000, 990_000)]
    waited = run_of(work, waits=[(200, 690_000)])
    line = lines(waited)["no-unnecessary-synchronization"]
    assert line["state"] == "fail"
    assert line["value"] > 0.05
    assert state(run_of(work, calls=False), "no-unnecessary-synchronization") == "unknown"


def test_short_kernels():
    storm = [kernel(100 + 8_000 * n, 5_100 + 8_000 * n) for n in range(120)]
    assert state(run_of(storm), "few-short-kernels") == "fail"
    few = [kernel(100 + 80_000 * n, 5_100 + 80_000 * n) for n in range(12)]
    assert state(run_of(few), "few-short-kernels") == "pass", "few per step"
    line = lines(run_of([copy(100, 900_000)]))["few-short-kernels"]
    assert line["state"] == "unknown"


@pytest.mark.parametrize(("count", "wanted"), [(10, "pass"), (40, "fail")])
def test_optimizer_launches_in_its_ranges(count, wanted):
    work = [kernel(100 + 9_000 * n, 8_000 + 9_000 * n, ELEMENTWISE) for n in range(count)]
    trace = run_of(work, ranges=[("Optimizer.step#AdamW.step", 0, 990_000)])
    line = lines(trace)["few-optimizer-launches"]
    assert (line["state"], line["value"]) == (wanted, count)


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("OptimizedModule", "unknown"),
        ("torch/_dynamo/eval_frame.py: OptimizedModule.forward", "unknown"),
        ("optimization pass", "unknown"),
        ("optimize_layout", "unknown"),
        ("optim", "pass"),
        ("torch.optim", "pass"),
        ("optimizer_step", "pass"),
        ("run_optimizer", "pass"),
        ("AdamOptimizer.step", "pass"),
        ("OPTIMIZER", "pass"),
    ],
)
def test_optimizers_are_named_by_a_word(name, wanted):
    trace = run_of([kernel(100, 8_000, "k")], ranges=[(name, 0, 990_000)])
    assert state(trace, "few-optimizer-launches") == wanted


@pytest.mark.parametrize(("ns", "wanted"), [(100_000, "fail"), (20_000, "pass")])
def test_epilogues(ns, wanted):
    after = [kernel(100, 800_000), kernel(800_000, 800_000 + ns, ELEMENTWISE)]
    assert state(run_of(after), "epilogues-fused") == wanted
    elsewhere = [kernel(100, 800_000), kernel(800_000, 800_000 + ns, ELEMENTWISE, stream=1)]
    assert state(run_of(elsewhere), "epilogues-fused") == "pass"


def test_stray_transposes():
    work = [kernel(100, 800_000), kernel(800_000, 900_000, REORDER)]
    assert state(run_of(work), "few-layout-conversions") == "fail"


def test_streams():
    alternating = [kernel(100, 400_000), kernel(400_000, 900_000, stream=1)]
    assert state(run_of(alternating), "streams-concurrent") == "fail"
    together = [kernel(100, 900_000), kernel(200_000, 900_000, stream=1)]
    assert state(run_of(together), "streams-concurrent") == "pass"
    assert "one stream" in lines(run_of(FULL))["streams-concurrent"]["found"]


def test_steps():
    assert state(run_of(FULL, steps=10), "enough-steps") == "fail", "the last has no period"
    assert state(run_of(FULL, steps=11), "enough-steps") == "pass"
    alone = run_of([kernel(100, 900_000)], steps=1, marked=False)
    found = lines(alone)
    assert found["enough-steps"]["state"] == found["warm-up-excluded"]["state"] == "unknown"


def test_real_programs(capture):
    bad = lines(warpline.open(capture("host_sync.bad")))
    assert (
        bad["no-unnecessary-synchronization"]["state"]
        == bad["few-short-kernels"]["state"]
        == "fail"
    )
    graph = lines(warpline.open(capture("tiny_kernels.fixed")))
    assert graph["few-short-kernels"]["found"].startswith("all kernels are in CUDA graphs")
    ddp = lines(warpline.open(capture("ddp_serial.bad.rank0")))
    assert ddp["communication-overlapped"]["state"] == "fail"


def test_what_the_recording_hides_cannot_be_told(capture):
    whole = lines(warpline.open(capture("cuda_graph_level")))
    hidden = {name for name, line in whole.items() if line["state"] == "unknown"}
    assert hidden >= {"little-communication", "epilogues-fused", "few-layout-conversions"}
    assert whole["gpu-busy"]["state"] == "pass"
    no_copies = state(run_of(FULL), "copies-overlapped")
    assert no_copies == "unknown", "this trace has no table of copies"
    recorded = run_of([*FULL, copy(990_000, 990_100)])
    assert state(recorded, "copies-overlapped") == "pass"


def test_ids_are_a_contract():
    assert list(lines(run_of(FULL))) == [
        *("gpu-busy", "copies-overlapped", "little-communication", "communication-overlapped"),
        *("no-unnecessary-synchronization", "few-short-kernels", "few-optimizer-launches"),
        *("epilogues-fused", "few-layout-conversions", "streams-concurrent"),
        *("warm-up-excluded", "enough-steps"),
    ]


@settings(max_examples=40)
@given(any_traces())
def test_every_trace_gets_every_line(made):
    trace = made.trace()
    result = api.run(trace, "checklist")
    if isinstance(result, Result):
        assert len(result) == 12
        for row in result.rows():
            assert row[0] in {"pass", "fail", "unknown"}
            assert row[5] is None or row[5] >= 0
