"""Our declarations of CUPTI's records, compared with NVIDIA's headers if these are installed."""

from __future__ import annotations

import functools
import re
import shutil

import pytest
from agent_cuda.cupti_headers import CUDA_INCLUDE, compile_against, header_folders

# Ours: NVIDIA's, whose newest form of the record is taken; then our fields and theirs.
RECORDS = {
    "KernelRecord": (
        "Kernel",
        {
            "registers_per_thread": "registersPerThread",
            "start": "start",
            "end": "end",
            "device": "deviceId",
            "context": "contextId",
            "stream": "streamId",
            "grid": "gridX",
            "block": "blockX",
            "static_shared_bytes": "staticSharedMemory",
            "dynamic_shared_bytes": "dynamicSharedMemory",
            "local_bytes_per_thread": "localMemoryPerThread",
            "correlation": "correlationId",
            "name": "name",
            "launch_type": "launchType",
            "executed_shared_bytes": "sharedMemoryExecuted",
            "graph_node": "graphNodeId",
            "graph": "graphId",
            "cluster": "clusterX",
            "cluster_policy": "clusterSchedulingPolicy",
            "local_bytes": "localMemoryTotal_v2",
            "is_device_launched": "isDeviceLaunched",
        },
    ),
    "CopyRecord": (
        "Memcpy",
        {
            "copy_kind": "copyKind",
            "source_memory": "srcKind",
            "destination_memory": "dstKind",
            "flags": "flags",
            "bytes": "bytes",
            "start": "start",
            "end": "end",
            "device": "deviceId",
            "context": "contextId",
            "stream": "streamId",
            "correlation": "correlationId",
            "graph_node": "graphNodeId",
            "graph": "graphId",
            "copies": "copyCount",
        },
    ),
    "PeerCopyRecord": (
        "MemcpyPtoP",
        {
            "copy_kind": "copyKind",
            "flags": "flags",
            "bytes": "bytes",
            "start": "start",
            "end": "end",
            "device": "deviceId",
            "source_device": "srcDeviceId",
            "source_context": "srcContextId",
            "destination_device": "dstDeviceId",
            "destination_context": "dstContextId",
            "correlation": "correlationId",
            "graph_node": "graphNodeId",
            "graph": "graphId",
        },
    ),
    "FillRecord": (
        "Memset",
        {
            "value": "value",
            "bytes": "bytes",
            "start": "start",
            "end": "end",
            "device": "deviceId",
            "correlation": "correlationId",
            "flags": "flags",
            "memory": "memoryKind",
            "graph_node": "graphNodeId",
            "graph": "graphId",
        },
    ),
    "GraphRecord": (
        "GraphTrace",
        {
            "correlation": "correlationId",
            "start": "start",
            "end": "end",
            "device": "deviceId",
            "graph": "graphId",
            "context": "contextId",
            "stream": "streamId",
            "end_device": "endDeviceId",
            "end_context": "endContextId",
        },
    ),
    "WaitRecord": (
        "Synchronization",
        {
            "type": "type",
            "start": "start",
            "end": "end",
            "correlation": "correlationId",
            "context": "contextId",
            "stream": "streamId",
            "event": "cudaEventId",
            "event_sync": "cudaEventSyncId",
            "status": "returnValue",
        },
    ),
    "EventRecord": (
        "CudaEvent",
        {
            "correlation": "correlationId",
            "context": "contextId",
            "stream": "streamId",
            "event": "eventId",
            "device": "deviceId",
            "device_time": "deviceTimestamp",
            "event_sync": "cudaEventSyncId",
        },
    ),
    "StreamRecord": (
        "Stream",
        {"context": "contextId", "stream": "streamId", "priority": "priority", "flag": "flag"},
    ),
    "ContextRecord": (
        "Context",
        {
            "context": "contextId",
            "device": "deviceId",
            "null_stream": "nullStreamId",
            "parent": "parentContextId",
            "is_green": "isGreenContext",
        },
    ),
    "DeviceRecord": (
        "Device",
        {
            "memory_kilobytes_per_s": "globalMemoryBandwidth",
            "memory_bytes": "globalMemorySize",
            "l2_bytes": "l2CacheSize",
            "warp_size": "numThreadsPerWarp",
            "clock_khz": "coreClockRate",
            "multiprocessors": "numMultiprocessors",
            "max_warps_per_multiprocessor": "maxWarpsPerMultiprocessor",
            "max_shared_per_multiprocessor": "maxSharedMemoryPerMultiprocessor",
            "max_registers_per_multiprocessor": "maxRegistersPerMultiprocessor",
            "compute_major": "computeCapabilityMajor",
            "compute_minor": "computeCapabilityMinor",
            "device": "id",
            "uuid": "uuid",
            "name": "name",
            "is_mig": "isMigEnabled",
        },
    ),
    "OverheadRecord": (
        "Overhead",
        {
            "overhead": "overheadKind",
            "object": "objectKind",
            "ids": "objectId",
            "start": "start",
            "end": "end",
            "correlation": "correlationId",
        },
    ),
    "MemoryRecord": (
        "Memory",
        {
            "operation": "memoryOperationType",
            "memory": "memoryKind",
            "correlation": "correlationId",
            "address": "address",
            "bytes": "bytes",
            "time": "timestamp",
            "device": "deviceId",
            "context": "contextId",
            "stream": "streamId",
            "name": "name",
            "is_async": "isAsync",
            "pool_type": "memoryPoolConfig.memoryPoolType",
            "pool_address": "memoryPoolConfig.address",
            "pool_threshold": "memoryPoolConfig.releaseThreshold",
            "pool_size": "memoryPoolConfig.pool.size",
            "pool_used": "memoryPoolConfig.utilizedSize",
        },
    ),
    "UnifiedMemoryRecord": (
        "UnifiedMemoryCounter",
        {
            "counter": "counterKind",
            "value": "value",
            "start": "start",
            "end": "end",
            "address": "address",
            "source": "srcId",
            "destination": "dstId",
            "process": "processId",
            "flags": "flags",
        },
    ),
    "PoolRecord": (
        "MemoryPool",
        {
            "operation": "memoryPoolOperationType",
            "type": "memoryPoolType",
            "correlation": "correlationId",
            "device": "deviceId",
            "min_bytes_to_keep": "minBytesToKeep",
            "address": "address",
            "size": "size",
            "threshold": "releaseThreshold",
            "time": "timestamp",
            "used": "utilizedSize",
        },
    ),
}
CHOICES = {
    "UnifiedMemoryChoice": (
        "CUpti_ActivityUnifiedMemoryCounterConfig",
        {"scope": "scope", "counter": "kind", "device": "deviceId", "is_on": "enable"},
    ),
}
CALLBACKS = {
    "CallData": (
        "CUpti_CallbackData",
        {
            "site": "callbackSite",
            "status": "functionReturnValue",
            "correlation": "correlationId",
        },
    ),
    "ModuleData": (
        "CUpti_ModuleResourceData",
        {"module": "moduleId", "bytes": "cubinSize", "image": "pCubin"},
    ),
    "ResourceData": ("CUpti_ResourceData", {"descriptor": "resourceDescriptor"}),
    "GraphData": (
        "CUpti_GraphData",
        {
            "graph": "graph",
            "node": "node",
            "original_node": "originalNode",
            "node_type": "nodeType",
        },
    ),
    "SubscriberParams": (
        "CUpti_SubscriberParams",
        {
            "bytes": "structSize",
            "name": "subscriberName",
            "other_name": "oldSubscriberName",
            "other_name_bytes": "oldSubscriberSize",
            "allow_others": "allowMultipleSubscribers",
        },
    ),
}
CONSTANTS = {
    "kOtherSubscriber": "CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED",
    "kEndOfBuffer": "CUPTI_ERROR_MAX_LIMIT_REACHED",
    "kInvalidKind": "CUPTI_ERROR_INVALID_KIND",
    "kNotInitialized": "CUPTI_ERROR_NOT_INITIALIZED",
    "kNotSupported": "CUPTI_ERROR_NOT_SUPPORTED",
    "kScopeOfOneDevice": "CUPTI_ACTIVITY_UNIFIED_MEMORY_COUNTER_SCOPE_PROCESS_SINGLE_DEVICE",
    "kContextBegins": "CUPTI_CBID_RESOURCE_CONTEXT_CREATED",
    "kContextEnds": "CUPTI_CBID_RESOURCE_CONTEXT_DESTROY_STARTING",
    "kModuleLoaded": "CUPTI_CBID_RESOURCE_MODULE_LOADED",
    "kModuleEnds": "CUPTI_CBID_RESOURCE_MODULE_UNLOAD_STARTING",
    "kGraphNodeCreated": "CUPTI_CBID_RESOURCE_GRAPHNODE_CREATED",
    "kGraphNodeCloned": "CUPTI_CBID_RESOURCE_GRAPHNODE_CLONED",
    "kThreadIdsOfSystem": "CUPTI_ACTIVITY_THREAD_ID_TYPE_SYSTEM",
    "kFlushForced": "CUPTI_ACTIVITY_FLAG_FLUSH_FORCED",
}
# From 13.3 on: attributes, and functions and callbacks by the sizes of what they take.
ATTRIBUTES = {
    "kBuffersAreZeroed": "ZEROED_OUT_ACTIVITY_BUFFER",
    "kGraphsAreWhole": "ENABLE_MULTI_SUBSCRIBER_GRAPH_TRACE",
    "kThreadIdType": "THREAD_ID_TYPE",
}
SUBSCRIBER_FUNCTIONS = {
    "register_callbacks": "cuptiActivityRegisterCallbacks_v2",
    "enable": "cuptiActivityEnable_v2",
    "disable": "cuptiActivityDisable_v2",
    "enable_and_dump": "cuptiActivityEnableAndDump_v2",
    "next_record": "cuptiActivityGetNextRecord_v2",
    "dropped_records": "cuptiActivityGetNumDroppedRecords_v2",
    "set_attribute": "cuptiActivitySetAttribute_v2",
    "get_attribute": "cuptiActivityGetAttribute_v2",
    "get_timestamp": "cuptiGetTimestamp_v2",
}
SUBSCRIBER_CALLBACKS = {
    "RequestBufferV2": "CUpti_BuffersCallbackRequestFunc_v2",
    "BufferDoneV2": "CUpti_BuffersCallbackCompleteFunc_v2",
}
SIZES = """
template <class> struct Sizes;
template <class R, class... A> struct Sizes<R (*)(A...)> {
  using All = std::integer_sequence<std::size_t, sizeof(A)...>;
};
template <class A, class B>
constexpr bool alike = std::is_same_v<typename Sizes<A>::All, typename Sizes<B>::All>;
"""
KINDS = {
    "kMemcpy": "MEMCPY",
    "kMemset": "MEMSET",
    "kDevice": "DEVICE",
    "kContext": "CONTEXT",
    "kConcurrentKernel": "CONCURRENT_KERNEL",
    "kOverhead": "OVERHEAD",
    "kMemcpyPeer": "MEMCPY2",
    "kUnifiedMemory": "UNIFIED_MEMORY_COUNTER",
    "kCudaEvent": "CUDA_EVENT",
    "kStream": "STREAM",
    "kSynchronization": "SYNCHRONIZATION",
    "kMemory": "MEMORY2",
    "kMemoryPool": "MEMORY_POOL",
    "kGraphTrace": "GRAPH_TRACE",
}
UNIFIED_MEMORY = {
    "kToDevice": "BYTES_TRANSFER_HTOD",
    "kToHost": "BYTES_TRANSFER_DTOH",
    "kBetweenDevices": "BYTES_TRANSFER_DTOD",
    "kCpuFault": "CPU_PAGE_FAULT_COUNT",
    "kGpuFault": "GPU_PAGE_FAULT",
}


