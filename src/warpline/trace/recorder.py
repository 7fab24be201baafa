"""Which profiler recorded a trace, and how it records what a table needs."""

from __future__ import annotations

from collections.abc import Iterable

from warpline.trace.trace import Trace

ACTIVITIES = "activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]"
_SNAPSHOT = "pytorch-snapshot"
_KINETO = "kineto"
_PRODUCER = "PyTorch profiler"  # also of a recording that was converted
_GPU_WORK = ("kernel", "memcpy", "memset")
# What to set up in a program, by the table that has no rows.
_TABLES_OF_PYTORCH = {
    **dict.fromkeys(
        (*_GPU_WORK, "graph_launch", "api_call", "device"),
        f"use torch.profiler.profile with {ACTIVITIES}",
    ),
    "range": "mark parts of the program with torch.profiler.record_function",
    "op": "use torch.profiler.profile with ProfilerActivity.CPU",
    "os_call": "the PyTorch profiler does not record OS calls; use nsys profile --trace=osrt",
}


def is_of_pytorch(trace: Trace) -> bool:
    """Return whether the PyTorch profiler recorded the trace."""
    meta = trace.meta
    return meta.format == _KINETO or (meta.producer or "").startswith(_PRODUCER)


def is_memory_snapshot(trace: Trace) -> bool:
    """Return whether the trace is a memory snapshot of PyTorch, which has nothing else."""
    return trace.meta.format == _SNAPSHOT


def table_hint(trace: Trace, tables: Iterable[str], otherwise: str | None) -> str | None:
    """Return how to record rows of one of some tables.

    Args:
        trace: The trace that has no rows of these tables.
        tables: Names of tables.
        otherwise: The hint for profilers that take options, which tables may word themselves.
    """
    if not is_of_pytorch(trace):
        return otherwise
    known = next((name for name in tables if name in _TABLES_OF_PYTORCH), None)
    if known is None:
        return otherwise
    if known in _GPU_WORK and any(map(trace.has, _GPU_WORK)):
        return None  # the activity was recorded, and had none of this
    return _TABLES_OF_PYTORCH[known]
