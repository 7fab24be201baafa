"""Names of threads, as exports and flame graphs show them."""

from __future__ import annotations

from typing import NamedTuple

from warpline.trace import Trace

UNKNOWN_THREAD = "unknown thread"


class ThreadName(NamedTuple):
    """A thread: its name with its number, and the numbers of process and thread."""

    text: str
    pid: int
    tid: int


def thread_name(trace: Trace, row: int) -> ThreadName:
    """Return the name of a row of the table thread: ``pt_data_worker (1417)``; -1 is unknown."""
    if row < 0:
        return ThreadName(UNKNOWN_THREAD, 0, 0)
    threads = trace.columns("thread", "process_id", "tid", "name_id")
    processes = trace.columns("process", "pid", "name_id")
    tid, process = int(threads["tid"].values[row]), int(threads["process_id"].values[row])
    names = (threads["name_id"], row), (processes["name_id"], process)
    known = (int(column.values[place]) for column, place in names if column.is_valid()[place])
    name = next((trace.strings.text(number) for number in known), "thread")
    return ThreadName(f"{name} ({tid})", int(processes["pid"].values[process]), tid)
