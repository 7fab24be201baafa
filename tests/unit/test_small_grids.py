"""small-grids: which kernels have too few blocks, and how much could be saved at best."""

from __future__ import annotations

import pytest
from support.machine import Machine

import warpline
from warpline.analyses.findings.small_grids import small_grids_rule
from warpline.result import Finding, Skipped
from warpline.result.changes import SetDurations
from warpline.trace import Run, Trace

SMS = 132


def judged(trace: Trace) -> list[Finding]:
    found = small_grids_rule(Run(trace))
    return [] if isinstance(found, Skipped) else list(found)


def recorded(
    *,
    name: str = "my_gemm",
    blocks: int = 33,
    threads: int = 128,
    launches: int = 8,
    ns: int = 50_000,
    sms: int = SMS,
) -> Trace:
    machine = Machine()
    for _ in range(14):
        for _ in range(launches):
            machine.launch(ns, name, grid=(blocks, 1, 1), block=(threads,))
        machine.launch(100_000, "large", grid=(4096,), block=(128,))
        machine.wait()
        machine.end_step()
    return machine.trace(sm_count=sms)


@pytest.mark.parametrize(
    ("blocks", "launches", "ratio"),
    [
        (33, 8, 33 / SMS),  # four kernels fill the GPU
        (33, 2, 1 / 2),  # there are only two
        (1, 200, 1 / 132),
    ],
)
def test_at_best_all_launches_run_at_once(blocks, launches, ratio):
    (found,) = judged(recorded(blocks=blocks, launches=launches))
    (change,) = found.changes
    assert isinstance(change, SetDurations)
    assert len(change.operations) == 13 * launches  # of the included steps
    assert set(change.low_ns.tolist()) == {round(50_000 * ratio)}
    assert set(change.central_ns.tolist()) == set(change.high_ns.tolist()) == {50_000}


def test_the_saving_has_an_upper_bound_only():
    found = next(
        item for item in warpline.analyze(recorded()).findings if item.rule == "small-grids"
    )
    assert found.severity == "low"
    assert found.saving_ns == 0
    # 8 x 50 us to 8 x 12.5 us, on a GPU that is up to 5% faster.
    assert found.saving_high_ns == pytest.approx(300_000, rel=0.15)
    assert "8 kernels per step" in found.claim


def test_long_kernels_are_divided_among_all_sms():
    """Once per step, 400 us on 33 of 132 SMs: 100 us on all, 25 us with four blocks on each."""
    (found,) = judged(recorded(launches=1, ns=400_000))
    (change,) = found.changes
    assert isinstance(change, SetDurations)
    assert set(change.low_ns.tolist()) == {25_000}
    assert set(change.central_ns.tolist()) == {100_000}
    assert set(change.high_ns.tolist()) == {400_000}
    assert "Divided among more blocks" in found.claim
    assert "split-K" in found.fix
    diagnosis = warpline.analyze(recorded(launches=1, ns=400_000))
    assert diagnosis.findings[0].rule == "small-grids"
    assert diagnosis.findings[0].severity == "medium"
    assert judged(recorded(launches=1, ns=400_000, blocks=34)) == []  # more than a quarter
    assert judged(recorded(launches=1, ns=99_999)) == []


def test_few_warps_that_dominate_a_step_have_a_saving() -> None:
    """As in llama.cpp's former sums of rows: 30 kernels of 8 blocks with one warp, 54 us each."""

    def sums(ns: int, threads: int) -> Trace:
        machine = Machine()
        for _ in range(14):
            for _ in range(30):
                machine.launch(8_400, "square(float const*, float*)", grid=(256,), block=(256,))
                machine.launch(ns, "mean", grid=(8,), block=(threads,))
                machine.launch(8_600, "correct", grid=(256,), block=(256,))
            machine.end_step()
        return machine.trace(sm_count=SMS)

    trace, wide = sums(54_000, 32), sums(4_000, 512)
    assert judged(wide) == []
    (found,) = judged(trace)
    (change,) = found.changes
    assert isinstance(change, SetDurations)
    # 54 us x 8 / 132 SMs; with four blocks on each, less than the shortest kernel.
    assert set(change.central_ns.tolist()) == {3_273}
    assert set(change.low_ns.tolist()) == {1_000}
    assert set(change.high_ns.tolist()) == {54_000}
    assert "one or two warps per block" in found.claim
    assert "128 to 512 threads" in found.fix
    assert "128 to 512 threads" in found.fix_cuda
    first = warpline.analyze(trace).findings[0]
    assert (first.rule, first.severity) == ("small-grids", "medium")
    before, after = (warpline.analyze(each).steps.median_ns for each in (trace, wide))
    assert before is not None
    assert after is not None
    assert first.saving_ns == pytest.approx(before - after, rel=0.05)
    assert first.saving_low_ns == 0


@pytest.mark.parametrize(
    ("threads", "ns", "is_divided"),
    [(64, 20_000, True), (65, 20_000, False), (64, 19_999, False), (65, 100_000, True)],
)
def test_narrow_blocks_count_as_long_earlier(threads: int, ns: int, is_divided: bool) -> None:
    (found,) = judged(recorded(threads=threads, ns=ns))
    (change,) = found.changes
    assert isinstance(change, SetDurations)
    assert set(change.central_ns.tolist()) == {ns // 4 if is_divided else ns}
    assert found.most_severe == ("medium" if is_divided else "low")
    assert ("two warps" in found.claim) == (is_divided and threads <= 64)


def test_what_is_not_small():
    assert judged(recorded(blocks=66)) == []
    assert judged(recorded(blocks=0)) == []  # not recorded
    assert judged(recorded(sms=0)) == []  # not recorded
    assert judged(recorded(launches=1)) == []
    assert judged(recorded(ns=9_999)) == []
    assert judged(recorded(name="nvjet_sm90_tst_128x64_64x4_2x1_v_bz_NNT")) == []
    assert judged(recorded(name="ncclDevKernel_AllReduce_Sum_f32_RING_LL")) == []


@pytest.mark.parametrize("is_first", [True, False])
def test_overlapped_kernels_do_not_count(is_first):
    """A large kernel begins before or after each small one, and ends after it."""
    machine = Machine()
    for _ in range(14):
        for _ in range(4):
            for is_small in (is_first, not is_first):
                if is_small:
                    machine.launch(50_000, "my_gemm", 0, grid=(33,), block=(128,))
                else:
                    machine.launch(90_000, "large", 1, grid=(4096,), block=(128,))
            machine.wait(0)
            machine.wait(1)
        machine.end_step()
    assert judged(machine.trace(sm_count=SMS)) == []
