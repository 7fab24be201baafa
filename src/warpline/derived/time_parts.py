"""The parts of a GPU's time: what it is busy with, or why it is idle."""

from __future__ import annotations

import numpy as np

from warpline.ops.arrays import I8, BoolArray
from warpline.vocabulary import Vocabulary


class TimePart(Vocabulary):
    """Categories of busy time, then causes of idle time.

    Categories are in order of precedence for overlapping operations: compute, collectives, CUDA
    graphs, copies.
    """

    GEMM = "gemm", "matrix multiplication"
    ATTENTION = "attention", "fused attention"
    CONVOLUTION = "convolution", "convolutions"
    NORMALIZATION = "normalization", "normalization, softmax"
    ELEMENTWISE = "elementwise", "elementwise operations"
    REDUCTION = "reduction", "sums, maxima, losses"
    EMBEDDING = "embedding", "embedding lookups and updates"
    SORT_INDEX = "sort-index", "sort, gather, scatter, index"
    OPTIMIZER = "optimizer", "parameter updates"
    LAYOUT_COPY = "layout-copy", "layout conversion"
    CAST_COPY = "cast-copy", "casts"
    OTHER = "other", "unclassified kernels"
    COLLECTIVE = "collective", "communication and waiting for ranks"
    GRAPH = "graph", "CUDA graphs traced at graph level"
    COPY_H2D = "copy-h2d", "host-to-device copies"
    COPY_D2H = "copy-d2h", "device-to-host copies"
    COPY_D2D = "copy-d2d", "device-to-device copies"
    COPY_P2P = "copy-p2p", "peer-to-peer copies"
    COPY_OTHER = "copy-other", "other copies"
    MEMSET = "memset", "memsets"

    LAUNCH_BOUND = "launch-bound", "waiting for the next launch"
    HOST_SYNC = "host-sync", "CPU-GPU synchronization"
    INPUT = "input", "CPU loading or preparing data"
    OS_WAIT = "os-wait", "CPU asleep, blocked or preempted"
    PAGEABLE_COPY = "pageable-copy", "CPU blocked in a pageable copy"
    ALLOCATOR = "allocator", "CPU allocating or freeing memory"
    GRAPH_INSTANTIATION = "graph-instantiation", "CPU capturing or instantiating a CUDA graph"
    MODULE_LOAD = "module-load-or-JIT", "driver loading or compiling code"
    DEPENDENCY = "dependency", "waiting for other GPU operations"
    COMMUNICATION_WAIT = "communication-wait", "waiting behind a collective"
    GRAPH_INTERNAL = "graph-internal", "between the recorded operations of a CUDA graph"
    PROFILER_OVERHEAD = "profiler-overhead", "CPU blocked by the profiler"
    TAIL = "tail", "before the first or after the last operation"
    UNKNOWN = "unknown", "cause not recorded"

    @property
    def is_busy(self) -> bool:
        """Whether it is a category of busy time, not a cause of idle time."""
        return int(self) < _N_BUSY


_N_BUSY = int(TimePart.MEMSET) + 1

BUSY: tuple[TimePart, ...] = tuple(part for part in TimePart if part.is_busy)
IDLE: tuple[TimePart, ...] = tuple(part for part in TimePart if not part.is_busy)
# Idle time that no faster CPU would shorten, as far as the recording shows.
NOT_OF_CPU: tuple[TimePart, ...] = (
    *(TimePart.DEPENDENCY, TimePart.COMMUNICATION_WAIT, TimePart.GRAPH_INTERNAL),
    *(TimePart.TAIL, TimePart.UNKNOWN),
)
# Kernels, by name; the rest follows from the kind of operation.
OF_KERNELS: tuple[TimePart, ...] = BUSY[: int(TimePart.COLLECTIVE) + 1]


def is_busy(part: I8) -> BoolArray:
    """Return which parts are busy, not causes of idle time."""
    busy: BoolArray = part < np.int8(_N_BUSY)
    return busy
