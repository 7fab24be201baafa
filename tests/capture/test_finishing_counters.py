"""Finishing hardware counters: launches, their values, their ranges, and what is said of them."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from capture.cuda_writer import NONE, CudaLog
from capture.finished import of_process, read, rows
from capture.raw_writer import Log

from warpline import native
from warpline.capture.finishing.finish import Finished
from warpline.capture.machine.obstacles import obstacle
from warpline.trace import Trace

pytestmark = pytest.mark.skipif(native.core() is None, reason="needs the native core")

COUNTERS, NO_COUNTERS, DOUBT, NOT_CHOSEN, LOCKED, UNLOCKED = range(70, 76)  # notes


def counting(pid: int = 100, **more: int) -> CudaLog:
    """Return a log of a process that counts, with one device and one context."""
    log = CudaLog(pid, **more)
    log.device()
    log.context()
    return log


def read_counters(folder: Path, *logs: Log) -> tuple[Trace, Finished]:
    return read(folder, *logs, collected=["nvtx", "counters"])


def metrics(trace: Trace) -> list[tuple[int, str, str | None, float]]:
    return rows(trace, "kernel_metric", "profiled_kernel_id", "name", "unit", "value")


def test_values_find_their_launch_and_name_in_other_logs(tmp_path: Path) -> None:
    evaluating = CudaLog(100, tid=101, number=0)
    evaluating.counter_value(1, 1, 0.25)  # before both are known
    evaluating.counter_value(0, 1, 1000.0)
    evaluating.counter_value(0, 0, 2000.0)
    launching = counting(number=1)
    launching.counter_name(0, "gpu__time_duration.sum ns")
    launching.counter_name(1, "ratio")
    launching.counted("_Z3addPfi", 1, 30, 40)
    launching.counted("_Z3addPfi", 0, 10, 20)
    trace, finished = read_counters(tmp_path, evaluating, launching)
    assert metrics(trace) == [
        (0, "gpu__time_duration.sum", "ns", 2000.0),
        (1, "ratio", None, 0.25),  # as they were written
        (1, "gpu__time_duration.sum", "ns", 1000.0),
    ]
    assert rows(trace, "kernel_metric", "integer", "text", "instances") == [(None, None, 0)] * 3
    assert (finished.counted_kernels, finished.counter_values, finished.lost) == (2, 3, 0)
    assert not finished.is_empty


def test_a_launch_has_the_facts_of_its_record(tmp_path: Path) -> None:
    log = counting()
    facts = {"correlation": 7, "seen": 40, "passes": 9, "registers": 30, "local": 16}
    shape = {"grid": (5, 6, 7), "block": (32, 2, 1), "shared": (64, 4096)}
    log.counted("_Z3addPfi", 3, 10, 20, **facts, **shape)
    trace, _ = read_counters(tmp_path, log)
    row = trace["profiled_kernel"].row(0, named=True)
    expected = {
        "launch_number": 3,
        "process_id": 0,
        "thread_id": 0,
        "start_ns": 10,
        "end_ns": 20,
        "correlation_id": 7,
        "earlier_launches": 40,
        "name": "add(float *, int)",
        "short_name": "add",
        "mangled_name": "_Z3addPfi",
        "grid_y": 6,
        "block_y": 2,
        "registers_per_thread": 30,
        "static_shared_bytes": 64,
        "dynamic_shared_bytes": 4096,
        "local_per_thread_bytes": 16,
        "nvtx": None,
        "has_fixed_clocks": None,
        "passes": 9,
        "clock_drift_ratio": None,
        "is_range": False,
        "kernels": 1,
    }
    assert {name: row[name] for name in expected} == expected
    assert trace["device"]["sm_count"].to_list() == [132]
    assert trace["stream"]["native_id"].to_list() == [7]


def test_a_range_of_work_keeps_its_name(tmp_path: Path) -> None:
    log = counting()
    whole = {"grid": (0, 0, 0), "block": (0, 0, 0), "stream": NONE}
    log.counted("_Z3addPfi", 0, 10, 20, kernels=12, **whole)
    log.counted("_Z3addPfi", 1, 30, 40)
    log.counted(None, 2, 50, 60, kernels=2**64 - 1)
    trace, _ = read_counters(tmp_path, log)
    assert rows(trace, "profiled_kernel", "name", "mangled_name", "is_range", "kernels") == [
        ("_Z3addPfi", None, True, 12),
        ("add(float *, int)", "_Z3addPfi", False, 1),
        ("[unknown]", None, True, 2**63 - 1),
    ]
    assert trace["profiled_kernel"]["stream_id"].is_null().to_list() == [True, False, False]
    assert trace["stream"]["native_id"].to_list() == [7]


def test_values_without_a_launch_are_counted(tmp_path: Path) -> None:
    log = counting()
    log.counter_name(0, "a")
    log.counted("_Z1av", 0, 10, 20)
    log.counted("_Z1av", 1, 30, 40, failed=True)
    for launch in (0, 1, 2, 2**32, 2**64 - 1):
        log.counter_value(0, launch, 1.0)
    other = CudaLog(200, incarnation=2)  # a launch of another process
    other.counter_value(0, 0, 2.0)
    trace, finished = read_counters(tmp_path, log, other)
    assert metrics(trace) == [(0, "a", None, 1.0)]
    assert trace.meta.lost == {"counter values without a kernel launch": 5}
    assert finished.lost == 5
    assert "no counters for 1 kernel launch: the profiler failed" in trace.meta.warnings
    assert rows(trace, "profiled_kernel", "launch_number") == [(0,), (1,)]


def test_the_drift_of_the_clock_between_passes(tmp_path: Path) -> None:
    log = counting()
    for launch in range(6):
        log.counted("_Z1av", launch, 10 * launch, 10 * launch + 5, passes=9)
    log.counted("_Z1av", 6, 70, 75, passes=9, failed=True)
    evaluating = CudaLog(100, tid=101, number=1)
    evaluating.pass_clock(1, 1500, 2000)
    evaluating.pass_clock(0, 1980, 1980)
    evaluating.pass_clock(3, 0, 1980)  # what follows is in a damaged log only
    evaluating.pass_clock(4, 1981, 1980)
    for lowest, highest in ((1900, 2000), (1600, 1700), (0, 2100)):
        evaluating.pass_clock(5, lowest, highest)
    for launch in (6, 7, 2**32 - 1):
        evaluating.pass_clock(launch, 1, 2)
    other = counting(200, incarnation=2)
    other.counted("_Z1av", 2, 22, 24)
    other.pass_clock(2, 1, 4)
    trace, finished = read_counters(tmp_path, log, evaluating, other)
    found = rows(trace, "profiled_kernel", "launch_number", "process_id", "clock_drift_ratio")
    assert found == [
        *((0, 0, 0.0), (1, 0, 0.25), (2, 0, None), (2, 1, 0.75), (3, 0, None), (4, 0, None)),
        *((5, 0, 0.2), (6, 0, None)),
    ]
    assert finished.damaged_logs == finished.lost == 0


def test_processes_have_their_own_launches_and_metrics(tmp_path: Path) -> None:
    logs = []
    for pid, name in ((100, "a ns"), (200, "b")):
        log = counting(pid, incarnation=pid)
        log.counter_name(0, name)
        log.counted("_Z1av", 0, pid, pid + 10)
        log.counter_value(0, 0, float(pid))
        logs.append(log)
    trace, _ = read_counters(tmp_path, *logs)
    assert rows(trace, "profiled_kernel", "launch_number", "process_id") == [(0, 0), (0, 1)]
    assert metrics(trace) == [(0, "a", "ns", 100.0), (1, "b", None, 200.0)]


def test_malicious_numbers_and_names(tmp_path: Path) -> None:
    log = counting()
    log.counter_name(2**32 - 1, "far byte")
    log.counter_name(2**32 - 1, "other")  # the first one counts
    log.counter_name(3, "")
    log.counter_name(4, " unit")
    log.counted("_Z1av", 2**32 - 1, 50, 60)
    log.counted("_Z1bv", 2**32 - 1, 10, 20)
    for metric in (2**32 - 1, 3, 4, 5):
        log.counter_value(metric, 2**32 - 1, math.nan if metric == 3 else float(metric))
    trace, finished = read_counters(tmp_path, log)
    found = {(launch, name): (unit, value) for launch, name, unit, value in metrics(trace)}
    assert [launch for launch, _ in found] == [0] * 4
    assert found[0, "far"] == ("byte", float(2**32 - 1))
    assert math.isnan(found[0, "[unknown metric 3]"][1])
    assert found[0, "[unknown metric 4]"] == (None, 4.0)
    assert found[0, "[unknown metric 5]"] == (None, 5.0)
    assert rows(trace, "profiled_kernel", "name") == [("a()",), ("b()",)]
    assert finished.damaged_logs == 0


def nvtx(trace: Trace) -> list[str | None]:
    return trace["profiled_kernel"]["nvtx"].to_list()


def test_open_ranges_of_the_launching_thread(tmp_path: Path) -> None:
    log = counting()
    log.domain(1, "model")
    log.counted("_Z1av", 0, 5, 6)
    log.push(10, "step")
    log.start(10, 1, "from start to end")
    log.push(12, "outer", domain=1)
    log.push(12, "inner", domain=1)  # together with it, and shorter
    log.counted("_Z1av", 1, 12, 13)
    log.pop(14, 1)
    log.counted("_Z1av", 2, 14, 16)  # after its end
    log.push(20, None)
    log.counted("_Z1av", 3, 25, 26)
    log.counted("_Z1av", 4, 26, 27)
    log.pop(30)
    log.pop(31, 1)
    log.pop(32)
    log.counted("_Z1av", 5, 40, 41)
    other = CudaLog(100, tid=101, number=1)
    other.push(1, "other thread")
    other.pop(90)
    other.counted("_Z1av", 6, 50, 51)
    trace, _ = read_counters(tmp_path, log, other)
    assert nvtx(trace) == [
        None,
        "step; outer/inner@model",
        "step; outer@model",
        "step/; outer@model",
        "step/; outer@model",
        None,
        "other thread",
    ]


def test_deep_ranges_and_long_names_are_cut(tmp_path: Path) -> None:
    log = counting()
    for depth in range(300):
        log.push(1 + depth, f"{depth}")
    log.counted("_Z1av", 0, 500, 501)
    for depth in range(300):
        log.pop(600 + depth)
    log.push(910, "x" * 60_000)
    log.counted("_Z1av", 1, 920, 930)
    trace, _ = read_counters(tmp_path, log)
    deep, long = nvtx(trace)
    assert deep == "/".join(map(str, range(256)))
    assert long == "x" * 4096


def test_tables_that_were_asked_for_are_present(tmp_path: Path) -> None:
    log = Log()
    log.push(1)
    log.pop(2)
    trace, finished = read_counters(tmp_path, log)
    assert trace.row_count("profiled_kernel") == trace.row_count("kernel_metric") == 0
    assert finished.counted_kernels == 0


def test_why_there_are_no_counters(tmp_path: Path) -> None:
    log = counting()
    log.note(5, NO_COUNTERS, "the driver denies them (ERR_NVGPUCTRPERM)\tRun as root")
    trace, finished = read_counters(tmp_path, log)
    assert not trace.has("profiled_kernel")
    assert not trace.has("kernel_metric")
    (cause,) = trace.meta.unrecorded
    assert (cause.api, cause.code.value) == ("counters", "advised")
    assert cause.why == "the driver denies them (ERR_NVGPUCTRPERM)"
    assert cause.hint == "Run as root"
    reason = "the driver denies them (ERR_NVGPUCTRPERM); Run as root"
    said = f"hardware counters were not collected: {reason}"
    assert trace["diagnostic"]["text"].to_list() == [said]
    assert finished.unrecorded == (reason,)
    assert finished.is_empty


REFUSED = "cuptiRangeProfilerStart: CUPTI_ERROR ({0})\t{0}"


@pytest.mark.parametrize("result", [26, 35, 39, 40, 41, 42, 43])
def test_the_cause_and_cure_of_cupti_results(tmp_path: Path, result: int) -> None:
    log = counting()
    log.note(5, NO_COUNTERS, REFUSED.format(result))
    trace, finished = read_counters(tmp_path, log)
    known = obstacle(result)
    assert known is not None
    (cause,) = trace.meta.unrecorded
    assert (cause.why, cause.hint) == (known.cause, known.cure)
    assert finished.unrecorded == (f"{known.cause}; {known.cure}",)


def test_results_of_unknown_cause_are_in_the_words_of_cupti(tmp_path: Path) -> None:
    log = counting()
    log.note(5, NO_COUNTERS, REFUSED.format(999))
    _, finished = read_counters(tmp_path, log)
    assert finished.unrecorded == ("cuptiRangeProfilerStart: CUPTI_ERROR (999)",)


def test_notes_about_counters(tmp_path: Path) -> None:
    log = counting()
    log.note(5, COUNTERS, "GH100, 9 passes, kernel replay")
    log.note(6, DOUBT, "clocks are not locked")
    log.counted("_Z1av", 0, 10, 20)
    trace, _ = read_counters(tmp_path, log)
    assert trace["diagnostic"]["text"].to_list() == [
        "hardware counters are collected: GH100, 9 passes, kernel replay",
        "hardware counters are collected, but clocks are not locked",
    ]
    assert "hardware counters are collected, but clocks are not locked" in trace.meta.warnings


def test_counters_beside_a_timeline(tmp_path: Path) -> None:
    log = of_process()
    log.launch(10, 12, 1)
    log.kernel("_Z1av", 20, 30, 1)
    log.counted("_Z1bv", 0, 40, 50)
    trace, finished = read(tmp_path, log, collected=["cuda", "counters"])
    assert trace["kernel"]["name"].to_list() == ["a()"]
    assert trace["profiled_kernel"]["name"].to_list() == ["b()"]
    assert (finished.kernels, finished.counted_kernels) == (1, 1)


def test_a_window_keeps_launches_in_it_with_their_values(tmp_path: Path) -> None:
    log = counting()
    log.counter_name(0, "a")
    for launch in range(4):
        log.counted("_Z1av", launch, 100 * launch, 100 * launch + 50)
        log.counter_value(0, launch, float(launch))
    trace, _ = read_counters(tmp_path, log)
    part = trace.window(100, 300)
    assert rows(part, "profiled_kernel", "launch_number") == [(1,), (2,)]
    assert metrics(part) == [(0, "a", None, 1.0), (1, "a", None, 2.0)]


def test_attributes_of_a_gpu_are_those_of_the_first_process(tmp_path: Path) -> None:
    first, second = counting(100), counting(200)
    for log in (first, second):
        log.device_attribute("warp_size", 32)
        log.device_attribute("numa_id", -1)
        log.device_attribute("warp_size", 64)  # a damaged log
        log.device_attribute("warp_size", 32, device=5)  # not described
    trace, _ = read_counters(tmp_path, first, second)
    assert rows(trace, "device_attribute", "device_id", "name", "value", "integer", "text") == [
        (0, "device__attribute_numa_id", -1.0, -1, None),
        (0, "device__attribute_warp_size", 32.0, 32, None),
    ]


def test_whether_clocks_were_fixed_is_known_where_that_was_asked_for(tmp_path: Path) -> None:
    log = counting()
    for launch, fixed in enumerate((None, False, True)):
        log.counted("_Z3addPfi", launch, 10 * launch + 10, 10 * launch + 15, fixed_clocks=fixed)
    trace, _ = read_counters(tmp_path, log)
    assert trace["profiled_kernel"]["has_fixed_clocks"].to_list() == [None, False, True]


def test_clocks_that_are_still_locked_are_told(tmp_path: Path) -> None:
    left = counting(100)
    left.note(5, LOCKED, "1")
    tidy = counting(200)
    tidy.note(6, LOCKED, "0")
    tidy.note(9, UNLOCKED, "0")
    _, finished = read_counters(tmp_path, left, tidy)
    (warning,) = [text for text in finished.warnings if "clocks" in text]
    assert warning == (
        "process 100 ended without unlocking the clocks of GPU 1: run sudo nvidia-smi"
        " --reset-gpu-clocks"
    )


def test_why_no_launch_was_chosen_is_passed_on(tmp_path: Path) -> None:
    first, second = counting(100), counting(200)
    for log in (first, second):
        log.note(5, NOT_CHOSEN, "no NVTX range matched\tuse another")
    _, finished = read_counters(tmp_path, first, second)
    assert finished.not_chosen == ("no NVTX range matched\tuse another",)
    assert not [text for text in finished.warnings if "NVTX" in text]
