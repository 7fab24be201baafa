"""GEMMs of known sizes: their FLOP and bytes, and what the rules make of them."""

from __future__ import annotations

import pytest
from support.kernel_names import MISALIGNED, NVJET, SGEMM
from support.programs import Program

from warpline.analyses.findings.misaligned_gemm import misaligned_gemm
from warpline.analyses.findings.no_tensor_cores import no_tensor_cores
from warpline.derived.efficiency.efficient_work import efficient_work
from warpline.derived.efficiency.product_shapes import least_product_ns, product_shapes
from warpline.result import Skipped
from warpline.result.changes import SetDurations
from warpline.trace import Run, Trace

SQUARE = "[[4096, 4096], [4096, 4096]]"
FLOP = 2 * 4096**3  # 137 GFLOP: 138.9 us at 989.4 TFLOP/s, 277.8 us at 494.7


def launched(
    operator: str, shapes: str | None, *kernels: tuple[str, int], gpu: str = "NVIDIA H200"
) -> Trace:
    """Return a recording of one operator that launches kernels, given by name and duration."""
    program, now = Program(), 1_000
    program.operator(0, 100_000, operator, shapes)
    for name, ns in kernels:
        program.launch(now, now + 5_000, (now + 200_000, now + 200_000 + ns), name)
        now += 6_000 + ns
    return program.trace(gpu, compute_major=9)


@pytest.mark.parametrize(
    ("operator", "shapes", "flop", "elements"),
    [
        ("aten::mm", "[[2, 3], [3, 5]]", 60, 6 + 15 + 10),
        ("aten::addmm", "[[5], [2, 3], [3, 5], [], []]", 60, 31),
        ("aten::bmm", "[[7, 2, 3], [7, 3, 5]]", 420, 217),
        ("aten::baddbmm", "[[7, 2, 5], [7, 2, 3], [7, 3, 5]]", 420, 217),
        ("aten::mm", "[[2, 3], [4, 5]]", 0, 0),
        ("aten::mm", "[[2, 3], [3]]", 0, 0),
        ("aten::mm", '[[2, "x"], [3, 5]]', 0, 0),
        ("aten::mm", "[[2, 3], [3, -5]]", 0, 0),
        ("aten::mm", "{", 0, 0),
        ("aten::mm", '{"0": 1}', 0, 0),
        ("aten::mm", "[" * 5_000, 0, 0),
        ("aten::mm", None, 0, 0),
        ("aten::add", "[[2, 3], [3, 5]]", 0, 0),
    ],
)
def test_sizes(operator, shapes, flop, elements):
    sizes = product_shapes(launched(operator, shapes, (NVJET, 50_000)))
    assert (sizes.flop.tolist(), sizes.elements.tolist()) == ([flop], [elements])


def test_kernels_of_one_operator_share_its_flop():
    kernels = ((NVJET, 30_000), ("void cublasLt::splitKreduce_kernel<32>", 10_000))
    sizes = product_shapes(launched("aten::mm", "[[2, 3], [3, 5]]", *kernels))
    assert sizes.flop.tolist() == [45, 15]


def test_the_least_time_is_that_of_flop_or_bytes():
    large = launched("aten::mm", SQUARE, (NVJET, 200_000))
    assert least_product_ns(large) == pytest.approx([FLOP / 989.4e12 * 1e9])
    assert least_product_ns(large, "tf32") == pytest.approx([FLOP / 494.7e12 * 1e9], rel=1e-4)
    # A vector: 2^26 elements of 2 bytes at 4.32 TB/s.
    thin = launched("aten::mm", "[[1, 8192], [8192, 8192]]", (NVJET, 200_000))
    assert least_product_ns(thin) == pytest.approx([2 * (8192 * 8192 + 16_384) / 4.32e3])
    unknown = launched("aten::mm", SQUARE, (NVJET, 200_000), gpu="An unknown GPU")
    assert least_product_ns(unknown).tolist() == [0]


@pytest.mark.parametrize(("ns", "share"), [(347_000, 1), (348_000, 0)])
def test_slow_gemms_are_not_efficient(ns, share):
    """138.9 us are 0.4 of 347.2 us."""
    assert efficient_work(Run(launched("aten::mm", SQUARE, (NVJET, ns)))).share == share


def durations(found: object) -> tuple[int, int, int]:
    assert not isinstance(found, Skipped)
    (change,) = found[0].changes  # type: ignore[index]
    assert isinstance(change, SetDurations)
    (low,), (central,), (high,) = change.low_ns, change.central_ns, change.high_ns
    return int(low), int(central), int(high)


def test_prices_follow_from_shapes():
    misaligned = launched("aten::mm", SQUARE, (MISALIGNED, 1_000_000))
    expected = [round(FLOP / 989.4e3 / share) for share in (0.80, 0.70, 0.50)]
    assert durations(misaligned_gemm(Run(misaligned))) == pytest.approx(expected, abs=1)
    plain = launched("aten::mm", SQUARE, (SGEMM, 2_700_000))
    expected = [round(FLOP / 494.7e3 / share) for share in (0.80, 0.65, 0.45)]
    assert durations(no_tensor_cores(Run(plain))) == pytest.approx(expected, abs=1)
    # Never slower than now.
    fast = launched("aten::mm", SQUARE, (MISALIGNED, 180_000))
    assert durations(misaligned_gemm(Run(fast)))[1:] == (180_000, 180_000)
