"""Savings where few steps take much of the time, as those that wait for a burst of input."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from support.machine import GEMM
from support.rank_machine import Ranks
from support.sampled_programs import SampledProgram

import warpline
from warpline.derived.breakdown.partition import step_partition
from warpline.derived.steps.slow import slow_steps
from warpline.derived.time_parts import TimePart
from warpline.replay.prediction import Baseline
from warpline.replay.window import MOST_STEPS, replay_window
from warpline.result import Finding
from warpline.trace import Run, Trace

STEPS = 120
KERNELS_US = 7600  # of a step


def made(waits_us: Sequence[float]) -> Trace:
    """A program that waits for each batch, copies it, and runs eight kernels."""
    program, at = SampledProgram(), 0.0
    for number, wait in enumerate(waits_us):
        if wait:
            program.os_call(at + 5, at + 5 + wait, "poll")
        copied = at + 6 + wait
        program.batch(copied)
        for place in range(8):
            begun = copied + 94 + place * 950
            program.launch(copied + 14 + place * 10, begun, begun + KERNELS_US / 8)
        end = at + wait + 8000
        owner = {"process_id": 0, "thread_id": 0, "style": 0}
        program.add("range", at, end, name=f"step_{number}", **owner)
        at = end
    return program.trace()


def input_bound(trace: Trace) -> Finding:
    return next(item for item in warpline.analyze(trace).findings if item.rule == "input-bound")


def bursts(every: int, wait_us: float, otherwise_us: float = 0.0) -> list[float]:
    """Waits of varying lengths in every so-manieth step."""
    lengths = wait_us * np.random.default_rng(1).uniform(0.7, 1.3, STEPS)
    return [
        float(lengths[number]) if number % every == every - 1 else otherwise_us
        for number in range(STEPS)
    ]


@pytest.mark.parametrize(
    ("every", "wait_us", "otherwise_us"), [(8, 600_000, 0), (3, 100_000, 0), (8, 600_000, 3000)]
)
def test_a_saving_is_of_the_time_that_the_breakdown_shows(
    every: int, wait_us: float, otherwise_us: float
) -> None:
    trace = made(bursts(every, wait_us, otherwise_us))
    parts, item = step_partition(Run(trace)), input_bound(trace)
    idle_ns = float(parts.ns[:, TimePart.INPUT].mean())
    whole_ns = float((parts.windows.end_ns - parts.windows.start_ns).mean())
    assert idle_ns > 0.75 * whole_ns
    assert item.saving_ns == pytest.approx(idle_ns, rel=0.03)
    assert item.share == pytest.approx(idle_ns / whole_ns, rel=0.03)
    assert item.severity == "high"
    assert Baseline(Run(trace)).step_ns.central == pytest.approx(whole_ns, rel=0.001)


def test_findings_say_that_few_steps_have_the_time() -> None:
    assert " Affects only 15 of 119 steps." in input_bound(made(bursts(8, 600_000))).claim
    often = input_bound(made(bursts(8, 600_000, 3000))).claim
    assert " 96.2% of that is in 15 of 119 steps." in often
    assert " of 119 steps" not in input_bound(made([5000.0] * STEPS)).claim


def test_slow_steps_are_simulated_with_the_two_before_them() -> None:
    run = Run(made(bursts(8, 600_000)))
    window, slow = replay_window(run), slow_steps(run).is_slow
    assert np.count_nonzero(slow) == 14
    inside = np.flatnonzero(slow[window.step])
    assert len(inside) >= 10
    apart = inside[window.step[inside] > MOST_STEPS + 2]
    assert (window.step[apart - 2] == window.step[apart] - 2).all()
    assert (window.start_ns[1:] > window.end_ns[:-1]).all()
    assert len(window.step) <= MOST_STEPS + 2 + 3 * 10


def test_steps_that_differ_little_are_simulated_as_before() -> None:
    waits = 1000 + 200 * np.random.default_rng(1).uniform(-1, 1, STEPS)
    run = Run(made(waits.tolist()))
    assert not slow_steps(run).is_slow.any()
    assert len(replay_window(run).start_ns) == 1


def test_a_single_slow_step_is_not_in_a_saving_per_step() -> None:
    waits = [0.0] * STEPS
    waits[60] = 10_000_000.0
    trace = made(waits)
    assert not slow_steps(Run(trace)).is_slow.any()
    assert Baseline(Run(trace)).step_ns.central == pytest.approx(8_000_000, rel=0.01)


def two_ranks(*, bad: bool) -> Trace:
    """Ranks that meet at the end of a step; rank 1 works for 60 ms before every sixth one."""
    ranks = Ranks()
    for number in range(72):
        for rank in ranks:
            if bad and rank.number == 1 and number % 6 == 5:
                rank.work(60_000_000)
            rank.copy(4_000_000, pinned=True)
            for _ in range(8):
                rank.launch(1_000_000, GEMM)
        ranks.all_reduce(500_000)
        for rank in ranks:
            rank.wait()
        ranks.end_step()
    return ranks.trace()


def test_the_saving_of_a_rank_that_is_late_in_bursts_is_the_measured_one() -> None:
    bad, fixed = Run(two_ranks(bad=True)), Run(two_ranks(bad=False))
    assert len(replay_window(bad).start_ns) > 1
    before, after = (Baseline(run).step_ns.central for run in (bad, fixed))
    assert before - after == pytest.approx(60_000_000 / 6, rel=0.05)
    savings = [item.saving_ns or 0 for item in warpline.analyze(bad.trace).findings]
    assert max(savings) == pytest.approx(before - after, rel=0.1)
