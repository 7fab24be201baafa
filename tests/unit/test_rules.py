"""The rules capture-quality and debug-switch: where they fire, and where they stay silent."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import warpline
from warpline import plugins
from warpline.result import RULES, Skipped, cuda_unrecorded
from warpline.schema import TABLES
from warpline.schema.unrecorded import Code, Unrecorded
from warpline.trace import MemorySource, Run, Trace, TraceMeta

plugins.load("analyses")

Tables = dict[str, dict[str, list[Any]]]

OWNERS: Tables = {
    "process": {"pid": [7]},
    "thread": {"process_id": [0, 0], "tid": [7, 8]},
    "device": {"gpu_index": [0], "name": ["GPU"]},
    "context": {"process_id": [0], "device_id": [0], "native_id": [1], "is_green": [0]},
    "stream": {"process_id": [0], "context_id": [0], "native_id": [7]},
}


def made(tables, **meta):
    return Trace(MemorySource({**OWNERS, **tables}, TraceMeta((Path("x"),), "memory", **meta)))


def launched(count, *, call_ns=5, gap_ns=100, kernel_ns=50, steps=True):
    """Return a trace of steps of two kernels each; `call_ns` beyond the kernel's end blocks."""
    starts = [gap_ns * n for n in range(2 * count)]
    begun = [start + 10 for start in starts]
    tables: Tables = {
        "api_call": {
            "start_ns": starts,
            "end_ns": [start + call_ns for start in starts],
            "correlation_id": list(range(1, 2 * count + 1)),
            "name": ["cudaLaunchKernel"] * len(starts),
        },
        "kernel": {
            "start_ns": begun,
            "end_ns": [start + kernel_ns for start in begun],
            "correlation_id": list(range(1, 2 * count + 1)),
            "name": ["add", "mul"] * count,
        },
    }
    if steps:
        tables["range"] = {
            "start_ns": starts[::2],
            "end_ns": [start + 2 * gap_ns for start in starts[::2]],
            "name": [f"step_{n}" for n in range(count)],
        }
    return tables


def judge(rule, trace):
    judged = RULES.get(rule).judge(Run(trace))
    assert not isinstance(judged, Skipped)
    return {item.title: item for item in judged}


def test_a_good_recording_has_no_faults():
    assert judge("capture-quality", made(launched(20))) == {}
    assert judge("debug-switch", made(launched(20))) == {}


@pytest.mark.parametrize(
    ("lost", "severity"),
    [({"records": 5000}, "high"), ({"records": 1}, "medium"), ({"records": None}, "medium")],
)
def test_lost_records(lost, severity):
    found = judge("capture-quality", made(launched(20), lost=lost))
    assert [item.severity for item in found.values()] == [severity]
    assert "dropped" in found["Records were dropped"].claim


def test_damaged_tables_by_what_they_hold():
    damaged = {"kernel": "cut", "counter": "cut"}
    found = judge("capture-quality", made(launched(20), damaged=damaged))
    assert found["Table kernel is unreadable"].severity == "high"
    assert found["Table counter is unreadable"].severity == "low"


def test_launches_without_device_work():
    tables = launched(20)
    del tables["kernel"]
    found = judge("capture-quality", made(tables))["GPU work was not recorded"]
    assert found.severity == "high"
    assert found.evidence[0].count == 40


def test_device_work_without_calls():
    tables = launched(20)
    del tables["api_call"]
    found = judge("capture-quality", made(tables))
    assert found["CUDA API calls were not recorded"].severity == "medium"


def test_some_launches_are_missing():
    tables = launched(20)
    for column in tables["api_call"].values():
        del column[10:20]
    found = judge("capture-quality", made(tables))["Launch calls of some GPU work are missing"]
    assert found.severity == "medium"
    assert found.evidence[0].count == 10
    assert found.evidence[0].windows_ns[0] == (1010, 1060)


def test_a_recording_cut_out_of_a_longer_one():
    tables = launched(20)
    for column in tables["api_call"].values():
        del column[:10]  # launched before the recording
    for column in tables["kernel"].values():
        del column[-3:]  # ran after it
    found = judge("capture-quality", made(tables))
    assert list(found) == ["The recording is part of a longer run"]
    (cut,) = found.values()
    assert cut.severity == "medium"
    assert cut.claim.startswith("10 GPU operations were launched before the recording started. The")
    assert "the last 3 launches is not in the recording" in cut.claim
    assert cut.evidence[0].windows_ns == ((10, 960), (3700, 3905))
    whole = made(launched(20))
    assert judge("capture-quality", whole.window(1000, 3000)).keys() <= {"Too few steps"}


