"""When launching threads waited for input data or prepared it, before they copied it to a device.

Any of these on a thread that launches work indicates it:

- PyTorch's range around fetching a batch from a DataLoader, ``enumerate(DataLoader)#...``.
- Blocking in the operating system (read, poll, condition variable, semaphore), or time off the CPU,
  of at least 50 us, while no launching thread of the process makes a CUDA call, and the next
  operation launched by the process is a host-to-device copy.
- At least 0.5 ms without CUDA calls of launching threads, followed by the launch of a
  host-to-device copy of 4 KiB or more. Whether the thread waited for the data or prepared it is
  unknown, but the copied data is the likely reason.

Otherwise a thread without CUDA calls may do anything, and the time is not counted as input.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from warpline.derived import derived
from warpline.derived.idle.host_calls import host_calls, working_threads
from warpline.derived.kernels.categories import operation_categories
from warpline.derived.texts import number_texts
from warpline.derived.time_parts import TimePart
from warpline.derived.work.launch_order import launch_order
from warpline.derived.work.operations import operations
from warpline.ops.arrays import I64, BoolArray
from warpline.ops.tiling import Grouped, by_group, cut
from warpline.trace import Trace

SHORTEST_WAIT_NS = 50_000
SHORTEST_SILENCE_NS = 500_000  # Python takes less between two launches
SMALLEST_BATCH_BYTES = 4096
_LOADER = b"enumerate(DataLoader)#"
_WAITS = frozenset(
    (
        *("read", "pread", "pread64", "readv", "preadv", "fread", "recv", "recvfrom", "recvmsg"),
        *("poll", "ppoll", "select", "pselect", "epoll_wait", "epoll_pwait", "accept", "accept4"),
        *("pthread_cond_wait", "pthread_cond_timedwait", "pthread_cond_clockwait", "futex"),
        *("sem_wait", "sem_timedwait", "sem_clockwait", "msgrcv", "mq_receive", "wait", "waitpid"),
    )
)


class ThreadTimes(NamedTuple):
    """Intervals on threads.

    Attributes:
        start_ns: Shape (n,), int64.
        end_ns: Shape (n,), int64, none before its start.
        thread: Shape (n,), int64, rows of the thread table.
    """

    start_ns: I64
    end_ns: I64
    thread: I64

    def taken(self, rows: I64 | BoolArray) -> ThreadTimes:
        """Return the selected intervals."""
        return ThreadTimes(*(column[rows] for column in self))


@derived
def data_waits(trace: Trace) -> ThreadTimes:
    """Return when launching threads waited for input data; intervals may overlap."""
    silence = silences(trace)
    of_system = _within(trace, _joined([_os_waits(trace), _off_processor(trace)]), silence)
    of_system = of_system.taken(_lasting(of_system, SHORTEST_WAIT_NS))
    of_system = of_system.taken(_before_copies(trace, of_system, 0))
    silence = silence.taken(_lasting(silence, SHORTEST_SILENCE_NS))
    silence = silence.taken(_before_copies(trace, silence, SMALLEST_BATCH_BYTES))
    return _joined([_loader_ranges(trace), of_system, silence])


def _lasting(times: ThreadTimes, least_ns: int) -> BoolArray:
    lasting: BoolArray = times.end_ns - times.start_ns >= least_ns
    return lasting


def silences(trace: Trace) -> ThreadTimes:
    """Return when no launching thread of a process made a call, by process and start.

    The thread is the one that made the next call.
    """
    calls = host_calls(trace)
    parts = []
    for of_process in by_group(calls.process):
        rows = of_process[np.argsort(calls.start_ns[of_process], kind="stable")]
        reach = np.maximum.accumulate(calls.end_ns[rows])[:-1]
        upcoming = rows[1:]
        silent = np.flatnonzero(calls.start_ns[upcoming] - reach >= SHORTEST_WAIT_NS)
        after = upcoming[silent]
        parts.append(ThreadTimes(reach[silent], calls.start_ns[after], calls.thread[after]))
    return _joined(parts)


def _within(trace: Trace, times: ThreadTimes, silence: ThreadTimes) -> ThreadTimes:
    """Return the parts of intervals during which the thread's process made no calls."""
    if not len(times.thread) or not len(silence.thread):
        return _joined([])
    process_of = _process_of(trace)
    parts = cut(
        Grouped(times.start_ns, times.end_ns, process_of[times.thread]),
        Grouped(silence.start_ns, silence.end_ns, process_of[silence.thread]),
    )
    return ThreadTimes(parts.start_ns, parts.end_ns, times.thread[parts.span])


