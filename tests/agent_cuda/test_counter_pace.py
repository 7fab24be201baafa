"""When counting may take time of the program: budgets and bursts, at times of the tests' own."""

from __future__ import annotations

import subprocess

import pytest


@pytest.fixture
def pace(cuda):
    program = cuda.program.parent / "pace_of"
    if not program.is_file():
        pytest.skip("pace_of is not built: cmake -DWARPLINE_TESTS=ON")

    def ask(budget_ppm, burst, *calls):
        lines = [f"budget {budget_ppm} {burst} 0", *calls]
        text = "".join(f"{line}\n" for line in lines)
        out = subprocess.run([program], input=text, capture_output=True, text=True, check=True)
        return [tuple(map(int, line.split())) for line in out.stdout.splitlines()]

    return ask


def test_no_limit(pace):
    told = pace(0, 0, "begin 100 100", "spend 90000 200", "afford 0 200", "tick 0 90000")
    assert told == [(0, 1, 1)] * 4


def test_a_budget_of_a_tenth(pace):
    told = pace(
        *(100_000, 0, "begin 300 1000", "spend 400 1500"),
        *("afford 1 1500", "spend 500 2000", "afford 1 2000", "tick 0 2000", "afford 0 2000"),
        *("tick 0 2900", "tick 0 3200", "afford 0 3200"),
    )
    # Half a second is there at once, and setting up is no cost: 500 + 300 + 150 - 400 ms at 1.5 s.
    # At 2 s there are 500 + 300 + 200 - 900: enough to go on, too little to begin. That takes 200.
    assert [answer for _, _, answer in told] == [1, 1, 1, 1, 1, 1, 0, 1, 1, 1]
    assert [resting for resting, _, _ in told] == [0, 0, 0, 0, 0, 0, 1, 1, 0, 0]


def test_what_is_programmed_goes_on_to_the_last_of_the_budget(pace):
    told = pace(
        *(100_000, 0, "begin 0 1000", "spend 599 1000"),
        *("afford 1 1000", "spend 1 1000", "afford 1 1000"),
    )
    assert [answer for _, _, answer in told] == [1, 1, 1, 1, 0]


def test_bursts_come_when_the_time_has_doubled(pace):
    ticks = [5000, 10_900, 11_000, 11_900, 12_000, 13_900, 14_000, 17_999, 18_000]
    told = pace(0, 2, "tick 0 4000", "begin 300 10000", *(f"tick 0 {at}" for at in ticks))
    assert [burst for _, burst, _ in told] == [1, 1, 1, 1, 2, 2, 3, 3, 4, 4, 5]
