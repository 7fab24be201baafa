"""What GPUs executed: kernels, copies, memsets and CUDA graphs."""

from __future__ import annotations

from warpline.schema.columns import TableSpec
from warpline.schema.declaring import SPAN, enum, number, ref, size, text, time
from warpline.schema.labels import (
    COPY_KINDS,
    GRAPH_LEVELS,
    LAUNCH_KINDS,
    MEMORY_KINDS,
    MIGRATION_CAUSES,
)

_PLACE = (
    ref("device_id", "device", "GPU."),
    ref("context_id", "context", "CUDA context."),
    ref("stream_id", "stream", "CUDA stream."),
    ref("process_id", "process", "Launching process."),
)
_CORRELATION = number(
    "correlation_id",
    "Correlation id; links the GPU operation to its launch call. Unique within a process.",
    nullable=True,
)
_GRAPH_NODE_ID = number(
    "graph_node_id", "CUDA graph node id, if launched by a CUDA graph.", nullable=True
)
_ORDER = ("start_ns", "end_ns", "device_id", "stream_id", "correlation_id")

KERNEL = TableSpec(
    "kernel",
    "One kernel execution on a GPU.",
    (
        *SPAN,
        *_PLACE,
        _CORRELATION,
        text("name", "Demangled name with template arguments."),
        text("short_name", "Base name without arguments."),
        text("mangled_name", "Mangled name.", nullable=True),
        *(number(f"grid_{axis}", f"Blocks of the grid in {axis}.") for axis in "xyz"),
        *(number(f"block_{axis}", f"Threads of a block in {axis}.") for axis in "xyz"),
        *(number(f"cluster_{axis}", f"Cluster size in {axis}.", nullable=True) for axis in "xyz"),
        number("registers_per_thread", "Registers per thread."),
        size("static_shared_bytes", "Static shared memory per block."),
        size("dynamic_shared_bytes", "Dynamic shared memory per block."),
        size("executed_shared_bytes", "Shared memory configured for execution.", nullable=True),
        size("local_per_thread_bytes", "Local memory per thread.", nullable=True),
        size("local_total_bytes", "Local memory of the launch.", nullable=True),
        enum("launch_kind", LAUNCH_KINDS, "Kind of launch.", nullable=True),
        _GRAPH_NODE_ID,
        number("graph_id", "CUDA graph id, if launched by a CUDA graph.", nullable=True),
        number("green_context_id", "CUDA green context id.", nullable=True),
    ),
    _ORDER,
)

MEMCPY = TableSpec(
    "memcpy",
    "One memory copy (memcpy), or migration of unified memory, which no call launches.",
    (
        *SPAN,
        *_PLACE,
        _CORRELATION,
        size("bytes", "Bytes copied."),
        enum("kind", COPY_KINDS, "Direction."),
        enum("src_memory", MEMORY_KINDS, "Kind of the source memory.", nullable=True),
        enum("dst_memory", MEMORY_KINDS, "Kind of the destination memory.", nullable=True),
        ref("src_device_id", "device", "Source GPU of a peer copy.", nullable=True),
        ref("dst_device_id", "device", "Destination GPU of a peer copy.", nullable=True),
        number("copy_count", "Number of copies in a batch.", nullable=True),
        enum("migration_cause", MIGRATION_CAUSES, "Cause of a migration.", nullable=True),
        number("virtual_address", "First address of the migrated pages.", nullable=True),
        _GRAPH_NODE_ID,
        number("green_context_id", "CUDA green context id.", nullable=True),
    ),
    _ORDER,
)

MEMSET = TableSpec(
    "memset",
    "One memset of device memory.",
    (
        *SPAN,
        *_PLACE,
        _CORRELATION,
        size("bytes", "Bytes set."),
        number("value", "Value written."),
        enum("memory", MEMORY_KINDS, "Memory kind.", nullable=True),
        _GRAPH_NODE_ID,
        number("green_context_id", "CUDA green context id.", nullable=True),
    ),
    _ORDER,
)

GRAPH_LAUNCH = TableSpec(
    "graph_launch",
    "One execution of a CUDA graph on a GPU. With graph-level tracing, this row represents all of "
    "its nodes, which have no rows. With node-level tracing, it spans the rows of its nodes.",
    (
        *SPAN,
        *_PLACE,
        _CORRELATION,
        enum("level", GRAPH_LEVELS, "Tracing level: graph or node."),
        number("node_count", "Recorded operations of this launch; 0 at graph level."),
        number("graph_id", "CUDA graph id.", nullable=True),
        number("graph_exec_id", "Id of the instantiated CUDA graph.", nullable=True),
    ),
    _ORDER,
)

GRAPH_NODE = TableSpec(
    "graph_node",
    "One creation of a CUDA graph node.",
    (
        time("time_ns", "Time."),
        ref("process_id", "process", "Process."),
        ref("thread_id", "thread", "Creating thread."),
        number("graph_node_id", "CUDA graph node id."),
        number("original_graph_node_id", "Id of the node it was cloned from.", nullable=True),
        text("name", "Recorded event name."),
    ),
    ("time_ns", "graph_node_id"),
)

TABLES = (
    KERNEL,
    MEMCPY,
    MEMSET,
    GRAPH_LAUNCH,
    GRAPH_NODE,
)
