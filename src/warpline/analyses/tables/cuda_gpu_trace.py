"""cuda_gpu_trace: every kernel, copy and memset, in order."""

from __future__ import annotations

import numpy as np

from warpline.derived.summaries.events import MEMSET_NAME, copy_name
from warpline.derived.summaries.range_prefix import PREFIXED_NAME_ARGUMENTS, kernel_texts
from warpline.derived.summaries.stacking import stack
from warpline.derived.summaries.throughput import throughput
from warpline.derived.texts import labelled
from warpline.derived.work.graphs import graph_notes
from warpline.ops.group import factorize
from warpline.result import Arguments, Field, Numbers, Result, Texts, Values, analysis
from warpline.schema.labels import MEMORY_KINDS
from warpline.trace import ColumnData, Trace
from warpline.units import Unit

NAME = "cuda_gpu_trace"
TITLE = "CUDA GPU trace"


def _megabytes(name: str, doc: str, header: str) -> Field:
    unit = Unit.BYTES_PER_S if name.endswith("_per_s") else Unit.BYTES
    return Field(name, unit, doc, header, 1e-6, 3)


FIELDS = (
    Field("start_ns", Unit.NS, "Start, relative to the trace's origin.", "Start (ns)"),
    Field("duration_ns", Unit.NS, "Duration.", "Duration (ns)"),
    Field(
        "correlation_id", Unit.ID, "Correlation id; links to the launching CUDA API call.", "CorrId"
    ),
    *(
        Field(f"grid_{a}", Unit.NONE, f"Blocks of the grid in {a}.", f"Grd{a.upper()}")
        for a in "xyz"
    ),
    *(
        Field(f"block_{a}", Unit.NONE, f"Threads of a block in {a}.", f"Blk{a.upper()}")
        for a in "xyz"
    ),
    Field("registers_per_thread", Unit.NONE, "Registers per thread.", "Reg/Trd"),
    _megabytes("static_shared_bytes", "Static shared memory per block.", "StcSMem (MB)"),
    _megabytes("dynamic_shared_bytes", "Dynamic shared memory per block.", "DymSMem (MB)"),
    _megabytes("bytes", "Bytes copied or set.", "Bytes (MB)"),
    _megabytes("throughput_bytes_per_s", "Bytes per second.", "Throughput (MB/s)"),
    Field(
        "src_memory",
        Unit.NONE,
        "Kind of the source memory, or of the memory that was set.",
        "SrcMemKd",
    ),
    Field("dst_memory", Unit.NONE, "Kind of the destination memory.", "DstMemKd"),
    Field("device", Unit.NONE, "GPU name and index.", "Device"),
    Field("context", Unit.NONE, "CUDA context id.", "Ctx"),
    Field("green_context", Unit.NONE, "CUDA green context id.", "GreenCtx"),
    Field("stream", Unit.NONE, "CUDA stream id.", "Strm"),
    Field("name", Unit.NONE, "Kernel or memory operation.", "Name"),
    Field("pid", Unit.ID, "Id of the launching process.", "Pid"),
)

_LAUNCH = (
    *(f"{kind}_{axis}" for kind in ("grid", "block") for axis in "xyz"),
    *("registers_per_thread", "static_shared_bytes", "dynamic_shared_bytes"),
)


@analysis(
    name=NAME,
    title=TITLE,
    fields=FIELDS,
    needs=("kernel", "memcpy", "memset"),
    aliases=("gputrace",),
    arguments=PREFIXED_NAME_ARGUMENTS,
    missing_hint="profile with --trace=cuda, and add --cuda-graph-trace=node for CUDA graphs",
)
def cuda_gpu_trace(trace: Trace, arguments: Arguments) -> Result:
    """Every kernel, copy and memset on a GPU, by start time.

    What it measures: Start, duration, GPU and stream of each operation. Also the launch
        configuration of kernels, and the size and throughput of memory operations.
    Why it matters: The trace shows what a summary hides: gaps, order, overlap, a single slow
        execution.
    How it is computed: One row per operation, by start. At the same start, kernels precede copies,
        and copies precede memsets. In text and CSV, 1 MB is 10**6 bytes. As in nsys, throughput
        is bytes times the whole number of such operations per second, and so up to 2% low. For
        operations longer than 20 ms, it is bytes divided by time.
    Limits: Kernels inside CUDA graphs traced at graph level are missing; a note gives their time.
    Source: Rows, columns and order of `nsys stats -r cuda_gpu_trace`; Pid is added by Warpline.
    """
    parts = []
    if trace.has("kernel"):
        parts.append(_kernels(trace, arguments))
    if trace.has("memcpy"):
        parts.append(_copies(trace))
    if trace.has("memset"):
        parts.append(_sets(trace))
    columns = stack(parts, [field.name for field in FIELDS], by="start_ns")
    name = ":".join((NAME, *arguments))
    key = ("start_ns", "device", "stream", "name")
    return Result(name, TITLE, FIELDS, columns, key, graph_notes(trace))


