"""Which column of an export becomes which column of a trace.

Columns that are not named here, or that an export's version lacks, are null, or 0 where the trace
allows no null.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

import numpy as np

from warpline.frozen import frozen
from warpline.ops.arrays import I64
from warpline.readers.nsys.export import SourceTable
from warpline.readers.nsys.fields import (
    CHAIN_TABLES,
    CUDA_CHAINS,
    OS_CHAINS,
    SAMPLE_CHAINS,
    SWITCH_CHAINS,
    Field,
    Reading,
    api_kind,
    code_kind,
    coded_number,
    constant,
    constant_text,
    flag,
    inline,
    label,
    metric,
    metric_device,
    metric_value,
    name,
    noted,
    number,
    peer,
    place_context,
    place_device,
    place_process,
    place_stream,
    process,
    required,
    sampled_at,
    sampling_period,
    stack,
    thread,
)
from warpline.readers.nsys.identity import (
    CPU_FAULTS,
    GPU_FAULTS,
    LIBRARY_TABLES,
    NO_ID,
    OS_TRACE_BEGAN,
)
from warpline.readers.nsys.networks import NETWORK_TABLES
from warpline.readers.nsys.waits import SYNC, host_wait_rows, stream_wait_rows, wait_kind

RowsOf = Callable[[Reading], I64 | None]


class Chosen(Protocol):
    """A choice of rows of a source table."""

    def __len__(self) -> int: ...

    def between(self, first: int, last: int) -> I64 | None:
        """Return those from `first` to before `last`, ascending; None if all of these are."""
        ...


@frozen
class Mapped:
    """A table of a trace, or a part of one, from one source table.

    Attributes:
        table: The trace's table.
        source: The export's table.
        fields: Column of the trace -> its field.
        rows: Returns the rows that belong to it, ascending; None, here or returned, for all.
        chosen: How many rows these are, and those between two rows of the source, where that is
            known without all of them.
    """

    table: str
    source: str
    fields: Mapping[str, Field]
    rows: RowsOf | None = None
    chosen: Chosen | None = None


def _rows_without(source: str, column: str, value: int) -> RowsOf:
    def rows(reading: Reading) -> I64:
        return np.flatnonzero(SourceTable(reading.export, source).ints(column).values != value)

    return rows


def _rows_with(source: str, column: str) -> RowsOf:
    def rows(reading: Reading) -> I64:
        return np.flatnonzero(SourceTable(reading.export, source).ints(column).is_valid())

    return rows


_SPAN = {"start_ns": required("start"), "end_ns": required("end")}
_PLACE = {
    "device_id": place_device(),
    "context_id": place_context(),
    "stream_id": place_stream(),
    "process_id": place_process(),
}
_CORRELATION = {"correlation_id": number("correlationId")}
_NODE = {
    "graph_node_id": coded_number("graphNodeId"),
    "green_context_id": number("greenContextId", null=0),
}

# A sample's time is where it begins, in all of these tables.
_SAMPLE = {"device_id": metric_device(), "metric_id": metric(), "value": metric_value()}
_WAIT = {
    **_SPAN,
    **_PLACE,
    **_CORRELATION,
    "event_id": number("eventId", null=NO_ID),
    "event_sync_id": number("eventSyncId", null=NO_ID),
}
GRAPH_EVENTS = "CUDA_GRAPH_EVENTS"
_CALL = {**_SPAN, "process_id": process(), "thread_id": thread()}
_NODE_CREATION = {
    "time_ns": required("start"),
    "process_id": process(),
    "thread_id": thread(),
    "graph_node_id": required("graphNodeId"),
    "original_graph_node_id": number("originalGraphNodeId"),
    "name_id": name("nameId"),
}

MAPPING: Mapping[str, tuple[Mapped, ...]] = {
    "kernel": (
        Mapped(
            "kernel",
            "CUPTI_ACTIVITY_KIND_KERNEL",
            {
                **_SPAN,
                **_PLACE,
                **_CORRELATION,
                **_NODE,
                "name_id": name("demangledName", "shortName"),
                "short_name_id": name("shortName", "demangledName"),
                "mangled_name_id": name("mangledName"),
                **{f"grid_{axis.lower()}": number(f"grid{axis}") for axis in "XYZ"},
                **{f"block_{axis.lower()}": number(f"block{axis}") for axis in "XYZ"},
                # CUPTI writes 0 for a launch without clusters.
                **{f"cluster_{a.lower()}": number(f"cluster{a}", null=0) for a in "XYZ"},
                "registers_per_thread": number("registersPerThread"),
                "static_shared_bytes": number("staticSharedMemory"),
                "dynamic_shared_bytes": number("dynamicSharedMemory"),
                "executed_shared_bytes": number("sharedMemoryExecuted"),
                "local_per_thread_bytes": number("localMemoryPerThread"),
                "local_total_bytes": number("localMemoryTotal"),
                "launch_kind": label("launchType"),
                "graph_id": number("graphId"),
            },
        ),
    ),
    "memcpy": (
        Mapped(
            "memcpy",
            "CUPTI_ACTIVITY_KIND_MEMCPY",
            {
                **_SPAN,
                **_PLACE,
                **_CORRELATION,
                **_NODE,
                "bytes": number("bytes"),
                "kind": label("copyKind"),
                "src_memory": label("srcKind"),
                "dst_memory": label("dstKind"),
                "src_device_id": peer("srcDeviceId"),
                "dst_device_id": peer("dstDeviceId"),
                "copy_count": number("copyCount"),
                "migration_cause": label("migrationCause"),
                "virtual_address": number("virtualAddress"),
            },
        ),
    ),
    "memset": (
        Mapped(
            "memset",
            "CUPTI_ACTIVITY_KIND_MEMSET",
            {
                **_SPAN,
                **_PLACE,
                **_CORRELATION,
                **_NODE,
                "bytes": number("bytes"),
                "value": number("value"),
                "memory": label("memKind"),
            },
        ),
    ),
    "graph_launch": (
        Mapped(
            "graph_launch",
            "CUPTI_ACTIVITY_KIND_GRAPH_TRACE",
            {
                **_SPAN,
                **_PLACE,
                **_CORRELATION,
                "level": constant(0),
                "node_count": constant(0),
                "graph_id": number("graphId"),
                "graph_exec_id": number("graphExecId"),
            },
        ),
    ),
    "host_wait": (
        Mapped(
            "host_wait",
            SYNC,
            {**_WAIT, "kind": wait_kind()},
            host_wait_rows,
        ),
    ),
    "stream_wait": (Mapped("stream_wait", SYNC, _WAIT, stream_wait_rows),),
    "event_record": (
        Mapped(
            "event_record",
            "CUPTI_ACTIVITY_KIND_CUDA_EVENT",
            {
                **_PLACE,
                **_CORRELATION,
                "event_id": number("eventId"),
                "event_sync_id": number("eventSyncId", null=NO_ID),
                "device_time_ns": number("timestamp"),
            },
        ),
    ),
    "memory_event": (
        Mapped(
            "memory_event",
            "CUDA_GPU_MEMORY_USAGE_EVENTS",
            {
                "time_ns": required("start"),
                "process_id": place_process(),
                "device_id": place_device(),
                "context_id": place_context(),
                "correlation_id": number("correlationId", null=0),
                "operation": number("memoryOperationType"),
                "memory": label("memKind"),
                "bytes": number("bytes"),
                "address": number("address"),
                "pool_address": number("localMemoryPoolAddress"),
                "name_id": inline("name"),
            },
        ),
    ),
    "api_call": (
        Mapped(
            "api_call",
            "CUPTI_ACTIVITY_KIND_RUNTIME",
            {
                **_CALL,
                **_CORRELATION,
                "name_id": name("nameId"),
                "api": api_kind("nameId"),
                "return_value": number("returnValue"),
                "stack_id": stack("callchainId", CUDA_CHAINS),
            },
        ),
    ),
    "um_cpu_page_fault": (
        Mapped(
            "um_cpu_page_fault",
            CPU_FAULTS,
            {
                "time_ns": required("start"),
                "process_id": process("globalPid"),
                "address": required("address"),
                "pc": number("originalFaultPc"),
                "function_id": name("CpuInstruction"),
                "module_id": name("module"),
            },
        ),
    ),
    "um_gpu_page_fault": (
        Mapped(
            "um_gpu_page_fault",
            GPU_FAULTS,
            {
                **_SPAN,
                "device_id": place_device(),
                "process_id": place_process(),
                "address": required("address"),
                "faults": required("numberOfPageFaults"),
                "access": label("faultAccessType"),
            },
        ),
    ),
    "os_call": (
        Mapped(
            "os_call",
            "OSRT_API",
            {
                **_CALL,
                "name_id": name("nameId"),
                "return_value": number("returnValue"),
                "nesting_level": number("nestingLevel"),
                "stack_id": stack("callchainId", OS_CHAINS),
            },
            _rows_without("OSRT_API", *OS_TRACE_BEGAN),
        ),
    ),
    "library_call": tuple(
        Mapped(
            "library_call",
            source,
            {**_CALL, "library_id": constant_text(library), "name_id": name(column)},
            _rows_with(source, "end"),  # MPI calls that never returned have no end
        )
        for source, (library, column) in LIBRARY_TABLES.items()
    ),
    "cpu_sample": (
        Mapped(
            "cpu_sample",
            "COMPOSITE_EVENTS",
            {
                "time_ns": required("start"),
                "thread_id": thread(),
                "cpu": number("cpu"),
                "state": label("threadState"),
                "cycles": number("cpuCycles"),
                "period_ns": noted("warplinePeriodNs", sampling_period()),
                "stack_id": stack("id", SAMPLE_CHAINS),
            },
        ),
    ),
    "sched_event": (
        Mapped(
            "sched_event",
            "SCHED_EVENTS",
            {
                "time_ns": required("start"),
                "thread_id": thread(),
                "cpu": number("cpu"),
                "is_sched_in": flag("isSchedIn"),
                "state": label("threadState"),
                "stack_id": stack("warplineCallchainId", SWITCH_CHAINS),
            },
        ),
    ),
    "graph_node": (
        Mapped("graph_node", "CUDA_GRAPH_NODE_EVENTS", _NODE_CREATION),
        # Until 2022, events of graphs and of their nodes shared a table.
        Mapped("graph_node", GRAPH_EVENTS, _NODE_CREATION, _rows_with(GRAPH_EVENTS, "graphNodeId")),
    ),
    "overhead": tuple(
        Mapped("overhead", source, {**_SPAN, "thread_id": thread(), "name_id": name("nameId")})
        for source in ("PROFILER_OVERHEAD", "CUPTI_ACTIVITY_KIND_OVERHEAD")
    ),
    "diagnostic": (
        Mapped(
            "diagnostic",
            "DIAGNOSTIC_EVENT",
            {
                "time_ns": required("timestamp"),
                "severity": label("severity"),
                "text_id": inline("text"),
                "process_id": process("globalPid"),
            },
        ),
    ),
    "counter": (
        *(
            Mapped("counter", source, {"time_ns": sampled_at(), **_SAMPLE})
            for source in ("GPU_METRICS", "SOC_METRICS")
        ),
        *(
            Mapped("counter", source, {"time_ns": required("start"), **_SAMPLE})
            for source in NETWORK_TABLES
        ),
    ),
}

# A row per frame; `source` makes the tables stack and frame of them.
FRAME_ROWS = tuple(
    Mapped(
        "frame",
        source,
        {
            "symbol_id": name("symbol"),
            "module_id": name("module"),
            "kind": code_kind("kernelMode", "warplineKind"),
            "is_unresolved": flag("unresolved"),
            "address": number("originalIP"),
            "line": number("warplineLine"),
            "file_id": name("warplineFile"),
        },
    )
    for source in CHAIN_TABLES
)
