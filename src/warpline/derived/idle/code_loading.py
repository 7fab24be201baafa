"""Times during which launching threads load or compile code, and compare implementations."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from warpline.derived import derived
from warpline.derived.idle.host_blocking import blocking
from warpline.derived.idle.host_calls import HostCalls, host_calls, numbers_of_texts, working_calls
from warpline.derived.texts import without_version
from warpline.derived.time_parts import TimePart
from warpline.ops.arrays import I8, I64, BoolArray
from warpline.ops.tiling import by_group
from warpline.trace import Trace

# A library's compiler runs before it loads the result. Shorter gaps are its other work.
_LEAST_COMPILED_NS = 1_000_000
# Calls that load code that the program has, as a file or in memory.
_LOADS = ("cuModuleLoad", "cuLibraryLoad", "hipModuleLoad", "cuLinkComplete")
_TIMES = ("cudaEventElapsedTime", "cuEventElapsedTime", "hipEventElapsedTime")
_LOADING, _TIMING = 1, 2
# Reads of event times in a step: this many, and this many times those of the usual step, show that
# a library compares kernels.
_LEAST_TIMINGS = 8
_MORE_TIMINGS = 4


class ThreadSpans(NamedTuple):
    """Times of threads.

    Attributes:
        start_ns: Shape (n,), int64.
        end_ns: Shape (n,), int64.
        thread: Shape (n,), int64, rows of the thread table.
        process: Shape (n,), int64, rows of the process table.
    """

    start_ns: I64
    end_ns: I64
    thread: I64
    process: I64

    def taken(self, rows: I64) -> ThreadSpans:
        """Return the selected times."""
        return ThreadSpans(*(column[rows] for column in self))


@derived
def code_loading(trace: Trace) -> ThreadSpans:
    """Return when launching threads were blocked because the driver loaded or compiled code."""
    held = blocking(trace)
    rows = np.flatnonzero(held.cause == TimePart.MODULE_LOAD)
    columns = (held.start_ns, held.end_ns, held.thread, held.process)
    return ThreadSpans(*(column[rows] for column in columns))


@derived
def compiling(trace: Trace) -> ThreadSpans:
    """Return the CPU gaps directly before code is loaded: a program compiles it in that time."""
    calls = working_calls(trace)
    loads = np.flatnonzero(_kinds(trace) == _LOADING)
    outer = host_calls(trace)
    before = _end_before(outer, calls.thread[loads], calls.start_ns[loads])
    is_gap = (before >= 0) & (calls.start_ns[loads] - before >= _LEAST_COMPILED_NS)
    rows = loads[is_gap]
    return ThreadSpans(
        before[is_gap], calls.start_ns[rows], calls.thread[rows], calls.process[rows]
    )


@derived
def timings(trace: Trace) -> ThreadSpans:
    """Return the calls that read the time between two events, as libraries do to choose kernels."""
    calls = working_calls(trace)
    rows = np.flatnonzero(_kinds(trace) == _TIMING)
    return ThreadSpans(
        calls.start_ns[rows], calls.end_ns[rows], calls.thread[rows], calls.process[rows]
    )


def is_tuning(reads: I64, usual: float) -> BoolArray:
    """Return in which steps a library compared kernels, by the times that it read in each."""
    return (reads >= _LEAST_TIMINGS) & (reads >= _MORE_TIMINGS * usual)


@derived
def _kinds(trace: Trace) -> I8:
    """Return what each of `working_calls` is: _LOADING, _TIMING, or 0."""
    calls = working_calls(trace)
    if not len(calls.row):
        return np.zeros(0, np.int8)
    names = trace.columns("api_call", "name_id")["name_id"].values[calls.row]
    return numbers_of_texts(trace, names, _kind)


def _kind(name: str) -> int:
    plain = without_version(name)
    return _LOADING if plain.startswith(_LOADS) else _TIMING if plain.startswith(_TIMES) else 0


def _end_before(calls: HostCalls, thread: I64, time_ns: I64) -> I64:
    """Return the end of the last call of a thread that began before a time; -1 for none."""
    ends = np.full(len(time_ns), -1)
    own_thread = calls.thread
    for rows in by_group(thread):
        own = np.flatnonzero(own_thread == thread[rows[0]])
        place = np.searchsorted(calls.start_ns[own], time_ns[rows]) - 1
        ends[rows] = np.where(place >= 0, calls.end_ns[own[np.maximum(place, 0)]], -1)
    return ends
