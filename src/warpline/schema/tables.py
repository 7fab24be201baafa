"""The tables of a trace, schema version 1: the one source of truth about names, types and units."""

from __future__ import annotations

from collections.abc import Mapping

from warpline.schema.columns import Column, DType, TableSpec
from warpline.units import Unit

SCHEMA_VERSION = 1

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
FRAME_KINDS: Mapping[int, str] = {0: "Function", 1: "Built-in", 2: "Module"}
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
    _time("start_ns", "When it began, from the trace's origin; may be negative."),
    _time("end_ns", "When it ended; the interval is half-open."),
)
_DEVICE = (
    _ref("device_id", "device", "The device it ran on."),
    _ref("context_id", "context", "The CUDA context it belongs to."),
    _ref("stream_id", "stream", "The stream it was ordered in."),
    _ref("process_id", "process", "The process that launched it."),
)
_CORRELATION = _int(
    "correlation_id",
    "Links device work to the call that launched it; unique within a process only.",
    nullable=True,
)
_GRAPH_NODE = _int(
    "graph_node_id", "CUDA's id of the graph node, when a graph launched it.", nullable=True
)
_THREAD = _ref("thread_id", "thread", "The host thread.")
_CHAIN = _int("chain_id", "Its frames are the rows of call_frame with this id.", nullable=True)
_DEVICE_ORDER = ("start_ns", "end_ns", "device_id", "stream_id", "correlation_id")
_HOST_ORDER = ("start_ns", "end_ns", "thread_id")


KERNEL = TableSpec(
    "kernel",
    "One execution of a kernel on a device.",
    (
        *_SPAN,
        *_DEVICE,
        _CORRELATION,
        _text("name", "Demangled name with template arguments."),
        _text("short_name", "Base name without arguments."),
        _text("mangled_name", "Name as the compiler wrote it.", nullable=True),
        *(_int(f"grid_{axis}", f"Blocks in {axis}.") for axis in "xyz"),
        *(_int(f"block_{axis}", f"Threads of a block in {axis}.") for axis in "xyz"),
        *(_int(f"cluster_{axis}", f"Cluster size in {axis}.", nullable=True) for axis in "xyz"),
        _int("registers_per_thread", "Registers allocated to each thread."),
        _bytes("static_shared_bytes", "Statically declared shared memory of a block."),
        _bytes("dynamic_shared_bytes", "Shared memory of a block asked for at the launch."),
        _bytes("executed_shared_bytes", "Shared memory set aside while it ran.", nullable=True),
        _bytes("local_per_thread_bytes", "Local memory of a thread.", nullable=True),
        _bytes("local_total_bytes", "Local memory of the whole launch.", nullable=True),
        _enum("launch_kind", LAUNCH_KINDS, "How it was launched.", nullable=True),
        _GRAPH_NODE,
        _int("graph_id", "CUDA's id of the graph that launched it.", nullable=True),
        _int("green_context_id", "CUDA's id of the green context.", nullable=True),
    ),
    _DEVICE_ORDER,
)

MEMCPY = TableSpec(
    "memcpy",
    "One copy between memories.",
    (
        *_SPAN,
        *_DEVICE,
        _CORRELATION,
        _bytes("bytes", "Bytes copied."),
        _enum("kind", COPY_KINDS, "Direction."),
        _enum("src_memory", MEMORY_KINDS, "Kind of the source memory.", nullable=True),
        _enum("dst_memory", MEMORY_KINDS, "Kind of the destination memory.", nullable=True),
        _ref("src_device_id", "device", "Source device of a peer copy.", nullable=True),
        _ref("dst_device_id", "device", "Destination device of a peer copy.", nullable=True),
        _int("copy_count", "Copies in a batch.", nullable=True),
        _GRAPH_NODE,
        _int("green_context_id", "CUDA's id of the green context.", nullable=True),
    ),
    _DEVICE_ORDER,
)

MEMSET = TableSpec(
    "memset",
    "One fill of device memory.",
    (
        *_SPAN,
        *_DEVICE,
        _CORRELATION,
        _bytes("bytes", "Bytes set."),
        _int("value", "Value written."),
        _enum("memory", MEMORY_KINDS, "Kind of the memory.", nullable=True),
        _GRAPH_NODE,
        _int("green_context_id", "CUDA's id of the green context.", nullable=True),
    ),
    _DEVICE_ORDER,
)

