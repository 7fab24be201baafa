"""Step sampling: which steps of which process are recorded."""

from __future__ import annotations

import re

import pytest
from support import raw_logs

from warpline.capture.session.agent_config import AgentConfig
from warpline.capture.session.control import ControlFile, RangeMode, State
from warpline.capture.session.sampling import Sampling

FIVE = Sampling(steps=5, every=100)
FIRST_FIVES = [hundred + step for hundred in range(0, 1000, 100) for step in range(5)]


@pytest.fixture
def sampled(record, compile_program):
    """Return a function that runs the loops of steps.c and returns the session's folder."""
    program = compile_program("steps.c")

    def run(way, sample, *words, state=State.RECORDING, **config):
        chosen = AgentConfig(sample=sample, **config)
        return record(program, way, *words, config=chosen, mode=RangeMode.STEPS, state=state)

    return run


def _steps(log, pattern=r"(?:it|step)_(\d+)"):
    found = [re.fullmatch(pattern, event.name or "") for event in log.events]
    return [int(match[1]) for match in found if match]


def _counters(folder):
    page = ControlFile.open(folder)
    counters = page.counters()
    page.close()
    return counters


def _samples(log):
    """Return the steps at which recording began and ended, by the log's notes."""
    return [(kind, int(text)) for kind, text in log.notes if kind in (6, 7)]


def test_exactly_the_steps_asked_for_are_recorded(sampled):
    folder = sampled("loop", FIVE)
    (log,) = raw_logs.decode(folder)
    assert _steps(log) == FIRST_FIVES
    for inner in ("forward", "step", "between"):
        assert sum(event.name == inner for event in log.events) == len(FIRST_FIVES)
    assert log.ranges()[:3] == [("step_0", 0), ("forward", 1), ("step", 2)]
    expected = [(6 + i % 2, i // 2 * 100 + i % 2 * 5) for i in range(20)]
    assert _samples(log) == expected
    counters = _counters(folder)
    assert (counters.steps_begun, counters.step_processes) == (1000, 1)
    assert (counters.windows_done, counters.windows_open) == (10, 0)


@pytest.mark.parametrize(
    ("way", "sample", "pattern"),
    [
        ("slashed", FIVE, r"Iteration (\d+)/1000"),
        ("unusual", Sampling(5, 100, range_name="it_*"), r"it_(\d+)"),
        ("unusual", Sampling(5, 100, range_name="?t_*", range_domain="default"), r"it_(\d+)"),
        ("domain", Sampling(5, 100, range_name="it_*", range_domain="train"), r"it_(\d+)"),
        ("domain", Sampling(5, 100, range_name="*_*"), r"it_(\d+)"),
        ("epochs", FIVE, r"train_step (\d+)"),
    ],
)
def test_a_step_is_known_by_its_name(sampled, way, sample, pattern):
    (log,) = raw_logs.decode(sampled(way, sample))
    assert _steps(log, pattern) == FIRST_FIVES


@pytest.mark.parametrize(
    ("way", "sample"),
    [
        ("domain", FIVE),
        ("loop", Sampling(5, 100, range_name="step_")),
        ("domain", Sampling(5, 100, range_name="it_*", range_domain="default")),
    ],
)
def test_nothing_is_recorded_without_a_step(sampled, way, sample):
    folder = sampled(way, sample)
    assert [event for log in raw_logs.decode(folder) for event in log.events] == []
    assert _counters(folder).step_processes == 0


def test_steps_are_seen_in_domains_that_are_not_recorded(sampled):
    sample = Sampling(5, 100, range_name="it_*")
    folder = sampled("domain", sample, domain_exclude=("train",))
    assert _counters(folder).windows_done == 10


def test_every_step_may_be_recorded(sampled):
    folder = sampled("loop", Sampling(3, 3), 20)
    (log,) = raw_logs.decode(folder)
    assert _steps(log) == list(range(20))
    assert _samples(log) == [(6, 0)]


def test_one_sample_of_so_many_steps(sampled):
    folder = sampled("loop", Sampling(3, 3, is_once=True), 1000)
    (log,) = raw_logs.decode(folder)
    assert (_steps(log), _samples(log)) == ([0, 1, 2], [(6, 0), (7, 3)])
    counters = _counters(folder)
    assert (counters.windows_done, counters.windows_open, counters.steps_begun) == (1, 0, 1000)


def test_the_only_sample_waits_for_the_start_of_recording(sampled):
    folder = sampled("loop", Sampling(3, 3, is_once=True), 50, state=State.WAITING)
    assert [event for log in raw_logs.decode(folder) for event in log.events] == []
    counters = _counters(folder)
    assert (counters.steps_begun, counters.step_processes) == (0, 0)


def test_each_fork_has_its_only_sample(sampled):
    folder = sampled("forks", Sampling(4, 4, is_once=True))
    assert [_steps(log) for log in raw_logs.decode(folder)] == [[0, 1, 2, 3]] * 3
    assert _counters(folder).windows_done == 3


def test_a_time_window_keeps_no_step_from_being_recorded(sampled):
    # As of a short loop that begins and ends before the launcher looks again.
    folder = sampled("loop", Sampling(2, 10), 30, state=State.TIME_WINDOW)
    (log,) = raw_logs.decode(folder)
    assert _samples(log) == [(6, 0), (7, 2), (6, 10), (7, 12), (6, 20), (7, 22)]
    assert _steps(log) == list(range(30))  # the window's are all there, too


def test_steps_before_recording_begins_count_but_are_not_recorded(sampled):
    folder = sampled("loop", FIVE, 50, state=State.WAITING)
    assert [event for log in raw_logs.decode(folder) for event in log.events] == []
    assert _counters(folder).steps_begun == 50


def test_only_the_thread_that_began_the_first_step_counts(sampled):
    folder = sampled("threads", Sampling(2, 10), 200)
    steps = [step for log in raw_logs.decode(folder) for step in _steps(log) if step != 999]
    assert steps == [step for step in range(200) if step % 10 < 2]


def test_forks_count_their_own_steps(sampled):
    folder = sampled("forks", FIVE)
    logs = raw_logs.decode(folder)
    counted = [_steps(log) for log in logs]
    # Those of a fork that come while its sibling records, before its own first step, are none.
    assert counted == [FIRST_FIVES] * 3
    assert _counters(folder).step_processes == 3


def test_a_share_of_the_steps_is_chosen_by_how_long_they_take(sampled):
    folder = sampled("loop", Sampling(duty=0.25), 3000, 300)
    (log,) = raw_logs.decode(folder)
    steps, every = _counters(folder).plan
    assert steps >= 2
    assert every == steps * 4
    begun = [number for kind, number in _samples(log) if kind == 6]
    assert begun
    assert all((number - begun[0]) % every == 0 for number in begun)
    ended = [number for kind, number in _samples(log) if kind == 7]
    assert [number - steps for number in ended] == begun[: len(ended)]
    assert all(sum(b <= step < b + steps for b in begun) == 1 for step in _steps(log))
