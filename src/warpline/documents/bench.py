"""The document of a benchmark."""

from __future__ import annotations

import platform
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from warpline import __version__
from warpline.bench import ceilings
from warpline.result import Document, Field, Numbers, Result, Values, column_of
from warpline.units import Unit

SCHEMA_VERSION = 1

_SPREAD = Field(
    "spread_ratio",
    Unit.RATIO,
    "Interquartile range of the batches, as a share of the median.",
    "Spread (%)",
    100,
    1,
)
_SHARE = Field("share_of_peak", Unit.RATIO, "Share of the peak.", "Of Peak (%)", 100, 1)
_LAUNCH = Field("launch_ns", Unit.NONE, "Time of the CPU per launch.", "Launch (us)", 1e-3, 2)
_REASON = Field("reason", Unit.NONE, "Why it was not measured.", "Not Measured")
_FIELDS: Mapping[str, tuple[Field, ...]] = {
    "gemm": (
        Field("dtype", Unit.NONE, "Type of the matrices.", "Type"),
        Field("size", Unit.NONE, "m, or m, n and k.", "Size"),
        Field("flop_per_s", Unit.NONE, "Operations per second.", "TFLOP/s", 1e-12, 2),
        _SPREAD,
        _SHARE,
        Field("sm_clock_hz", Unit.NONE, "Clock of the SMs, median.", "SM (MHz)", 1e-6, 0),
        Field("gpu_ns", Unit.NONE, "Time on the GPU.", "GPU (us)", 1e-3, 2),
        _LAUNCH,
        Field("idle_ratio", Unit.RATIO, "Share of idle time.", "Idle (%)", 100, 1),
        _REASON,
    ),
    "copy": (
        Field("kind", Unit.NONE, "Direction and memory.", "Copy"),
        Field("to", Unit.NONE, "The other GPU.", "To"),
        Field("bytes", Unit.BYTES, "Size.", "Bytes"),
        Field("bytes_per_s", Unit.NONE, "Rate.", "GB/s", 1e-9, 2),
        _SPREAD,
        Field("limit", Unit.NONE, "What limits the rate.", "Limit"),
        _SHARE,
        _REASON,
    ),
    "launch": (
        Field("mode", Unit.NONE, "How kernels are launched.", "Launches"),
        Field("kernels", Unit.COUNT, "Kernels per launch.", "Kernels"),
        _LAUNCH,
        _SPREAD,
        Field("kernel_ns", Unit.NONE, "From one kernel to the next.", "Kernel (us)", 1e-3, 2),
        _REASON,
    ),
}
_TITLES = {"gemm": "GEMMs", "copy": "Copies", "launch": "Kernel launches"}
_KEYS = {"gemm": ("dtype", "size"), "copy": ("kind", "to", "bytes"), "launch": ("mode", "kernels")}


def facts(found: Mapping[str, Any], driver_version: str | None, utc: str) -> dict[str, Any]:
    """Return what is known of a benchmark, as its JSON: docs/bench.schema.json.

    Args:
        found: From `warpline.bench.process.measure`.
        driver_version: Version of the driver's kernel module, if known.
        utc: When it was measured.
    """
    gpu = {name: value for name, value in found["device"].items() if name != "cuda_version"}
    rows = ceilings.complete(found["benchmark"], found["rows"], gpu)
    cuda_version = found["device"]["cuda_version"]
    return {
        "schema_version": SCHEMA_VERSION,
        "benchmark": found["benchmark"],
        "measured_utc": utc,
        "gpu": gpu,
        "clocks": "not locked",
        "driver_version": driver_version,
        "driver_cuda_version": f"{cuda_version // 1000}.{cuda_version % 1000 // 10}",
        "backend": found["backend"],
        "kernel": found["launched"],
        "versions": {
            "warpline": __version__,
            "python": platform.python_version(),
            **found["versions"],
        },
        "refused": dict(found["refused"]),
        "rows": rows,
        "notes": ceilings.notes(found["benchmark"], rows),
    }


def document(known: Mapping[str, Any]) -> Document:
    """Return the document of `facts`, which are its ``meta``."""
    benchmark = known["benchmark"]
    fields = _FIELDS[benchmark]
    rows = [_shown(benchmark, row) for row in known["rows"]]
    columns = {field.name: _column(field, [row[field.name] for row in rows]) for field in fields}
    refused = [f"{name} cannot be used: {why}." for name, why in known["refused"].items()]
    notes = (*known["notes"], *refused)
    result = Result(f"bench_{benchmark}", _title(known), fields, columns, _KEYS[benchmark], notes)
    return Document(known["gpu"]["name"], known, (result,))


def _title(known: Mapping[str, Any]) -> str:
    gpu = known["gpu"]
    libraries = [
        f"{name} {version}"
        for name, version in known["versions"].items()
        if name not in {"warpline", "python"}
    ]
    kernel = [known["kernel"]] if known["benchmark"] == "launch" else []
    through = known["backend"] + (f" ({', '.join(libraries)})" if libraries else "")
    parts = (f"{_TITLES[known['benchmark']]} on GPU {gpu['index']} {gpu['name']}", *kernel)
    return ", ".join((*parts, f"through {through}"))


def _shown(benchmark: str, row: Mapping[str, Any]) -> dict[str, Any]:
    if benchmark == "gemm":
        return {**row, "size": ceilings.size_name(row)}
    if benchmark == "copy":
        return {**row, "to": None if row["peer"] is None else f"GPU {row['peer']}"}
    return dict(row)


def _column(field: Field, values: Sequence[Any]) -> Values:
    """Return a column; one of numbers stays one if all are missing."""
    is_text = field.scale == 1 and field.unit is Unit.NONE
    if is_text or any(value is not None for value in values):
        return column_of(values)
    return Numbers(np.zeros(len(values)), np.zeros(len(values), np.bool_))