def test_launches_in_the_middle_without_work():
    tables = launched(20)
    for column in tables["kernel"].values():
        del column[10:14]
    (found,) = judge("capture-quality", made(tables)).values()
    assert found.title == "GPU work of some launches is missing"
    assert found.severity == "medium"
    assert found.claim.startswith("10.0% of launches have no recorded GPU work.")
    assert found.evidence[0].rows == (10, 11, 12, 13)
    failed = {**tables["api_call"], "return_value": [0] * 10 + [700] * 4 + [0] * 26}
    assert judge("capture-quality", made({**tables, "api_call": failed})) == {}


def test_launches_that_a_graph_captures_have_no_work_of_their_own():
    tables = launched(20)
    for column in tables["kernel"].values():
        del column[10:14]
    calls = tables["api_call"]
    calls["name"][9], calls["name"][14] = "cudaStreamBeginCapture", "cudaStreamEndCapture"
    for column in tables["kernel"].values():
        del column[9:11]  # of these two calls
    assert judge("capture-quality", made(tables)) == {}


def test_graphs_without_nodes():
    tables = launched(20)
    tables["api_call"]["name"][10:14] = ["cudaGraphLaunch_v10000"] * 4
    assert judge("capture-quality", made(tables)) == {}
    for column in tables["kernel"].values():
        del column[10:13]
    (found,) = judge("capture-quality", made(tables)).values()
    assert found.title == "CUDA graphs have no recorded operations"
    assert found.claim.startswith("3 of 4 launches of CUDA graphs have no recorded kernels.")


def test_idle_time_that_nothing_recorded_explains():
    # Launched at once; from the 21st kernel on, each begins 60 us after the one before.
    starts = [100 + 10 * n for n in range(40)]
    begun = [1000 * n if n < 20 else 20_000 + 61_000 * (n - 19) for n in range(40)]
    tables = launched(20, steps=False)
    tables["api_call"].update(start_ns=starts, end_ns=[start + 5 for start in starts])
    names = [f"kernel_{n}" for n in range(40)]  # no steps
    ended = [start + 1000 for start in begun]
    tables["kernel"].update(start_ns=begun, end_ns=ended, name=names)
    found = judge("capture-quality", made(tables))["Idle time has no recorded cause"]
    assert found.severity == "medium"
    assert found.evidence[0].count == 20
    # Kernel 20 begins at 81 us, 61 us after the one before ended; the others 60 us.
    idle_ns, whole_ns = 61_000 + 19 * 60_000, begun[-1] + 1000
    assert found.evidence[0].windows_ns[0] == (20_000, 81_000)
    assert f"({100 * idle_ns / whole_ns:.1f}%)" in found.claim
    tables["api_call"]["correlation_id"] = [1] + [0] * 19 + [2] + [0] * 19
    tables["api_call"]["name"] = ["cudaGraphLaunch"] * 40
    tables["kernel"]["correlation_id"] = [1] * 20 + [2] * 20
    gaps = judge("capture-quality", made(tables))["CUDA graphs have long gaps"]
    assert gaps.evidence[0].count == 19


def test_an_import_that_failed():
    cause = Unrecorded("cuda", Code.NOT_IMPORTED, "wrong event order")
    found = judge("capture-quality", made({}, warnings=(cause.text,), unrecorded=(cause,)))
    assert next(iter(found)) == "CUDA events were not imported"
    claim = found["CUDA events were not imported"].claim
    assert claim == "nsys could not import the CUDA events: wrong event order."
    assert not any("-t cuda a part" in item.fix for item in found.values())


@pytest.mark.parametrize(("count", "severity"), [(3, "low"), (6, "info"), (11, None)])
def test_few_steps(count, severity):
    # The last step has no period.
    found = judge("capture-quality", made(launched(count)))
    assert (found["Too few steps"].severity if found else None) == severity


