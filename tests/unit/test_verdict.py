"""The verdict: the sentences that a diagnosis begins with."""

from __future__ import annotations

from dataclasses import replace

import pytest
from support.any_trace import empty_trace
from support.kernel_names import SGEMM
from support.machine import Machine

import warpline
from warpline.derived.breakdown.input_waits import Nature
from warpline.derived.breakdown.kernel_times import MainKernel, main_kernel
from warpline.derived.efficiency.efficient_work import EfficientWork
from warpline.derived.time_parts import IDLE, TimePart
from warpline.diagnosis.judgment import _ranked
from warpline.diagnosis.verdict import counted_ns, name_kernel, verdict, what_first
from warpline.result import Breakdown, Finding, Overlap, Part, Severity
from warpline.trace import Run, Trace

MS = 1_000_000


def breakdown(*parts, count=10, process=7, device=0):
    """Return the time of a device from (category, ms per step); idle ones are the last two."""
    busy = {"gemm", "copy-h2d", "collective"}
    made = tuple(
        Part(name, "busy" if name in busy else "idle", round(ms * MS * max(count, 1)), "so it is")
        for name, ms in parts
    )
    return Breakdown(process, device, "GPU", count, sum(part.ns for part in made), made)


def overlap(exposed_communication=0.0, exposed_copy=0.0, count=10):
    times = (round(ms * MS * count) for ms in (exposed_communication, exposed_copy))
    communication, copy = times
    return Overlap(7, 0, 0, 0, communication, communication, copy, copy)


def test_nothing_ran():
    assert verdict((), ()) == "No GPU work was recorded."


def test_idle_by_its_main_cause_and_the_next():
    item = breakdown(("gemm", 4), ("launch-bound", 5), ("host-sync", 1))
    assert verdict([item], [overlap()]) == (
        "GPU busy 40.0% of a 10.0 ms step."
        " GPU idle 6.00 ms per step, mostly launch-bound (5.00 ms), then host-sync (1.00 ms)."
    )


def test_one_cause_alone():
    item = breakdown(("gemm", 4), ("input", 6))
    assert verdict([item], [overlap()]).endswith(
        " GPU idle 6.00 ms per step, nearly all input-bound."
    )
    item = breakdown(("gemm", 4), ("dependency", 6))
    assert verdict([item], [overlap()]).endswith("nearly all due to dependency.")


@pytest.mark.parametrize(
    ("nature", "alone", "second"),
    [
        ("pipeline", "input-bound", "input-bound"),
        ("once", "due to long CPU gaps", "long CPU gaps"),
        ("round-trip", "due to CPU work between copies", "CPU work between copies"),
    ],
)
def test_only_an_input_pipeline_is_input_bound(nature: Nature, alone: str, second: str) -> None:
    item = breakdown(("gemm", 4), ("input", 6))
    said = verdict([item], [overlap()], input_nature=nature)
    assert said.endswith(f" GPU idle 6.00 ms per step, nearly all {alone}.")
    item = breakdown(("gemm", 4), ("launch-bound", 4), ("input", 2))
    said = verdict([item], [overlap()], input_nature=nature)
    assert said.endswith(f"mostly launch-bound (4.00 ms), then {second} (2.00 ms).")


def test_no_cause_has_most():
    causes = [("launch-bound", 2), ("input", 1.9), ("host-sync", 1.8)]
    said = verdict([breakdown(("gemm", 4), *causes)], [overlap()])
    assert " in part launch-bound (2.00 ms), then input-bound (1.90 ms)." in said


def test_steps_of_which_some_are_much_longer():
    item = breakdown(("gemm", 4), ("launch-bound", 6))
    assert "40.0% of a 10.0 ms step." in verdict([item], [overlap()], 7 * MS)
    said = verdict([item], [overlap()], 5 * MS)
    assert "40.0% of a 10.0 ms step (mean; the median is 5.00 ms)." in said