def _kernels(trace: Trace, arguments: Arguments) -> dict[str, Values]:
    columns = trace.columns("kernel", *_LAUNCH)
    return {
        **_place(trace, "kernel"),
        **{name: _numbers(columns[name]) for name in _LAUNCH},
        "name": kernel_texts(trace, arguments),
    }


def _copies(trace: Trace) -> dict[str, Values]:
    columns = trace.columns("memcpy", "kind", "src_memory", "dst_memory")
    kinds = factorize(columns["kind"].values)
    return {
        **_place(trace, "memcpy"),
        **_amount(trace, "memcpy"),
        "src_memory": _memory(columns["src_memory"]),
        "dst_memory": _memory(columns["dst_memory"]),
        "name": Texts(kinds.codes, [copy_name(kind) for kind in kinds.uniques.tolist()]),
    }


def _sets(trace: Trace) -> dict[str, Values]:
    memory = trace.columns("memset", "memory")["memory"]
    return {
        **_place(trace, "memset"),
        **_amount(trace, "memset"),
        "src_memory": _memory(memory),
        "name": Texts(np.zeros(len(memory), np.int32), [MEMSET_NAME]),
    }


def _place(trace: Trace, table: str) -> dict[str, Values]:
    """Return time, correlation, GPU, context, stream and process of each row of a table."""
    columns = trace.columns(
        table,
        *("start_ns", "end_ns", "correlation_id", "green_context_id"),
        *("device_id", "context_id", "stream_id", "process_id"),
    )
    rows = {name: columns[name].values for name in columns}
    contexts = trace.columns("context", "native_id")["native_id"].values
    streams = trace.columns("stream", "native_id")["native_id"].values
    pids = trace.columns("process", "pid")["pid"].values
    return {
        "start_ns": Numbers(rows["start_ns"]),
        "duration_ns": Numbers(rows["end_ns"] - rows["start_ns"]),
        "correlation_id": _numbers(columns["correlation_id"]),
        "device": labelled(rows["device_id"], _device_labels(trace)),
        "context": Numbers(contexts[rows["context_id"]]),
        "green_context": _numbers(columns["green_context_id"]),
        "stream": Numbers(streams[rows["stream_id"]]),
        "pid": Numbers(pids[rows["process_id"]]),
    }


def _amount(trace: Trace, table: str) -> dict[str, Values]:
    columns = trace.columns(table, "start_ns", "end_ns", "bytes")
    size, duration = columns["bytes"].values, columns["end_ns"].values - columns["start_ns"].values
    return {"bytes": Numbers(size), "throughput_bytes_per_s": throughput(size, duration)}


def _memory(kinds: ColumnData) -> Texts:
    distinct = factorize(kinds.values)
    labels = [MEMORY_KINDS.get(kind) for kind in distinct.uniques.tolist()]
    return labelled(distinct.codes, labels, kinds.valid)


def _device_labels(trace: Trace) -> list[str]:
    columns = trace.columns("device", "name_id", "gpu_index")
    names = columns["name_id"].to_list()
    indices = columns["gpu_index"].values.tolist()
    return [
        f"{'' if name is None else trace.strings.text(name)} ({index})"
        for name, index in zip(names, indices, strict=True)
    ]


def _numbers(column: ColumnData) -> Numbers:
    return Numbers(column.values, column.valid)
