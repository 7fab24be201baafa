"""Tables of library calls, on a trace small enough to count by hand."""

from __future__ import annotations

import json
from typing import Any

import pytest

from warpline import api
from warpline.derived.library_calls.gemms import parse
from warpline.hardware import peaks_of
from warpline.result import Skipped
from warpline.trace import MemorySource, Trace

H100 = "NVIDIA H100 80GB HBM3"
BF16 = {
    "transa": "T",
    "transb": "N",
    "m": 1024,
    "n": 512,
    "k": 256,
    "batch_count": 2,
    "type_a": "R_16BF",
    "type_b": "R_16BF",
    "type_c": "R_32F",
    "compute": "32F",
}
FLOP = 2 * 1024 * 512 * 256 * 2


def trace_of(arguments: list[str | None], device: str = H100) -> Trace:
    """Calls of 100 ns every 1000 ns, that with number i launching i kernels of 4000 ns."""
    count = len(arguments)
    launches = [(call, number) for call in range(count) for number in range(call)]
    starts = [call * 1000 + 10 + number for call, number in launches]
    return Trace(
        MemorySource(
            {
                "library_call": {
                    "start_ns": [call * 1000 for call in range(count)],
                    "end_ns": [call * 1000 + 100 for call in range(count)],
                    "process_id": [0] * count,
                    "thread_id": [0] * count,
                    "library": ["cuBLAS"] * count,
                    "name": ["cublasGemmEx" if text else "cublasCreate_v2" for text in arguments],
                    "arguments": arguments,
                    "return_value": [0] * count,
                },
                # The last one is of another thread, within no call of its own.
                "api_call": {
                    "start_ns": [*starts, 10],
                    "end_ns": [*(start + 1 for start in starts), 11],
                    "process_id": [0] * (len(starts) + 1),
                    "thread_id": [*([0] * len(starts)), 1],
                    "correlation_id": list(range(len(starts) + 1)),
                    "name": ["cudaLaunchKernel"] * (len(starts) + 1),
                    "return_value": [0] * (len(starts) + 1),
                },
                "kernel": {
                    "start_ns": [100_000 + 4000 * row for row in range(len(starts) + 1)],
                    "end_ns": [104_000 + 4000 * row for row in range(len(starts) + 1)],
                    "process_id": [0] * (len(starts) + 1),
                    "device_id": [0] * (len(starts) + 1),
                    "correlation_id": list(range(len(starts) + 1)),
                    "name": ["gemm"] * (len(starts) + 1),
                    "short_name": ["gemm"] * (len(starts) + 1),
                },
                "device": {"name": [device]},
                "process": {"pid": [7], "name": ["program"]},
                "thread": {"process_id": [0, 0], "tid": [7, 8], "name": ["main", None]},
            }
        )
    )


def rows(trace: Trace, name: str) -> list[dict[str, Any]]:
    result = api.stats(trace, name)
    names = [field.name for field in result.fields]
    return [dict(zip(names, row, strict=True)) for row in result.rows()]


def test_functions_have_their_kernels() -> None:
    gemm, create = rows(trace_of([None, json.dumps(BF16), json.dumps(BF16)]), "library_call_sum")
    assert (gemm["library"], gemm["name"], gemm["calls"]) == ("cuBLAS", "cublasGemmEx", 2)
    assert (gemm["total_ns"], gemm["kernels"], gemm["gpu_ns"]) == (200, 3, 12_000)
    assert (create["name"], create["kernels"], create["gpu_ns"]) == ("cublasCreate_v2", 0, 0)


def test_calls_in_order() -> None:
    first, second = rows(trace_of([None, json.dumps(BF16)]), "library_call_trace")
    assert (first["name"], first["arguments"], first["kernels"]) == ("cublasCreate_v2", None, 0)
    assert json.loads(second["arguments"]) == BF16
    assert (second["start_ns"], second["duration_ns"], second["gpu_ns"]) == (1000, 100, 4000)
    assert (second["pid"], second["tid"], second["thread_name"]) == (7, 7, "main")


def test_gemms_by_shape_with_their_rate_and_share_of_the_peak() -> None:
    other = json.dumps({**BF16, "m": 8})
    large, small = rows(trace_of([other, json.dumps(BF16), json.dumps(BF16)]), "gemm_sum")
    assert [large[name] for name in ("m", "n", "k", "batch")] == [1024, 512, 256, 2]
    assert [large[name] for name in ("transposed", "types", "output", "compute")] == [
        *("TN", "BF16", "FP32", "BF16")
    ]
    assert (large["calls"], large["gpu_ns"], large["flop"]) == (2, 12_000, 2 * FLOP)
    assert large["flop_per_s"] == pytest.approx(2 * FLOP / 12e-6)
    peaks = peaks_of(H100)
    assert peaks is not None
    assert peaks.half_flop_per_s is not None
    assert large["peak_ratio"] == pytest.approx(2 * FLOP / 12e-6 / peaks.half_flop_per_s)
    # As in a CUDA graph: it launched nothing.
    assert (small["m"], small["calls"]) == (8, 1)
    assert (small["flop_per_s"], small["peak_ratio"]) == (None, None)


def test_unknown_gpus_have_no_peak() -> None:
    (row,) = rows(trace_of([None, json.dumps(BF16)], device="Some GPU"), "gemm_sum")
    assert row["flop_per_s"] == pytest.approx(FLOP / 4e-6)
    assert row["peak_ratio"] is None


def test_without_arguments_it_says_how_to_get_them() -> None:
    outcome = api.run(trace_of([None, '{"m": 1}', "[]", "no json"]), "gemm_sum")
    assert isinstance(outcome, Skipped)
    assert "cublas-verbose" in str(outcome.hint)


@pytest.mark.parametrize(
    ("types", "compute", "math", "expected", "peak"),
    [
        ("R_32F", "32F", None, "FP32", "fp32"),
        ("R_32F", "32F", "TF32", "TF32", "tf32"),
        ("R_32F", "32F_FAST_TF32", None, "TF32", "tf32"),
        ("R_32F", "32F_FAST_16BF", None, "BF16", "half"),
        ("R_32F", "32F_PEDANTIC", "TF32", "32F_PEDANTIC", "fp32"),
        ("R_16F", "16F", None, "FP16", "half"),
        ("R_8F_E4M3", "32F", None, "FP8 E4M3", "fp8"),
        ("R_64F", "64F", None, "FP64", None),
        ("C_32F", "32F", "TF32", "TF32", "tf32"),
    ],
)
def test_types_and_their_peaks(
    types: str, compute: str, math: str | None, expected: str, peak: str | None
) -> None:
    given = {"m": 2, "n": 3, "k": 5, "type_a": types, "type_b": types, "compute": compute}
    found = parse(json.dumps(given | ({"math": math} if math else {})))
    peaks = peaks_of(H100)
    assert found is not None
    assert peaks is not None
    assert found.compute == expected
    assert found.peak(peaks) == (None if peak is None else getattr(peaks, f"{peak}_flop_per_s"))
    assert found.flop == 2 * 2 * 3 * 5 * (4 if types == "C_32F" else 1)