def test_a_busy_device_by_what_it_does():
    item = breakdown(("gemm", 9.5), ("launch-bound", 0.5))
    assert verdict([item], [overlap()]) == (
        "GPU busy 95.0% of a 10.0 ms step, mostly GEMM (95.0%)."
    )
    several = breakdown(("gemm", 4), ("copy-h2d", 3.5), ("collective", 2), ("input", 0.5))
    assert verdict([several], [overlap()]) == (
        "GPU busy 95.0% of a 10.0 ms step. Largest part: GEMM (40.0%)."
    )


@pytest.mark.parametrize(
    ("ms", "said"), [(8, "an 8.00 ms step"), (11, "an 11.0 ms step"), (110, "a 110 ms step")]
)
def test_the_article_before_a_number(ms, said):
    assert said in verdict([breakdown(("gemm", ms))], [overlap()])


def test_busy_with_nothing_computed():
    item = breakdown(("gemm", 4), ("collective", 3), ("copy-h2d", 3))
    assert verdict([item], [overlap(3, 2)]) == (
        "GPU busy 100.0% of a 10.0 ms step, but 30.0% is exposed communication and 20.0% is"
        " exposed copies."
    )


def test_without_steps_from_the_first_operation_to_the_last():
    item = breakdown(("gemm", 99), ("launch-bound", 1), ("tail", 900), count=0)
    assert counted_ns(item) == 100 * MS
    assert verdict([item], [overlap()]) == (
        "GPU busy 99.0% of the 100 ms from its first to its last operation, mostly GEMM (99.0%)."
    )


def test_of_several_the_slowest_is_told():
    fast = breakdown(("gemm", 9), ("input", 1))
    slow = breakdown(("gemm", 9), ("input", 3), process=8, device=1)
    said = verdict([fast, slow], [overlap(), overlap()])
    assert said.startswith("The slowest of 2 GPUs, GPU 1 (process 8), is busy 75.0%")
    assert said.endswith(" This GPU is idle 3.00 ms per step, nearly all input-bound.")
    shared = verdict([fast, replace(slow, device=0)], [overlap(), overlap()])
    assert shared.startswith("The slowest of 2 processes, process 8 on GPU 0, keeps its GPU busy")


def test_no_time_at_all():
    assert "no measurable duration" in verdict([breakdown(("gemm", 0))], [overlap()])


def finding(severity: Severity, saving_ns: int | None = None, title: str = "A fault") -> Finding:
    share = None if saving_ns is None else saving_ns / 10_000_000
    return Finding("r", severity, title, "", (), "", "", "F1", saving_ns=saving_ns, share=share)


def test_what_to_do_first_is_the_first_grave_finding() -> None:
    found = (finding("high", 4_710_000), finding("medium", 600_000))
    steps = (Breakdown(7, 0, None, 10, 100, ()),)
    said = what_first(found, steps, is_priced=True)
    assert said == "Fix first: a fault (F1). Estimated saving: 4.71 ms per step (47%)."
    assert what_first(found, (), is_priced=True).endswith("Estimated saving: 4.71 ms (47%).")
    graphs = finding("medium", title="CUDA graphs are re-created")
    said = "Fix first: CUDA graphs are re-created (F1)."
    assert what_first((graphs,), steps, is_priced=True) == said
    nothing = "No measurable savings found."
    assert what_first((finding("low", 10_000), finding("info")), steps, is_priced=True) == nothing
    assert what_first((), steps, is_priced=False) == ""


WHETHER = "Only hardware counters show whether"
COUNTERS = "are efficient: profile them with Nsight Compute (ncu)."


def said_of(*ns: int, busy_ms: float = 8) -> str:
    """Return the advice for 1,000 ns of busy time, of which these are efficient, by kind."""
    steps = (breakdown(("gemm", busy_ms), ("dependency", 10 - busy_ms)),)
    efficient = EfficientWork(1_000, (*ns, *([0] * (5 - len(ns)))))
    return what_first((), steps, is_priced=True, efficient=efficient)


