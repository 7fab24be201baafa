"""Small collectives of two simulated ranks, one by one or in one."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from support.machine import ELEMENTWISE
from support.rank_machine import Ranks

import warpline
from warpline.result import Diagnosis, Finding

Program = Callable[[Ranks, bool], None]


def run(program: Program, *, bad: bool) -> Diagnosis:
    ranks = Ranks()
    for _ in range(12):
        program(ranks, bad)
        ranks.end_step()
    return warpline.analyze(ranks.trace())


def found(diagnosis: Diagnosis) -> list[Finding]:
    return [item for item in diagnosis.findings if item.rule == "small-collectives"]


def one_per_tensor(ranks: Ranks, bad: bool) -> None:
    """Forty all-reduces of 12 us, or one that takes 1 us longer for all data."""
    for rank in ranks:
        for _ in range(10):
            rank.launch(200_000)
    for _ in range(40 if bad else 1):
        ranks.all_reduce(12_000 if bad else 13_000)
        for rank in ranks:
            rank.launch(3_000, ELEMENTWISE)  # divides by the number of ranks
    for rank in ranks:
        rank.wait()


def large_ones(ranks: Ranks, bad: bool) -> None:
    for rank in ranks:
        rank.launch(200_000)
    for _ in range(40):
        ranks.all_reduce(120_000)


def one_per_layer(ranks: Ranks, bad: bool) -> None:
    """As in tensor parallelism: each layer needs the result of the one before."""
    for _ in range(40):
        for rank in ranks:
            for _ in range(4):
                rank.launch(20_000)
        ranks.all_reduce(12_000)


def few_of_them(ranks: Ranks, bad: bool) -> None:
    for rank in ranks:
        rank.launch(200_000)
    for _ in range(10):
        ranks.all_reduce(12_000)


def test_small_collectives_one_by_one() -> None:
    bad, fixed = run(one_per_tensor, bad=True), run(one_per_tensor, bad=False)
    (item,) = found(bad)
    # Forty times 12 us on the GPU; 39 launches after the first, each of 6 us and 6 us of others.
    assert item.claim == (
        "40 small collectives per step follow each other. They take 480 us on the GPU and 468 us of"
        " CPU time (17.6% of the step), mostly latency: their data is small."
    )
    assert bad.replay is not None
    assert fixed.replay is not None
    saved = bad.replay.step_ns - fixed.replay.step_ns
    # The divisions stay, which the program with one all-reduce does not need.
    assert saved == 39 * (12_000 + 1_200 + 3_000 + 1_200) - 1_000
    assert item.saving_ns == pytest.approx(saved - 39 * (3_000 + 1_200), rel=0.05)
    assert found(fixed) == []


@pytest.mark.parametrize("program", [large_ones, one_per_layer, few_of_them])
def test_other_collectives_are_not_small_ones_in_a_row(program: Program) -> None:
    assert found(run(program, bad=True)) == []
