"""The numbers of enumerations and their texts."""

from __future__ import annotations

from collections.abc import Mapping

COPY_KINDS: Mapping[int, str] = {
    0: "Unknown",
    1: "Host-to-Device",
    2: "Device-to-Host",
    3: "Host-to-Array",
    4: "Array-to-Host",
    5: "Array-to-Array",
    6: "Array-to-Device",
    7: "Device-to-Array",
    8: "Device-to-Device",
    9: "Host-to-Host",
    10: "Peer-to-Peer",
    11: "Unified Host-to-Device",
    12: "Unified Device-to-Host",
    13: "Unified Device-to-Device",
}
MEMORY_KINDS: Mapping[int, str] = {
    0: "Pageable",
    1: "Pinned",
    2: "Device",
    3: "Array",
    4: "Managed",
    5: "Device Static",
    6: "Managed Static",
    7: "Unknown",
}
MIGRATION_CAUSES: Mapping[int, str] = {
    0: "Unknown",
    1: "User prefetch",
    2: "Page fault",
    3: "Speculative prefetch",
    4: "Eviction",
    5: "Access counters",
}
PAGE_ACCESSES: Mapping[int, str] = {
    0: "Unknown",
    1: "Read",
    2: "Write",
    3: "Atomic",
    4: "Prefetch",
}
LAUNCH_KINDS: Mapping[int, str] = {
    0: "Unknown",
    1: "Regular",
    2: "Cooperative",
    3: "Cooperative multi-device",
}
WAIT_KINDS: Mapping[int, str] = {0: "Unknown", 1: "Event", 3: "Stream", 4: "Context"}
API_KINDS: Mapping[int, str] = {0: "Runtime", 1: "Driver"}
RANGE_STYLES: Mapping[int, str] = {0: "PushPop", 1: "StartEnd"}
GRAPH_LEVELS: Mapping[int, str] = {0: "Graph", 1: "Node"}
MEMORY_OPERATIONS: Mapping[int, str] = {0: "Allocation", 1: "Deallocation"}
ALLOCATOR_DEVICES: Mapping[int, str] = {0: "Host", 1: "Device"}
SEGMENT_OPERATIONS: Mapping[int, str] = {
    0: "Segment allocation",
    1: "Segment release",
    2: "Segment map",
    3: "Segment unmap",
    4: "Free completed",
    5: "Out of memory",
    6: "Snapshot",
}
BLOCK_STATES: Mapping[int, str] = {0: "Allocated", 1: "Awaiting free", 2: "Inactive"}
TENSOR_KINDS: Mapping[int, str] = {
    0: "Parameter",
    1: "Buffer",
    2: "Gradient",
    3: "Optimizer state",
    4: "Input",
}
FRAME_KINDS: Mapping[int, str] = {0: "Function", 1: "Built-in", 2: "Module"}
CODE_KINDS: Mapping[int, str] = {0: "Unknown", 1: "Native", 2: "Kernel", 3: "Python"}
SEVERITIES: Mapping[int, str] = {0: "Unknown", 1: "Info", 2: "Warning", 3: "Error", 4: "Verbose"}
STREAM_KINDS: Mapping[int, str] = {0: "Unknown", 1: "Default", 2: "Non-blocking", 3: "Null"}
THREAD_STATES: Mapping[int, str] = {
    0: "Unknown",
    1: "Running",
    2: "Interruptible",
    3: "Uninterruptible",
    4: "Stopped",
    5: "Terminated",
    6: "Unscheduled",
    7: "Waiting",
    8: "OS runtime",
    9: "Initialized",
    10: "Transition",
}

GIL_STATES: Mapping[int, str] = {0: "Unknown", 1: "Holding", 2: "Waiting"}

# Kinds of messages of Nsight Compute's rules.
MESSAGE_KINDS: Mapping[int, str] = {
    0: "none",
    1: "info",
    2: "warning",
    3: "error",
    4: "optimization",
}

# What an estimated speedup is of: the unit that a rule is about, or the whole kernel.
SPEEDUP_KINDS: Mapping[int, str] = {0: "unknown", 1: "local", 2: "global"}

# Languages of source lines.
SOURCE_KINDS: Mapping[int, str] = {0: "source", 1: "ptx"}

# What code from torch.compile calls.
COMPILED_KERNEL_KINDS: Mapping[int, str] = {0: "Triton", 1: "Operator", 2: "C++"}
