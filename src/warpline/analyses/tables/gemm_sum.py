"""gemm_sum: GEMM calls by shape and types, and how near they come to the GPU's peak."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from warpline.derived.library_calls.gemms import Gemm, gemm_calls
from warpline.derived.library_calls.launched import NO_DEVICE, launched_kernels
from warpline.derived.texts import labelled
from warpline.derived.work.device_peaks import device_peaks
from warpline.ops.group import factorize_rows, group_sums
from warpline.result import Arguments, Field, Numbers, Result, Skipped, Values, analysis
from warpline.trace import Trace
from warpline.units import Unit

NAME = "gemm_sum"
TITLE = "GEMM summary"
HINT = "profile with --trace=cuda,cublas-verbose"
FIELDS = (
    Field("time_ratio", Unit.RATIO, "Share of the GPU time of all GEMMs.", "Time (%)", 100.0, 1),
    Field("gpu_ns", Unit.NS, "Time of the kernels launched in the calls.", "GPU Time (ns)"),
    Field("calls", Unit.COUNT, "Number of calls.", "Num Calls"),
    Field("m", Unit.NONE, "Rows of A and C.", "m"),
    Field("n", Unit.NONE, "Columns of B and C.", "n"),
    Field("k", Unit.NONE, "Columns of A and rows of B.", "k"),
    Field("batch", Unit.NONE, "GEMMs per call.", "Batch"),
    Field("transposed", Unit.NONE, "N, T or C for A and B, as in cuBLAS.", "Op"),
    Field("types", Unit.NONE, "Types of A and B.", "Types"),
    Field("output", Unit.NONE, "Type of C.", "Output"),
    Field("compute", Unit.NONE, "Type in which products are computed.", "Compute"),
    Field("flop", Unit.NONE, "Floating-point operations of all calls.", "GFLOP", 1e-9, 3),
    Field(
        "flop_per_s",
        Unit.NONE,
        "FLOP per second of GPU time.",
        "TFLOP/s",
        1e-12,
        1,
    ),
    Field(
        "peak_ratio", Unit.RATIO, "Share of the GPU's peak for these types.", "Peak (%)", 100.0, 1
    ),
)


class _Sums(NamedTuple):
    """Sums over the calls of one GEMM on GPUs of one model."""

    gemm: Gemm
    peak: int | None
    calls: int
    launching: int
    gpu_ns: int


@analysis(
    name=NAME,
    title=TITLE,
    fields=FIELDS,
    needs=("library_call",),
    missing_hint=HINT,
)
def gemm_sum(trace: Trace, arguments: Arguments) -> Result | Skipped:
    """GEMM calls of cuBLAS, by shape and types.

    What it measures: For each shape, transposition and type: the calls, the GPU time of the
        kernels launched in them, their FLOP, FLOP per second and share of the GPU's peak.
    Why it matters: A shape far below the peak is too small, badly aligned, or computed without
        Tensor Cores: pad or batch it, change its type, or fuse it with others.
    How it is computed: A call has 2 m n k FLOP per GEMM of the batch, four times as many if
        complex. FLOP per second are those of the calls that launched kernels, divided by the
        time of these kernels. The peak is that of the data sheet for the type, without sparsity:
        TF32, BF16, FP16 and FP8 on Tensor Cores, FP32 without. Largest GPU time first.
    Limits: Shapes are those of cuBLAS, whose matrices are column-major: PyTorch's row-major
        a @ b shows as b^T a^T, with m and n swapped. Calls captured in a CUDA graph launch
        nothing themselves: they count, without time. FP64 and INT8 have no peak here. GEMMs of
        other libraries, such as CUTLASS and Triton, and batches of pointers of several sizes are
        not listed.
    Source: Warpline. Peaks are those of the vendor's data sheets.
    """
    found = gemm_calls(trace)
    if not len(found.row):
        return Skipped(NAME, "no arguments of GEMMs were recorded", HINT)
    sums = sorted(_sums(trace), key=lambda sums: (-sums.gpu_ns, -sums.calls, sums.gemm))
    whole = max(sum(each.gpu_ns for each in sums), 1)
    gemms, rates = [each.gemm for each in sums], [_rate(each) for each in sums]
    shares = [
        None if rate is None or not each.peak else min(rate / each.peak, 1.0)
        for each, rate in zip(sums, rates, strict=True)
    ]
    texts = ("transposed", "types", "output", "compute")
    order = np.arange(len(sums))
    values: dict[str, Values] = {
        "time_ratio": Numbers(np.array([each.gpu_ns / whole for each in sums])),
        "gpu_ns": Numbers(np.array([each.gpu_ns for each in sums], np.int64)),
        "calls": Numbers(np.array([each.calls for each in sums], np.int64)),
        **{
            name: Numbers(np.array([getattr(gemm, name) for gemm in gemms], np.int64))
            for name in ("m", "n", "k", "batch")
        },
        **{name: labelled(order, [getattr(gemm, name) for gemm in gemms]) for name in texts},
        "flop": Numbers(np.array([float(each.gemm.flop * each.calls) for each in sums])),
        "flop_per_s": _known(rates),
        "peak_ratio": _known(shares),
    }
    return Result(NAME, TITLE, FIELDS, values, ("m", "n", "k", "batch", *texts))


def _sums(trace: Trace) -> list[_Sums]:
    """Return the sums by GEMM and peak."""
    found, launched = gemm_calls(trace), launched_kernels(trace)
    device = launched.device[found.row]
    groups = factorize_rows(found.gemm, device)
    calls = np.bincount(groups.codes, minlength=groups.n_groups)
    launching = group_sums(
        groups.codes, (launched.kernels[found.row] > 0).astype(np.int64), groups.n_groups
    )
    gpu_ns = group_sums(groups.codes, launched.gpu_ns[found.row], groups.n_groups)
    by_gemm: dict[Gemm, _Sums] = {}
    for number, first in enumerate(groups.first.tolist()):
        gemm = found.gemms[int(found.gemm[first])]
        peak = _peak(trace, gemm, int(device[first]))
        own = _Sums(gemm, peak, int(calls[number]), int(launching[number]), int(gpu_ns[number]))
        by_gemm[gemm] = _joined(by_gemm[gemm], own) if gemm in by_gemm else own
    return list(by_gemm.values())


def _joined(a: _Sums, b: _Sums) -> _Sums:
    """Return the sums of two GPUs, or of calls with and without kernels."""
    peaks = {each.peak for each in (a, b) if each.launching}
    return _Sums(
        a.gemm,
        peaks.pop() if len(peaks) == 1 else None,
        a.calls + b.calls,
        a.launching + b.launching,
        a.gpu_ns + b.gpu_ns,
    )


def _peak(trace: Trace, gemm: Gemm, device: int) -> int | None:
    if device == NO_DEVICE:
        return None
    peaks = device_peaks(trace, device)
    return None if peaks is None else gemm.peak(peaks)


def _rate(sums: _Sums) -> float | None:
    if not sums.gpu_ns:
        return None
    return sums.gemm.flop * sums.launching / (sums.gpu_ns / 1e9)


def _known(values: list[float | None]) -> Numbers:
    return Numbers(
        np.array([0.0 if value is None else value for value in values]),
        np.array([value is not None for value in values], np.bool_),
    )
