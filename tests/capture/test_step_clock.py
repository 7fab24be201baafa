"""When steps began, from the control page's ring of times."""

from __future__ import annotations

from warpline.capture.launcher.step_clock import StepClock
from warpline.capture.session.control import CONTROL_STEPS, Counters


def counters(begins: list[int], processes: int = 1) -> Counters:
    """Return the counters after steps began at these times."""
    ring = [0] * CONTROL_STEPS
    for number, time_ns in enumerate(begins):
        ring[number % CONTROL_STEPS] = time_ns
    return Counters(
        *(0, 0, 0, 0, 0, 0, False, 0, ""),
        steps_begun=len(begins),
        step_processes=processes,
        step_ns=tuple(ring),
    )


def test_each_step_is_told_once() -> None:
    clock = StepClock(3)
    begins = [100 + 10 * number + number * number for number in range(80)]
    found = []
    for seen in (0, 1, 2, 20, 20, 45, 80):
        found += clock.look(counters(begins[:seen]))
    wanted = [(number, begins[number + 1] - begins[number]) for number in range(79)]
    # Of the steps since 45, the page surely has the last 31: those before are one.
    late = 80 - CONTROL_STEPS + 1
    assert found == [*wanted[:44], (late - 1, begins[late] - begins[44]), *wanted[late:]]
    assert clock.last == 79
    assert [clock.began_ns(back) for back in (0, 1, 3)] == [begins[79], begins[78], begins[76]]


def test_steps_of_ranks_begin_with_the_first() -> None:
    clock = StepClock(5)
    begins = [time for number in range(8) for time in (1000 * number + 1, 1000 * number + 5)]
    found = clock.look(counters(begins[:9], processes=2))
    found += clock.look(counters(begins, processes=2))
    assert found == [(number, 1000) for number in range(7)]


def test_a_step_whose_time_is_not_there_yet_is_told_later() -> None:
    clock = StepClock(1)
    begins = [100 * (number + 1) for number in range(34)]
    clock.look(counters(begins[:33]))
    torn = counters(begins[:33])
    torn = Counters(**{**vars(torn), "steps_begun": 34})  # the 34th still has the time of the 2nd
    assert clock.look(torn) == []
    assert clock.look(counters(begins)) == [(32, 100)]
    assert clock.median_ns is None
    for took in (1, 2, 3, 4, 100):
        clock.add(took)
    assert clock.median_ns == 3