GRAPH_LAUNCH = TableSpec(
    "graph_launch",
    "One execution of a CUDA graph on a device. At graph level it stands for all of its nodes, "
    "which have no rows of their own; at node level it spans the rows of its nodes.",
    (
        *_SPAN,
        *_DEVICE,
        _CORRELATION,
        _enum("level", GRAPH_LEVELS, "Whether its nodes were recorded one by one."),
        _int("node_count", "Recorded operations of this launch; 0 at graph level."),
        _int("graph_id", "CUDA's id of the graph.", nullable=True),
        _int("graph_exec_id", "CUDA's id of the instantiated graph.", nullable=True),
    ),
    _DEVICE_ORDER,
)

API_CALL = TableSpec(
    "api_call",
    "One call of the CUDA runtime or driver interface.",
    (
        *_SPAN,
        _ref("process_id", "process", "The calling process."),
        _THREAD,
        _int("correlation_id", "Links to the device work it launched.", nullable=True),
        _text("name", "Function name as recorded; it may end in a version such as _v7000."),
        _enum("api", API_KINDS, "Runtime or driver.", nullable=True),
        _int("return_value", "Status; 0 is success."),
        _CHAIN,
    ),
    (*_HOST_ORDER, "correlation_id"),
)

HOST_WAIT = TableSpec(
    "host_wait",
    "One blocking wait of the host for an event, a stream or a context.",
    (
        *_SPAN,
        _ref("device_id", "device", "The device waited for."),
        _ref("context_id", "context", "The context waited for."),
        _ref("stream_id", "stream", "The stream waited for, if one.", nullable=True),
        _ref("process_id", "process", "The waiting process."),
        _int("correlation_id", "Links to the call that waited.", nullable=True),
        _enum("kind", WAIT_KINDS, "What was waited for."),
        _int("event_id", "Id of the event waited for, unique in its process.", nullable=True),
        _int("event_sync_id", "Links to the event_record with this id.", nullable=True),
    ),
    ("start_ns", "end_ns", "process_id", "correlation_id"),
)

STREAM_WAIT = TableSpec(
    "stream_wait",
    "One request that a stream wait for an event; it orders device work, the host goes on.",
    (
        *_SPAN,
        _ref("device_id", "device", "The device of the stream."),
        _ref("context_id", "context", "The context of the stream."),
        _ref("stream_id", "stream", "The stream that waits.", nullable=True),
        _ref("process_id", "process", "The process that asked."),
        _int("correlation_id", "Links to the call that asked.", nullable=True),
        _int("event_id", "Id of the event, unique in its process.", nullable=True),
        _int("event_sync_id", "Links to the event_record with this id.", nullable=True),
    ),
    ("start_ns", "end_ns", "process_id", "correlation_id"),
)

EVENT_RECORD = TableSpec(
    "event_record",
    "One recording of an event into a stream. Its place in time is the call with its correlation.",
    (
        _ref("device_id", "device", "The device of the stream."),
        _ref("context_id", "context", "The context of the stream."),
        _ref("stream_id", "stream", "The stream it was recorded in."),
        _ref("process_id", "process", "The process that recorded it."),
        _int("correlation_id", "Links to the call that recorded it.", nullable=True),
        _int("event_id", "Id of the event, unique in its process."),
        _int("event_sync_id", "Unique id of this recording, which waits refer to.", nullable=True),
        _time("device_time_ns", "When the device reached it, if recorded.", nullable=True),
    ),
    ("process_id", "correlation_id", "event_sync_id"),
)

