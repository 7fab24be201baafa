"""Warpline: performance profiles of CUDA and PyTorch programs, read, tabulated and explained.

    import warpline
    trace = warpline.open("report1.sqlite")
    trace["kernel"]                              # a Polars DataFrame
    warpline.stats(trace, "cuda_gpu_kern_sum")   # the table nsys calls by this name

Public names are loaded when first used, so that importing the package is cheap.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from warpline.api import export, open, query, stats, summary  # noqa: A004
    from warpline.errors import (
        CorruptTraceError,
        InputError,
        MissingTableError,
        UnknownFormatError,
        UnsupportedVersionError,
        UsageError,
        WarplineError,
    )
    from warpline.result import Result
    from warpline.trace import Trace
    from warpline.trace.selection import select

__version__ = "0.1.0"  # the only place; the build reads it from here

_PUBLIC = {
    "export": "warpline.api",
    "open": "warpline.api",
    "query": "warpline.api",
    "select": "warpline.trace.selection",
    "stats": "warpline.api",
    "summary": "warpline.api",
    "Result": "warpline.result",
    "Trace": "warpline.trace",
    "CorruptTraceError": "warpline.errors",
    "InputError": "warpline.errors",
    "MissingTableError": "warpline.errors",
    "UnknownFormatError": "warpline.errors",
    "UnsupportedVersionError": "warpline.errors",
    "UsageError": "warpline.errors",
    "WarplineError": "warpline.errors",
}

__all__ = [
    "CorruptTraceError",
    "InputError",
    "MissingTableError",
    "Result",
    "Trace",
    "UnknownFormatError",
    "UnsupportedVersionError",
    "UsageError",
    "WarplineError",
    "export",
    "open",
    "query",
    "select",
    "stats",
    "summary",
]


def __getattr__(name: str) -> Any:
    if name not in _PUBLIC:
        raise AttributeError(f"module 'warpline' has no attribute {name!r}")
    value = getattr(importlib.import_module(_PUBLIC[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
