"""Findings of the rules in real recordings and small traces, and where there are none.

Recordings outside of the repository are tested where they are available. Each is a pair: a program
with a problem, and the fixed program.
"""

from __future__ import annotations

import importlib
import lzma
import pkgutil
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import warpline
from warpline.analyses import findings
from warpline.derived.breakdown.step_scope import step_scope
from warpline.derived.idle.result_reads import result_reads, waits_behind
from warpline.derived.work.operations import operations
from warpline.hardware import peaks_of
from warpline.result import RULES, Diagnosis, Finding, Skipped
from warpline.result.changes import DropCalls, DropOperations
from warpline.trace import MemorySource, Run, Trace

for module in pkgutil.iter_modules(findings.__path__):
    importlib.import_module(f"{findings.__name__}.{module.name}")

SHARED = Path(__file__).parents[3] / "shared" / "data"
# The rule that must find the problem of each program, and must not find it in the fixed one; and
# the milliseconds of a step with the problem and without it, as measured without a profiler.
FAULTS = {
    "host_sync": ("host-sync", 11.7, 10.1),
    "pageable_h2d": ("pageable-copy", 15.9, 2.6),
    "tiny_kernels": ("graph-opportunity", 4.1, 1.2),
    "loop_optimizer": ("unfused-optimizer", 30.8, 16.3),
    "layout_copies": ("layout-copies", 17.9, 9.2),
    "fp32_matmul": ("no-tensor-cores", 46.5, 8.3),
}
PAIRS = [
    (SHARED / folder / f"{program}.{{}}.{suffix}", *fault)
    for folder, suffix in (("nsys", "sqlite"), ("kineto", "json.gz"))
    for program, fault in FAULTS.items()
    if (SHARED / folder / f"{program}.bad.{suffix}").exists()
]


def judged(rule: str, trace: Trace) -> list[Finding]:
    found = RULES.get(rule).judge(Run(trace))
    return [] if isinstance(found, Skipped) else list(found)


def first_priced(trace: Trace) -> list[Finding]:
    """Return the findings with a saving, specific ones before generic ones."""
    found = [item for item in warpline.analyze(trace).findings if item.saving_ns is not None]
    return sorted(found, key=lambda item: item.is_generic)


@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: pair[0].name)
def test_each_pair(pair: tuple[Path, str, float, float]) -> None:
    pattern, rule, bad_ms, fixed_ms = pair
    bad, fixed = (Path(str(pattern).format(kind)) for kind in ("bad", "fixed"))
    before, after = warpline.open(bad), warpline.open(fixed)
    first = first_priced(before)[0]
    assert first.rule == rule
    assert first.severity == "high"
    assert not any(item.rule == rule and item.severity != "low" for item in first_priced(after))
    found = warpline.analyze(before)
    assert (found.steps.unprofiled_low_ns or 0) <= bad_ms * 1e6
    assert bad_ms * 1e6 <= (found.steps.unprofiled_high_ns or 0)
    assert_predicts(first, fixed_ms * 1e6)
    for item in found.findings:
        assert_possible(item, found)


def assert_predicts(item: Finding, step_ns: float) -> None:
    assert item.predicted_step_low_ns is not None
    assert item.predicted_step_high_ns is not None
    assert item.predicted_step_low_ns <= step_ns <= item.predicted_step_high_ns


def assert_possible(item: Finding, found: Diagnosis) -> None:
    """No saving exceeds the step, nor what is cumulative; each is ordered."""
    if item.saving_ns is None:
        return
    step_ns = found.steps.unprofiled_ns or (found.replay.step_ns if found.replay else 0)
    assert item.saving_low_ns is not None
    assert item.saving_high_ns is not None
    assert 0 <= item.saving_low_ns <= item.saving_ns <= item.saving_high_ns < step_ns
    assert (item.cumulative_saving_ns or 0) < step_ns
    assert item.share == pytest.approx(item.saving_ns / step_ns, abs=0.001)


@pytest.mark.parametrize("name", ["fp32_matmul.fixed", "layout_copies.fixed", "pageable_h2d.fixed"])
def test_healthy_programs_have_no_findings(name: str) -> None:
    path = SHARED / "nsys" / f"{name}.sqlite"
    if not path.exists():
        pytest.skip("needs captures that are not in the repository")
    assert [item.severity for item in first_priced(warpline.open(path))] in ([], ["low"])


@pytest.fixture(scope="module")
def recording(data_dir: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Trace]:
    """Open a recording in tests/data/faults by its name."""
    folder = tmp_path_factory.mktemp("faults")

    def opened(name: str) -> Trace:
        path = folder / f"{name}.warpline"
        packed = (data_dir / "faults" / f"{path.name}.xz").read_bytes()
        path.write_bytes(lzma.decompress(packed))
        return warpline.open(path)

    return opened


