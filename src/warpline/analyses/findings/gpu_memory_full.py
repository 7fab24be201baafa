"""gpu-memory-full: the memory of a GPU is nearly full."""

from __future__ import annotations

import numpy as np

from warpline.derived.health.measured import measured_with
from warpline.derived.health.readings import Readings
from warpline.derived.health.shown import gpus_in_words, show_readings
from warpline.derived.texts import without_version
from warpline.ops.arrays import I64, BoolArray
from warpline.ops.group import distinct_values
from warpline.result import Evidence, Finding, rule
from warpline.trace import Run, Trace
from warpline.units import format_bytes, format_ratio, plural

NAME = "gpu-memory-full"
TITLE = "GPU memory is nearly full"

_FULL = 0.95
_ALLOCATES = ("cudaMalloc", "cuMemAlloc", "cuMemCreate")
_SHOWN = 5


@rule(name=NAME, title=TITLE)
def gpu_memory_full(run: Run) -> list[Finding]:
    """GPUs of which at least 95% of the memory is in use.

    What it finds: Readings with at least 95% of a GPU's memory in use, and allocations that failed.
    Why it matters: A caching allocator that gets no more memory frees what it has cached, waits for
        the GPU, and tries again, in every step. Slightly larger inputs end in an error.
    How it is found: By the memory in use that the driver reports, of all processes, and the size of
        the memory. Retries show as calls of cudaMalloc, cuMemAlloc or cuMemCreate that return an
        error.
    What to do: Use smaller batches, activation checkpointing, or expandable segments.
    Limits: Needs readings of the GPU's state. A caching allocator keeps memory that it does not
        need, so that a full memory alone is information. No saving is estimated.
    Source: PyTorch, CUDA semantics: memory management; NVML API reference.
    """
    size = _sizes(run.trace)
    return [
        _finding(run.trace, readings, full)
        for readings in measured_with(run, "used_memory_bytes")
        if size[readings.of] > 0
        for full in (_full(readings, int(size[readings.of])),)
        if full.any()
    ]


def _sizes(trace: Trace) -> I64:
    """Return the memory of each GPU in bytes, 0 if unknown."""
    if not trace.has("device"):
        return np.zeros(0, np.int64)
    size: I64 = trace.columns("device", "memory_bytes")["memory_bytes"].filled(0)
    return size


def _full(readings: Readings, size: int) -> BoolArray:
    used = readings.columns["used_memory_bytes"]
    full: BoolArray = used.is_valid() & (used.values >= _FULL * size)
    return full


def _finding(trace: Trace, readings: Readings, full: BoolArray) -> Finding:
    gpu, rows = gpus_in_words(trace, (readings.of,)), np.flatnonzero(full)
    most, size = readings.known("used_memory_bytes").values.max(), _sizes(trace)[readings.of]
    failed = _failed_allocations(trace)
    retries = ""
    evidence = [show_readings(readings, rows)]
    if len(failed):
        many = plural(len(failed), "allocation")
        retries = f" {many} failed: the allocator frees cached memory and tries again."
        evidence.append(
            Evidence(f"{many} failed", "api_call", tuple(failed[:_SHOWN].tolist()), len(failed))
        )
    return Finding(
        NAME,
        "medium" if len(failed) else "info",
        f"The memory of {gpu} is {format_ratio(min(most / size, 1.0))} full",
        f"Up to {format_bytes(most)} of {format_bytes(size)} are in use on {gpu}, in"
        f" {format_ratio(len(rows) / len(readings))} of the readings at least"
        f" {format_ratio(_FULL)}.{retries}",
        tuple(evidence),
        "If allocations fail or shapes vary: use smaller batches, activation checkpointing, or"
        " PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True. torch.cuda.memory_stats() counts"
        " num_alloc_retries.",
        "Profile again: `warpline stats -r gpu_health_sum` shows less memory in use.",
        fix_cuda="If allocations fail, allocate less, or allocate once and reuse.",
        fix_in={"jax": "If memory is needed, use smaller batches or jax.checkpoint. JAX reserves"
        " 75% of the memory by default: XLA_PYTHON_CLIENT_MEM_FRACTION changes it."},
    )  # fmt: skip


def _failed_allocations(trace: Trace) -> I64:
    """Return the calls that allocate GPU memory and failed, rows of api_call."""
    if not trace.has("api_call"):
        return np.zeros(0, np.int64)
    columns = trace.columns("api_call", "name_id", "return_value")
    rows = np.flatnonzero(columns["return_value"].values)
    names = columns["name_id"].values[rows]
    meant = [
        name
        for name in distinct_values(names).tolist()
        if without_version(trace.strings.text(name)).startswith(_ALLOCATES)
    ]
    return rows[np.isin(names, meant)]
