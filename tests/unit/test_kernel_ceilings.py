"""Ceilings of predictions: chosen ones, and those that `warpline bench` measured."""

from __future__ import annotations

import pytest
from support.kernel_counters import IDLE, OF_PEAK, trace

from warpline.derived.kernel_limits.ceilings import (
    CHOSEN,
    calibrated,
    ceilings_of,
    gpu_names,
)
from warpline.derived.kernel_limits.resources import PLACE
from warpline.documents.kernel_filters import Choice
from warpline.documents.kernel_findings import kernel_findings
from warpline.hardware import Peaks, peaks_of
from warpline.hardware.measured import MeasuredCeilings, saved_file

GPU = "NVIDIA H100 80GB HBM3"


def peaks() -> Peaks:
    found = peaks_of(GPU)
    assert found is not None
    return found


def measured(dram: float = 0, gpu: str = GPU, **shares: float) -> MeasuredCeilings:
    """Return results as shares of the peaks: of DRAM, and of GEMMs by type."""
    of = {"bf16": peaks().half_flop_per_s, "tf32": peaks().tf32_flop_per_s, "fp32": 67e12}
    flop = {dtype: share * (of[dtype] or 0) for dtype, share in shares.items()}
    copies = {"d2d": dram * peaks().memory_bytes_per_s / 2} if dram else {}
    return MeasuredCeilings(gpu, "GPU-1", flop, copies, {})


def test_a_copy_is_what_a_good_kernel_reaches() -> None:
    found = calibrated(measured(dram=0.8), peaks())
    dram = found.of_resources["dram"]
    assert (dram.best, dram.likely) == pytest.approx((0.93, 0.8))
    assert dram.poor == pytest.approx(0.8 * 0.75 / 0.88)
    assert calibrated(measured(dram=0.95), peaks()).of_resources["dram"].best == pytest.approx(0.95)
    assert found.of_resources["tensor"] == CHOSEN.of_resources["tensor"]
    assert found.source == f"measured on {GPU}"


def test_the_best_gemm_is_the_ceiling_of_tensor_cores() -> None:
    tensor = calibrated(measured(bf16=0.72, tf32=0.6), peaks()).of_resources["tensor"]
    assert tensor.best == pytest.approx(0.72)
    assert tensor.likely == pytest.approx(0.72 * 0.35 / 0.9)


def test_results_far_below_the_peak_are_no_ceilings() -> None:
    assert calibrated(measured(dram=0.3, bf16=0.1), peaks()) is CHOSEN
    assert calibrated(measured(fp32=0.8), peaks()) is CHOSEN, "SGEMM does not bound the FMA pipe"


def test_only_results_of_the_same_model_count() -> None:
    counted = trace([IDLE])
    assert gpu_names(counted) == [GPU]
    of_this, of_other = measured(dram=0.8), measured(dram=0.8, gpu="NVIDIA A100-SXM4-80GB")
    assert ceilings_of(counted, [of_other]) is CHOSEN
    assert ceilings_of(counted, []) is CHOSEN
    assert ceilings_of(counted, [of_other, of_this]).likely()[PLACE["dram"]] == pytest.approx(0.8)
    assert ceilings_of(trace([IDLE], gpu="Another GPU"), [of_this]) is CHOSEN


def test_a_kernel_at_the_measured_ceiling_is_at_its_roof() -> None:
    counted = trace([IDLE | {f"gpu__dram_throughput.{OF_PEAK}": 73.0}])

    def rules(of: MeasuredCeilings) -> list[str]:
        (findings,) = kernel_findings(counted, Choice(), measured=[of])
        return [item.rule for item in findings]

    assert "at-its-roof" not in rules(measured())
    assert "at-its-roof" in rules(measured(dram=0.8))


def test_where_results_are_kept() -> None:
    name = "warpline/ceilings/nvidia-h100-80gb-hbm3.gemm.json"

    def kept(**environ: str) -> str:
        return str(saved_file(environ, GPU, "gemm"))

    assert kept(XDG_DATA_HOME="/data", HOME="/home/u") == f"/data/{name}"
    assert kept(HOME="/home/u") == f"/home/u/.local/share/{name}"
    assert kept(XDG_DATA_HOME="relative", HOME="/home/u") == f"/home/u/.local/share/{name}"
    assert kept() == "None"
