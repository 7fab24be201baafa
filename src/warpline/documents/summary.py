"""The summary: the first rows of some tables, on one screen."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from itertools import chain

from warpline import progress
from warpline.derived.program import has_modules, program_kind
from warpline.derived.work.busy import has_device_work
from warpline.documents.tables import compute
from warpline.frozen import frozen, replace
from warpline.result import Document, Result, Skipped, document_of
from warpline.trace import Trace
from warpline.trace.recorder import is_of_pytorch


@frozen
class _Extract:
    """The part of a table that `summary` shows: its first rows and some columns."""

    tables: tuple[str, ...]  # the first one with rows is used
    title: str
    fields: tuple[str, ...]
    rows: int | None = None
    is_shown_if_missing: bool = True
    is_about_cuda: bool = False
    has_notes: bool = True
    label: str | None = None  # the field that labels a row; None: the table's key


_FIRST_ABOUT_CUDA = ("device_sum",)
_PROCESSES = ("process_sum",)
_OF_SNAPSHOTS = _PEAK, _SEGMENTS = ("memory_peak",), ("memory_segments",)
_OF_KERNELS = _OF_COUNTERS, _OF_SAMPLES = ("profiled_kernels",), ("kernel_samples",)
_SAMPLES, _CPU_TIME = ("samples",), ("cpu_samples_sum",)
_BESIDE_TIMELINE = 3  # rows of these
_DEVICE = ("gpu_index", "name", "busy_ratio", "busy_ns", "idle_ns")
_DEVICE_COUNTS = ("kernels", "copies", "memsets", "graphs")
_DURATIONS = ("name", "instances", "total_ns", "median_ns", "max_ns")
_SUMMARY = (
    _Extract(_PROCESSES, "Processes", ("pid", "name", "calls", "kernels", "ranges"), 5),
    _Extract(
        _OF_COUNTERS,
        "Profiled kernels",
        (
            "launch",
            "kernel",
            "duration_ns",
            "sm_ratio",
            "memory_ratio",
            "occupancy_ratio",
            "registers",
            "blocks",
            "threads",
        ),
        10,
        is_shown_if_missing=False,
    ),
    _Extract(
        _OF_SAMPLES,
        "Kernels by samples",
        ("kernel", "samples", "samples_ratio", "stall", "stall_ratio"),
        10,
        is_shown_if_missing=False,
    ),
    _Extract(
        _PEAK,
        "Peak memory",
        ("place", "in_use_bytes", "peak_ratio", "blocks", "largest_bytes", "time_ns"),
        5,
        is_shown_if_missing=False,
    ),
    _Extract(
        _SEGMENTS,
        "Reserved memory",
        (
            "place",
            "sizes",
            "pool",
            "reserved_bytes",
            "allocated_bytes",
            "free_bytes",
            "fragmented_bytes",
            "segments",
            "blocks",
        ),
        6,
        is_shown_if_missing=False,
    ),
    _Extract(_FIRST_ABOUT_CUDA, "GPUs", (*_DEVICE, *_DEVICE_COUNTS), 4, is_about_cuda=True),
    _Extract(
        ("kernel_sum",),
        "Kernels",
        ("name", "busy_ratio", "busy_ns", "instances", "mean_ns", "max_ns"),
        5,
        is_about_cuda=True,
    ),
    _Extract(("nvtx_pushpop_sum", "nvtx_startend_sum"), "Ranges", _DURATIONS, 5),
    _Extract(
        ("copy_sum",),
        "Copies",
        ("direction", "memory", "busy_ns", "instances", "total_bytes", "bandwidth_bytes_per_s"),
        3,
        is_about_cuda=True,
    ),
    _Extract(("cuda_api_sum",), "CUDA API calls", _DURATIONS, 3, is_about_cuda=True),
    _Extract(
        _SAMPLES,
        "Samples of CPU threads",
        ("kind", "samples", "rate_hz", "threads", "total_ns", "stack_ratio", "complete_ratio"),
        is_shown_if_missing=False,
    ),
    _Extract(
        _CPU_TIME,
        "CPU time by function",
        ("function", "file", "self_ratio", "total_ratio", "self_ns", "total_ns"),
        3,
        is_shown_if_missing=False,
        has_notes=False,  # the table above says the same
    ),
    _Extract(
        ("profiling_cost",),
        "Profiling overhead",
        ("kind", "records", "mean_ns", "total_ns", "span_ratio", "step_ns"),
        4,
        is_shown_if_missing=False,
    ),
    _Extract(("recording",), "Recording content", ("state", "table", "rows")),
)

_TRAINING = _Extract(
    ("step_phases",),
    "Phases of a step",
    ("phase", "time_ratio", "step_ns"),
    is_shown_if_missing=False,
)
_LAYERS = _Extract(
    ("layers",),
    "Layers",
    ("name", "calls", "host_median_ns", "device_median_ns", "kernels_per_call", "total_ratio"),
    8,
    is_shown_if_missing=False,
    label="name",
)
_MODULES = replace(
    _LAYERS, fields=("name", "calls", "host_ns", "device_ns", "kernels", "total_ratio")
)


def summary(trace: Trace, *, with_layers: bool = False) -> Document:
    """Return the summary of a trace, with the table layers if it is asked for and has rows."""
    whole = document_of(trace, ())
    parts: tuple[_Extract, ...] = _SUMMARY
    if with_layers:
        parts = (*_SUMMARY[:-1], _LAYERS, _SUMMARY[-1])
    # Tables that few recordings can have are not even looked up.
    absent = [] if trace.has("profiled_kernel") else [_OF_COUNTERS]
    absent += [] if trace.has("pc_sample") else [_OF_SAMPLES]
    has_room = not (trace.has("profiled_kernel") or trace.has("pc_sample"))  # on one screen
    is_sampled = has_room and (trace.has("cpu_sample") or trace.has("python_sample"))
    absent += [] if is_sampled else [_SAMPLES]
    absent += [] if is_sampled and trace.has("cpu_sample") else [_CPU_TIME]
    absent += [] if _is_snapshot(trace) else [*_OF_SNAPSHOTS]
    absent += [] if _knows_processes(trace) else [_PROCESSES]
    parts = tuple(part for part in parts if part.tables not in absent)
    if trace.has("kernel") and trace.row_count("kernel"):  # merged with a timeline: one screen
        parts = tuple(
            replace(part, rows=_BESIDE_TIMELINE) if part.tables in _OF_KERNELS else part
            for part in parts
        )
    sections = []
    with progress.task("Computing the summary", len(parts)) as advance:
        for part in parts:
            if part is _LAYERS and has_modules(trace):
                part = _MODULES  # noqa: PLW2901
            sections.append((part, _extract(trace, part)))
            advance(1)
    if has_modules(trace):  # asked last: by now, its columns have been read with others
        sections.insert(-1, (_TRAINING, _extract(trace, _TRAINING)))
    has_cuda = any(isinstance(item, Result) for part, item in sections if part.is_about_cuda)

    # A recording with counters per kernel, samples, or a memory snapshot may have no timeline.
    has_others = trace.has("profiled_kernel") or trace.has("pc_sample") or _is_snapshot(trace)
    has_no_timeline = has_others and not has_cuda

    def is_shown(part: _Extract) -> bool:
        # Without any CUDA events, the first CUDA table states that for all.
        is_repeated = part.is_about_cuda and not has_cuda and part.tables != _FIRST_ABOUT_CUDA
        return part.is_shown_if_missing and not is_repeated and not has_no_timeline

    shown = [
        section
        for part, section in sections
        if (isinstance(section, Result) and len(section)) or is_shown(part)
    ]
    return dataclasses.replace(whole, sections=tuple(shown), suggestions=tuple(_suggestions(trace)))


def _is_snapshot(trace: Trace) -> bool:
    """Return whether a trace has a memory snapshot, and nothing else that happened on GPUs."""
    others = ("kernel", "memcpy", "api_call", "profiled_kernel", "pc_sample")
    return trace.has("allocator_segment") and not any(map(trace.has, others))


def _knows_processes(trace: Trace) -> bool:
    """Return whether processes have an id: a memory snapshot does not say whose it is."""
    return bool(trace.columns("process", "pid")["pid"].values.any())


def _suggestions(trace: Trace) -> Iterator[str]:
    """Yield how to see the modules of a PyTorch program."""
    if has_modules(trace):
        tables = "modules,module_sum" if has_device_work(trace) else "layers"
        yield f"warpline stats -r {tables} {{files}}"
    elif not is_of_pytorch(trace) and program_kind(trace) == "pytorch":
        yield "warpline profile --pytorch=all PROGRAM, for time by module"


def _extract(trace: Trace, part: _Extract) -> Result | Skipped:
    computed = (compute(trace, table) for table in part.tables)
    first = next(computed)
    with_rows = (i for i in chain((first,), computed) if isinstance(i, Result) and len(i))
    full = next(with_rows, first)
    if isinstance(full, Skipped):
        return full
    fields = {field.name: field for field in full.fields}
    title = part.title
    if part.rows is not None and len(full) > part.rows:
        title = f"{title}, {part.rows} of {len(full):,}"
    chosen = replace(
        full,
        title=title,
        fields=tuple(fields[name] for name in part.fields),
        columns={name: full.columns[name] for name in part.fields},
        notes=full.notes if part.has_notes else (),
        key=(part.label,) if part.label else tuple(n for n in full.key if n in part.fields),
    )
    return chosen if part.rows is None else chosen.head(part.rows)
