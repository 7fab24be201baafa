"""The tables of a trace, schema version 1: the single source of names, types and units."""

from __future__ import annotations

from collections.abc import Mapping

from warpline.schema.columns import Column, DType, TableSpec
from warpline.schema.labels import (
    ALLOCATOR_DEVICES,
    API_KINDS,
    COPY_KINDS,
    FRAME_KINDS,
    GRAPH_LEVELS,
    LAUNCH_KINDS,
    MEMORY_KINDS,
    MEMORY_OPERATIONS,
    RANGE_STYLES,
    SEVERITIES,
    STREAM_KINDS,
    THREAD_STATES,
    WAIT_KINDS,
)
from warpline.units import Unit

SCHEMA_VERSION = 1


def _time(name: str, doc: str, *, nullable: bool = False) -> Column:
    return Column(name, DType.INT64, Unit.NS, doc, nullable=nullable)


def _bytes(name: str, doc: str, *, nullable: bool = False) -> Column:
    return Column(name, DType.INT64, Unit.BYTES, doc, nullable=nullable)


def _int(name: str, doc: str, *, nullable: bool = False) -> Column:
    return Column(name, DType.INT64, Unit.NONE, doc, nullable=nullable)


def _flag(name: str, doc: str) -> Column:
    return Column(name, DType.BOOL, Unit.NONE, doc)


def _ref(name: str, table: str, doc: str, *, nullable: bool = False) -> Column:
    return Column(name, DType.INT32, Unit.ID, doc, nullable=nullable, ref=table)


def _text(name: str, doc: str, *, nullable: bool = False) -> Column:
    return _ref(f"{name}_id", "string", doc, nullable=nullable)


def _enum(name: str, labels: Mapping[int, str], doc: str, *, nullable: bool = False) -> Column:
    return Column(name, DType.INT32, Unit.NONE, doc, nullable=nullable, labels=labels)


_SPAN = (
    _time("start_ns", "Start, relative to the trace's origin; may be negative."),
    _time("end_ns", "End; the interval is half-open."),
)
_DEVICE = (
    _ref("device_id", "device", "GPU."),
    _ref("context_id", "context", "CUDA context."),
    _ref("stream_id", "stream", "CUDA stream."),
    _ref("process_id", "process", "Launching process."),
)
_CORRELATION = _int(
    "correlation_id",
    "Correlation id; links the GPU operation to its launch call. Unique within a process.",
    nullable=True,
)
_GRAPH_NODE = _int(
    "graph_node_id", "CUDA graph node id, if launched by a CUDA graph.", nullable=True
)
_THREAD = _ref("thread_id", "thread", "CPU thread.")
_CHAIN = _int("chain_id", "Backtrace: the rows of call_frame with this id.", nullable=True)
_DEVICE_ORDER = ("start_ns", "end_ns", "device_id", "stream_id", "correlation_id")
_HOST_ORDER = ("start_ns", "end_ns", "thread_id")


KERNEL = TableSpec(
    "kernel",
    "One kernel execution on a GPU.",
    (
        *_SPAN,
        *_DEVICE,
        _CORRELATION,
        _text("name", "Demangled name with template arguments."),
        _text("short_name", "Base name without arguments."),
        _text("mangled_name", "Mangled name.", nullable=True),
        *(_int(f"grid_{axis}", f"Blocks of the grid in {axis}.") for axis in "xyz"),
        *(_int(f"block_{axis}", f"Threads of a block in {axis}.") for axis in "xyz"),
        *(_int(f"cluster_{axis}", f"Cluster size in {axis}.", nullable=True) for axis in "xyz"),
        _int("registers_per_thread", "Registers per thread."),
        _bytes("static_shared_bytes", "Static shared memory per block."),
        _bytes("dynamic_shared_bytes", "Dynamic shared memory per block."),
        _bytes("executed_shared_bytes", "Shared memory configured for execution.", nullable=True),
        _bytes("local_per_thread_bytes", "Local memory per thread.", nullable=True),
        _bytes("local_total_bytes", "Local memory of the launch.", nullable=True),
        _enum("launch_kind", LAUNCH_KINDS, "Kind of launch.", nullable=True),
        _GRAPH_NODE,
        _int("graph_id", "CUDA graph id, if launched by a CUDA graph.", nullable=True),
        _int("green_context_id", "CUDA green context id.", nullable=True),
    ),
    _DEVICE_ORDER,
)

