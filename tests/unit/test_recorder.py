"""How to record what is missing, in the words of the profiler that recorded the trace."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support.any_trace import empty_trace
from support.programs import Program

import warpline
from warpline import plugins
from warpline.derived.recorder import hints, only_step
from warpline.documents.tables import compute
from warpline.errors import MissingTableError, UsageError
from warpline.result import RULES, Skipped
from warpline.trace import MemorySource, Run, Trace
from warpline.trace.meta import TraceMeta
from warpline.trace.recorder import is_of_pytorch, table_hint
from warpline.trace.selection import select

plugins.load("analyses")

PYTORCH = "void at::native::vectorized_elementwise_kernel<4>(int)"


def recorded(
    recorder: str, kernel: str = "", process: str = "./solve", ranges: tuple[str, ...] = ()
) -> Trace:
    tables: dict[str, dict[str, list[Any]]] = {
        "process": {"pid": [1], "name": [process]},
        "thread": {"process_id": [0], "tid": [1]},
        "device": {"gpu_index": [0]},
    }
    if kernel:
        tables["kernel"] = {"start_ns": [0], "end_ns": [9], "name": [kernel], "device_id": [0]}
    if ranges:
        tables["range"] = {
            "start_ns": [10 * n for n in range(len(ranges))],
            "end_ns": [10 * n + 9 for n in range(len(ranges))],
            "name": list(ranges),
            "thread_id": [0] * len(ranges),
            "process_id": [0] * len(ranges),
        }
    return Trace(MemorySource(tables, TraceMeta((Path("memory"),), recorder)))


@pytest.mark.parametrize(
    ("recorder", "kernel", "process", "mark"),
    [
        ("kineto", PYTORCH, "python", "prof.step()"),
        ("kineto", "saxpy(float *)", "./solve", "prof.step()"),
        ("nsys-sqlite", PYTORCH, "python", "torch.cuda.nvtx.range_push("),
        ("warpline", PYTORCH, "python", "torch.cuda.nvtx.range_push("),
        ("nsys-sqlite", "loop_add_fusion_3", "python3", "nvtx.annotate("),
        ("nsys-sqlite", "cupy_add__float32_float32", "/usr/bin/python3.11", "nvtx.annotate("),
        ("nsys-sqlite", "", "python3", "nvtx.annotate("),
        ("nsys-sqlite", "saxpy(float *)", "./solve", "nvtxRangePushA("),
        ("nsys-sqlite", "", "./solve", "nvtxRangePushA("),
    ],
)
def test_steps_are_marked_as_the_recorder_sees_them(
    recorder: str, kernel: str, process: str, mark: str
) -> None:
    hint = hints(recorded(recorder, kernel, process)).steps
    assert mark in hint
    assert hint.endswith(", or name existing ranges with --steps-from NAME.")
    assert sum(word in hint for word in ("prof.step()", "torch.cuda", "annotate", "nvtxRange")) == 1


def test_options_are_for_recorders_that_have_them() -> None:
    own, of_program = hints(recorded("nsys-sqlite")), hints(recorded("kineto"))
    for with_option, in_program in zip(own[2:5], of_program[2:5], strict=True):
        assert "-t cuda" in with_option
        assert "ProfilerActivity.CUDA" in in_program
        assert "-t cuda" not in in_program
    assert own.more_steps.format(count=10) == "Record at least 10 steps after warm-up."
    assert "active=10)" in of_program.more_steps.format(count=10)
    assert own.gap.startswith("Locate the gap with NVTX ranges. If")
    assert of_program.gap.startswith("Locate the gap with torch.profiler.record_function. If")


def test_hints_of_tables() -> None:
    option, trace = "profile with --trace=cuda", recorded("kineto")
    assert table_hint(recorded("nsys-sqlite"), ("kernel",), option) == option
    assert "ProfilerActivity.CUDA" in (table_hint(trace, ("x", "memcpy"), option) or "")
    assert "record_function" in (table_hint(trace, ("range",), option) or "")
    assert table_hint(trace, ("x",), option) == option
    assert table_hint(trace, (), None) is None
    skipped = compute(trace, "cuda_api_sum")
    assert isinstance(skipped, Skipped)
    assert "ProfilerActivity.CUDA" in (skipped.hint or "")


def test_ranges_are_missing_in_the_recorder_s_words() -> None:
    for recorder, words in (("kineto", "record_function"), ("nsys-sqlite", "--trace=cuda,nvtx")):
        trace = recorded(recorder, PYTORCH)
        with pytest.raises(UsageError) as of_steps:
            warpline.analyze(trace, steps="step_*")
        with pytest.raises(MissingTableError) as of_filter:
            select(trace, filter_nvtx="step")
        for caught in (of_steps, of_filter):
            assert words in (caught.value.hint or "")
            assert ("record_function" in words) == ("--trace" not in (caught.value.hint or ""))


def test_the_only_step_of_the_pytorch_profiler() -> None:
    def name(*ranges: str) -> str | None:
        return only_step(recorded("kineto", ranges=ranges))

    assert name("ProfilerStep#6") == "ProfilerStep#6"
    assert name("ProfilerStep#6", "forward", "ProfilerStep#6") == "ProfilerStep#6"
    assert name("ProfilerStep#6", "ProfilerStep#7") is None
    assert name("forward") is None
    assert name() is None
    assert only_step(empty_trace()) is None


def test_a_converted_recording_keeps_its_recorder() -> None:
    meta = TraceMeta((Path("memory"),), "warpline", "PyTorch profiler, CUDA 12.8")
    assert is_of_pytorch(Trace(MemorySource({"process": {"pid": [1]}}, meta)))
    assert not is_of_pytorch(recorded("warpline"))


def fix_of(trace: Trace, title: str) -> str:
    return next(item.fix for item in warpline.analyze(trace).findings if item.title == title)


def test_findings_about_the_recording_use_the_recorder_s_words() -> None:
    for recorder, steps, gpu_work in (
        ("kineto", "prof.step()", "ProfilerActivity.CUDA"),
        ("nsys-sqlite", "nvtxRangePushA", "-t cuda a part"),
    ):
        assert steps in fix_of(recorded(recorder, "saxpy(float *)"), "No steps were found")
        assert gpu_work in fix_of(recorded(recorder), "No GPU work was recorded")


def test_one_step_of_the_pytorch_profiler_is_not_no_step() -> None:
    trace = recorded("kineto", PYTORCH, ranges=("ProfilerStep#6",))
    found = next(item for item in warpline.analyze(trace).findings if "step" in item.title)
    assert found.title == "Only one step was recorded"
    assert found.claim == (
        "ProfilerStep#6 is the only step. The whole recording is analyzed as one interval."
    )
    assert "active=10" in found.fix


def test_launches_without_work_are_recorded_in_the_profiler_s_way() -> None:
    for recorder, words in (("kineto", "activities=["), ("nsys-sqlite", "-t cuda,")):
        made = Program()
        made.call("cudaLaunchKernel_v7000", 0, 1_000)
        trace = made.trace()
        meta = replace(trace.meta, format=recorder)
        tables = {"process": {"pid": [1]}, "thread": {"process_id": [0], "tid": [1]}}
        calls = {
            key: [row[key] for row in made.rows["api_call"]] for key in made.rows["api_call"][0]
        }
        bare = Trace(MemorySource({**tables, "api_call": calls}, meta))
        assert words in fix_of(bare, "GPU work was not recorded")


def test_a_recording_of_pytorch_without_copies_is_not_asked_for_what_it_has() -> None:
    for recorder, hint in (("kineto", None), ("nsys-sqlite", "profile a program that copies")):
        with pytest.raises(MissingTableError, match="no memcpy events") as caught:
            warpline.stats(recorded(recorder, "saxpy(float *)"), "copy_sum")
        assert (caught.value.hint or "").startswith(hint) if hint else caught.value.hint is None


def test_rules_without_calls_say_how_to_record_them() -> None:
    for recorder, words in (("kineto", "ProfilerActivity.CUDA"), ("warpline", "--trace=cuda")):
        skipped = RULES.get("host-sync").judge(Run(recorded(recorder, PYTORCH)))
        assert isinstance(skipped, Skipped)
        assert words in (skipped.hint or "")


def test_a_memory_snapshot_leads_to_its_own_command() -> None:
    snapshot = Trace(MemorySource({}, TraceMeta((Path("memory.pickle"),), "pytorch-snapshot")))
    assert "warpline memory" in hints(snapshot).gpu_work
    assert "--pytorch=memory" in hints(snapshot).steps