def _loader_ranges(trace: Trace) -> ThreadTimes:
    """Return the ranges in which PyTorch fetched a batch."""
    return _joined(
        [
            _named(trace, table, lambda name: name.startswith(_LOADER))
            for table in ("range", "op")
            if trace.has(table) and trace.row_count(table)
        ]
    )


def _os_waits(trace: Trace) -> ThreadTimes:
    if not trace.has("os_call") or not trace.row_count("os_call"):
        return _joined([])
    return _named(trace, "os_call", lambda name: name.decode("utf-8", "replace") in _WAITS)


def _off_processor(trace: Trace) -> ThreadTimes:
    """Return when launching threads were off the CPU."""
    if not trace.has("sched_event") or not trace.row_count("sched_event"):
        return _joined([])
    columns = trace.columns("sched_event", "time_ns", "thread_id", "is_sched_in")
    known = np.flatnonzero(columns["thread_id"].is_valid())
    known = known[working_threads(trace)[columns["thread_id"].values[known]]]
    time, thread, runs = (column.values[known] for column in columns.values())
    order = np.lexsort((time, thread))
    time, thread, runs = time[order], thread[order].astype(np.int64), runs[order]
    left = np.flatnonzero(~runs[:-1] & runs[1:] & (thread[:-1] == thread[1:]))
    return ThreadTimes(time[left], time[left + 1], thread[left])


def _named(trace: Trace, table: str, wanted: Callable[[bytes], bool]) -> ThreadTimes:
    """Return the rows of a table by launching threads whose name matches."""
    columns = trace.columns(table, "start_ns", "end_ns", "thread_id", "name_id")
    names = columns["name_id"]
    _, distinct = number_texts(names.values, len(trace.strings))
    is_wanted = np.zeros(len(trace.strings), np.bool_)
    is_wanted[distinct] = [wanted(trace.strings.raw(row)) for row in distinct.tolist()]
    thread = columns["thread_id"].values
    rows = np.flatnonzero(
        names.is_valid() & is_wanted[names.values] & working_threads(trace)[thread]
    )
    start, end = (columns[name].values[rows] for name in ("start_ns", "end_ns"))
    return ThreadTimes(start, np.maximum(start, end), thread[rows].astype(np.int64))


def _before_copies(trace: Trace, times: ThreadTimes, least_bytes: int) -> BoolArray:
    """Return which intervals the process followed by launching a host-to-device copy."""
    launches = launch_order(trace)
    is_copy = operation_categories(trace) == TimePart.COPY_H2D
    copies = operations(trace).of_table("memcpy")
    if len(copies):
        size = trace.columns("memcpy", "bytes")["bytes"].values[operations(trace).row[copies]]
        is_copy = is_copy.copy()
        is_copy[copies] &= size >= least_bytes
    order = launches.order[launches.is_known[launches.order]]
    process = operations(trace).process[order]
    of_times = _process_of(trace)[times.thread]
    is_copied = np.zeros(len(times.thread), np.bool_)
    for rows in by_group(of_times):
        low, high = np.searchsorted(process, of_times[rows[0]] + np.array([0, 1]))
        launched = order[low:high]
        place = np.searchsorted(launches.time_ns[launched], times.end_ns[rows], side="left")
        follows = place < len(launched)
        is_copied[rows[follows]] = is_copy[launched[place[follows]]]
    return is_copied


def _process_of(trace: Trace) -> I64:
    """Return the process of each thread."""
    if not trace.has("thread"):
        return np.zeros(0, np.int64)
    return trace.columns("thread", "process_id")["process_id"].values.astype(np.int64)


def _joined(parts: list[ThreadTimes]) -> ThreadTimes:
    nothing = np.zeros(0, np.int64)
    return ThreadTimes(
        np.concatenate([nothing, *(part.start_ns for part in parts)]),
        np.concatenate([nothing, *(part.end_ns for part in parts)]),
        np.concatenate([nothing, *(part.thread for part in parts)]),
    )