MEMORY_EVENT = TableSpec(
    "memory_event",
    "One allocation or release of device memory by the driver.",
    (
        _time("time_ns", "When it happened."),
        _ref("process_id", "process", "The process."),
        _ref("device_id", "device", "The device."),
        _ref("context_id", "context", "The context.", nullable=True),
        _int("correlation_id", "Links to the call that caused it.", nullable=True),
        _enum("operation", MEMORY_OPERATIONS, "Allocation or release."),
        _enum("memory", MEMORY_KINDS, "Kind of the memory.", nullable=True),
        _bytes("bytes", "Bytes allocated or released."),
        _int("address", "Address of the block."),
        _int("pool_address", "Address of the memory pool it came from.", nullable=True),
        _text("name", "Name of the variable, if it has one.", nullable=True),
    ),
    ("time_ns", "process_id", "address", "operation"),
)

OS_CALL = TableSpec(
    "os_call",
    "One call of the operating system's runtime that took long enough to be recorded.",
    (
        *_SPAN,
        _ref("process_id", "process", "The calling process."),
        _THREAD,
        _text("name", "Function name."),
        _int("return_value", "Value returned."),
        _int("nesting_level", "Calls it was nested in.", nullable=True),
        _CHAIN,
    ),
    _HOST_ORDER,
)

CPU_SAMPLE = TableSpec(
    "cpu_sample",
    "One sample of what a host thread was doing.",
    (
        _time("time_ns", "When it was taken."),
        _ref("thread_id", "thread", "The sampled thread.", nullable=True),
        _int("cpu", "Processor.", nullable=True),
        _enum("state", THREAD_STATES, "State of the thread.", nullable=True),
        _int("cycles", "Cycles or clock ticks that this sample stands for."),
        _CHAIN,
    ),
    ("time_ns", "thread_id", "cpu"),
)

