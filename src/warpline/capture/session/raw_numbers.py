"""The numbers in raw logs.

Generated from native/raw/records.toml by `python native/raw/generate`.
"""

from __future__ import annotations

import ctypes
import enum
from collections.abc import Mapping


class Note(enum.IntEnum):
    """The kind of a Note record."""

    # a library's NVTX was bound to the agent; text: its file, if known
    NVTX_BOUND = 1
    # an NVTX function that is not recorded was offered; text: which
    NVTX_UNKNOWN_CALL = 2
    # unsupported version of an extension; text: which
    PAYLOAD_UNKNOWN = 3
    # a text or payload was truncated or dropped
    TOO_LONG = 4
    # this process is a fork; text: the parent's "PID-INCARNATION"
    FORK = 5
    # this process records from here; text: the step's number where steps are sampled, else
    # nothing: a capture range begins
    SAMPLE_BEGIN = 6
    # and pauses from here; text: the number of the first step not recorded
    SAMPLE_END = 7
    # steps are detected from periodic launches; text: "PERIOD_NS LAUNCHES BY_CLOCK": duration
    # and launches of one, and 1 if pauses are timed
    STEPS_BY_LAUNCH = 8


class CudaNote(enum.IntEnum):
    """More kinds of a Note record; their text is shown to the user."""

    # CUPTI's version and file: "CUPTI 130001 PATH"
    USING = 64
    # CUDA is not recorded in this process; text: the reason
    UNAVAILABLE = 65
    # it is not, because another profiler uses CUPTI; text: which, a tab, and "held" (CUPTI
    # supports one), or "unshared" (that one does not share it)
    OTHER_PROFILER = 66
    # it is, with a known limitation; text: which
    DOUBT = 67
    # one kind of record could not be enabled; text: which, and why
    KIND_FAILED = 68
    # it is, and CUPTI is shared with another profiler; text: which
    SHARED = 69
    # counters are collected; text: chip, passes and how
    COUNTERS = 70
    # counters cannot be collected; text: the reason, a tab, and what to do or CUPTI's result, a
    # number
    NO_COUNTERS = 71
    # they are, with a known limitation; text: which
    COUNTERS_DOUBT = 72
    # no launch was chosen; text: why, a tab, and what to do
    NOT_CHOSEN = 73
    # this process has locked the clocks of a GPU; text: its CUDA ordinal
    CLOCKS_LOCKED = 74
    # and unlocked them; text: the same
    CLOCKS_UNLOCKED = 75
    # program counters are sampled; text: how
    SAMPLING = 76
    # they cannot be sampled; text: as NoCounters
    NO_SAMPLING = 77
    # they are, with a known limitation; text: which
    SAMPLING_DOUBT = 78
    # Python stacks of calls cannot be recorded; text: why
    NO_PYTHON_STACKS = 79
    # calls of libraries are not recorded, or not all; text: why
    NO_LIBRARY_CALLS = 91
    # CPU samples for which there was no room; text: how many
    CPU_SAMPLES_DROPPED = 85
    # CPU samples cannot be taken, or not any more; text: why
    NO_CPU_SAMPLES = 86


class Known(enum.IntEnum):
    """Whether something is so."""

    NO = 1
    YES = 2


class GilState(enum.IntEnum):
    """What a thread does with the GIL, as the schema numbers it."""

    HOLDING = 1
    WAITING = 2


class CudaCollects(enum.IntFlag):
    """What is collected: the bits of a Collecting record."""

    CALLS = 1
    KERNELS = 2
    COPIES = 4
    FILLS = 8
    # graph level: kernels of graphs are then not recorded
    GRAPHS = 16
    WAITS = 32
    EVENTS = 64
    MEMORY = 128
    OVERHEAD = 256
    GRAPH_NODES = 512
    # calls say which stream and event they concern: waits, stream waits and event records
    # follow from that, in place of Wait and Event
    TARGETS = 1024
    # with migrations, as the next
    CPU_FAULTS = 2048
    GPU_FAULTS = 4096