@functools.cache
def _text(path):
    return re.sub(r"/\*.*?\*/", "", path.read_text(), flags=re.DOTALL)


def _newest(text, family):
    numbers = re.findall(rf"^\}} ?CUpti_Activity{family}(\d*);", text, re.MULTILINE)
    newest = max(int(number or 0) for number in numbers)
    return f"CUpti_Activity{family}{newest or ''}"


def _has(text, struct, field):
    """Tell whether a struct has a field: its body is what lies between its braces."""
    end = text.index(f"}} {struct};") if f"}} {struct};" in text else text.index(f"}}{struct};")
    depth, at = 1, end
    while depth:
        at -= 1
        depth += {"}": 1, "{": -1}.get(text[at], 0)
    return re.search(rf"\b{field.split('.', maxsplit=1)[0]}\b", text[at:end]) is not None


def _of_subscribers():
    """Return lines about what takes a subscriber."""
    functions = (
        (f"decltype(ours::SubscriberFunctions::{ours})", f"decltype(&{theirs})")
        for ours, theirs in SUBSCRIBER_FUNCTIONS.items()
    )
    callbacks = ((f"ours::{ours}", theirs) for ours, theirs in SUBSCRIBER_CALLBACKS.items())
    yield SIZES
    yield from (f"static_assert(alike<{ours}, {theirs}>);" for ours, theirs in functions)
    yield from (f"static_assert(alike<{ours}, {theirs}>);" for ours, theirs in callbacks)
    for ours, theirs in ATTRIBUTES.items():
        yield f"static_assert(static_cast<long>(ours::{ours}) == CUPTI_ACTIVITY_ATTR_{theirs});"


