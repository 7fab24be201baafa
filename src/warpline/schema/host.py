"""What CPU threads did: CUDA API calls, waits, OS runtime calls, samples."""

from __future__ import annotations

from warpline.schema.columns import TableSpec
from warpline.schema.declaring import (
    HOST_ORDER,
    SPAN,
    THREAD_ID,
    duration,
    enum,
    flag,
    number,
    ref,
    size,
    text,
    time,
)
from warpline.schema.labels import (
    API_KINDS,
    GIL_STATES,
    MEMORY_KINDS,
    MEMORY_OPERATIONS,
    THREAD_STATES,
    WAIT_KINDS,
)

_STACK = ref("stack_id", "stack", "Backtrace, if recorded.", nullable=True)

API_CALL = TableSpec(
    "api_call",
    "One CUDA runtime or driver API call.",
    (
        *SPAN,
        ref("process_id", "process", "Calling process."),
        THREAD_ID,
        number("correlation_id", "Links to the launched GPU operation.", nullable=True),
        text("name", "Function name as recorded; may end in a version such as _v7000."),
        enum("api", API_KINDS, "Runtime or driver API.", nullable=True),
        number("return_value", "Return value; 0 is success."),
        _STACK,
    ),
    (*HOST_ORDER, "correlation_id"),
)

HOST_WAIT = TableSpec(
    "host_wait",
    "One synchronization that blocks the CPU until an event, a stream or a context completes.",
    (
        *SPAN,
        ref("device_id", "device", "GPU of the awaited context."),
        ref("context_id", "context", "Awaited context."),
        ref("stream_id", "stream", "Awaited stream, if any.", nullable=True),
        ref("process_id", "process", "Waiting process."),
        number("correlation_id", "Links to the waiting call.", nullable=True),
        enum("kind", WAIT_KINDS, "What is awaited: event, stream or context."),
        number("event_id", "Id of the awaited event, unique in its process.", nullable=True),
        number("event_sync_id", "Links to the event_record with this id.", nullable=True),
    ),
    ("start_ns", "end_ns", "process_id", "correlation_id"),
)

STREAM_WAIT = TableSpec(
    "stream_wait",
    "One call that makes a stream wait for an event. It orders GPU work and does not block the "
    "CPU.",
    (
        *SPAN,
        ref("device_id", "device", "GPU of the stream."),
        ref("context_id", "context", "Context of the stream."),
        ref("stream_id", "stream", "Waiting stream.", nullable=True),
        ref("process_id", "process", "Calling process."),
        number("correlation_id", "Links to the call.", nullable=True),
        number("event_id", "Id of the event, unique in its process.", nullable=True),
        number("event_sync_id", "Links to the event_record with this id.", nullable=True),
    ),
    ("start_ns", "end_ns", "process_id", "correlation_id"),
)

EVENT_RECORD = TableSpec(
    "event_record",
    "One CUDA event recorded in a stream. The API call with its correlation id gives its time.",
    (
        ref("device_id", "device", "GPU of the stream."),
        ref("context_id", "context", "Context of the stream."),
        ref("stream_id", "stream", "Stream of the event."),
        ref("process_id", "process", "Calling process."),
        number("correlation_id", "Links to the call that recorded the event.", nullable=True),
        number("event_id", "Id of the event, unique in its process."),
        number("event_sync_id", "Unique id of this record, referenced by waits.", nullable=True),
        time("device_time_ns", "Time at which the GPU reached it, if recorded.", nullable=True),
    ),
    ("process_id", "correlation_id", "event_sync_id"),
)

