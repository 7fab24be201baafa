"""How the columns of a trace map to the tables of an Nsight Systems SQLite export."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from warpline.exporters.nsys_backtraces import CHAIN_TABLES
from warpline.schema.labels import (
    COPY_KINDS,
    LAUNCH_KINDS,
    MEMORY_KINDS,
    MEMORY_OPERATIONS,
    MIGRATION_CAUSES,
    PAGE_ACCESSES,
    SEVERITIES,
    THREAD_STATES,
)

NO_ID = 0xFFFF_FFFF  # CUPTI's value for no stream or event
SCHEMA_VERSION = "3.20"  # of nsys; the first with the newest column written here


@dataclass(frozen=True)
class Filled:
    """A column of the trace; nulls become the number `fill`."""

    column: str
    fill: int


@dataclass(frozen=True)
class Inline:
    """A column of strings that are stored in the row itself."""

    column: str


@dataclass(frozen=True)
class Extra:
    """A column of the trace that nsys does not have; it is left out if all of it is null."""

    column: str


@dataclass(frozen=True)
class RowNumber:
    """The number of the row, counted from 1."""


# A column of the trace, with references replaced by native ids; or a constant for all rows.
Source = str | int | Filled | Inline | Extra | RowNumber


@dataclass(frozen=True)
class SqlTable:
    """A table of the export.

    Attributes:
        name: Its name.
        table: The table of the trace that its rows come from.
        columns: Its columns and the source of each.
    """

    name: str
    table: str
    columns: Mapping[str, Source]


_SPAN: Mapping[str, Source] = {"start": "start_ns", "end": "end_ns"}
_PLACE: Mapping[str, Source] = {
    "deviceId": "device_id",
    "contextId": "context_id",
    "streamId": "stream_id",
    "correlationId": "correlation_id",
    "globalPid": "process_id",
}
_WORK: Mapping[str, Source] = {
    **_SPAN,
    **_PLACE,
    "greenContextId": "green_context_id",
    "graphNodeId": "graph_node_id",
}
_WAIT: Mapping[str, Source] = {
    **_SPAN,
    **_PLACE,
    "streamId": Filled("stream_id", NO_ID),
    "eventId": Filled("event_id", NO_ID),
    "eventSyncId": Filled("event_sync_id", NO_ID),
}
_STREAM_WAIT = 2  # CUPTI's type for a wait between streams, without the CPU
SYNC = "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION"

SQL_TABLES: tuple[SqlTable, ...] = (
    SqlTable(
        "CUPTI_ACTIVITY_KIND_KERNEL",
        "kernel",
        {
            **_WORK,
            "demangledName": "name_id",
            "shortName": "short_name_id",
            "mangledName": "mangled_name_id",
            "launchType": "launch_kind",
            "registersPerThread": "registers_per_thread",
            **{f"grid{axis.upper()}": f"grid_{axis}" for axis in "xyz"},
            **{f"block{axis.upper()}": f"block_{axis}" for axis in "xyz"},
            **{f"cluster{axis.upper()}": f"cluster_{axis}" for axis in "xyz"},
            "staticSharedMemory": "static_shared_bytes",
            "dynamicSharedMemory": "dynamic_shared_bytes",
            "sharedMemoryExecuted": "executed_shared_bytes",
            "localMemoryPerThread": "local_per_thread_bytes",
            "localMemoryTotal": "local_total_bytes",
            "gridId": 0,
            "graphId": "graph_id",
        },
    ),
    SqlTable(
        "CUPTI_ACTIVITY_KIND_MEMCPY",
        "memcpy",
        {
            **_WORK,
            "bytes": "bytes",
            "copyKind": "kind",
            "srcKind": "src_memory",
            "dstKind": "dst_memory",
            "srcDeviceId": "src_device_id",
            "dstDeviceId": "dst_device_id",
            "copyCount": "copy_count",
            "migrationCause": "migration_cause",
            "virtualAddress": "virtual_address",
        },
    ),
    SqlTable(
        "CUPTI_ACTIVITY_KIND_MEMSET",
        "memset",
        {**_WORK, "bytes": "bytes", "value": "value", "memKind": "memory"},
    ),
    SqlTable(
        "CUPTI_ACTIVITY_KIND_RUNTIME",
        "api_call",
        {
            **_SPAN,
            "eventClass": Filled("api", 0),
            "globalTid": "thread_id",
            "correlationId": "correlation_id",
            "nameId": "name_id",
            "returnValue": "return_value",
            "callchainId": "stack_id",
        },
    ),
    SqlTable(SYNC, "host_wait", {**_WAIT, "syncType": "kind"}),
    SqlTable(SYNC, "stream_wait", {**_WAIT, "syncType": _STREAM_WAIT}),
    SqlTable(
        "CUPTI_ACTIVITY_KIND_CUDA_EVENT",
        "event_record",
        {
            **_PLACE,
            "eventId": "event_id",
            "eventSyncId": Filled("event_sync_id", NO_ID),
            "timestamp": "device_time_ns",
        },
    ),
    SqlTable(
        "CUDA_GPU_MEMORY_USAGE_EVENTS",
        "memory_event",
        {
            "start": "time_ns",
            "globalPid": "process_id",
            "deviceId": "device_id",
            "contextId": Filled("context_id", NO_ID),
            "address": "address",
            "bytes": "bytes",
            "memKind": "memory",
            "memoryOperationType": "operation",
            "name": Inline("name_id"),
            "correlationId": Filled("correlation_id", 0),
            "localMemoryPoolAddress": "pool_address",
        },
    ),
    SqlTable(
        "CUDA_UM_CPU_PAGE_FAULT_EVENTS",
        "um_cpu_page_fault",
        {
            "start": "time_ns",
            "globalPid": "process_id",
            "address": "address",
            "originalFaultPc": "pc",
            "CpuInstruction": "function_id",
            "module": "module_id",
        },
    ),
    SqlTable(
        "CUDA_UM_GPU_PAGE_FAULT_EVENTS",
        "um_gpu_page_fault",
        {
            **_SPAN,
            "globalPid": "process_id",
            "deviceId": "device_id",
            "address": "address",
            "numberOfPageFaults": "faults",
            "faultAccessType": "access",
        },
    ),
    SqlTable(
        "OSRT_API",
        "os_call",
        {
            **_SPAN,
            "eventClass": 27,
            "globalTid": "thread_id",
            "nameId": "name_id",
            "returnValue": "return_value",
            "nestingLevel": "nesting_level",
            "callchainId": Filled("stack_id", 0),
        },
    ),
    SqlTable(
        "SCHED_EVENTS",
        "sched_event",
        {
            "start": "time_ns",
            "cpu": "cpu",
            "isSchedIn": "is_sched_in",
            "globalTid": "thread_id",
            "threadState": "state",
            "warplineCallchainId": Extra("stack_id"),
        },
    ),
    SqlTable(
        "COMPOSITE_EVENTS",
        "cpu_sample",
        {
            "id": RowNumber(),
            "start": "time_ns",
            "cpu": "cpu",
            "threadState": "state",
            "globalTid": "thread_id",
            "cpuCycles": "cycles",
            "warplinePeriodNs": Extra("period_ns"),
        },
    ),
    SqlTable(
        "CUDA_GRAPH_NODE_EVENTS",
        "graph_node",
        {
            "start": "time_ns",
            "globalTid": "thread_id",
            "graphNodeId": "graph_node_id",
            "originalGraphNodeId": "original_graph_node_id",
            "nameId": "name_id",
        },
    ),
    SqlTable(
        "PROFILER_OVERHEAD",
        "overhead",
        {**_SPAN, "globalTid": "thread_id", "nameId": "name_id", "returnValue": 0},
    ),
    SqlTable(
        "DIAGNOSTIC_EVENT",
        "diagnostic",
        {
            "timestamp": "time_ns",
            "timestampType": 1,
            "source": 1,
            "severity": "severity",
            "text": Inline("text_id"),
            "globalPid": "process_id",
        },
    ),
)

GRAPHS, NVTX = "CUPTI_ACTIVITY_KIND_GRAPH_TRACE", "NVTX_EVENTS"

# Each event table of the export and a table of the trace that it comes from. The last ones do not
# map one to one: `exporters.sqlite` has code for them.
SOURCES: tuple[tuple[str, str], ...] = (
    *((item.name, item.table) for item in SQL_TABLES),
    (GRAPHS, "graph_launch"),
    (NVTX, "range"),
    (NVTX, "mark"),
    (NVTX, "python_sample"),
    (NVTX, "gil_span"),
    *((name, table) for table, name in CHAIN_TABLES.items()),
)

ENUMERATIONS: Mapping[str, Mapping[int, str]] = {
    "ENUM_CUDA_MEMCPY_OPER": COPY_KINDS,
    "ENUM_CUDA_MEM_KIND": MEMORY_KINDS,
    "ENUM_CUDA_KERNEL_LAUNCH_TYPE": LAUNCH_KINDS,
    "ENUM_CUDA_DEV_MEM_EVENT_OPER": MEMORY_OPERATIONS,
    "ENUM_CUDA_UNIF_MEM_MIGRATION": MIGRATION_CAUSES,
    "ENUM_CUDA_UNIF_MEM_ACCESS_TYPE": PAGE_ACCESSES,
    "ENUM_DIAGNOSTIC_SEVERITY_LEVEL": SEVERITIES,
    "ENUM_SAMPLING_THREAD_STATE": THREAD_STATES,
    "ENUM_CUPTI_SYNC_TYPE": {
        0: "Unknown",
        1: "Event sync",
        2: "Stream wait sync",
        3: "Stream sync",
        4: "Context sync",
    },
    "ENUM_NSYS_EVENT_TYPE": {
        33: "NvtxCategory",
        34: "NvtxMark",
        59: "NvtxPushPopRange",
        60: "NvtxStartEndRange",
        75: "NvtxDomainCreate",
    },
}