def test_recorded_cost():
    costs = {"api_call": 20.0, "range": 1.0}
    found = judge("capture-quality", made(launched(20), record_cost_ns=costs))
    cost = found["High profiling overhead"]
    # Two calls of 20 ns and a range of 1 ns in each step of 200 ns.
    assert cost.severity == "medium"
    assert "20.5%" in cost.claim
    assert "CUDA API calls" in cost.evidence[0].text


def test_cost_that_the_profiler_tells_counts_where_the_device_waits_for_it():
    tables = launched(20)
    # Between the kernels of steps 2 to 11 the launching thread is held for 30 of 100 ns.
    starts = [100 * n - 25 for n in range(4, 24)]
    overhead = {"start_ns": starts, "end_ns": [start + 30 for start in starts]}
    names = ["Activity Buffer Request"] * len(starts)
    held = made({**tables, "overhead": {**overhead, "name": names, "thread_id": [0] * 20}})
    found = judge("capture-quality", held)["High profiling overhead"]
    assert found.severity == "medium"
    assert "idle for" in found.evidence[0].text
    others = made({**tables, "overhead": {**overhead, "name": names, "thread_id": [1] * 20}})
    assert judge("capture-quality", others) == {}


@pytest.mark.parametrize(("tables", "severity"), [({}, "high"), (launched(20), "medium")])
def test_another_profiler_held_cupti(tables, severity):
    told = "CUDA was not recorded: X holds CUPTI, which serves one profiler; stop it, or update"
    found = judge("capture-quality", made(tables, warnings=("another", told)))
    held = found["CUDA was not recorded"]
    assert held.severity == severity
    assert held.claim.endswith(": X holds CUPTI, which serves one profiler.")
    assert held.fix == "stop it, or update"
    assert "No GPU work was recorded" not in found


def test_the_cause_is_data_and_told_once():
    cause = Unrecorded("cuda", Code.UNSHARED, "X")
    trace = made({}, warnings=(cause.text,), unrecorded=(cause,))
    assert len(cuda_unrecorded(trace)) == 1
    held = judge("capture-quality", trace)["CUDA was not recorded"]
    assert held.claim.endswith(": X is using CUPTI and does not share it.")
    assert held.fix == "stop it to record CUDA"


def test_there_was_no_cupti():
    told = "CUDA was not recorded: /a has no cuptiSubscribe; /b is older than CUDA 12"
    held = judge("capture-quality", made({}, warnings=(told,)))["CUDA was not recorded"]
    assert held.claim.endswith("/a has no cuptiSubscribe; /b is older than CUDA 12.")
    assert held.fix.startswith("Run warpline doctor")


def test_graphs_as_wholes(capture):
    found = judge("capture-quality", warpline.open(capture("cuda_graph_level")))
    assert found["CUDA graphs were traced at graph level"].severity == "low"
    nodes = judge("capture-quality", warpline.open(capture("tiny_kernels.fixed")))
    assert "CUDA graphs were traced at graph level" not in nodes


@pytest.mark.parametrize(
    ("producer", "tables", "is_told"),
    [
        ("Warpline 0.1.0", {}, True),
        ("Warpline 0.1.0", {"um_gpu_page_fault": {"start_ns": []}}, False),
        ("Nsight Systems 2025.3", {}, False),
    ],
)
def test_managed_memory_without_its_migrations(producer, tables, is_told):
    calls = launched(20)
    calls["api_call"]["name"][3] = "cudaMallocManaged"
    found = judge("capture-quality", made({**calls, **tables}, producer=producer))
    told = found.get("Migrations of managed memory were not recorded")
    assert (told is not None) == is_told
    if told is not None:
        assert (told.severity, told.evidence[0].count) == ("info", 1)
        assert told.fix.startswith("Profile with --cuda-um-cpu-page-faults=true")
    without = judge("capture-quality", made(launched(20), producer=producer))
    assert "Migrations of managed memory were not recorded" not in without


def test_ranks_that_are_not_here(capture):
    one = judge("capture-quality", warpline.open(capture("ddp_payloads.whole.rank0")))
    assert "1 of 2 ranks" in one["Some ranks are missing"].claim


def test_truncated_ranges():
    tables = launched(20)
    tables["range"]["is_truncated"] = [False] * 19 + [True]
    found = judge("capture-quality", made(tables))
    assert found["Ranges still open at the end"].evidence[0].rows == (19,)


