"""The rank of each process of a distributed program."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np

from warpline.derived import derived
from warpline.derived.work.operations import operations
from warpline.lazy import lazy_pattern
from warpline.ops.arrays import I64
from warpline.ops.group import distinct_values
from warpline.trace import Trace

UNKNOWN = -1

_IN_FILE_NAME = lazy_pattern(r"(?<![a-z])rank[-_.]?([0-9]{1,9})(?![0-9])", re.IGNORECASE)


@derived
def rank_of_process(trace: Trace) -> I64:
    """Return the rank of each process, shape (processes,), int64; `UNKNOWN` where it has none.

    Sources, in order of preference: the recording or the program's environment, the process's
    largest communicator, the name of its file. Each source fills in processes without a rank, if
    all ranks stay distinct.
    """
    count = trace.row_count("process") if trace.has("process") else 0
    number = np.full(count, UNKNOWN, np.int64)
    if not count:
        return number
    recorded = trace.columns("process", "rank")["rank"].filled(UNKNOWN).astype(np.int64)
    for told in (recorded, _by_communicator(trace, count), _by_file_name(trace, count)):
        both = np.where(number == UNKNOWN, told, number)
        known = both[both != UNKNOWN]
        if len(distinct_values(known)) == len(known):
            number = both
    return number


def _by_communicator(trace: Trace, count: int) -> I64:
    """Return the rank of each process in its largest communicator."""
    number = np.full(count, UNKNOWN, np.int64)
    if not trace.has("collective") or not trace.row_count("collective"):
        return number
    columns = trace.columns("collective", "process_id", "rank", "rank_count")
    size = columns["rank_count"].filled(0)
    known = np.flatnonzero(columns["rank"].is_valid() & (size > 0))
    if len(known):
        size, process = size[known], columns["process_id"].values[known]
        whole = size == size.max()
        number[process[whole]] = columns["rank"].values[known][whole]
    return number


def _by_file_name(trace: Trace, count: int) -> I64:
    """Return the numbers in names such as ``trace.rank1.json`` of files with one process each."""
    files = trace.meta.file_of_process
    if len(files) != count or len(set(files)) < count:
        return np.full(count, UNKNOWN, np.int64)
    return np.array([rank_in_name(trace.meta.paths[file]) for file in files], np.int64)


def rank_in_name(path: Path) -> int:
    """Return the rank in the name of a file such as ``trace.rank1.json``, `UNKNOWN` without."""
    found = _IN_FILE_NAME.search(path.name)
    return int(found.group(1)) if found else UNKNOWN


def rank_label(trace: Trace, process: int, device: int) -> str:
    """Return a label for a rank: its number, or the process and its device.

    Args:
        trace: The trace.
        process: Row of the process table.
        device: Row of the device table.
    """
    columns = trace.columns("device", "gpu_index")
    where = f"device {int(columns['gpu_index'].values[device])}"
    rank = int(rank_of_process(trace)[process])
    if rank == UNKNOWN:
        pid = int(trace.columns("process", "pid")["pid"].values[process])
        return f"process {pid} on {where}"
    work = operations(trace)
    devices = distinct_values(work.device[work.process == process])
    return f"rank {rank}" if len(devices) < 2 else f"rank {rank} on {where}"