@pytest.mark.parametrize(
    ("program", "rule"),
    [
        ("casts", "cast-copies"),
        ("epilogue", "unfused-epilogue"),
        ("layout_copies", "layout-copies"),
        ("fp32_matmul", "no-tensor-cores"),
        ("allocator", "allocator"),
        ("loader", "input-bound"),
        ("starved", "input-bound"),
        ("collected", "launch-bound"),
        ("recapture", "graph-recapture"),
        ("host_sync", "host-sync"),
        ("tiny_kernels", "graph-opportunity"),
    ],
)
def test_own_recordings(program: str, rule: str, recording: Callable[[str], Trace]) -> None:
    before, after = recording(f"{program}.bad"), recording(f"{program}.fixed")
    found, truth = warpline.analyze(before), warpline.analyze(after)
    first = first_priced(before)[0]
    assert first.rule == rule
    assert first.severity == "high"
    assert rule not in [item.rule for item in truth.findings]
    assert not judged("graph-recapture", after)
    assert truth.steps.unprofiled_ns is not None
    assert_predicts(first, truth.steps.unprofiled_ns)
    assert first.evidence[0].count > 0
    for item in found.findings:
        assert_possible(item, found)
        assert_title_agrees_with_claim(item)
        assert item.on_devices or item.rule in {"capture-quality", "debug-switch"}


# A quantity with its unit, or a count with what it counts.
QUANTITY = re.compile(r"\b\d[\d.,]*(?:%| (?:ns|us|ms|s)\b|(?= (?:times|kernels) per step))")


def assert_title_agrees_with_claim(item: Finding) -> None:
    """A title fits a line and gives its numbers with the digits of the claim."""
    if item.rule in {"capture-quality", "debug-switch"}:
        return
    assert len(item.title) <= 90
    assert not item.title.endswith(".")
    assert item.title == RULES.get(item.rule).title or re.search(r"\d|once", item.title)
    for quantity in QUANTITY.findall(item.title):
        assert quantity in item.claim, (item.title, item.claim)
    for text in (item.claim, item.fix, item.verify):
        assert text.endswith(".")
        assert "--sample" not in text  # collects nothing


def test_titles_of_unlike_steps(capture: Callable[[str], Path]) -> None:
    found = warpline.analyze(warpline.open(capture("rich_metrics_sampling"))).findings
    titles = {item.rule: item.title for item in found}
    assert titles["launch-bound"] == "Launch-bound: the GPU waits for launches 60.1% of the time"
    for item in found:
        assert_title_agrees_with_claim(item)


def test_a_launch_bound_program_is_named_as_such(recording: Callable[[str], Trace]) -> None:
    (found,) = judged("graph-opportunity", recording("tiny_kernels.bad"))
    assert found.title == (
        "Launch-bound: 640 launches per step leave the GPU idle 90.8%; capture a CUDA graph"
    )


def test_a_repair_that_saves_nothing(recording: Callable[[str], Trace]) -> None:
    (found,) = first_priced(recording("nofix.bad"))
    assert found.rule == "host-sync"
    assert found.severity == "low"


def test_many_short_kernels_are_for_a_graph(recording: Callable[[str], Trace]) -> None:
    trace = recording("tiny_kernels.bad")
    (found,) = first_priced(trace)
    assert found.rule == "graph-opportunity"
    assert (found.share or 0) > 0.8
    step = found.predicted_step_low_ns, found.predicted_step_ns, found.predicted_step_high_ns
    low, central, high = (value or 0 for value in step)
    # The graph takes 1.07 to 1.18 ms, depending on the process; 1.28 ms with node-level tracing.
    assert low < 1.07e6 < central < 1.18e6
    assert high > 1.28e6


def test_bundled_captures(capture: Callable[[str], Path], repository: Path) -> None:
    data = repository / "src" / "warpline" / "data"
    waits = first_priced(warpline.open(capture("host_sync.bad")))
    assert [item.rule for item in waits[:1]] == ["host-sync"]
    assert 2e6 < (waits[0].saving_ns or 0) < 4e6  # 14.2 ms recorded, 11.7 without a profiler
    copies = first_priced(warpline.open(data / "pageable_h2d.bad.sqlite"))
    assert [item.rule for item in copies] == ["pageable-copy"]
    assert 12.9e6 < (copies[0].saving_ns or 0) < 14.5e6  # 16.5 ms against 2.7
    for path in (data / "pageable_h2d.fixed.sqlite", capture("tiny_kernels.fixed")):
        assert all(item.severity == "low" for item in first_priced(warpline.open(path)))


