"""Which steps are left out, on periods worked out by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from warpline.derived.steps.exclusion import StepFacts, exclude


def facts(*loops: list[int], **more: Any) -> StepFacts:
    """Return steps with these periods; the last of each loop has none."""
    period = np.array([ns for loop in loops for ns in (*loop, 0)], np.int64)
    loop = np.repeat(np.arange(len(loops)), [len(loop) + 1 for loop in loops])
    last = np.append(np.diff(loop) != 0, True)
    given = {
        "loop": loop,
        "index": np.concatenate([np.arange(len(loop) + 1) for loop in loops]),
        "period_ns": period,
        "setup_calls": np.zeros(len(period), np.int64),
        "is_last": last,
        "has_work": np.ones(len(period), np.bool_),
        "is_cut": np.zeros(len(period), np.bool_),
    }
    return StepFacts(**(given | more))


def reasons(found: StepFacts) -> dict[int, str]:
    return dict(exclude(found))


def test_the_last_step_has_no_period():
    assert reasons(facts([100, 101, 99])) == {3: "last"}


@pytest.mark.parametrize(
    ("periods", "expected"),
    [
        ([200, 100, 100, 101, 99], {0: "first"}),
        ([119, 100, 100, 101, 99], {}),
        ([40, 100, 100, 101, 99], {0: "first"}),  # its batch was there already
        ([80, 100, 100, 101, 99], {}),
        ([400, 200, 100, 100, 101, 99, 100], {0: "warm-up", 1: "warm-up"}),
        ([100, 100, 200, 101, 99], {2: "outlier"}),
        ([100, 100, 140, 101, 99], {}),
        ([100, 100, 20, 101, 99], {}),  # a short one takes no time from the others
        ([134, 105, 113, 99, 97], {}),  # steps that vary: none is unlike the others
        ([200, 100], {}),  # of two steps neither is usual
    ],
)
def test_slow_steps(periods: list[int], expected: dict[int, str]):
    assert reasons(facts(periods)) == {**expected, len(periods): "last"}


def test_steps_that_are_often_long_belong_to_the_run():
    accumulating = [100, 100, 100, 300] * 5
    assert reasons(facts(accumulating)) == {20: "last"}
    rare = [100] * 10 + [300] + [100] * 10
    assert reasons(facts(rare)) == {10: "outlier", 21: "last"}


def test_a_first_step_that_sets_up_is_left_out_sooner():
    periods = [110, 100, 100, 101, 99]
    assert reasons(facts(periods)) == {5: "last"}
    setup = np.array([7, 1, 0, 0, 0, 0], np.int64)
    assert reasons(facts(periods, setup_calls=setup)) == {0: "first", 5: "last"}
    same = np.full(6, 7, np.int64)  # every step allocates: that is what steps are like here
    assert reasons(facts(periods, setup_calls=same)) == {5: "last"}


def test_ranks_are_judged_together():
    one, other = [100, 100, 100, 100, 100], [100, 100, 101, 400, 100]
    assert reasons(facts(one, other)) == {3: "outlier", 5: "last", 9: "outlier", 11: "last"}
    shorter = [100, 100, 100, 100]  # other numbers, and so another run
    assert reasons(facts(shorter, other)) == {4: "last", 8: "outlier", 10: "last"}


def test_a_step_that_misses_something_counts_on_no_rank():
    cut = np.zeros(12, np.bool_)
    cut[2] = True
    found = facts([100, 100, 900, 100, 100], [100, 100, 900, 100, 100], is_cut=cut)
    assert reasons(found) == {2: "incomplete", 5: "last", 11: "last"}


def test_each_step_has_its_first_reason():
    work = np.array([True, False, True, True])
    cut = np.array([False, False, False, True])
    found = facts([100, 100, 0], has_work=work, is_cut=cut)
    assert reasons(found) == {1: "no device work", 2: "incomplete", 3: "incomplete"}
