"""Savings of findings on a small program: alone, together, and of generic ones afterward."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from support.programs import SAME_CPU, Program

from warpline.analyses.findings.launch_bound import launch_bound
from warpline.derived.work.operations import operations
from warpline.estimate import Estimate, exactly
from warpline.replay import predict
from warpline.replay.prediction import Baseline
from warpline.replay.pricing import accumulate, price
from warpline.result import Finding, Skipped
from warpline.result.changes import Change, DropOperations, RemoveHostTime, ScaleOperations
from warpline.trace import MemorySource, Run, Trace

COUNT = 6
STEP_NS = 1_000_000
LENGTHS_NS = (500_000, 300_000, 20_000)


@pytest.fixture
def trace() -> Trace:
    """Steps of three kernels on a GPU that is never idle, launched ahead of time."""
    total = sum(LENGTHS_NS)
    calls: dict[str, list[Any]] = {"start_ns": [], "end_ns": [], "name": [], "correlation_id": []}
    kernels: dict[str, list[Any]] = {key: [] for key in (*calls, "short_name")}
    ranges: dict[str, list[Any]] = {"start_ns": [], "end_ns": [], "name": []}
    for number in range(COUNT):
        begin = number * 30_000
        ranges["name"].append(f"step_{number}")
        ranges["start_ns"].append(begin)
        ranges["end_ns"].append(begin + 30_000)
        time = 10_000 + number * total
        for place, length in enumerate(LENGTHS_NS):
            call = begin + place * 8_000
            calls["start_ns"].append(call)
            calls["end_ns"].append(call + 5_000)
            calls["name"].append("cudaLaunchKernel")
            for table in (calls, kernels):
                table["correlation_id"].append(number * 3 + place)
            kernels["start_ns"].append(time)
            kernels["end_ns"].append(time + length)
            kernels["name"].append(f"kernel_{place}")
            kernels["short_name"].append(f"kernel_{place}")
            time += length
    tables: dict[str, dict[str, Any]] = {
        "process": {"pid": [7]},
        "thread": {"process_id": [0], "tid": [7]},
        "device": {"gpu_index": [0]},
        "context": {"process_id": [0], "device_id": [0], "native_id": [1], "is_green": [0]},
        "stream": {"process_id": [0], "context_id": [0], "native_id": [7]},
        "api_call": calls,
        "kernel": kernels,
        "range": ranges,
    }
    return Trace(MemorySource(tables))


def kernels(place: int) -> np.typing.NDArray[np.int64]:
    """Return one kernel of each step, as places in operations."""
    return np.arange(place, COUNT * 3, 3)


def finding(rule: str, *changes: Change, is_generic: bool = False) -> Finding:
    return Finding(rule, "info", "", "", (), "", "", is_generic=is_generic, changes=changes)


def together(trace: Trace, findings: list[Finding]) -> tuple[Finding, ...]:
    """Return findings with their savings and what these are together."""
    return accumulate(Run(trace), price(Run(trace), findings))


def test_what_goes_with_another_finding_is_low(trace: Trace) -> None:
    both = finding("both", DropOperations(np.append(kernels(0), kernels(1))))
    part = finding("part", DropOperations(kernels(0)))
    first, second = together(trace, [part, both])
    assert (first.rule, first.severity) == ("both", "high")
    assert (second.rule, second.severity) == ("part", "low")
    assert second.saving_ns == pytest.approx(500_000, abs=3_000)  # alone
    assert second.cumulative_saving_ns == first.cumulative_saving_ns


def test_each_alone_and_all_together(trace: Trace) -> None:
    assert len(operations(trace)) == COUNT * 3
    small = finding("small", ScaleOperations(kernels(1), Estimate(0.2, 0.5, 0.9)))
    large = finding("large", DropOperations(kernels(0)))
    tiny = finding("tiny", DropOperations(kernels(2)))
    unpriced = finding("unpriced")
    priced = together(trace, [tiny, unpriced, small, large])
    assert [item.rule for item in priced] == ["large", "small", "tiny", "unpriced"]
    assert [item.severity for item in priced] == ["high", "high", "low", "info"]
    savings = [item.saving_ns or 0 for item in priced[:3]]
    assert savings == pytest.approx([500_000, 150_000, 20_000], abs=3_000)
    sums = [item.cumulative_saving_ns or 0 for item in priced[:3]]
    assert sums == pytest.approx([500_000, 650_000, 650_000], abs=6_000)  # low severity: not added
    for item in priced[:3]:
        assert (item.saving_low_ns or 0) <= (item.saving_ns or 0) <= (item.saving_high_ns or 0)
    assert priced[1].share == pytest.approx(150_000 / sum(LENGTHS_NS), abs=0.01)
    assert priced[3].saving_ns is None


def test_generic_ones_get_what_remains(trace: Trace) -> None:
    large = finding("large", DropOperations(kernels(0)))
    everything = DropOperations(np.union1d(kernels(0), kernels(1)))
    priced = together(trace, [finding("generic", everything, is_generic=True), large])
    assert [item.rule for item in priced] == ["large", "generic"]
    assert priced[1].saving_ns == pytest.approx(300_000, abs=3_000)
    assert priced[1].cumulative_saving_ns == pytest.approx(800_000, abs=6_000)


def test_what_cannot_save_anything_is_not_reported(trace: Trace) -> None:
    nothing = finding("none", ScaleOperations(kernels(0), Estimate(1, 1, 1)))
    little = finding("little", ScaleOperations(kernels(0), Estimate(0.99, 1, 1)))  # 0.6%
    some = finding("some", ScaleOperations(kernels(0), Estimate(0.98, 1, 1)))  # at best 1.2%
    (found,) = price(Run(trace), [nothing, little, some])
    assert (found.rule, found.saving_ns, found.severity) == ("some", 0, "low")
    whole = predict(Run(trace), ())
    assert whole.step_ns.central == whole.unchanged_ns == whole.measured_ns


def test_measured_time_stays_though_the_simulation_saves_nothing(trace: Trace) -> None:
    nothing = finding("none", ScaleOperations(kernels(0), Estimate(1, 1, 1)))
    for severity, share, stays in (("high", 0.22, True), ("high", 0.02, False), ("low", 1, False)):
        item = replace(nothing, severity=severity, share=share, claim="Exposed.")  # type: ignore[arg-type]
        found = price(Run(trace), [item])
        assert len(found) == stays
        for each in found:
            assert (each.severity, each.share, each.saving_ns) == ("high", 0.22, None)
            assert each.claim == "Exposed. The saving is unknown: the simulation shows none."


def test_a_limited_saving_keeps_its_relative_lower_bound(trace: Trace) -> None:
    item = finding("some", ScaleOperations(kernels(0), Estimate(0.2, 0.5, 0.8)))
    (free,) = price(Run(trace), [item])
    low, central, high = free.saving_low_ns, free.saving_ns, free.saving_high_ns
    assert low is not None
    assert central is not None
    assert high is not None
    assert low < central < high
    (half,) = price(Run(trace), [replace(item, most_ns=exactly(central / 2))])
    assert (half.saving_ns, half.saving_high_ns) == (round(central / 2),) * 2
    assert half.saving_low_ns == pytest.approx(low / 2, abs=1)
    (most,) = price(Run(trace), [replace(item, most_ns=exactly(central))])
    assert (most.saving_low_ns, most.saving_ns, most.saving_high_ns) == (low, central, central)


def test_generic_ones_come_by_what_remains_for_them(trace: Trace) -> None:
    """Of 820 us per step, the first kernel takes 500 us and the second one 300 us."""
    half_of_first = generic("half of first", 0, 0.5)
    half_of_second = generic("half of second", 1, 0.5)
    most_of_first = generic("most of first", 0, 0.2)
    priced = together(trace, [half_of_first, half_of_second, most_of_first])
    # Alone they save 250, 150 and 400 us. But the largest one leaves 100 us of the first kernel,
    # half of which is less than half of the second kernel.
    assert [item.rule for item in priced] == ["most of first", "half of second", "half of first"]
    assert [item.saving_ns for item in priced] == [400_000, 150_000, 50_000]
    assert [item.cumulative_saving_ns for item in priced] == [400_000, 550_000, 600_000]
    assert [item.share for item in priced] == [400 / 820, 150 / 820, 50 / 820]


def test_uncertain_findings_take_nothing_from_certain_ones(trace: Trace) -> None:
    """Of 820 us per step, an uncertain finding would save 500 us and a certain one in it 250."""
    uncertain = replace(finding("uncertain", DropOperations(kernels(0))), most_severe="low")
    certain = finding("certain", ScaleOperations(kernels(0), Estimate(0.5, 0.5, 0.5)))
    fix, doubt = price(Run(trace), [uncertain, certain])
    assert (fix.rule, fix.severity, fix.saving_ns) == ("certain", "high", 250_000)
    assert (doubt.rule, doubt.severity) == ("uncertain", "low")
    assert doubt.saving_ns == pytest.approx(500_000, abs=3_000)  # alone
    # Nor from generic ones, whether it is generic itself or not.
    for kind in (uncertain, replace(uncertain, is_generic=True)):
        fix, doubt = sorted(
            price(Run(trace), [kind, generic("half", 0, 0.5)]),
            key=lambda item: item.rule == "uncertain",
        )
        assert (fix.rule, fix.severity, fix.saving_ns) == ("half", "high", 250_000)
        assert doubt.severity == "low"


EXACT = Estimate(2_000, 2_000, 2_000)


def slowed(**facts: Any) -> Trace:
    """Steps of 100 us: ten calls of 5 us, 5 us apart, with short kernels."""
    program = Program()
    for number in range(4):
        begin = number * 100_000
        for place in range(10):
            at = begin + place * 10_000
            program.launch(at, at + 5_000, (at + 6_500, at + 8_500))
        program.step(number, begin, begin + 99_000)
    return program.trace(meta=facts)


def test_savings_are_of_the_program_without_a_profiler() -> None:
    starts = np.arange(40, dtype=np.int64) * 10_000 - 2_000
    gaps = finding("gaps", RemoveHostTime(0, starts, starts + 1_000))
    (recorded,) = price(Run(slowed()), [gaps])
    assert (recorded.saving_ns, recorded.predicted_step_ns) == (10_000, 90_000)
    (item,) = price(Run(slowed(call_cost_ns=EXACT)), [gaps])
    # Without the overhead of 2 us per call, a step takes 80 us.
    assert (item.saving_ns, item.predicted_step_ns) == (10_000, 70_000)
    assert item.share == 10 / 80
    # 10 us saved and 70 remaining may be 0.8 to 2.5 times as much saved for each remaining one,
    # and the CPU may take 0.5 to 1.1 of its time when the program is measured.
    saved_ns = [80_000 * 10 * odds / (10 * odds + 70) for odds in (0.8, 2.5)]
    steps_ns = (item.predicted_step_low_ns, item.predicted_step_high_ns)
    at_best_ns, at_worst_ns = 0.5 * (80_000 - saved_ns[1]), 1.1 * (80_000 - saved_ns[0])
    assert steps_ns == pytest.approx((at_best_ns, at_worst_ns), abs=1)
    savings_ns = (item.saving_low_ns, item.saving_high_ns)
    assert savings_ns == pytest.approx((0.5 * saved_ns[0], 1.1 * saved_ns[1]), abs=1)


def judged(trace: Trace) -> Finding:
    """Return what launch-bound finds."""
    found = launch_bound(Run(trace))
    assert not isinstance(found, Skipped)
    (item,) = found
    return item


def test_a_program_that_only_profiling_slows_is_not_called_launch_bound() -> None:
    """Kernels of 60 us, launched every 75 us, of which 15 us are overhead."""
    program, at = Program(), 0
    for number in range(8):
        begin = at
        for _ in range(20 + 3 * number):  # no two steps are equal
            program.launch(at, at + 40_000, (at + 50_000, at + 110_000))
            at += 75_000
        program.step(number, begin, at - 100)
    found = {}
    for cost_ns in (0, 15_000):
        trace = program.trace(meta={"call_cost_ns": Estimate(cost_ns, cost_ns, cost_ns)})
        found[cost_ns] = judged(trace)
    assert found[0].severity == "high"
    assert found[15_000].severity == "low"
    # Kernels then follow each other after 1.2 us, of 61.2 us.
    assert found[15_000].claim.endswith(" Without profiling, about 2.0%.")
    # The share that orders findings is the one without profiling, too.
    assert found[15_000].share == pytest.approx(1.2 / 61.2, abs=0.001)
    assert found[0].share == pytest.approx(15 / 75, abs=0.01)


def test_the_overhead_of_operators_counts_before_the_next_call() -> None:
    program = Program()
    for number in range(4):
        begin = number * 100_000
        for place in range(10):
            at = begin + place * 10_000
            program.launch(at, at + 5_000, (at + 6_500, at + 8_500))
            for start in (at + 6_000, at + 7_000):
                program.add("op", start_ns=start, end_ns=start + 500, process_id=0, thread_id=0)
        program.step(number, begin, begin + 99_000)
    nothing = Estimate(0, 0, 0)
    trace = program.trace(
        meta={"call_cost_ns": nothing, "operator_cost_ns": Estimate(500, 1_000, 1_500)}
    )
    step = Baseline(Run(trace), calibration=SAME_CPU).step_ns
    assert step.central == 80_000  # two operators between calls
    assert (step.low, step.high) == (70_000, 90_000)


def test_nothing_saves_more_than_the_gpu_leaves() -> None:
    """The CPU gap may take 7 of 10 us per launch, but kernels take 4 us of them."""
    program = Program()
    for number in range(4):
        begin = number * 100_000
        for place in range(10):
            at = begin + place * 10_000
            program.launch(at, at + 3_000, (at + 3_500, at + 7_500))
        program.step(number, begin, begin + 99_000)
    starts = np.arange(40, dtype=np.int64) * 10_000 - 7_000
    gaps = finding("gaps", RemoveHostTime(0, starts, starts + 7_000))
    (item,) = price(Run(program.trace()), [gaps])
    assert item.saving_high_ns is not None
    assert item.saving_high_ns <= 100_000 - 10 * 4_000
    assert (item.predicted_step_ns or 0) >= 10 * 4_000


def generic(rule: str, place: int, factor: float) -> Finding:
    """Return a generic finding that shortens one kernel of each step."""
    exactly = Estimate(factor, factor, factor)
    return finding(rule, ScaleOperations(kernels(place), exactly), is_generic=True)