def test_graphs_made_in_every_step(
    recording: Callable[[str], Trace], capture: Callable[[str], Path]
) -> None:
    trace = recording("recapture_waits.bad")
    first = first_priced(trace)[0]
    assert first.rule == "graph-recapture"
    assert first.severity == "high"
    assert "(84.9%)" in first.claim  # includes the framework's time between the calls
    assert first.predicted_step_ns is not None
    work = operations(trace)
    length = work.end_ns - work.start_ns
    graph_ns = float(np.median(length[length > 100_000]))
    # The graph's 0.55 ms remain of 3.7 ms: the wait before the capture is saved too.
    assert graph_ns < first.predicted_step_ns < graph_ns + 20_000
    for launched_again in ("tiny_kernels.fixed", "cuda_graph_level"):
        assert judged("graph-recapture", warpline.open(capture(launched_again))) == []


def test_ranks_together(capture: Callable[[str], Path]) -> None:
    trace = warpline.open(*(capture(f"ddp_serial.bad.rank{rank}") for rank in (0, 1)))
    (found,) = judged("exposed-communication", trace)
    assert "149 collectives per step" in found.claim


def test_a_program_without_equal_steps_is_launch_bound(capture: Callable[[str], Path]) -> None:
    trace = warpline.open(capture("rich_metrics_sampling"))
    assert len(judged("launch-bound", trace)) == 1
    assert judged("graph-opportunity", trace) == []
    assert judged("launch-bound", warpline.open(capture("host_sync.bad"))) == []


def test_every_rule_says_what_it_is_about() -> None:
    for rule in RULES:
        for heading in ("What it finds", "How it is found", "What to do", "Limits", "Source"):
            assert f"    {heading}: " in rule.doc, (rule.name, heading)


# A step of 100 us: some kernels, then results read one by one.
STEP_NS = 100_000
OWNERS: dict[str, dict[str, Any]] = {
    "process": {"pid": [7]},
    "thread": {"process_id": [0], "tid": [7]},
    "device": {"gpu_index": [0], "name": ["NVIDIA H200"]},
    "context": {"process_id": [0], "device_id": [0], "native_id": [1], "is_green": [0]},
    "stream": {"process_id": [0], "context_id": [0], "native_id": [7]},
}


def program(step: Sequence[tuple[str, str, int]], count: int = 5) -> Trace:
    """Return steps of calls, given as (function, kernel or "d2h", duration).

    A call takes 2 us and starts 3 us after the end of the previous call. Work starts 1 us after its
    call, or at the end of the previous work. Waits end with the work.
    """
    calls: dict[str, list[Any]] = {key: [] for key in ("start_ns", "end_ns", "name")}
    calls["correlation_id"] = []
    kernels: dict[str, list[Any]] = {key: [] for key in (*calls, "short_name")}
    copies: dict[str, list[Any]] = {key: [] for key in (*calls, "bytes", "kind")}
    copies |= {"src_memory": [], "dst_memory": []}
    del copies["name"]
    ranges: dict[str, list[Any]] = {"start_ns": [], "end_ns": [], "name": []}
    done = 0
    for number in range(count):
        time = number * STEP_NS
        ranges["name"].append(f"step_{number}")
        ranges["start_ns"].append(time)
        for function, what, length in step:
            begun = max(time + 1_000, done)
            ended = time + 2_000
            correlation = len(calls["name"])
            if what:
                done = begun + length
                table = copies if what == "d2h" else kernels
                table["start_ns"].append(begun)
                table["end_ns"].append(done)
                table["correlation_id"].append(correlation)
                if what == "d2h":
                    copies["bytes"].append(4)
                    copies["kind"].append(2)
                    copies["src_memory"].append(2)
                    copies["dst_memory"].append(0)
                else:
                    kernels["name"].append(what)
                    kernels["short_name"].append(what)
            else:
                ended = max(ended, done)
            calls["start_ns"].append(time)
            calls["end_ns"].append(ended)
            calls["name"].append(function)
            calls["correlation_id"].append(correlation)
            time = ended + 3_000
        assert time <= (number + 1) * STEP_NS
        ranges["end_ns"].append((number + 1) * STEP_NS)
    tables = {"api_call": calls, "kernel": kernels, "memcpy": copies, "range": ranges}
    filled = {name: columns for name, columns in tables.items() if columns["start_ns"]}
    return Trace(MemorySource({**OWNERS, **filled}))


LAUNCH, COPY, WAIT = (
    "cudaLaunchKernel_v7000",
    "cudaMemcpyAsync_v3020",
    "cudaStreamSynchronize_v3020",
)
GEMM = (LAUNCH, "ampere_bf16_s16816gemm_bf16_128x128", 5_000)
SUM = (LAUNCH, "void at::native::reduce_kernel<512, 1>", 1_000)
READ = ((COPY, "d2h", 1_000), (WAIT, "", 0))


