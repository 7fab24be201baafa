"""Findings and savings for ranks that wait for each other, on programs computed by hand."""

from __future__ import annotations

from support.programs import ALL_REDUCE, Program, late_rank

import warpline
from warpline.derived.breakdown.step_scope import step_scope
from warpline.derived.time_parts import TimePart
from warpline.derived.work.operations import operations
from warpline.replay.meetings import meetings
from warpline.result import Finding
from warpline.trace import Run


def found(program: Program) -> dict[str, Finding]:
    return {item.rule: item for item in warpline.analyze(program.trace()).findings}


def test_a_rank_that_computes_for_longer_is_what_steps_wait_for() -> None:
    straggler = found(late_rank(60_000, count=12))["straggler"]
    assert straggler.severity == "high"
    # Of 182 us per step, 60 us are due to the kernels of rank 1, which take 1.6 times as long.
    assert straggler.saving_ns == 60_000
    assert straggler.saving_low_ns is not None
    assert straggler.saving_high_ns is not None
    assert straggler.saving_low_ns < 60_000
    assert straggler.saving_high_ns > 60_000


def test_waiting_for_a_late_rank_is_not_exposed_communication() -> None:
    # Rank 0 spends 80 us in the collective and rank 1 20 us, so 60 us are waiting.
    claim = found(late_rank(60_000, count=12))["exposed-communication"].claim
    assert "leaves 20.0 us (11.0%) of communication exposed, excluding waits for other" in claim
    short = late_rank(60_000, transfer=3_000, count=12)  # 3 of 165 us are less than 2%
    assert "exposed-communication" not in found(short)


def test_exposed_communication_is_found_from_two_percent_on() -> None:
    item = found(late_rank(60_000, transfer=5_000, count=12))["exposed-communication"]
    assert item.severity == "low"
    assert "leaves 5.00 us (3.0%) of communication exposed" in item.claim


def test_what_remains_of_overlapped_communication_is_found_without_a_saving() -> None:
    """Of 90 us of each all-reduce, another stream computes during the first 60 us."""
    program = Program()
    for step in range(12):
        at = 200_000 * step
        for rank in (0, 1):
            own = 2 * rank
            program.step(step, at, at + 199_000, thread=own)
            program.launch(at, at + 5_000, (at + 6_000, at + 106_000), thread=own, stream=own)
            program.launch(
                at + 8_000, at + 13_000, (at + 107_000, at + 197_000), ALL_REDUCE,
                thread=own, stream=own,
            )  # fmt: skip
            program.launch(
                at + 15_000, at + 20_000, (at + 107_000, at + 167_000), thread=own, stream=own + 1
            )
    item = found(program)["exposed-communication"]
    assert "leaves 30.0 us (15.0%) of communication exposed. 66.7% of" in item.claim
    assert item.saving_ns is None
    assert item.share == 0.15
    assert item.fix.startswith("Start the exposed collectives earlier")


def test_one_collective_behind_everything_has_nothing_to_run_beside() -> None:
    item = found(late_rank(0, transfer=50_000, count=12))["exposed-communication"]
    assert item.severity == "low"
    assert item.saving_ns is not None
    assert item.saving_ns < 5_000


def test_equal_ranks_have_no_straggler() -> None:
    assert "straggler" not in found(late_rank(0, count=12))


def test_facts_are_per_rank_and_not_averages() -> None:
    trace = late_rank(60_000, count=12).trace()
    work, scope = operations(trace), step_scope(Run(trace))
    computing = work.end_ns - work.start_ns >= 100_000
    facts = scope.on_devices(computing)
    each = [(item.device, item.ns / item.steps, item.number) for item in facts]
    count = scope.count // 2  # steps of a rank
    assert each == [(0, 100_000, count), (1, 160_000, count)]
    assert [item.steps for item in facts] == [count, count]
    weight = scope.weigh(computing)
    assert weight.on_devices == facts
    assert weight.ns == 160_000  # of rank 1, not the mean of both


def test_idle_time_of_devices_adds_up() -> None:
    scope = step_scope(Run(late_rank(60_000, count=12).trace()))
    facts = scope.idle_on_devices()
    assert [item.device for item in facts] == [0, 1]
    assert {item.number for item in facts} == {None}
    assert max(item.ns / item.steps for item in facts) == scope.idle_ns()
    assert scope.idle_on_devices(TimePart.ALLOCATOR) == ()


def test_recordings_that_begin_apart_meet_where_both_are() -> None:
    program = late_rank(60_000, count=16)
    kernels = program.rows["kernel"]
    for place, row in enumerate(kernels):  # four of each step, and steps that grow
        row["start_ns"] += 3_000 * (place // 4) ** 2
        row["end_ns"] += 3_000 * (place // 4) ** 2
    first = next(row for row in kernels if row["process_id"] == 1 and row["name"] == ALL_REDUCE)
    kernels.remove(first)
    met = meetings(Run(program.trace()))
    assert met.n_meetings == 15
    assert sorted(met.of_item[met.of_item >= 0].tolist()) == sorted([*range(15), *range(15)])
