"""The kind of an event, by its phase and category, for all spellings since 2021."""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import IntEnum

import numpy as np

from warpline.ops.arrays import I8, BoolArray
from warpline.readers.kineto.scan import Scan


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
    kinds = np.zeros(len(scan), np.int8)
    is_complete = scan.phase == ord("X")
    by_category = _table(scan, {text: int(kind) for text, kind in _COMPLETE.items()})
    kinds[is_complete] = by_category[scan.category[is_complete]]
    kinds[(kinds == Kind.OP) & _begins_with(scan, scan.name, _ANNOTATIONS)] = Kind.ANNOTATION
    is_instant = np.isin(scan.phase, np.frombuffer(b"iIR", np.uint8))
    kinds[is_instant] = Kind.MARK
    kinds[is_instant & _is_text(scan, scan.name, _ALLOCATION)] = Kind.ALLOCATION
    kinds[is_instant & _is_global(scan)] = Kind.GLOBAL_MARK
    kinds[scan.phase == ord("C")] = Kind.COUNTER
    kinds[_is_unplaced(scan)] = Kind.UNPLACED
    kinds[scan.phase == ord("M")] = Kind.METADATA
    is_flow = np.isin(scan.phase, np.frombuffer(b"stf", np.uint8))
    links = _table(scan, _LINKS)
    kinds[is_flow] = links[scan.category[is_flow]]
    return kinds


def _is_unplaced(scan: Scan) -> BoolArray:
    """Return which events have no time.

    CUPTI writes 0 for unknown. 0 means unknown if all other times are far from it.
    """
    is_zero = scan.has_ts & (scan.ts_ns == 0)
    others = scan.ts_ns[scan.has_ts & ~is_zero & (scan.phase != ord("M"))]
    if not len(others) or int(others.min()) < _FAR_NS:
        is_zero = np.zeros(len(scan), np.bool_)
    unplaced: BoolArray = ~scan.has_ts | is_zero
    return unplaced


def _table(scan: Scan, kinds: Mapping[str, int]) -> I8:
    """Return the kind of each category text. The last place is for none."""
    table = np.zeros(len(scan.texts) + 1, np.int8)
    for number in np.unique(scan.category).tolist():
        if number >= 0:
            text = scan.texts[number].decode("utf-8", "replace").lower()
            table[number] = kinds.get(text, 0)
    return table


def _is_text(scan: Scan, column: np.ndarray, text: str) -> BoolArray:
    wanted = text.encode()
    used = np.unique(column)
    numbers = [number for number in used.tolist() if number >= 0 and scan.texts[number] == wanted]
    is_it: BoolArray = np.isin(column, numbers)
    return is_it


def _begins_with(scan: Scan, column: np.ndarray, beginnings: tuple[bytes, ...]) -> BoolArray:
    used = np.unique(column)
    numbers = [n for n in used.tolist() if n >= 0 and scan.texts[n].startswith(beginnings)]
    begins: BoolArray = np.isin(column, numbers)
    return begins


def _is_global(scan: Scan) -> BoolArray:
    pids = [
        number
        for number in np.unique(scan.pid).tolist()
        if number < 0 or _GLOBAL_PIDS.fullmatch(scan.texts[number].decode("utf-8", "replace"))
    ]
    is_global: BoolArray = np.isin(scan.pid, pids)
    return is_global
