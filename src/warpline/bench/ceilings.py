"""Rows of a benchmark beside the data sheet of the GPU, and what follows from them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from warpline.bench.gemms import flop
from warpline.hardware import Peaks, peaks_of
from warpline.units import format_ns, format_ratio

Row = Mapping[str, Any]

COLUMNS: Mapping[str, Sequence[str]] = {
    "gemm": (
        *("dtype", "m", "n", "k", "flop_per_s", "share_of_peak", "gpu_ns", "launch_ns"),
        *("idle_ratio", "sm_clock_hz"),
    ),
    "copy": ("kind", "peer", "is_direct", "bytes", "bytes_per_s", "limit", "share_of_peak"),
    "launch": ("mode", "kernels", "launch_ns", "kernel_ns"),
}
_MEASURED = ("spread_ratio", "batches", "batch_calls", "reason")
# FP64 has no peak here: cuBLAS uses Tensor Cores for it, which data files do not have.
_PEAKS = {
    "fp32": "fp32_flop_per_s",
    "tf32": "tf32_flop_per_s",
    "fp16": "half_flop_per_s",
    "bf16": "half_flop_per_s",
    "fp8": "fp8_flop_per_s",
}
# A copy of fewer bytes than this many L2 caches is cached in part: its rate is not DRAM's.
_CACHES = 2


def complete(benchmark: str, rows: Sequence[Row], gpu: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the rows with all columns of the benchmark, missing values as None.

    Args:
        benchmark: ``gemm``, ``copy`` or ``launch``.
        rows: Rows that were measured.
        gpu: Facts about the GPU: ``name`` and ``l2_bytes``.
    """
    peaks = peaks_of(gpu["name"])
    made = []
    for row in rows:
        every: dict[str, Any] = dict.fromkeys((*COLUMNS[benchmark], *_MEASURED))
        every.update(row)
        if benchmark == "gemm":
            every["share_of_peak"] = _gemm_share(every, peaks)
            every["idle_ratio"] = _idle_ratio(every)
        elif benchmark == "copy":
            every["limit"], every["share_of_peak"] = _copy_share(every, peaks, gpu["l2_bytes"])
        made.append(every)
    return made


def notes(benchmark: str, rows: Sequence[Row]) -> list[str]:
    """Return sentences about complete rows, with what is needed to read them."""
    if benchmark == "gemm":
        return [*_launch_bound(rows), *_GEMM_NOTES]
    return list(_COPY_NOTES if benchmark == "copy" else _LAUNCH_NOTES)


_GEMM_NOTES = (
    "GPU: time on the GPU when launches are queued. Launch: time of the CPU per launch.",
    "Idle: share of the time of a launch in which the GPU has nothing to do.",
    "Clocks are not locked.",
)
_COPY_NOTES = (
    "A device-to-device copy reads and writes DRAM: its share of the peak counts its bytes twice.",
    "Clocks are not locked.",
)
_LAUNCH_NOTES = (
    "Launch: time of the CPU per launch; synchronized, until the kernel has ended.",
    "It includes the call from Python: row call is a call of the CUDA driver without work.",
    "Kernel: time from one kernel to the next on the GPU.",
    "Clocks are not locked.",
)


def _gemm_share(row: Row, peaks: Peaks | None) -> float | None:
    if peaks is None or row["flop_per_s"] is None or row["dtype"] not in _PEAKS:
        return None
    peak = getattr(peaks, _PEAKS[row["dtype"]])
    return None if peak is None else float(row["flop_per_s"]) / float(peak)


def _idle_ratio(row: Row) -> float | None:
    """Return the share of the time of back-to-back launches in which the GPU is idle."""
    if row["gpu_ns"] is None or not row["launch_ns"]:
        return None
    return max(1 - float(row["gpu_ns"]) / float(row["launch_ns"]), 0.0)


def _copy_share(row: Row, peaks: Peaks | None, l2_bytes: int) -> tuple[str | None, float | None]:
    """Return what limits a copy, and the share of its peak."""
    kind, rate = row["kind"], row["bytes_per_s"]
    if rate is None:
        return None, None
    if kind == "d2d":
        if row["bytes"] < _CACHES * l2_bytes:
            return "L2", None
        return "DRAM", None if peaks is None else 2 * rate / peaks.memory_bytes_per_s
    nvlink = None if peaks is None or not row["is_direct"] else peaks.nvlink_bytes_per_s
    if kind == "p2p" and nvlink is not None:
        return "NVLink", rate / nvlink
    pcie = None if peaks is None else peaks.pcie_bytes_per_s
    return "PCIe", None if pcie is None else rate / pcie


def _launch_bound(rows: Sequence[Row]) -> Iterator[str]:
    """Yield for each type the largest GEMM that launches dominate."""
    for dtype in dict.fromkeys(row["dtype"] for row in rows):
        measured = [row for row in rows if row["dtype"] == dtype and row["gpu_ns"] is not None]
        bound = [row for row in measured if row["launch_ns"] > row["gpu_ns"]]
        if bound:
            row = max(bound, key=flop)
            yield (
                f"{dtype.upper()}: launch-bound up to {size_name(row)}: a launch takes"
                f" {format_ns(row['launch_ns'])} and the GEMM {format_ns(row['gpu_ns'])}, so the"
                f" GPU is idle {format_ratio(row['idle_ratio'])}."
            )
        elif measured:
            yield f"{dtype.upper()}: none of these sizes is launch-bound."


def size_name(row: Row) -> str:
    """Return the size of a GEMM as it is typed: ``4096``, or ``4096x1024x512`` (m, n, k)."""
    sizes = [row["m"], row["n"], row["k"]]
    return str(sizes[0]) if len(set(sizes)) == 1 else "x".join(map(str, sizes))