MEMCPY = TableSpec(
    "memcpy",
    "One memory copy (memcpy).",
    (
        *_SPAN,
        *_DEVICE,
        _CORRELATION,
        _bytes("bytes", "Bytes copied."),
        _enum("kind", COPY_KINDS, "Direction."),
        _enum("src_memory", MEMORY_KINDS, "Kind of the source memory.", nullable=True),
        _enum("dst_memory", MEMORY_KINDS, "Kind of the destination memory.", nullable=True),
        _ref("src_device_id", "device", "Source GPU of a peer copy.", nullable=True),
        _ref("dst_device_id", "device", "Destination GPU of a peer copy.", nullable=True),
        _int("copy_count", "Number of copies in a batch.", nullable=True),
        _GRAPH_NODE,
        _int("green_context_id", "CUDA green context id.", nullable=True),
    ),
    _DEVICE_ORDER,
)

MEMSET = TableSpec(
    "memset",
    "One memset of device memory.",
    (
        *_SPAN,
        *_DEVICE,
        _CORRELATION,
        _bytes("bytes", "Bytes set."),
        _int("value", "Value written."),
        _enum("memory", MEMORY_KINDS, "Memory kind.", nullable=True),
        _GRAPH_NODE,
        _int("green_context_id", "CUDA green context id.", nullable=True),
    ),
    _DEVICE_ORDER,
)

GRAPH_LAUNCH = TableSpec(
    "graph_launch",
    "One execution of a CUDA graph on a GPU. With graph-level tracing, this row represents all of "
    "its nodes, which have no rows. With node-level tracing, it spans the rows of its nodes.",
    (
        *_SPAN,
        *_DEVICE,
        _CORRELATION,
        _enum("level", GRAPH_LEVELS, "Tracing level: graph or node."),
        _int("node_count", "Recorded operations of this launch; 0 at graph level."),
        _int("graph_id", "CUDA graph id.", nullable=True),
        _int("graph_exec_id", "Id of the instantiated CUDA graph.", nullable=True),
    ),
    _DEVICE_ORDER,
)

API_CALL = TableSpec(
    "api_call",
    "One CUDA runtime or driver API call.",
    (
        *_SPAN,
        _ref("process_id", "process", "Calling process."),
        _THREAD,
        _int("correlation_id", "Links to the launched GPU operation.", nullable=True),
        _text("name", "Function name as recorded; may end in a version such as _v7000."),
        _enum("api", API_KINDS, "Runtime or driver API.", nullable=True),
        _int("return_value", "Return value; 0 is success."),
        _CHAIN,
    ),
    (*_HOST_ORDER, "correlation_id"),
)

HOST_WAIT = TableSpec(
    "host_wait",
    "One synchronization that blocks the CPU until an event, a stream or a context completes.",
    (
        *_SPAN,
        _ref("device_id", "device", "GPU of the awaited context."),
        _ref("context_id", "context", "Awaited context."),
        _ref("stream_id", "stream", "Awaited stream, if any.", nullable=True),
        _ref("process_id", "process", "Waiting process."),
        _int("correlation_id", "Links to the waiting call.", nullable=True),
        _enum("kind", WAIT_KINDS, "What is awaited: event, stream or context."),
        _int("event_id", "Id of the awaited event, unique in its process.", nullable=True),
        _int("event_sync_id", "Links to the event_record with this id.", nullable=True),
    ),
    ("start_ns", "end_ns", "process_id", "correlation_id"),
)