def test_unread_tables_that_matter():
    unread = {"CUPTI_ACTIVITY_KIND_UNIFIED_MEMORY_COUNTER": 5, "WDDM_QUEUE": 9}
    found = judge("capture-quality", made(launched(20), unread=unread))
    claim = found["Possibly relevant tables are not read"].claim
    assert "UNIFIED_MEMORY_COUNTER (5 rows)" in claim
    assert "WDDM" not in claim


@pytest.mark.parametrize(
    ("environment", "severity"),
    [
        ({"CUDA_LAUNCH_BLOCKING": "1"}, "high"),
        ({"CUDA_LAUNCH_BLOCKING": "0"}, None),
        ({"PYTORCH_NO_CUDA_MEMORY_CACHING": "1"}, "high"),
        ({"NCCL_DEBUG": "info"}, "info"),
        ({"NCCL_DEBUG": "TRACE"}, "low"),
        ({"NCCL_DEBUG": "WARN"}, None),
        ({"TORCH_NCCL_BLOCKING_WAIT": "1"}, "medium"),
        ({"CUBLAS_WORKSPACE_CONFIG": ":4096:8"}, "info"),
        ({"CUDA_DEVICE_MAX_CONNECTIONS": "8"}, None),
        ({"OMP_NUM_THREADS": "1"}, None),
    ],
)
def test_switches_of_the_environment(environment, severity):
    found = judge("debug-switch", made(launched(20), environment=environment))
    assert [item.severity for item in found.values()] == ([severity] if severity else [])
    for item in found.values():
        name, value = next(iter(environment.items()))
        assert f"{name}={value}" in item.claim


def test_launches_that_wait_are_seen_without_the_environment():
    blocking = made(launched(20, call_ns=70))
    found = judge("debug-switch", blocking)["Kernel launches are synchronous"]
    assert found.severity == "high"
    assert found.evidence[0].count == 40
    assert found.evidence[0].windows_ns[0] == (0, 70)
    assert judge("debug-switch", made(launched(5, call_ns=70))) == {}, "too few to tell"
    told = made(launched(20, call_ns=70), environment={"CUDA_LAUNCH_BLOCKING": "1"})
    both = list(judge("debug-switch", told).values())
    assert len(both) == 1
    assert [seen.table for seen in both[0].evidence] == [None, "kernel"]


def ranges_of(rows):
    names, starts, ends = zip(*rows, strict=True)
    return {"start_ns": [*starts], "end_ns": [*ends], "name": [*names]}


def test_anomaly_mode():
    engine = "autograd::engine::evaluate_function: MulBackward0, op_id = 3"
    check = ("aten::_is_any_true, op_id = 2", 30, 40)
    rows = [
        (name, 100 * n + start, 100 * n + end)
        for n in range(4)
        for name, start, end in ((engine, 0, 90), ("aten::isnan, op_id = 1", 10, 20), check)
    ]
    ranges = ranges_of(rows)
    found = judge("debug-switch", made({"range": ranges}))["PyTorch's anomaly mode is on"]
    assert found.evidence[0].count == 4
    plain = ranges_of([row for row in rows if row[0] != check[0]])
    assert judge("debug-switch", made({"range": plain})) == {}


@pytest.mark.parametrize("name", ["host_sync.bad", "pageable_h2d.fixed", "ddp_serial.bad.rank0"])
def test_ordinary_programs_have_no_debug_switch(capture, name):
    assert judge("debug-switch", warpline.open(capture(name))) == {}


def test_evidence_names_tables_that_exist():
    trace = made(launched(20, call_ns=70), lost={"records": 5})
    for rule in RULES:
        judged = rule.judge(Run(trace))
        assert isinstance(judged, list)
        for item in judged:
            assert item.rule == rule.name
            assert all(seen.table is None or seen.table in TABLES for seen in item.evidence)


@pytest.mark.parametrize("rule", list(RULES), ids=lambda rule: rule.name)
def test_every_rule_is_documented(rule):
    headings = ("What it finds", "Why it matters", "How it is found", "What to do", "Limits")
    for heading in (*headings, "Source"):
        assert f"\n    {heading}: " in rule.doc
