"""The kind of an event, by its phase and category, for all spellings since 2021."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from enum import IntEnum

import numpy as np

from warpline.ops.arrays import I8, I64, BoolArray
from warpline.readers.kineto.scan import Scan, Signed


class Kind(IntEnum):
    """The kind of an event. Rows of one kind belong to one or two tables."""

    OTHER = 0
    KERNEL = 1
    MEMCPY = 2
    MEMSET = 3
    RUNTIME = 4
    DRIVER = 5
    WAIT = 6
    EVENT_RECORD = 7
    OP = 8
    ANNOTATION = 9
    PYTHON = 10
    OVERHEAD = 11
    MARK = 12
    ALLOCATION = 13
    COUNTER = 14
    SPAN = 15  # the recording itself
    GLOBAL_MARK = 16  # beginnings and ends of the recording
    METADATA = 17
    LINK = 18  # an end of an arrow from a call to a GPU operation; both also have a correlation
    FORWARD_LINK = (
        19  # one from a forward operator to its backward one, redundant with sequence numbers
    )
    UNPLACED = 20  # its time was not recorded
    PROJECTION = 21  # an annotation, repeated next to the GPU operations it launched


# Category in lower case -> kind of its complete events.
_COMPLETE: Mapping[str, Kind] = {
    "kernel": Kind.KERNEL,
    "gpu_memcpy": Kind.MEMCPY,
    "memcpy": Kind.MEMCPY,
    "gpu_memset": Kind.MEMSET,
    "memset": Kind.MEMSET,
    "cuda_runtime": Kind.RUNTIME,
    "runtime": Kind.RUNTIME,
    "hip_runtime": Kind.RUNTIME,
    "xpu_runtime": Kind.RUNTIME,
    "mtia_runtime": Kind.RUNTIME,
    "privateuse1_runtime": Kind.RUNTIME,
    "cuda_driver": Kind.DRIVER,
    "driver": Kind.DRIVER,
    "privateuse1_driver": Kind.DRIVER,
    "cuda_sync": Kind.WAIT,
    "cuda_event": Kind.EVENT_RECORD,
    "cpu_op": Kind.OP,
    "operator": Kind.OP,
    "user_annotation": Kind.ANNOTATION,
    "python_function": Kind.PYTHON,
    "overhead": Kind.OVERHEAD,
    "trace": Kind.SPAN,
    "gpu_user_annotation": Kind.PROJECTION,
}
_LINKS: Mapping[str, int] = {
    **dict.fromkeys(("ac2g", "async_cpu_to_gpu", "async_gpu", "async"), Kind.LINK),
    **dict.fromkeys(("fwdbwd", "forward_backward"), Kind.FORWARD_LINK),
}
_ALLOCATION = "[memory]"
# The framework's own annotations. Until 2021 they had the category of operators.
_ANNOTATIONS = (b"ProfilerStep#", b"Optimizer.", b"enumerate(DataLoader)#")
_FAR_NS = 3600 * 10**9
_GLOBAL_PIDS = re.compile(r"|Traces|Spans", re.IGNORECASE)

RECORDED: tuple[Kind, ...] = (
    Kind.KERNEL,
    Kind.MEMCPY,
    Kind.MEMSET,
    Kind.RUNTIME,
    Kind.DRIVER,
    Kind.WAIT,
    Kind.OP,
    Kind.ANNOTATION,
    Kind.PYTHON,
    Kind.SPAN,
)
"""Every PyTorch profiler trace has at least one of these kinds."""


def kinds_of(scan: Scan) -> I8:
    """Return the kind of each event, shape (n,)."""
    is_complete = scan.phase == ord("X")
    kinds = _table(scan, _COMPLETE)[scan.category]
    kinds[~is_complete] = Kind.OTHER
    rows = np.flatnonzero(kinds == Kind.OP)
    kinds[rows[_is_named(scan, rows, lambda name: name.startswith(_ANNOTATIONS))]] = Kind.ANNOTATION
    rows = np.flatnonzero(_has_phase(scan, b"iIR"))
    kinds[rows] = Kind.MARK
    kinds[rows[_is_named(scan, rows, _ALLOCATION.encode().__eq__)]] = Kind.ALLOCATION
    kinds[rows[_is_global(scan, rows)]] = Kind.GLOBAL_MARK
    kinds[scan.phase == ord("C")] = Kind.COUNTER
    kinds[_is_unplaced(scan)] = Kind.UNPLACED
    kinds[scan.phase == ord("M")] = Kind.METADATA
    rows = np.flatnonzero(_has_phase(scan, b"stf"))
    kinds[rows] = _table(scan, _LINKS)[scan.category[rows]]
    return kinds


def _has_phase(scan: Scan, phases: bytes) -> BoolArray:
    table = np.zeros(256, np.bool_)
    table[list(phases)] = True
    return table[scan.phase]


def _is_unplaced(scan: Scan) -> BoolArray:
    """Return which events have no time.

    CUPTI writes 0 for unknown. 0 means unknown if all other times are far from it.
    """
    unplaced: BoolArray = ~scan.has_ts
    is_zero = scan.has_ts & (scan.ts_ns == 0)
    if is_zero.any():
        others = scan.ts_ns[scan.has_ts & ~is_zero & (scan.phase != ord("M"))]
        if len(others) and int(others.min()) >= _FAR_NS:
            unplaced |= is_zero
    return unplaced


def _table(scan: Scan, kinds: Mapping[str, int]) -> I8:
    """Return the kind of each category text. The last place is for none."""
    table = np.zeros(len(scan.texts) + 1, np.int8)
    for number in _used(scan, scan.category):
        text = scan.texts[number].decode("utf-8", "replace").lower()
        table[number] = kinds.get(text, Kind.OTHER)
    return table


def _is_named(scan: Scan, rows: I64, is_wanted: Callable[[bytes], bool]) -> BoolArray:
    """Return which of some events have a name that is wanted; it is asked once per name."""
    table = np.zeros(len(scan.texts) + 1, np.bool_)
    names = scan.name[rows]
    table[[number for number in _used(scan, names) if is_wanted(scan.texts[number])]] = True
    return table[names]


def _is_global(scan: Scan, rows: I64) -> BoolArray:
    table = np.zeros(len(scan.texts) + 1, np.bool_)
    table[-1] = True  # no pid
    pids = scan.pid[rows]
    for number in _used(scan, pids):
        text = scan.texts[number].decode("utf-8", "replace")
        table[number] = _GLOBAL_PIDS.fullmatch(text) is not None
    return table[pids]


def _used(scan: Scan, column: Signed) -> list[int]:
    """Return the numbers of the texts in a column, ascending."""
    is_used = np.zeros(len(scan.texts) + 1, np.bool_)
    is_used[column] = True  # -1, for none, is the last place
    return np.flatnonzero(is_used[:-1]).tolist()
