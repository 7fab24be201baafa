"""Which rank a finding names, on simulated ranks that differ, wait for each other, or do not."""

from __future__ import annotations

from collections.abc import Callable

from support.machine import ELEMENTWISE, GEMM
from support.rank_machine import Ranks

from warpline.analyses.findings import graph_opportunity, no_tensor_cores
from warpline.derived.ranks.naming import named
from warpline.result import RULES, Finding, Skipped
from warpline.trace import Run

FLOAT32 = "void cutlass_80_simt_sgemm_256x128_8x4_nn_align1"


def found(step: Callable[[Ranks], None], rule: str, count: int = 2) -> Finding:
    ranks = Ranks(count)
    for _ in range(12):
        step(ranks)
        ranks.end_step()
    run = Run(ranks.trace())
    judged = RULES.get(rule).judge(run)
    assert not isinstance(judged, Skipped)
    return named(run, judged[0])  # a second one may be about mixed precision


def products(amounts: tuple[int, ...]) -> Callable[[Ranks], None]:
    """Each rank runs some of 10 GEMMs of 1 ms in FP32; all take as long."""

    def step(ranks: Ranks) -> None:
        for rank, amount in zip(ranks, amounts, strict=True):
            for number in range(10):
                rank.launch(1_000_000, FLOAT32 if number < amount else GEMM)
        ranks.all_reduce(100_000)

    return step


def test_only_one_rank_is_affected() -> None:
    item = found(products((0, 8)), no_tensor_cores.NAME)
    assert item.title.endswith(" of the time on rank 1")
    assert "in 8 kernels per step take 8.00 ms" in item.claim
    assert item.claim.endswith(" Only rank 1 is affected.")


def test_one_rank_is_affected_most() -> None:
    item = found(products((3, 8)), no_tensor_cores.NAME)
    assert "in 8 kernels per step take 8.00 ms" in item.claim
    assert item.claim.endswith(" Rank 1 is affected most; the other rank: 3.00 ms per step.")


def test_the_most_of_several_other_ranks_is_named() -> None:
    item = found(products((1, 8, 4)), no_tensor_cores.NAME, count=3)
    assert item.claim.endswith(
        " Rank 1 is affected most; the other ranks: at most 4.00 ms per step."
    )


def test_ranks_that_are_affected_alike_are_not_named() -> None:
    item = found(products((8, 8)), no_tensor_cores.NAME)
    assert "rank" not in item.title + item.claim


def test_a_rank_that_waits_in_collectives_is_not_called_unaffected() -> None:
    """Both CPUs are as slow. Rank 0 began earlier, so its GPU waits in the all-reduce instead."""

    def step(ranks: Ranks) -> None:
        for rank in ranks:
            if rank.steps == 0 and rank.number == 1:
                rank.work(20_000_000)
            for _ in range(40):
                rank.work(100_000)
                rank.launch(20_000, ELEMENTWISE)
        ranks.all_reduce(100_000)

    item = found(step, graph_opportunity.NAME)
    assert "rank" not in item.title
    assert item.claim.endswith(" This is rank 1: the other rank waits in collectives meanwhile.")