STREAM_WAIT = TableSpec(
    "stream_wait",
    "One call that makes a stream wait for an event. It orders GPU work and does not block the "
    "CPU.",
    (
        *_SPAN,
        _ref("device_id", "device", "GPU of the stream."),
        _ref("context_id", "context", "Context of the stream."),
        _ref("stream_id", "stream", "Waiting stream.", nullable=True),
        _ref("process_id", "process", "Calling process."),
        _int("correlation_id", "Links to the call.", nullable=True),
        _int("event_id", "Id of the event, unique in its process.", nullable=True),
        _int("event_sync_id", "Links to the event_record with this id.", nullable=True),
    ),
    ("start_ns", "end_ns", "process_id", "correlation_id"),
)

EVENT_RECORD = TableSpec(
    "event_record",
    "One CUDA event recorded in a stream. The API call with its correlation id gives its time.",
    (
        _ref("device_id", "device", "GPU of the stream."),
        _ref("context_id", "context", "Context of the stream."),
        _ref("stream_id", "stream", "Stream of the event."),
        _ref("process_id", "process", "Calling process."),
        _int("correlation_id", "Links to the call that recorded the event.", nullable=True),
        _int("event_id", "Id of the event, unique in its process."),
        _int("event_sync_id", "Unique id of this record, referenced by waits.", nullable=True),
        _time("device_time_ns", "Time at which the GPU reached it, if recorded.", nullable=True),
    ),
    ("process_id", "correlation_id", "event_sync_id"),
)

MEMORY_EVENT = TableSpec(
    "memory_event",
    "One allocation or free of memory by the CUDA driver.",
    (
        _time("time_ns", "Time."),
        _ref("process_id", "process", "Process."),
        _ref("device_id", "device", "GPU."),
        _ref("context_id", "context", "CUDA context.", nullable=True),
        _int("correlation_id", "Links to the CUDA API call.", nullable=True),
        _enum("operation", MEMORY_OPERATIONS, "Allocation or free."),
        _enum("memory", MEMORY_KINDS, "Memory kind.", nullable=True),
        _bytes("bytes", "Bytes allocated or freed."),
        _int("address", "Address of the block."),
        _int("pool_address", "Address of the memory pool.", nullable=True),
        _text("name", "Name of the variable, if any.", nullable=True),
    ),
    ("time_ns", "process_id", "address", "operation"),
)

OS_CALL = TableSpec(
    "os_call",
    "One OS runtime call longer than the recording threshold.",
    (
        *_SPAN,
        _ref("process_id", "process", "Calling process."),
        _THREAD,
        _text("name", "Function name."),
        _int("return_value", "Return value."),
        _int("nesting_level", "Number of enclosing calls.", nullable=True),
        _CHAIN,
    ),
    _HOST_ORDER,
)

CPU_SAMPLE = TableSpec(
    "cpu_sample",
    "One CPU sample of a thread.",
    (
        _time("time_ns", "Time."),
        _ref("thread_id", "thread", "Sampled thread.", nullable=True),
        _int("cpu", "CPU core.", nullable=True),
        _enum("state", THREAD_STATES, "State of the thread.", nullable=True),
        _int("cycles", "Cycles or clock ticks represented by this sample."),
        _CHAIN,
    ),
    ("time_ns", "thread_id", "cpu"),
)

CALL_FRAME = TableSpec(
    "call_frame",
    "One frame of a backtrace; depth 0 is the innermost.",
    (
        _int("chain_id", "Id of the backtrace."),
        _int("depth", "Distance from the innermost frame."),
        _text("symbol", "Function name."),
        _text("module", "Library or file."),
        _flag("is_unresolved", "Whether the symbol could not be resolved."),
        _int("address", "Instruction pointer.", nullable=True),
    ),
    ("chain_id", "depth"),
)