def _program(folder):
    activity = _text(folder / "cupti_activity.h")
    callbacks = _text(folder / "cupti_callbacks.h")
    headers = ["cstddef", "type_traits", "utility"]
    headers += ["cupti_result.h", "cupti_callbacks.h", "cupti_activity.h"]
    lines = ['#include "cupti/abi.h"', *(f"#include <{header}>" for header in headers)]
    lines.append("namespace ours = warpline::cupti;")
    pairs = [(ours, _newest(activity, family), f) for ours, (family, f) in RECORDS.items()]
    checked = [(ours, theirs, fields, activity) for ours, theirs, fields in pairs]
    checked += [(ours, *rest, activity) for ours, rest in CHOICES.items()]
    checked += [
        (ours, *rest, callbacks) for ours, rest in CALLBACKS.items() if rest[0] in callbacks
    ]
    for ours, theirs, fields, text in checked:
        for our_field, their_field in fields.items():
            if not _has(text, theirs, their_field):
                continue
            us, them = f"ours::{ours}", theirs
            lines.append(
                f"static_assert(offsetof({us}, {our_field}) == offsetof({them}, {their_field}));"
            )
            if our_field not in ("grid", "block", "cluster", "uuid"):
                lines.append(
                    f"static_assert(sizeof({us}::{our_field}) == "
                    f"sizeof((({them}*)nullptr)->{their_field}));"
                )
    for ours, theirs in CONSTANTS.items():
        lines.append(f"static_assert(static_cast<long>(ours::{ours}) == {theirs});")
    for ours, theirs in KINDS.items():
        kind = f"CUPTI_ACTIVITY_KIND_{theirs}"
        lines.append(f"static_assert(static_cast<long>(ours::Kind::{ours}) == {kind});")
    lines.append("static_assert(sizeof(ours::UnifiedMemoryChoice) == 16);")
    for ours, theirs in UNIFIED_MEMORY.items():
        kind = f"CUPTI_ACTIVITY_UNIFIED_MEMORY_COUNTER_KIND_{theirs}"
        lines.append(f"static_assert(static_cast<long>(ours::UnifiedMemory::{ours}) == {kind});")
    if "cuptiGetTimestamp_v2" in activity:
        lines += _of_subscribers()
    return "\n".join(lines) + "\n"


def test_fields_are_where_nvidias_headers_have_them(tmp_path):
    # The records need more of cuda.h than a package of CUPTI has.
    has_cuda_h = (CUDA_INCLUDE / "cuda.h").is_file()
    folders = [one for one in header_folders() if has_cuda_h or (one / "cuda.h").is_file()]
    if not folders or shutil.which("c++") is None:
        pytest.skip("no headers of CUPTI, or no compiler")
    for folder in folders:
        compile_against(folder, [_program(folder)], tmp_path)