def test_a_busy_gpu_is_not_called_healthy_without_evidence() -> None:
    nothing = "No measurable savings found."
    assert said_of() == f"{nothing} {WHETHER} the GPU's kernels {COUNTERS}"
    assert said_of(600, 0, 180) == (
        f"{nothing} 78.0% of the busy time is in work that is usually efficient"
        " (Tensor Core math 60.0%, elementwise kernels near memory bandwidth 18.0%)."
        f" {WHETHER} the other kernels {COUNTERS}"
    )
    # The largest kind first; 4.9% is not named.
    assert said_of(300, 451, 49) == (
        f"{nothing} 80.0% of the busy time is in work that is usually efficient"
        " (fused attention 45.1%, Tensor Core math 30.0%)."
    )
    assert nothing not in said_of(busy_ms=4.9)  # then the idle time matters more
    steps = (breakdown(("gemm", 8), ("dependency", 2)),)
    assert what_first((), steps, is_priced=True).endswith(COUNTERS)  # it failed
    assert what_first((), steps, is_priced=False) == ""


def test_a_gpu_that_is_mostly_idle_waits_for_something() -> None:
    steps = (breakdown(("gemm", 3), ("launch-bound", 6), ("host-sync", 1)),)
    assert what_first((), steps, is_priced=True) == (
        "The GPU waits for the CPU to launch work 60.0% of the time."
        " No fix has a measurable saving."
    )
    uncertain = replace(finding("low", 2_000_000), saving_high_ns=3_000_000)
    said = what_first((uncertain,), steps, is_priced=True)
    assert said.startswith("The GPU waits for the CPU to launch work 60.0% of the time.")
    assert said.endswith("F1 may save 2.00 ms per step (20%).")
    several = (*steps, breakdown(("gemm", 5), ("input", 1), ("launch-bound", 4), device=1))
    assert what_first((), several, is_priced=True).startswith("The GPUs wait for the CPU to launch")
    nothing = "No measurable savings found."
    unknown = (breakdown(("gemm", 3), ("unknown", 6.5), ("host-sync", 0.5)),)
    assert what_first((), unknown, is_priced=True) == nothing
    assert what_first((), (breakdown(("gemm", 0)),), is_priced=True).startswith(nothing)
    grave = what_first((finding("high", 4_710_000),), steps, is_priced=True)
    assert grave.startswith("Fix first")


def test_every_cause_of_idle_time_has_words() -> None:
    nobody_waits = {TimePart.TAIL, TimePart.UNKNOWN}
    for part in set(IDLE) - nobody_waits:
        steps = (breakdown(("gemm", 3), (part.label, 7)),)
        assert "The GPU waits for " in what_first((), steps, is_priced=True)


def test_the_profiler_of_the_gpus() -> None:
    steps = (breakdown(("gemm", 8), ("dependency", 2)),)
    said = what_first((), steps, is_priced=True, profiler="rocprof-compute")
    assert said.endswith("the GPU's kernels are efficient: profile them with rocprof-compute.")


def test_a_kernel_that_takes_most_of_the_time() -> None:
    main = MainKernel(7, "Fan2(float *, float *, int)", 0.975)
    busy, idle = (breakdown(("gemm", ms), ("dependency", 10 - ms)) for ms in (5, 4.9))
    assert name_kernel(main, [busy]) == "Kernel Fan2 takes 97.5% of the busy time."
    assert name_kernel(main, [idle]) == name_kernel(None, [busy]) == ""
    said = what_first((), (busy,), is_priced=True, main=main)
    assert said.endswith(
        f"{WHETHER} this kernel is efficient: profile it with Nsight Compute (ncu)."
    )
    library = main._replace(name="void cutlass::Kernel2<cutlass_80_gemm>(T1::Params)")
    assert name_kernel(library, [busy]).startswith("Kernel cutlass_80_gemm takes ")
    long = main._replace(name=f"f<{'x' * 70}>")
    assert name_kernel(long, [busy]) == f"Kernel f<{'x' * 55}... takes 97.5% of the busy time."