SCHED_EVENT = TableSpec(
    "sched_event",
    "One context switch of a thread onto or off a CPU core.",
    (
        _time("time_ns", "Time."),
        _ref("thread_id", "thread", "Thread.", nullable=True),
        _int("cpu", "CPU core."),
        _flag("is_sched_in", "True if the thread starts to run, False if it stops."),
        _enum("state", THREAD_STATES, "New state of the thread.", nullable=True),
    ),
    ("time_ns", "cpu", "is_sched_in", "thread_id"),
)

RANGE = TableSpec(
    "range",
    "One NVTX range or framework annotation: a named interval on a CPU thread.",
    (
        *_SPAN,
        _ref("process_id", "process", "Process."),
        _ref("thread_id", "thread", "Thread that opened the range."),
        _ref("end_thread_id", "thread", "Thread that closed it, if different.", nullable=True),
        _text("domain", "NVTX domain; null is the default domain.", nullable=True),
        _text("name", "Name.", nullable=True),
        _text("category", "Category name, or its number if unnamed.", nullable=True),
        _int("color", "Color as 0xAARRGGBB.", nullable=True),
        _enum("style", RANGE_STYLES, "Push/pop or start/end."),
        _flag("is_truncated", "Whether its process, thread or recording ended before the range."),
        _int("source_id", "Row in the file, shown by nsys as RangeId."),
    ),
    ("start_ns", "end_ns", "thread_id", "source_id"),
)

MARK = TableSpec(
    "mark",
    "One NVTX mark: a named instant.",
    (
        _time("time_ns", "Time."),
        _ref("process_id", "process", "Process."),
        _ref("thread_id", "thread", "Thread."),
        _text("domain", "NVTX domain; null is the default domain.", nullable=True),
        _text("name", "Name.", nullable=True),
        _text("category", "Category name, or its number if unnamed.", nullable=True),
        _int("color", "Color as 0xAARRGGBB.", nullable=True),
    ),
    ("time_ns", "thread_id"),
)

RANGE_PAYLOAD = TableSpec(
    "range_payload",
    "One NVTX payload value of a range or a mark. Exactly one of the value columns is valid.",
    (
        _ref("range_id", "range", "Range of the payload.", nullable=True),
        _ref("mark_id", "mark", "Mark of the payload.", nullable=True),
        _text("key", "Name of the value; 'payload' if unnamed."),
        _int("int_value", "Integer; unsigned 64-bit values wrap.", nullable=True),
        Column("float_value", DType.FLOAT64, Unit.NONE, "Floating-point value.", nullable=True),
        _text("text", "Text, or JSON as recorded.", nullable=True),
    ),
    ("range_id", "mark_id"),
)

OP = TableSpec(
    "op",
    "One framework operator call on the CPU, such as aten::linear. Calls nest.",
    (
        *_SPAN,
        _ref("process_id", "process", "Process."),
        _THREAD,
        _text("name", "Operator name."),
        _int(
            "external_id",
            "The framework's id of the call, unique in its process.",
            nullable=True,
        ),
        _int(
            "sequence",
            "Sequence number shared by a forward operator and its backward operators, within a "
            "process and forward thread.",
            nullable=True,
        ),
        _int(
            "forward_thread",
            "For backward operators, the framework's id of the thread that ran the forward "
            "operator; otherwise 0 or null.",
            nullable=True,
        ),
        _int("flops", "Floating-point operations, from the framework's formula.", nullable=True),
        _text("input_shapes", "Input shapes, as JSON.", nullable=True),
        _text("input_dtypes", "Input element types, as JSON.", nullable=True),
        _text("input_strides", "Input strides, as JSON.", nullable=True),
        _text("input_values", "Values of non-tensor inputs, as JSON.", nullable=True),
        _text("module", "Enclosing modules, outermost first, if recorded.", nullable=True),
        _text("stack", "Calling source lines, if recorded.", nullable=True),
    ),
    (*_HOST_ORDER, "external_id"),
)

