"""The straggler of programs of two ranks on simulated machines, and what it does differently.

Each program runs with and without its problem. The finding must name the rank and the difference,
and its saving must be what the fixed program really saves.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from support.machine import ELEMENTWISE, GEMM, REDUCTION
from support.rank_machine import RankMachine, Ranks

import warpline
from warpline.analyses.findings import work_on_one_rank
from warpline.errors import MissingTableError
from warpline.result import RULES, Diagnosis, Finding, Skipped
from warpline.trace import Run, Trace
from warpline.trace.recording import write_recording

STEPS = 12
FLOAT32 = "void cutlass_80_simt_sgemm_256x128_8x4_nn_align1"
CONVOLUTION = "sm90_xmma_fprop_implicit_gemm_bf16bf16_bf16f32_f32_nhwckrsc_nhwc"
SEND = "ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)"

Program = Callable[[Ranks, bool], None]


def run(program: Program, *, bad: bool, count: int = 2) -> Diagnosis:
    ranks = Ranks(count)
    for _ in range(STEPS):
        program(ranks, bad)
        ranks.end_step()
    return warpline.analyze(ranks.trace())


def layers(rank: RankMachine, *, longer: float = 1.0) -> None:
    for _ in range(10):
        rank.launch(round(1_000_000 * longer), GEMM)
        rank.launch(round(200_000 * longer), ELEMENTWISE)
        rank.launch(round(100_000 * longer), REDUCTION)


def extra_products(ranks: Ranks, bad: bool) -> None:
    """Rank 1 runs eight more FP32 GEMMs of 2.675 ms, in all 21.4 ms per step, in range data."""
    for rank in ranks:
        begun = rank.begin_range()
        rank.copy(4_000_000, pinned=True)
        for _ in range(8 if bad and rank.number == 1 else 0):
            rank.launch(2_675_000, FLOAT32)
        rank.end_range("data", begun)
        layers(rank)
    ranks.all_reduce(500_000)
    for rank in ranks:
        rank.launch(300_000, ELEMENTWISE)
        rank.wait()


def first(found: Diagnosis) -> Finding:
    return found.findings[0]


def step_ns(found: Diagnosis) -> int:
    assert found.replay is not None
    return found.replay.step_ns


def test_work_that_no_other_rank_runs() -> None:
    bad, fixed = run(extra_products, bad=True), run(extra_products, bad=False)
    item = first(bad)
    assert item.rule == "straggler"
    assert item.title == (
        "Rank 1 is the straggler: 8 FP32 GEMMs in `data`, 21.4 ms per step, that no other rank runs"
    )
    assert item.claim == (
        "Rank 1 runs 8 FP32 GEMMs in `data` that no other rank runs: 21.4 ms per step. The other"
        " rank waits 21.4 ms per step (60.6%) in all-reduce. Rank 1 arrives last in 100.0% of 11"
        " collectives."
    )
    saved = step_ns(bad) - step_ns(fixed)
    assert item.saving_ns == pytest.approx(saved, rel=0.05)


def test_the_recordings_of_two_ranks_in_files(tmp_path: Path) -> None:
    """Rank 0 has 0.7 ms of CPU work more, so it waits for 21.4 + 8 * 0.0012 - 0.7 = 20.7 ms."""
    ranks = Ranks()
    for _ in range(STEPS):
        for rank in ranks:
            if rank.number == 0:
                rank.launch(698_800, REDUCTION)  # and 1.2 us before the next kernel
        extra_products(ranks, True)
        ranks.end_step()
    paths = []
    for rank in ranks:
        paths.append(tmp_path / f"run.rank{rank.number}.warpline")
        write_recording(Trace(rank.source()), paths[-1])
    found = warpline.analyze(warpline.open(*paths))
    item = first(found)
    assert item.rule == "straggler"
    assert "Rank 1 runs 8 FP32 GEMMs in `data` that no other rank runs: 21.4 ms" in item.claim
    assert "The other rank waits 20.7 ms per step (58.6%) in all-reduce." in item.claim
    assert [(fact.rank, fact.ns, fact.number) for fact in item.on_devices] == [
        (0, 11 * (21_400_000 + 8 * 1_200 - 700_000), 11)
    ]
    assert item.saving_ns == 21_400_000 + 8 * 1_200 - 700_000


def slower_gpu(ranks: Ranks, bad: bool) -> None:
    """The GPU of rank 1 takes 1.3 times as long for everything."""
    for rank in ranks:
        layers(rank, longer=1.3 if bad and rank.number == 1 else 1.0)
    ranks.all_reduce(500_000)
    for rank in ranks:
        rank.wait()


def longer_products(ranks: Ranks, bad: bool) -> None:
    """The GEMMs of rank 1 take twice as long, as for longer sequences; other kernels do not."""
    for rank in ranks:
        for _ in range(10):
            rank.launch(1_000_000 if bad and rank.number == 1 else 500_000, GEMM)
            rank.launch(200_000, ELEMENTWISE)
    ranks.all_reduce(500_000)
    for rank in ranks:
        rank.wait()


def slow_loader(ranks: Ranks, bad: bool) -> None:
    """Rank 1 prepares its batch for 9 ms longer, in range data."""
    for rank in ranks:
        begun = rank.begin_range()
        rank.work(10_000_000 if bad and rank.number == 1 else 1_000_000)
        rank.copy(4_000_000, pinned=True)
        rank.end_range("data", begun)
        layers(rank)
    ranks.all_reduce(500_000)
    for rank in ranks:
        rank.wait()


def pause_without_ranges(ranks: Ranks, bad: bool) -> None:
    """Rank 1 does something else for 6 ms between two launches."""
    for rank in ranks:
        layers(rank)
        rank.wait()
        rank.work(6_000_000 if bad and rank.number == 1 else 10_000)
        layers(rank)
    ranks.all_reduce(500_000)
    for rank in ranks:
        rank.wait()


@pytest.mark.parametrize("count", [2, 4])
@pytest.mark.parametrize(
    ("program", "title", "claim"),
    [
        (
            slower_gpu,
            "its GPU takes 3.90 ms longer per step for the same work",
            "All kinds of kernels take longer on rank 1, in all 1.30 times as long",
        ),
        (
            longer_products,
            "the same number of GEMMs takes 5.00 ms longer per step",
            "Rank 1 runs as many operations as the other",
        ),
        (
            slow_loader,
            "its CPU takes 9.00 ms longer per step in `data`",
            "The CPU of rank 1 takes 9.00 ms longer per step in `data` than on the other",
        ),
        (
            pause_without_ranges,
            "its CPU takes 6.00 ms longer per step in CPU gaps",
            "The CPU of rank 1 takes 6.00 ms longer per step in CPU gaps without CUDA API calls",
        ),
    ],
)
def test_what_the_late_rank_does_differently(
    program: Program, title: str, claim: str, count: int
) -> None:
    bad, fixed = run(program, bad=True, count=count), run(program, bad=False, count=count)
    item = first(bad)
    assert item.rule == "straggler"
    assert item.title.startswith(f"Rank 1 is the straggler: {title}")
    assert item.claim.startswith(claim)
    saved = step_ns(bad) - step_ns(fixed)
    assert item.saving_ns == pytest.approx(saved, rel=0.05)
    assert "straggler" not in {each.rule for each in fixed.findings}


def stages_of_a_pipeline(ranks: Ranks, bad: bool) -> None:
    """Rank 1 is the last stage, with GEMMs that the first has not; stages send each other data."""
    for rank in ranks:
        layers(rank)
        for _ in range(8 if bad and rank.number == 1 else 0):
            rank.launch(1_000_000, FLOAT32)
        rank.launch(20_000, SEND)
    ranks.all_reduce(500_000)


def another_task_on_each_rank(ranks: Ranks, bad: bool) -> None:
    """Rank 0 has convolutions, rank 1 has GEMMs, in more time."""
    for rank in ranks:
        for _ in range(10):
            rank.launch(1_000_000 + rank.number * 500_000, (CONVOLUTION, GEMM)[rank.number])
    ranks.all_reduce(500_000)


def other_kernels_for_the_same_math(ranks: Ranks, bad: bool) -> None:
    """Another GEMM is chosen on rank 1, as often, which takes longer."""
    for rank in ranks:
        for _ in range(10):
            rank.launch(1_500_000 if rank.number else 1_000_000, FLOAT32 if rank.number else GEMM)
            rank.launch(500_000, ELEMENTWISE)
    ranks.all_reduce(500_000)


@pytest.mark.parametrize(
    ("program", "ns"),
    [
        (stages_of_a_pipeline, "8.01 ms"),
        (another_task_on_each_rank, "5.00 ms"),
        (other_kernels_for_the_same_math, "5.00 ms"),
    ],
)
def test_different_work_by_design_is_not_called_extra(program: Program, ns: str) -> None:
    (item,) = (each for each in run(program, bad=True).findings if each.rule == "straggler")
    assert "no other rank runs" not in item.title + item.claim
    assert f"The other rank waits {ns} per step" in item.claim


def test_a_rank_that_waits_is_never_called_slow() -> None:
    """Rank 0 waits in collectives, so its kernels take longer and its CPU has nothing to do."""
    for program in (extra_products, slower_gpu, longer_products, slow_loader):
        for item in run(program, bad=True).findings:
            if item.rule == "straggler":
                assert "Rank 1 is the straggler" in item.title
                assert "rank 0" not in (item.title + item.claim).lower()


def test_the_table_of_differences_has_the_work_and_the_cpu_time_of_each_rank() -> None:
    ranks = Ranks()
    for _ in range(STEPS):
        extra_products(ranks, True)
        ranks.end_step()
    table = warpline.stats(ranks.trace(), "rank_differences")
    rows = {(row[0], row[1], row[2]): row[3:8] for row in table.rows()}
    # Eight GEMMs of 2.675 ms beside ten of 1 ms; each launch takes 6 us of the CPU.
    assert rows[1, "GPU busy", "gemm"] == (21_400_000, 31_400_000, 10_000_000, 18, 10)
    assert rows[0, "GPU busy", "gemm"] == (-21_400_000, 10_000_000, 31_400_000, 10, 18)
    assert rows[1, "CPU range", "step_* > data"] == (48_000, 54_000, 6_000, 1, 1)
    # Rank 0 waits in the all-reduce for the GEMMs and the 1.2 us between each two of them.
    assert rows[0, "GPU busy", "collective"][:2] == (21_409_600, 21_909_600)
    assert rows[0, "waiting", "for other ranks"] == (21_409_600, 21_409_600, 0, None, None)
    assert (1, "GPU busy", "elementwise") not in rows


def test_a_single_rank_has_no_differences() -> None:
    ranks = Ranks(1)
    for _ in range(STEPS):
        extra_products(ranks, False)
        ranks.end_step()
    with pytest.raises(MissingTableError, match="single rank"):
        warpline.stats(ranks.trace(), "rank_differences")


def hidden_products(ranks: Ranks, bad: bool) -> None:
    """Rank 1 runs GEMMs on a stream beside, while both copy results for longer."""
    for rank in ranks:
        layers(rank)
    ranks.all_reduce(500_000)
    for rank in ranks:
        for _ in range(4 if bad and rank.number == 1 else 0):
            rank.launch(1_000_000, FLOAT32, stream=1)
        rank.copy(300_000_000, pinned=True, to_host=True)
        rank.wait()


def test_work_on_one_rank_that_nobody_waits_for_saves_nothing() -> None:
    bad, fixed = run(hidden_products, bad=True), run(hidden_products, bad=False)
    assert abs(step_ns(bad) - step_ns(fixed)) < 50_000
    (item,) = judged(hidden_products, bad=True)
    assert item.title == "Rank 1 alone runs 4 FP32 GEMMs, 4.00 ms per step"
    assert item.share == pytest.approx(4_000_000 / step_ns(bad), rel=0.01)
    # It saves nothing, even at best: `analyze` leaves it out.
    for found in (bad, fixed):
        assert not {"straggler", "work-on-one-rank"} & {each.rule for each in found.findings}
    assert judged(hidden_products, bad=False) == []


def judged(program: Program, *, bad: bool) -> list[Finding]:
    """Return what the rule work-on-one-rank finds, without pricing."""
    ranks = Ranks()
    for _ in range(STEPS):
        program(ranks, bad)
        ranks.end_step()
    found = RULES.get(work_on_one_rank.NAME).judge(Run(ranks.trace()))
    assert not isinstance(found, Skipped)
    return list(found)


def test_work_that_others_wait_for_is_reported_once() -> None:
    rules = [item.rule for item in run(extra_products, bad=True).findings]
    assert "straggler" in rules
    assert "work-on-one-rank" not in rules


def pageable_copies_and_extra_products(ranks: Ranks, bad: bool) -> None:
    """All ranks copy pageable batches, which costs more than the four GEMMs of rank 1."""
    for rank in ranks:
        rank.copy(100_000_000, pinned=False)
        for _ in range(4 if rank.number == 1 else 0):
            rank.launch(1_000_000, FLOAT32)
        layers(rank)
    ranks.all_reduce(500_000)


def test_what_costs_all_ranks_more_precedes_a_late_rank() -> None:
    found = run(pageable_copies_and_extra_products, bad=True)
    rules = [item.rule for item in found.findings if item.saving_ns is not None]
    assert rules.index("pageable-copy") < rules.index("straggler")


def behind_from_the_start(ranks: Ranks, bad: bool) -> None:
    """Rank 1 starts 20 ms later. The CPUs of both limit them at the same pace, and never wait."""
    for rank in ranks:
        if rank.steps == 0 and rank.number == 1:
            rank.work(20_000_000)
        for _ in range(40):
            rank.work(100_000)
            rank.launch(20_000, GEMM)
    ranks.all_reduce(100_000)


def test_a_rank_that_is_only_behind_is_not_called_slow() -> None:
    (item,) = (
        each for each in run(behind_from_the_start, bad=True).findings if each.rule == "straggler"
    )
    assert item.title.startswith("Rank 1 runs behind: the other rank waits ")
    assert item.claim.startswith("Its CPU works about as long per step as that of the other rank")
    assert item.severity == "low"


def ranges_with_the_number_of_the_rank(ranks: Ranks, bad: bool) -> None:
    """Rank 1 pauses before its range, and all its work is in a range that no other rank has."""
    for rank in ranks:
        rank.work(5_000_000 if rank.number == 1 else 1_000)
        begun = rank.begin_range()
        for _ in range(20):
            rank.work(300_000)
            rank.launch(100_000, GEMM)
        rank.end_range(f"work of rank {rank.number}", begun)
    ranks.all_reduce(100_000)
    for rank in ranks:
        rank.wait()


def test_a_range_named_after_its_rank_is_not_additional_time() -> None:
    found = run(ranges_with_the_number_of_the_rank, bad=True)
    (item,) = (each for each in found.findings if each.rule == "straggler")
    assert item.title == (
        "Rank 1 is the straggler: its CPU takes 5.00 ms longer per step in CPU gaps without CUDA"
        " API calls"
    )


@pytest.mark.parametrize("program", [extra_products, slow_loader, slower_gpu])
@pytest.mark.parametrize(
    "without",
    [
        ["range"],
        ["api_call"],
        ["range", "api_call", "thread"],
        ["host_wait"],
        ["stream", "context"],
    ],
)
def test_the_late_rank_is_found_without_some_tables(program: Program, without: list[str]) -> None:
    ranks = Ranks()
    for _ in range(STEPS):
        program(ranks, True)
        ranks.end_step()
    found = warpline.analyze(ranks.trace(without))
    assert not [item for item in found.not_judged if item.is_failure]
    (item,) = (each for each in found.findings if each.rule == "straggler")
    assert item.title.startswith("Rank 1 is the straggler: ")
    has_host = "api_call" not in without
    is_explained = has_host or program is not slow_loader
    assert ("the other rank waits" not in item.title) == is_explained