class LogHeader(ctypes.LittleEndianStructure):
    """The first page of a log."""

    _fields_ = (
        ("magic", ctypes.c_char * 8),
        ("version", ctypes.c_uint32),
        ("header_bytes", ctypes.c_uint32),
        ("pid", ctypes.c_uint32),
        ("ppid", ctypes.c_uint32),
        ("incarnation", ctypes.c_uint64),
        ("forked_from_pid", ctypes.c_uint32),
        ("writer", ctypes.c_uint32),
        ("forked_from_incarnation", ctypes.c_uint64),
        ("anchor_monotonic_ns", ctypes.c_int64),
        ("anchor_utc_ns", ctypes.c_int64),
        ("records", ctypes.c_uint64),
        ("dropped_records", ctypes.c_uint64),
        ("cut_texts", ctypes.c_uint64),
        ("closed_ns", ctypes.c_int64),
        ("used_bytes", ctypes.c_uint64),
        ("host", ctypes.c_char * 64),
        ("executable", ctypes.c_char * 512),
        ("reserved1", ctypes.c_char * 2056),
        ("first_bytes", ctypes.c_uint64),
        ("past_bytes", ctypes.c_uint64),
        ("trimmed_records", ctypes.c_uint64),
    )


# The kind of the records of CUDA calls.
CALL_KIND = 66

# The tables whose rows are records.
ROW_TABLES: tuple[str, ...] = (
    "api_call",
    "kernel",
    "memcpy",
    "memset",
    "graph_launch",
    "host_wait",
    "stream_wait",
    "event_record",
    "memory_event",
    "overhead",
    "graph_node",
    "profiled_kernel",
    "kernel_metric",
    "um_cpu_page_fault",
    "um_gpu_page_fault",
    "pc_sample",
    "pc_sampling",
    "cpu_sample",
    "sched_event",
    "os_call",
    "library_call",
    "nccl_op",
    "python_sample",
    "gil_span",
)

# Those with what a program did: a recording that has no row of any is empty.
EVENT_TABLES: tuple[str, ...] = (
    "api_call",
    "kernel",
    "memcpy",
    "memset",
    "graph_launch",
    "profiled_kernel",
    "pc_sample",
    "cpu_sample",
    "sched_event",
    "os_call",
    "library_call",
    "nccl_op",
    "python_sample",
    "gil_span",
)

# CUDA's tables, and what was collected if one was recorded.
CUDA_TABLES: Mapping[str, CudaCollects] = {
    "api_call": CudaCollects.CALLS,
    "kernel": CudaCollects.KERNELS,
    "memcpy": CudaCollects.COPIES,
    "memset": CudaCollects.FILLS,
    "graph_launch": CudaCollects.KERNELS | CudaCollects.GRAPHS,
    "host_wait": CudaCollects.WAITS | CudaCollects.TARGETS,
    "stream_wait": CudaCollects.WAITS | CudaCollects.TARGETS,
    "event_record": CudaCollects.EVENTS | CudaCollects.TARGETS,
    "memory_event": CudaCollects.MEMORY,
    "overhead": CudaCollects.OVERHEAD,
    "graph_node": CudaCollects.GRAPH_NODES,
    "um_cpu_page_fault": CudaCollects.CPU_FAULTS,
    "um_gpu_page_fault": CudaCollects.GPU_FAULTS,
}

# What -t can name beside CUDA and NVTX, and the table that it adds.
COLLECTORS: Mapping[str, str] = {
    "osrt": "os_call",
    "cublas": "library_call",
    "cublas-verbose": "library_call",
    "cudnn": "library_call",
    "cufft": "library_call",
    "cusolver": "library_call",
    "cusparse": "library_call",
    "mpi": "library_call",
    "nccl": "library_call",
    "nvjpeg": "library_call",
    "openmp": "library_call",
    "python-gil": "gil_span",
}