def test_reads_and_what_feeds_them() -> None:
    trace = program([GEMM, GEMM, SUM, *READ, SUM, *READ, SUM, *READ])
    reads, scope = result_reads(trace), step_scope(Run(trace))
    assert scope.count == 4  # the last one has no period
    assert len(reads.copy) == 15
    assert reads.is_fed.all()
    assert len(reads.feeding) == 15  # the first read of a step gets as many as the others
    (found,) = judged("host-sync", trace)
    assert "3 times per step" in found.claim
    copies, feeding, waits = found.changes
    assert isinstance(copies, DropOperations)
    assert isinstance(feeding, DropOperations)
    assert isinstance(waits, DropCalls)
    assert (len(copies.operations), len(feeding.operations)) == (15, 15)
    assert feeding.remaining.high == 1  # they may have another use
    assert len(waits.calls) == 15


def test_a_wait_alone_is_dropped() -> None:
    trace = program([GEMM, GEMM, (WAIT, "", 0)])
    (found,) = judged("host-sync", trace)
    (change,) = found.changes
    assert isinstance(change, DropCalls)
    assert len(change.calls) == 5
    assert judged("host-sync", program([GEMM, GEMM])) == []


def test_waits_right_behind_calls() -> None:
    trace = program([GEMM, (WAIT, "", 0), SUM])
    calls = operations(trace).call
    behind = waits_behind(trace, np.sort(calls))
    names = trace.columns("api_call", "name_id")["name_id"].values[behind]
    assert set(trace.strings.texts(names.tolist())) == {WAIT}
    assert len(behind) == 5


ADD = (LAUNCH, "void at::native::vectorized_elementwise_kernel<4, CUDAFunctor_add>", 100)
MUL = (LAUNCH, "void at::native::vectorized_elementwise_kernel<4, MulFunctor>", 100)


def test_an_optimizer_is_a_long_run_of_a_cycle() -> None:
    short = [(name, what, 10) for name, what, _ in (ADD, MUL)]
    assert judged("unfused-optimizer", program([GEMM, *short * 8])) == []  # 16 kernels
    trace = Trace(MemorySource(_many(short * 40)))
    (found,) = judged("unfused-optimizer", trace)
    assert "80 short elementwise kernels per step repeat the same 2 for each" in found.claim
    (there,) = found.on_devices
    assert (there.device, there.rank) == (0, None)
    assert (there.number, there.ns) == (there.steps * 80, there.steps * 80 * 40)
    mixed = Trace(MemorySource(_many([*short * 10, GEMM] * 4)))
    assert judged("unfused-optimizer", mixed) == []  # GEMMs in between: layers of a model


def _many(step: Sequence[tuple[str, str, int]]) -> dict[str, dict[str, Any]]:
    """Return five steps of back-to-back launches of 100 ns."""
    length = 100 * (len(step) + 1)
    start = [n * length + 100 * place for n in range(5) for place in range(len(step))]
    names = [what for _ in range(5) for _, what, _ in step]
    return {
        **OWNERS,
        "api_call": {
            "start_ns": start,
            "end_ns": [time + 50 for time in start],
            "name": [LAUNCH] * len(start),
            "correlation_id": list(range(len(start))),
        },
        "kernel": {
            "start_ns": [time + 20 for time in start],
            "end_ns": [time + 60 for time in start],
            "name": names,
            "short_name": names,
            "correlation_id": list(range(len(start))),
        },
        "range": {
            "start_ns": [n * length for n in range(5)],
            "end_ns": [(n + 1) * length for n in range(5)],
            "name": [f"step_{n}" for n in range(5)],
        },
    }


@pytest.mark.parametrize(("major", "words"), [(9, ["TF32"]), (7, ["float16"]), (6, [])])
def test_tensor_cores_compute_tf32_since_ampere(major: int, words: list[str]) -> None:
    name = "void cutlass_80_simt_sgemm_256x128_8x4_nn_align1"
    tables = _many([(LAUNCH, name, 0)])
    kernel = tables["kernel"]
    kernel["end_ns"] = [start + 50_000 for start in kernel["start_ns"]]
    device: dict[str, Any] = {
        "gpu_index": [0],
        "name": ["a GPU of next year"],
        "compute_major": [major],
    }
    found = judged("no-tensor-cores", Trace(MemorySource({**tables, "device": device})))
    assert len(found) == len(words)
    assert all(word in item.fix for word, item in zip(words, found, strict=True))
    assert all(item.changes == () for item in found)  # its peaks are unknown


def test_peaks_of_known_gpus() -> None:
    known = peaks_of("NVIDIA H200")
    assert known is not None
    assert known.tf32_flop_per_s is not None
    assert known.fp32_flop_per_s < known.tf32_flop_per_s < (known.half_flop_per_s or 0)
    assert peaks_of("a GPU of next year") is None
