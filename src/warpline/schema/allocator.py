"""What the caching allocators of frameworks record: blocks, segments, and the tensors in them.

A segment is memory that the allocator got from the driver, and a block is a part of one. Events of
one GPU have different times, in the order in which they happened, across both tables of events.
"""

from __future__ import annotations

from warpline.schema.columns import TableSpec
from warpline.schema.declaring import enum, flag, number, ref, size, text, time
from warpline.schema.labels import (
    ALLOCATOR_DEVICES,
    BLOCK_STATES,
    MEMORY_OPERATIONS,
    SEGMENT_OPERATIONS,
    TENSOR_KINDS,
)

_STREAM = number("stream", "Handle of the stream; 0 for the default stream.", nullable=True)
_POOL = text("pool", "Private pool, such as that of a CUDA graph, as in torch: 0.1.", nullable=True)
_STACK = ref("stack_id", "stack", "Call stack.", nullable=True)
_EXISTING = flag("is_existing", "Whether it was there before recording began.", nullable=True)

ALLOCATOR_EVENT = TableSpec(
    "allocator_event",
    "One allocation or free of a block by the framework's caching allocator.",
    (
        time("time_ns", "Time."),
        ref("process_id", "process", "Process."),
        ref("thread_id", "thread", "CPU thread.", nullable=True),
        enum("memory", ALLOCATOR_DEVICES, "Host or device memory."),
        ref("device_id", "device", "GPU, for device memory.", nullable=True),
        enum("operation", MEMORY_OPERATIONS, "Allocation or free."),
        size(
            "bytes",
            "Bytes allocated or freed. In PyTorch's memory history, as requested: the block may be"
            " larger.",
        ),
        number("address", "Address of the block; unsigned 64-bit values wrap.", nullable=True),
        size("total_allocated_bytes", "Bytes in use afterwards.", nullable=True),
        size("total_reserved_bytes", "Bytes reserved from the driver.", nullable=True),
        _STREAM,
        _POOL,
        _STACK,
        _EXISTING,
    ),
    ("time_ns", "thread_id"),
)

SEGMENT_EVENT = TableSpec(
    "segment_event",
    "What else happened in the caching allocator: memory that it got from the driver or returned,"
    " blocks that could be used again after they were freed, failures.",
    (
        time("time_ns", "Time."),
        ref("process_id", "process", "Process."),
        ref("device_id", "device", "GPU; null for pinned host memory.", nullable=True),
        enum("operation", SEGMENT_OPERATIONS, "Operation."),
        size("bytes", "Size of the segment or block, or bytes that were requested.", nullable=True),
        number("address", "Address; unsigned 64-bit values wrap.", nullable=True),
        size("free_bytes", "When out of memory: free memory of the GPU.", nullable=True),
        _STREAM,
        _POOL,
        _STACK,
        _EXISTING,
    ),
    ("time_ns",),
)

ALLOCATOR_SEGMENT = TableSpec(
    "allocator_segment",
    "A segment of the caching allocator when a snapshot was taken.",
    (
        time("time_ns", "Time of the snapshot."),
        ref("process_id", "process", "Process."),
        ref("device_id", "device", "GPU; null for pinned host memory.", nullable=True),
        number("address", "Address; unsigned 64-bit values wrap."),
        size("bytes", "Size: memory that is reserved from the driver."),
        _STREAM,
        _POOL,
        flag("is_large", "Whether it is for blocks above 1 MiB.", nullable=True),
        flag("is_expandable", "Whether it can grow.", nullable=True),
        _STACK,
    ),
    ("time_ns", "address"),
)

ALLOCATOR_BLOCK = TableSpec(
    "allocator_block",
    "A block of the caching allocator when a snapshot was taken. The blocks of a segment fill it.",
    (
        time("time_ns", "Time of the snapshot."),
        ref("process_id", "process", "Process."),
        ref("device_id", "device", "GPU; null for pinned host memory.", nullable=True),
        number("segment_address", "Address of its segment; unsigned 64-bit values wrap."),
        number("address", "Address; unsigned 64-bit values wrap."),
        size("bytes", "Size."),
        size("requested_bytes", "Size that was requested; null if inactive.", nullable=True),
        enum("state", BLOCK_STATES, "Whether it is in use."),
        _STACK,
    ),
    ("time_ns", "address"),
)

TENSOR_BLOCK = TableSpec(
    "tensor_block",
    "The memory of a tensor of the program whose role is known, from when it was first seen.",
    (
        time("time_ns", "Time."),
        ref("process_id", "process", "Process."),
        ref("device_id", "device", "GPU."),
        number("address", "Address of its storage; unsigned 64-bit values wrap."),
        size("bytes", "Size of its storage."),
        enum("kind", TENSOR_KINDS, "Role."),
        text("name", "Path, as in GPT.blocks.0.attn.qkv.weight."),
        text("module", "Path of its module, as in GPT.blocks.0.attn.qkv.", nullable=True),
    ),
    ("time_ns", "address"),
)

TABLES = (
    ALLOCATOR_EVENT,
    SEGMENT_EVENT,
    ALLOCATOR_SEGMENT,
    ALLOCATOR_BLOCK,
    TENSOR_BLOCK,
)