def running(*kernels: tuple[str, int]) -> Trace:
    machine = Machine()
    for _ in range(12):
        for name, ns in kernels:
            machine.launch(ns, name)
        machine.end_step()
    return machine.trace()


def test_the_main_kernel() -> None:
    found = main_kernel(Run(running(("mul", 300_000), ("Fan2", 400_000), ("mul", 300_000))))
    assert found is not None
    assert (found.name, found.share) == ("mul", 0.6)
    assert main_kernel(Run(running(("mul", 590_000), ("Fan2", 410_000)))) is None
    assert main_kernel(Run(empty_trace())) is None


def test_a_finding_about_the_main_kernel_is_enough() -> None:
    said = warpline.analyze(running(("Fan2", 900_000), ("mul", 100_000))).verdict
    assert "Kernel Fan2 takes 90.0% of the busy time." in said
    diagnosis = warpline.analyze(running((SGEMM, 900_000), ("mul", 100_000)))
    assert "no-tensor-cores" in [item.rule for item in diagnosis.findings]
    assert "of the busy time" not in diagnosis.verdict


def test_savings_that_nothing_confirms_are_mentioned() -> None:
    steps = (breakdown(("gemm", 4), ("dependency", 6)),)
    said = what_first((finding("low", 1_600_000),), steps, is_priced=True)
    assert said == (
        "The GPU waits for earlier GPU operations to finish 60.0% of the time."
        " No fix has a certain saving. F1 may save 1.60 ms per step (16%)."
    )
    busy = (breakdown(("gemm", 6), ("dependency", 4)),)
    said = what_first((finding("low", 1_600_000),), busy, is_priced=True)
    assert said.startswith("No certain savings found. Only hardware counters show")
    assert said.endswith("(ncu). F1 may save 1.60 ms per step (16%).")


def test_a_gpu_that_waits_for_another_rank_is_not_the_slowest():
    waits = breakdown(("collective", 10.5), process=1, device=0)
    works = breakdown(("gemm", 10), process=2, device=1)
    overlaps = [replace(overlap(10.5), waiting_ns=60 * MS), overlap()]
    assert "The slowest of 2 GPUs, GPU 1 (process 2)," in verdict([waits, works], overlaps)
    assert "The slowest of 2 GPUs, GPU 0 (process 1)," in verdict([waits, works], [])


def test_a_problem_of_the_recording_comes_after_others_of_its_severity() -> None:
    recording = replace(finding("medium"), rule="capture-quality", share=0.9)
    fault, small = replace(finding("medium"), rule="fault"), replace(finding("low"), rule="small")
    ranked = _ranked((small, recording, fault))
    assert [(item.id, item.rule) for item in ranked] == [
        ("F1", "fault"),
        ("F2", "capture-quality"),
        ("F3", "small"),
    ]


@pytest.mark.parametrize(("share", "first"), [(0.6, "launch-bound"), (0.4, "casts")])
def test_what_concerns_most_of_the_time_comes_before_a_saving(share: float, first: str) -> None:
    casts = replace(finding("high", 2_000_000), rule="casts")  # 20%
    launches = replace(finding("high"), rule="launch-bound", share=share)
    assert _ranked((casts, launches))[0].rule == first


def test_what_stands_in_the_way_of_a_fix_comes_first_and_is_as_severe() -> None:
    waits = replace(finding("medium", 500_000), rule="host-sync")
    graph = replace(finding("high", 5_000_000), rule="graph", follows=("host-sync",))
    other = replace(finding("high", 6_000_000), rule="other")
    ranked = _ranked((other, graph, waits))
    assert [(item.rule, item.severity) for item in ranked] == [
        ("other", "high"),
        ("host-sync", "high"),
        ("graph", "high"),
    ]
    small = replace(waits, severity="low")
    assert [item.rule for item in _ranked((graph, small))] == ["graph", "host-sync"]
