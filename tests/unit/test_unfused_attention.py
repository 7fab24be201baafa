"""unfused-attention: which kernels it takes for attention, and what a fused kernel should take."""

from __future__ import annotations

from support.kernel_names import (
    ALIGNED,
    BF16,
    NVJET,
    SOFTMAX_BLOCK,
    binary,
    copy,
    softmax_warp,
    strided,
    unary,
    vectorized,
)
from support.machine import Machine

import warpline
from warpline.analyses.findings import unfused_attention as rule
from warpline.derived.efficiency.attention import attention_groups, copies_beside_attention
from warpline.result import Finding, Skipped
from warpline.result.changes import DropOperations, SetDurations
from warpline.trace import Run, Trace

ROWS, COLUMNS, HEAD = 96 * 1024, 1024, 64  # 8 sequences, 12 heads
SCORES = ROWS * COLUMNS
PER_BLOCK = 128 * 8  # elements of a block of vectorized kernels in BF16


def judged(trace: Trace) -> list[Finding]:
    found = rule.unfused_attention(Run(trace))
    return [] if isinstance(found, Skipped) else list(found)


def softmax_of_rows(machine: Machine, name: str, stream: int = 0) -> None:
    """Launch a softmax kernel with four rows in each block."""
    machine.launch(700_000, name, stream, grid=(ROWS // 4,), block=(32, 4))


def attention(machine: Machine, softmax: str = softmax_warp(10), mask: bool = False) -> None:
    """Launch the kernels of attention in pieces: 2.4 ms; the softmax is the fourth."""
    machine.launch(100_000, strided(copy(BF16)), grid=(ROWS * HEAD // 512,), block=(128,))
    machine.launch(500_000, NVJET, grid=(2, 66), block=(384,))
    scale = vectorized(binary(BF16, "Add") if mask else unary(BF16), 3 if mask else 2)
    machine.launch(600_000, scale, grid=(SCORES // PER_BLOCK,), block=(128,))
    softmax_of_rows(machine, softmax)
    machine.launch(500_000, NVJET, grid=(2, 66), block=(384,))


def recorded(softmax: str = softmax_warp(10), *, steps: int = 5, mask: bool = False) -> Trace:
    machine = Machine()
    for _ in range(steps):
        attention(machine, softmax, mask)
        machine.launch(1_000_000, "linear_gemm_" + NVJET)
        machine.wait()
        machine.end_step()
    return machine.trace(compute_major=9)


def test_the_kernels_between_two_gemms_are_a_group():
    trace = recorded()
    groups = attention_groups(trace)
    assert len(groups) == 5
    assert set(groups.rows.tolist()) == {ROWS}
    assert set(groups.columns.tolist()) == set(groups.least_columns.tolist()) == {COLUMNS}
    assert set(groups.head_dim.tolist()) == {HEAD}
    assert not groups.is_masked.any()
    assert (groups.last - groups.first == 3).all()
    assert len(copies_beside_attention(trace)) == 5


def test_the_price_is_that_of_the_flop():
    """4 x 96 Ki x 1024 x 64 FLOP are 25.8 GFLOP: 62 us at 0.42 of 989.4 TFLOP/s."""
    (found,) = judged(recorded())
    fused = found.changes[0]
    assert isinstance(fused, SetDurations)
    flop = 4 * SCORES * HEAD
    assert flop == 25_769_803_776
    assert set(fused.central_ns.tolist()) == {62_014}
    assert set(fused.high_ns.tolist()) == {118_390}  # at 0.22, without a causal mask
    # Causal at 0.63: half of the FLOP at 0.8 of the speed.
    assert set(fused.low_ns.tolist()) == {25_839}
    dropped, copies = found.changes[1:]
    assert isinstance(dropped, DropOperations)
    assert isinstance(copies, DropOperations)
    assert len(dropped.operations) == 15
    assert (len(copies.operations), tuple(copies.remaining)) == (5, (0, 0, 1))
    assert "98,304 rows and 1,024 columns, with heads of 64 elements" in found.claim


def test_the_saving_is_what_a_fused_kernel_saves():
    found = warpline.analyze(recorded(steps=14))
    first = found.findings[0]
    assert first.rule == "unfused-attention"
    assert first.severity == "high"
    # 2.4 ms and four gaps of 1.2 us become 62 us.
    assert abs((first.saving_ns or 0) - (2_400_000 + 4 * 1_200 - 62_014)) < 10_000


def test_a_mask_may_be_causal():
    trace = recorded(mask=True)
    assert attention_groups(trace).is_masked.all()
    (found,) = judged(trace)
    fused = found.changes[0]
    assert isinstance(fused, SetDurations)
    assert set(fused.central_ns.tolist()) == {43_410}
    assert "if the mask is causal" in found.claim


def test_backward_needs_two_gemms_on_both_sides():
    def recording(gemms: int) -> Trace:
        machine = Machine()
        for _ in range(gemms):
            machine.launch(300_000, NVJET)
        softmax_of_rows(machine, softmax_warp(10, backward=True))
        machine.launch(600_000, vectorized(unary(BF16), 2), grid=(SCORES // PER_BLOCK,))
        for _ in range(gemms):
            machine.launch(300_000, NVJET)
        return machine.trace(compute_major=9)

    assert len(attention_groups(recording(1))) == 0
    groups = attention_groups(recording(2))
    assert groups.is_backward.tolist() == [True]
    assert (groups.first.tolist(), groups.last.tolist()) == ([0], [5])
    # Blocks without recorded threads have no elements: a power of two and half of it.
    assert (groups.columns.tolist(), groups.least_columns.tolist()) == ([1024], [512])


def test_other_tensors_do_not_give_the_columns():
    """The softmax kernel has 513 to 1,024 columns; whole rows of those are counted exactly."""

    def columns(elements: int) -> tuple[int, int]:
        machine = Machine()
        machine.launch(500_000, NVJET)
        machine.launch(100_000, vectorized(unary(BF16), 2), grid=(elements // 1024,), block=(128,))
        softmax_of_rows(machine, softmax_warp(10))
        machine.launch(500_000, NVJET)
        groups = attention_groups(machine.trace())
        return int(groups.columns[0]), int(groups.least_columns[0])

    assert columns(ROWS * 640) == (640, 640)
    assert columns(ROWS * 256) == (1024, 512)
    assert columns(ROWS * 640 + ROWS // 2) == (1024, 512)


def test_keys_are_as_many_as_queries_if_tiles_fit():
    """As recorded on an H100: 16 heads of 5,185 queries; 128 x 256 tiles in 328 x 3 x 16 blocks."""

    def recording(tiles: int, rows: int = 82_960) -> Trace:
        machine = Machine()
        name = ALIGNED.replace("128x128", "256x128")
        machine.launch(1_000_000, name, grid=(tiles, 3, 16), block=(256,))
        machine.launch(2_000_000, SOFTMAX_BLOCK, grid=(rows,), block=(1024,))
        machine.launch(800_000, ALIGNED, grid=(41, 1, 16), block=(128,))
        return machine.trace()

    groups = attention_groups(recording(328))
    assert (groups.rows.tolist(), groups.columns.tolist()) == ([82_960], [5_185])
    assert len(attention_groups(recording(328, rows=82_961))) == 0  # no multiple of 16
    assert len(attention_groups(recording(200))) == 0  # fewer than the scores need
    assert len(attention_groups(recording(700))) == 0  # more than twice as many


def test_what_is_no_attention():
    loss = recorded(softmax_warp(10, log=True))
    assert len(attention_groups(loss)) == 0
    assert judged(loss) == []
    narrow = recorded(softmax_warp(6))  # 64 columns, as of experts
    assert len(attention_groups(narrow)) == 0
    machine = Machine()
    machine.launch(500_000, NVJET)
    softmax_of_rows(machine, softmax_warp(10))
    machine.launch(100_000, "void at::native::reduce_kernel<512, 1, Sum>")
    machine.launch(500_000, NVJET)
    softmax_of_rows(machine, softmax_warp(10), stream=1)
    assert len(attention_groups(machine.trace())) == 0


def test_a_fused_kernel_is_no_problem():
    machine = Machine()
    for _ in range(5):
        machine.launch(500_000, NVJET)
        machine.launch(62_000, "void flash::flash_fwd_kernel<Flash_fwd_kernel_traits<128>>")
        machine.launch(500_000, NVJET)
        machine.wait()
        machine.end_step()
    assert judged(machine.trace()) == []


def test_an_unknown_gpu_has_no_price():
    machine = Machine()
    attention(machine)
    (found,) = judged(machine.trace("An unknown GPU"))
    assert found.changes == ()


def test_gemms_of_other_streams_do_not_count():
    machine = Machine()
    machine.launch(500_000, NVJET)
    softmax_of_rows(machine, softmax_warp(10))
    machine.launch(500_000, NVJET, stream=1)
    assert len(attention_groups(machine.trace())) == 0


def fused_ns(trace: Trace) -> tuple[int, int, int]:
    (found,) = judged(trace)
    fused = found.changes[0]
    assert isinstance(fused, SetDurations)
    return int(fused.low_ns[0]), int(fused.central_ns[0]), int(fused.high_ns[0])


def in_pieces(backward: bool, rows: int = ROWS, gpu: str = "NVIDIA H200", major: int = 9) -> Trace:
    """Return a recording of attention with rows of up to 1,024 elements and unknown heads."""
    machine = Machine()
    gemms = 2 if backward else 1
    for _ in range(gemms):
        machine.launch(300_000, NVJET)
    machine.launch(600_000, vectorized(unary(BF16), 2), grid=(rows,), block=(128,))
    name = softmax_warp(10, backward=backward)
    machine.launch(700_000, name, grid=(rows // 4,), block=(32, 4))
    for _ in range(gemms):
        machine.launch(300_000, NVJET)
    return machine.trace(gpu, compute_major=major)


def test_backward_takes_ten_flop_per_score_and_element():
    """Heads of 64, 90, and 128 elements."""
    low, central, high = fused_ns(in_pieces(backward=True))
    assert low == round(10 * SCORES * 64 * 0.625 / (0.55 * 989.4e3))
    assert central == round(10 * SCORES * 90 / (0.35 * 989.4e3))
    assert high == round(10 * SCORES * 128 / (0.20 * 989.4e3))


def test_ampere_reaches_more_of_its_peak():
    gpu = "NVIDIA A100-SXM4-80GB"
    low, central, high = fused_ns(in_pieces(backward=False, gpu=gpu, major=8))
    assert low == round(4 * SCORES * 64 * 0.625 / (0.73 * 312e3))
    assert central == round(4 * SCORES * 90 / (0.60 * 312e3))
    assert high == round(4 * SCORES * 128 / (0.40 * 312e3))
    low, central, high = fused_ns(in_pieces(backward=True, gpu=gpu, major=8))
    assert low == round(10 * SCORES * 64 * 0.625 / (0.63 * 312e3))
    assert (central, high) == (
        round(10 * SCORES * 90 / (0.50 * 312e3)),
        round(10 * SCORES * 128 / (0.30 * 312e3)),
    )


def test_a_fused_kernel_also_takes_time_to_start():
    assert fused_ns(in_pieces(backward=False, rows=1024)) == (4_000, 4_000, 4_000)
