"""Warpline: a profiler and analyzer for CUDA and PyTorch programs.

    import warpline
    print(warpline.analyze("report1.sqlite"))     # where the time went, and what to change

    trace = warpline.open("report1.sqlite")       # open once for several calls
    trace["kernel"]                               # a Polars DataFrame
    warpline.stats(trace, "cuda_gpu_kern_sum")    # the nsys table of this name

    warpline.compare("before.sqlite", "after.sqlite")    # what changed, and whether it is noise

    with warpline.profile("run.warpline"):        # records this process
        with warpline.annotate("step"):
            ...

Public names are imported on first use, so that `import warpline` is fast.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from warpline.annotate import (
        annotate,
        end_range,
        mark,
        range_pop,
        range_push,
        start_range,
    )
    from warpline.api import (
        analyze,
        compare,
        compare_kernels,
        export,
        flame,
        graphcheck,
        memory,
        merge,
        open,  # noqa: A004
        query,
        report,
        select,
        stack_choice,
        stats,
        summary,
        timeline,
    )
    from warpline.capture.in_process.kernels import kernels
    from warpline.capture.in_process.profile import profile
    from warpline.errors import (
        AgentMissingError,
        CaptureError,
        CorruptTraceError,
        InputError,
        MissingTableError,
        SchemaError,
        TargetFailedError,
        UnknownFormatError,
        UnsupportedVersionError,
        UsageError,
        WarplineError,
    )
    from warpline.result import Diagnosis, Finding, Result
    from warpline.result.comparison import Comparison
    from warpline.trace import Trace

__version__ = "0.1.0"  # the only copy; the build reads it from here

_PUBLIC = {
    "analyze": "warpline.api",
    "compare": "warpline.api",
    "compare_kernels": "warpline.api",
    "graphcheck": "warpline.api",
    "annotate": "warpline.annotate",  # a callable module
    "end_range": "warpline.annotate",
    "export": "warpline.api",
    "mark": "warpline.annotate",
    "flame": "warpline.api",
    "memory": "warpline.api",
    "merge": "warpline.api",
    "kernels": "warpline.capture.in_process.kernels",
    "open": "warpline.api",
    "query": "warpline.api",
    "profile": "warpline.capture.in_process.profile",
    "report": "warpline.api",
    "range_pop": "warpline.annotate",
    "range_push": "warpline.annotate",
    "select": "warpline.api",
    "stack_choice": "warpline.api",
    "start_range": "warpline.annotate",
    "stats": "warpline.api",
    "summary": "warpline.api",
    "timeline": "warpline.api",
    "torch": "warpline.torch",  # a package
    "Comparison": "warpline.result.comparison",
    "Diagnosis": "warpline.result",
    "Finding": "warpline.result",
    "Result": "warpline.result",
    "Trace": "warpline.trace",
    "AgentMissingError": "warpline.errors",
    "CaptureError": "warpline.errors",
    "CorruptTraceError": "warpline.errors",
    "InputError": "warpline.errors",
    "MissingTableError": "warpline.errors",
    "SchemaError": "warpline.errors",
    "TargetFailedError": "warpline.errors",
    "UnknownFormatError": "warpline.errors",
    "UnsupportedVersionError": "warpline.errors",
    "UsageError": "warpline.errors",
    "WarplineError": "warpline.errors",
}

__all__ = [
    "AgentMissingError",
    "CaptureError",
    "Comparison",
    "CorruptTraceError",
    "Diagnosis",
    "Finding",
    "InputError",
    "MissingTableError",
    "Result",
    "SchemaError",
    "TargetFailedError",
    "Trace",
    "UnknownFormatError",
    "UnsupportedVersionError",
    "UsageError",
    "WarplineError",
    "analyze",
    "annotate",
    "compare",
    "compare_kernels",
    "end_range",
    "export",
    "flame",
    "graphcheck",
    "kernels",
    "mark",
    "memory",
    "merge",
    "open",
    "profile",
    "query",
    "range_pop",
    "range_push",
    "report",
    "select",
    "stack_choice",
    "start_range",
    "stats",
    "summary",
    "timeline",
    "torch",
]


def __getattr__(name: str) -> Any:
    if name not in _PUBLIC:
        raise AttributeError(f"module 'warpline' has no attribute {name!r}")
    try:
        module = importlib.import_module(_PUBLIC[name])
    except ModuleNotFoundError as error:
        if error.name is not None and error.name.startswith("warpline."):
            importlib.import_module("warpline.installation").require_reading(f"warpline.{name}")
        raise
    value = module if module.__name__ == f"warpline.{name}" else getattr(module, name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


def load_ipython_extension(shell: Any) -> None:
    """Register the magic ``%%warpline``; IPython calls it for ``%load_ext warpline``."""
    importlib.import_module("warpline.notebook").load_ipython_extension(shell)