PYTHON_FRAME = TableSpec(
    "python_frame",
    "One call of a Python function or a module of the model, as recorded by the framework. Calls "
    "nest.",
    (
        *_SPAN,
        _ref("process_id", "process", "Process."),
        _THREAD,
        _text("name", "Function with file and line, or module class with number."),
        _enum("kind", FRAME_KINDS, "Kind of the callee."),
        _int("frame_id", "The framework's id of the call.", nullable=True),
        _int("parent_frame_id", "Id of the enclosing call.", nullable=True),
        _int("module_number", "Number of the module within its class.", nullable=True),
    ),
    (*_HOST_ORDER, "frame_id"),
)

ALLOCATOR_EVENT = TableSpec(
    "allocator_event",
    "One allocation or free of a block by the framework's caching allocator.",
    (
        _time("time_ns", "Time."),
        _ref("process_id", "process", "Process."),
        _THREAD,
        _enum("memory", ALLOCATOR_DEVICES, "Host or device memory."),
        _ref("device_id", "device", "GPU, for device memory.", nullable=True),
        _enum("operation", MEMORY_OPERATIONS, "Allocation or free."),
        _bytes("bytes", "Bytes allocated or freed."),
        _int("address", "Address of the block; unsigned 64-bit values wrap.", nullable=True),
        _bytes("total_allocated_bytes", "Bytes in use afterwards.", nullable=True),
        _bytes("total_reserved_bytes", "Bytes reserved from the driver.", nullable=True),
    ),
    ("time_ns", "thread_id"),
)

COLLECTIVE = TableSpec(
    "collective",
    "One call of a collective or point-to-point operation, from NCCL's NVTX ranges or the "
    "framework's operators.",
    (
        *_SPAN,
        _ref("process_id", "process", "Calling process."),
        _THREAD,
        _ref("range_id", "range", "Source range, if any.", nullable=True),
        _text("operation", "Name as recorded, such as ncclAllReduce or allreduce."),
        _bytes("bytes", "Message size.", nullable=True),
        _text("dtype", "Element type.", nullable=True),
        _text("reduction", "Reduction operation.", nullable=True),
        _text("communicator", "Communicator id in hexadecimal, or its name.", nullable=True),
        _int("rank", "Caller's rank in the communicator.", nullable=True),
        _int("rank_count", "Number of ranks in the communicator.", nullable=True),
        _int("peer", "Root or peer rank.", nullable=True),
        _int("sequence", "Position among the process's calls on this communicator."),
        _ref("op_id", "op", "Source operator, if any.", nullable=True),
        _text("ranks", "Ranks in the communicator, as recorded.", nullable=True),
    ),
    (*_HOST_ORDER, "range_id"),
)

GRAPH_NODE = TableSpec(
    "graph_node",
    "One creation of a CUDA graph node.",
    (
        _time("time_ns", "Time."),
        _ref("process_id", "process", "Process."),
        _ref("thread_id", "thread", "Creating thread."),
        _int("graph_node_id", "CUDA graph node id."),
        _int("original_graph_node_id", "Id of the node it was cloned from.", nullable=True),
        _text("name", "Recorded event name."),
    ),
    ("time_ns", "graph_node_id"),
)

COUNTER = TableSpec(
    "counter",
    "One sampled value of a hardware metric.",
    (
        _time("time_ns", "Time."),
        _ref("device_id", "device", "GPU.", nullable=True),
        _ref("metric_id", "metric", "Metric."),
        Column("value", DType.FLOAT64, Unit.NONE, "Value, in the metric's unit."),
    ),
    ("time_ns", "device_id", "metric_id"),
)

OVERHEAD = TableSpec(
    "overhead",
    "One interval of overhead, as reported by the profiler.",
    (
        *_SPAN,
        _ref("thread_id", "thread", "Affected thread.", nullable=True),
        _text("name", "Cause of the overhead."),
    ),
    _HOST_ORDER,
)

