"""Which steps of a simulation count, and how long they take, in programs with known times."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from support.programs import Program, after, predicted

from warpline.derived.steps.times import steps
from warpline.replay.window import ReplayWindow, replay_window
from warpline.result.changes import RemoveHostTime
from warpline.trace import Run


def busy(program: Program, lengths_ns: Sequence[int], rank: int = 0) -> None:
    """Keep a rank's GPU busy: one kernel per step, all launched far ahead."""
    done = 10_000
    for number, length in enumerate(lengths_ns):
        at = number * 10_000
        thread, work = 2 * rank, (done, done + length)
        program.launch(at, at + 5_000, work, thread=thread, stream=2 * rank)
        program.step(number, at, at + 9_000, thread=thread)
        done += length


def medians(*lengths_ns: Sequence[int]) -> tuple[int, int]:
    """Return the median step as recorded and as simulated; each argument is one rank's kernels."""
    program = Program()
    for rank, lengths in enumerate(lengths_ns):
        busy(program, lengths, rank)
    found = predicted(program.trace())
    return found.measured_ns, found.unchanged_ns


@pytest.mark.parametrize(
    ("lengths_ns", "median_ns"),
    [
        # A step counts from the end of the step before it: the first one has no such end, and the
        # second one's may include what the program did before the first step.
        ((90_000, 100_000, 110_000, 120_000, 150_000), 120_000),
        ((90_000, 100_000, 110_000, 120_000), 115_000),
        ((90_000, 100_000, 110_000), 110_000),
        # Of two steps only the first is included: from its first launch to its last work.
        ((90_000, 100_000), 96_500),
    ],
)
def test_steps_count_from_the_third(lengths_ns: Sequence[int], median_ns: int) -> None:
    assert medians(lengths_ns) == (median_ns, median_ns)


def test_of_several_ranks_the_slowest_counts() -> None:
    slow, fast = (90_000, 100_000, 110_000, 120_000, 150_000), (40_000,) * 5
    assert medians(slow, fast) == medians(fast, slow) == (120_000, 120_000)


def test_the_first_steps_of_every_rank_are_left_out() -> None:
    first, second = (90_000, 100_000, 110_000, 120_000), (190_000, 200_000, 220_000, 240_000)
    assert medians(first, second) == medians(second, first) == (230_000, 230_000)


def test_a_step_is_not_done_before_its_range_ends_on_its_own_cpu() -> None:
    """Rank 1 returns from a call 1 us before each range ends, and the GPUs are done long before."""
    program, begin = Program(), 0
    for number, length in enumerate((40_000, 50_000, 60_000, 70_000)):
        for rank, last in ((0, 10_000), (1, length)):
            thread, end = 2 * rank, begin + last
            program.launch(
                begin, begin + 2_000, (begin + 4_000, begin + 5_000), thread=thread, stream=thread
            )
            program.call("cudaGetDevice_v3020", end - 3_000, end - 1_000, thread=thread)
            program.step(number, begin, end, thread=thread)
        begin += length
    trace = program.trace()
    found = predicted(trace)
    # The ranges of rank 1 follow one another: 60 and 70 us count. Those of rank 0 end 10 us after
    # the step began: 50 and 60 us.
    assert (found.measured_ns, found.unchanged_ns) == (65_000, 65_000)
    starts = np.array([10_000, 50_000, 100_000, 160_000])
    # In rank 1, 5 us of each step go away; rank 0 has 55 us as before.
    assert after(trace, RemoveHostTime(2, starts, starts + 5_000)) == 60_000
    assert after(trace, RemoveHostTime(0, starts, starts + 5_000)) == 65_000


def test_without_steps_the_time_from_the_first_launch_to_the_last_work_counts() -> None:
    """What a program does before and after, such as creating a context, is nobody's saving."""
    program = Program()
    program.call("cudaMalloc_v3020", 1_000, 95_000)
    program.launch(100_000, 105_000, (106_500, 130_000))
    program.call("cudaGetDevice_v3020", 140_000, 142_000)
    found = predicted(program.trace())
    assert (found.measured_ns, found.unchanged_ns) == (30_000, 30_000)


def test_a_single_step_counts_from_its_first_launch() -> None:
    program = Program()
    program.launch(100_000, 105_000, (106_500, 130_000))
    program.launch(120_000, 125_000, (130_000, 150_000))
    program.step(0, 10_000, 160_000)
    found = predicted(program.trace())
    assert (found.measured_ns, found.unchanged_ns) == (50_000, 50_000)


def test_pauses_between_samples_do_not_count() -> None:
    starts = (0, 100, 200, 1000, 1100, 1200, 2000, 2120, 2260)
    samples = ((0, 295), (999, 1295), (1999, 2355))
    windows = tuple((1_000 * low, 1_000 * high) for low, high in samples)
    program = Program()
    for number, start in enumerate(starts):
        at = 1_000 * start
        program.launch(at, at + 5_000, (at + 10_000, at + 60_000))
        program.step(number, at, at + 90_000)
    found = predicted(program.trace(meta={"windows_ns": windows, "span_ns": (0, 2_355_000)}))
    # 100, 120, and 140 us; the steps at 1 ms and 2 ms follow nothing that was recorded.
    assert (found.measured_ns, found.unchanged_ns) == (120_000, 120_000)


def ranges_of(window: ReplayWindow) -> list[tuple[int, int]]:
    return list(zip(window.start_ns.tolist(), window.end_ns.tolist(), strict=True))


def test_long_programs_are_simulated_from_two_steps_before_the_included_ones() -> None:
    program = Program()
    # The first five steps are ten times as long as the others: warm-up.
    busy(program, [500_000] * 5 + [50_000] * 25)
    window = replay_window(Run(program.trace()))
    # Of the included steps, 5 to 28, the first 20. Each range takes 9 us of its 10 us.
    assert window.step.tolist() == list(range(3, 25))
    assert ranges_of(window) == [(30_000, 249_000)]


def test_short_programs_are_simulated_from_their_first_to_their_last_step() -> None:
    program = Program()
    busy(program, [500_000] * 5 + [50_000] * 17)
    window = replay_window(Run(program.trace()))
    assert window.step.tolist() == list(range(22))
    assert ranges_of(window) == [(0, 219_000)]


def test_without_steps_everything_is_simulated() -> None:
    program = Program()
    program.launch(100_000, 105_000, (107_000, 130_000))
    window = replay_window(Run(program.trace()))
    assert window.step.tolist() == []
    assert ranges_of(window) == [(100_000, 130_001)]


SLOW_FOR_A_WHILE = [50_000] * 3 + [70_000] * 14 + [50_000] * 23


def test_the_simulated_steps_are_representative() -> None:
    program = Program()
    busy(program, SLOW_FOR_A_WHILE)
    run = Run(program.trace())
    # All steps but the last are included; their median is 50 us. The first 20 with that median
    # begin at step 8, with 9 slow ones, and two steps come before them.
    assert np.flatnonzero(steps(run).included).tolist() == list(range(39))
    assert replay_window(run).step.tolist() == list(range(6, 28))
    assert predicted(run.trace).measured_ns == 50_000


def test_ranks_are_simulated_over_the_same_time() -> None:
    program = Program()
    busy(program, [40_000] * 40, rank=0)
    busy(program, SLOW_FOR_A_WHILE, rank=1)
    run = Run(program.trace())
    assert replay_window(run).step.tolist() == [*range(6, 28), *range(46, 68)]