CALL_FRAME = TableSpec(
    "call_frame",
    "One frame of a call chain; depth 0 is the innermost.",
    (
        _int("chain_id", "The chain it belongs to."),
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
    "One switch of a host thread onto or off a processor.",
    (
        _time("time_ns", "When it happened."),
        _ref("thread_id", "thread", "The thread.", nullable=True),
        _int("cpu", "Processor."),
        _flag("is_sched_in", "True when the thread began to run, False when it stopped."),
        _enum("state", THREAD_STATES, "State it went into.", nullable=True),
    ),
    ("time_ns", "cpu", "is_sched_in", "thread_id"),
)

RANGE = TableSpec(
    "range",
    "One named stretch of host time that the program or a framework marked.",
    (
        *_SPAN,
        _ref("process_id", "process", "The process."),
        _ref("thread_id", "thread", "The thread that opened it."),
        _ref("end_thread_id", "thread", "The thread that closed it, if another.", nullable=True),
        _text("domain", "Domain; null is the default domain.", nullable=True),
        _text("name", "Name.", nullable=True),
        _text("category", "Category's name, or its number where it has none.", nullable=True),
        _int("color", "Colour as 0xAARRGGBB.", nullable=True),
        _enum("style", RANGE_STYLES, "How it was opened."),
        _flag("is_truncated", "Whether it was open when its process, thread or recording ended."),
        _int("source_id", "Row in the file, as nsys's RangeId shows it."),
    ),
    ("start_ns", "end_ns", "thread_id", "source_id"),
)

MARK = TableSpec(
    "mark",
    "One named instant that the program marked.",
    (
        _time("time_ns", "When it was set."),
        _ref("process_id", "process", "The process."),
        _ref("thread_id", "thread", "The thread that set it."),
        _text("domain", "Domain; null is the default domain.", nullable=True),
        _text("name", "Name.", nullable=True),
        _text("category", "Category's name, or its number where it has none.", nullable=True),
        _int("color", "Colour as 0xAARRGGBB.", nullable=True),
    ),
    ("time_ns", "thread_id"),
)

RANGE_PAYLOAD = TableSpec(
    "range_payload",
    "One value that the program attached to a range or a mark. One of the values is valid.",
    (
        _ref("range_id", "range", "The range it belongs to.", nullable=True),
        _ref("mark_id", "mark", "The mark it belongs to.", nullable=True),
        _text("key", "Name of the value; 'payload' where the program gave none."),
        _int("int_value", "An integer; unsigned 64-bit values wrap.", nullable=True),
        Column("float_value", DType.FLOAT64, Unit.NONE, "A real number.", nullable=True),
        _text("text", "A text, or JSON as recorded.", nullable=True),
    ),
    ("range_id", "mark_id"),
)

OP = TableSpec(
    "op",
    "One call of a framework's operator on the host, such as aten::linear; calls nest.",
    (
        *_SPAN,
        _ref("process_id", "process", "The process."),
        _THREAD,
        _text("name", "Name of the operator."),
        _int(
            "external_id",
            "The framework's number of the call, unique in its process.",
            nullable=True,
        ),
        _int(
            "sequence",
            "Number that a forward operator shares with its backward operators, in a process "
            "and forward thread.",
            nullable=True,
        ),
        _int(
            "forward_thread",
            "The framework's number of the thread that ran the forward operator, for a backward "
            "operator; 0 or null for others.",
            nullable=True,
        ),
        _int("flops", "Floating-point operations, by the framework's formula.", nullable=True),
        _text("input_shapes", "Shapes of the inputs, as JSON.", nullable=True),
        _text("input_dtypes", "Element types of the inputs, as JSON.", nullable=True),
        _text("input_strides", "Strides of the inputs, as JSON.", nullable=True),
        _text("input_values", "Values of the inputs that are no tensors, as JSON.", nullable=True),
        _text("module", "Modules around it, outermost first, where recorded so.", nullable=True),
        _text("stack", "Source lines that called it, where recorded so.", nullable=True),
    ),
    (*_HOST_ORDER, "external_id"),
)

PYTHON_FRAME = TableSpec(
    "python_frame",
    "One call of a Python function, or of a module of the model, that the framework recorded; "
    "calls nest.",
    (
        *_SPAN,
        _ref("process_id", "process", "The process."),
        _THREAD,
        _text("name", "Function with its file and line, or the module's class and number."),
        _enum("kind", FRAME_KINDS, "What was called."),
        _int("frame_id", "The framework's number of the call.", nullable=True),
        _int("parent_frame_id", "The number of the call around it.", nullable=True),
        _int("module_number", "Number of the module among those of its class.", nullable=True),
    ),
    (*_HOST_ORDER, "frame_id"),
)

ALLOCATOR_EVENT = TableSpec(
    "allocator_event",
    "One allocation or release of a block by the framework's own allocator, which keeps memory "
    "that it got from the driver.",
    (
        _time("time_ns", "When it happened."),
        _ref("process_id", "process", "The process."),
        _THREAD,
        _enum("memory", ALLOCATOR_DEVICES, "Where the memory is."),
        _ref("device_id", "device", "The device, for device memory.", nullable=True),
        _enum("operation", MEMORY_OPERATIONS, "Allocation or release."),
        _bytes("bytes", "Bytes allocated or released."),
        _int("address", "Address of the block; unsigned 64-bit values wrap.", nullable=True),
        _bytes("total_allocated_bytes", "Bytes in use afterwards.", nullable=True),
        _bytes("total_reserved_bytes", "Bytes got from the driver by then.", nullable=True),
    ),
    ("time_ns", "thread_id"),
)

COLLECTIVE = TableSpec(
    "collective",
    "One call of a collective or point-to-point operation, read from the library's own ranges or "
    "from the framework's operators.",
    (
        *_SPAN,
        _ref("process_id", "process", "The calling process."),
        _THREAD,
        _ref("range_id", "range", "The range it was read from, if one.", nullable=True),
        _text("operation", "Name as recorded, such as ncclAllReduce or allreduce."),
        _bytes("bytes", "Message size.", nullable=True),
        _text("dtype", "Element type.", nullable=True),
        _text("reduction", "Reduction operation.", nullable=True),
        _text("communicator", "Communicator id in hexadecimal, or name.", nullable=True),
        _int("rank", "Rank of the caller in the communicator.", nullable=True),
        _int("rank_count", "Ranks of the communicator.", nullable=True),
        _int("peer", "Root or peer rank.", nullable=True),
        _int("sequence", "Position among the calls of this communicator in this process."),
        _ref("op_id", "op", "The operator it was read from, if one.", nullable=True),
        _text("ranks", "Ranks of the communicator, as recorded.", nullable=True),
    ),
    (*_HOST_ORDER, "range_id"),
)

GRAPH_NODE = TableSpec(
    "graph_node",
    "One creation of a CUDA graph's node.",
    (
        _time("time_ns", "When it was created."),
        _ref("process_id", "process", "The process."),
        _ref("thread_id", "thread", "The thread that created it."),
        _int("graph_node_id", "CUDA's id of the node."),
        _int("original_graph_node_id", "The node it was cloned from.", nullable=True),
        _text("name", "What was created."),
    ),
    ("time_ns", "graph_node_id"),
)

COUNTER = TableSpec(
    "counter",
    "One sampled value of one hardware metric.",
    (
        _time("time_ns", "When it was sampled."),
        _ref("device_id", "device", "The device.", nullable=True),
        _ref("metric_id", "metric", "What was measured."),
        Column("value", DType.FLOAT64, Unit.NONE, "The value, in the metric's unit."),
    ),
    ("time_ns", "device_id", "metric_id"),
)

OVERHEAD = TableSpec(
    "overhead",
    "One stretch of time that the profiler itself took.",
    (
        *_SPAN,
        _ref("thread_id", "thread", "The thread that paid.", nullable=True),
        _text("name", "What the profiler did."),
    ),
    _HOST_ORDER,
)

DIAGNOSTIC = TableSpec(
    "diagnostic",
    "One message of the producer about the recording.",
    (
        _time("time_ns", "When it was written."),
        _enum("severity", SEVERITIES, "How bad it is."),
        _text("text", "The message."),
        _ref("process_id", "process", "The process it is about, if one.", nullable=True),
    ),
    ("time_ns", "severity"),
)

PROCESS = TableSpec(
    "process",
    "A process; the row number is its id in the trace.",
    (
        _int("pid", "The operating system's id."),
        _text("name", "Executable.", nullable=True),
        _text("host", "Host it ran on.", nullable=True),
        _int("rank", "Its rank in a distributed program, if it is part of one.", nullable=True),
        _int("rank_count", "Ranks of that program.", nullable=True),
    ),
)

THREAD = TableSpec(
    "thread",
    "A host thread.",
    (
        _ref("process_id", "process", "The process it belongs to."),
        _int("tid", "The operating system's id."),
        _text("name", "Name.", nullable=True),
        _int("priority", "Scheduling priority.", nullable=True),
    ),
)

DEVICE = TableSpec(
    "device",
    "A GPU.",
    (
        _int("gpu_index", "The producer's index of the GPU."),
        _text("name", "Product name.", nullable=True),
        _text("uuid", "Unique id.", nullable=True),
        _text("bus", "PCI location.", nullable=True),
        _text("chip", "Chip name.", nullable=True),
        _int("sm_count", "Streaming multiprocessors.", nullable=True),
        _bytes("memory_bytes", "Device memory.", nullable=True),
        Column(
            "memory_bytes_per_s",
            DType.INT64,
            Unit.BYTES_PER_S,
            "Peak memory bandwidth.",
            nullable=True,
        ),
        _bytes("l2_bytes", "L2 cache.", nullable=True),
        Column("clock_hz", DType.INT64, Unit.HZ, "Maximum SM clock.", nullable=True),
        _int("compute_major", "Compute capability, major.", nullable=True),
        _int("compute_minor", "Compute capability, minor.", nullable=True),
    ),
)

CONTEXT = TableSpec(
    "context",
    "A CUDA context.",
    (
        _ref("process_id", "process", "The process that owns it."),
        _ref("device_id", "device", "Its device."),
        _int("native_id", "CUDA's id, unique within a process."),
        _flag("is_green", "Whether it is a green context."),
        _int("parent_native_id", "CUDA's id of the parent of a green context.", nullable=True),
    ),
)

STREAM = TableSpec(
    "stream",
    "A CUDA stream.",
    (
        _ref("process_id", "process", "The process that owns it."),
        _ref("context_id", "context", "Its context."),
        _int("native_id", "CUDA's id, unique within a context."),
        _int("priority", "Scheduling priority; lower is sooner.", nullable=True),
        _enum("kind", STREAM_KINDS, "How it was created.", nullable=True),
    ),
)

METRIC = TableSpec(
    "metric",
    "A hardware metric.",
    (_text("name", "Name, with its unit as the producer writes it."),),
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