MEMORY_EVENT = TableSpec(
    "memory_event",
    "One allocation or free of memory by the CUDA driver.",
    (
        time("time_ns", "Time."),
        ref("process_id", "process", "Process."),
        ref("device_id", "device", "GPU."),
        ref("context_id", "context", "CUDA context.", nullable=True),
        number("correlation_id", "Links to the CUDA API call.", nullable=True),
        enum("operation", MEMORY_OPERATIONS, "Allocation or free."),
        enum("memory", MEMORY_KINDS, "Memory kind.", nullable=True),
        size("bytes", "Bytes allocated or freed."),
        number("address", "Address of the block."),
        number("pool_address", "Address of the memory pool.", nullable=True),
        text("name", "Name of the variable, if any.", nullable=True),
    ),
    ("time_ns", "process_id", "address", "operation"),
)

OS_CALL = TableSpec(
    "os_call",
    "One OS runtime call longer than the recording threshold.",
    (
        *SPAN,
        ref("process_id", "process", "Calling process."),
        THREAD_ID,
        text("name", "Function name."),
        number("return_value", "Return value."),
        number("nesting_level", "Number of enclosing calls.", nullable=True),
        _STACK,
    ),
    HOST_ORDER,
)

CPU_SAMPLE = TableSpec(
    "cpu_sample",
    "One CPU sample of a thread.",
    (
        time("time_ns", "Time."),
        ref("thread_id", "thread", "Sampled thread.", nullable=True),
        number("cpu", "CPU core.", nullable=True),
        enum("state", THREAD_STATES, "State of the thread.", nullable=True),
        number("cycles", "Cycles or clock ticks represented by this sample."),
        duration("period_ns", "CPU time represented by this sample, if known.", nullable=True),
        _STACK,
    ),
    ("time_ns", "thread_id", "cpu"),
)

SCHED_EVENT = TableSpec(
    "sched_event",
    "One context switch of a thread onto or off a CPU core.",
    (
        time("time_ns", "Time."),
        ref("thread_id", "thread", "Thread.", nullable=True),
        number("cpu", "CPU core."),
        flag("is_sched_in", "True if the thread starts to run, False if it stops."),
        enum("state", THREAD_STATES, "New state of the thread.", nullable=True),
        ref("stack_id", "stack", "Where the thread stopped, if recorded.", nullable=True),
    ),
    ("time_ns", "cpu", "is_sched_in", "thread_id"),
)

PYTHON_SAMPLE = TableSpec(
    "python_sample",
    "One sample of the Python stack of a thread, whether it runs or waits.",
    (
        time("time_ns", "Time."),
        THREAD_ID,
        duration("period_ns", "Time represented by this sample, from its time on."),
        flag("is_running", "Whether the thread was on a CPU core, if known.", nullable=True),
        flag("has_gil", "Whether the thread held the GIL, if known.", nullable=True),
        _STACK,
    ),
    ("time_ns", "thread_id"),
)

GIL_SPAN = TableSpec(
    "gil_span",
    "One time in which a thread held Python's global interpreter lock (GIL) or waited for it.",
    (
        *SPAN,
        ref("process_id", "process", "Process."),
        THREAD_ID,
        enum("state", GIL_STATES, "Whether the thread held the GIL or waited for it."),
    ),
    (*HOST_ORDER, "state"),
)

LIBRARY_CALL = TableSpec(
    "library_call",
    "One call of a library, such as cuBLAS, cuDNN, NCCL or MPI.",
    (
        *SPAN,
        ref("process_id", "process", "Calling process."),
        THREAD_ID,
        text("library", "Library, such as cuBLAS."),
        text("name", "Function name."),
        text("arguments", "Arguments, as a JSON object, if recorded.", nullable=True),
        number("return_value", "Return value, if recorded.", nullable=True),
        _STACK,
    ),
    HOST_ORDER,
)

TABLES = (
    API_CALL,
    HOST_WAIT,
    STREAM_WAIT,
    EVENT_RECORD,
    MEMORY_EVENT,
    OS_CALL,
    CPU_SAMPLE,
    SCHED_EVENT,
    PYTHON_SAMPLE,
    GIL_SPAN,
    LIBRARY_CALL,
)