DIAGNOSTIC = TableSpec(
    "diagnostic",
    "One message from the profiler about the recording.",
    (
        _time("time_ns", "Time."),
        _enum("severity", SEVERITIES, "Severity."),
        _text("text", "Message."),
        _ref("process_id", "process", "Affected process, if any.", nullable=True),
    ),
    ("time_ns", "severity"),
)

PROCESS = TableSpec(
    "process",
    "A process. The row number is its id in the trace.",
    (
        _int("pid", "Process id."),
        _text("name", "Executable.", nullable=True),
        _text("host", "Host name.", nullable=True),
        _int("rank", "Rank in a distributed program.", nullable=True),
        _int("rank_count", "World size of the distributed program.", nullable=True),
    ),
)

THREAD = TableSpec(
    "thread",
    "A CPU thread.",
    (
        _ref("process_id", "process", "Process of the thread."),
        _int("tid", "Thread id."),
        _text("name", "Name.", nullable=True),
        _int("priority", "Scheduling priority.", nullable=True),
    ),
)

DEVICE = TableSpec(
    "device",
    "A GPU.",
    (
        _int("gpu_index", "Index of the GPU, as recorded."),
        _text("name", "Product name.", nullable=True),
        _text("uuid", "UUID.", nullable=True),
        _text("bus", "PCI location.", nullable=True),
        _text("chip", "Chip name.", nullable=True),
        _int("sm_count", "Number of SMs.", nullable=True),
        _bytes("memory_bytes", "Memory size.", nullable=True),
        Column(
            "memory_bytes_per_s",
            DType.INT64,
            Unit.BYTES_PER_S,
            "Peak memory bandwidth.",
            nullable=True,
        ),
        _bytes("l2_bytes", "L2 cache size.", nullable=True),
        Column("clock_hz", DType.INT64, Unit.HZ, "Maximum SM clock.", nullable=True),
        _int("compute_major", "Compute capability, major.", nullable=True),
        _int("compute_minor", "Compute capability, minor.", nullable=True),
    ),
)

CONTEXT = TableSpec(
    "context",
    "A CUDA context.",
    (
        _ref("process_id", "process", "Owning process."),
        _ref("device_id", "device", "GPU."),
        _int("native_id", "CUDA context id, unique within a process."),
        _flag("is_green", "Whether it is a green context."),
        _int("parent_native_id", "CUDA id of a green context's parent.", nullable=True),
    ),
)

STREAM = TableSpec(
    "stream",
    "A CUDA stream.",
    (
        _ref("process_id", "process", "Owning process."),
        _ref("context_id", "context", "Context."),
        _int("native_id", "CUDA stream id, unique within a context."),
        _int("priority", "Stream priority; lower values run first.", nullable=True),
        _enum("kind", STREAM_KINDS, "Stream kind.", nullable=True),
    ),
)

METRIC = TableSpec(
    "metric",
    "A hardware metric.",
    (_text("name", "Name with unit, as recorded."),),
)

TABLES: Mapping[str, TableSpec] = {
    spec.name: spec
    for spec in (
        KERNEL,
        MEMCPY,
        MEMSET,
        GRAPH_LAUNCH,
        API_CALL,
        HOST_WAIT,
        STREAM_WAIT,
        EVENT_RECORD,
        MEMORY_EVENT,
        OS_CALL,
        CPU_SAMPLE,
        CALL_FRAME,
        SCHED_EVENT,
        RANGE,
        RANGE_PAYLOAD,
        MARK,
        OP,
        PYTHON_FRAME,
        ALLOCATOR_EVENT,
        COLLECTIVE,
        GRAPH_NODE,
        COUNTER,
        OVERHEAD,
        DIAGNOSTIC,
        PROCESS,
        THREAD,
        DEVICE,
        CONTEXT,
        STREAM,
        METRIC,
    )
}
