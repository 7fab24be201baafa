"""Facts about a recording as a whole."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from warpline.estimate import Estimate
from warpline.frozen import frozen, made
from warpline.schema.unrecorded import Unrecorded


@frozen
class ProcessEnd:
    """How a process ended that died, or that had open ranges when it or the recording ended.

    Attributes:
        pid: Operating system's id of the process.
        cause: ``killed`` or ``crashed`` by a signal, ``exited``, ``replaced`` by exec, ``died``
            (cause unknown), ``stopped`` (recording stopped first), ``alive`` (it kept running), or
            ``unwatched`` (the profiler was killed while the process was running).
        ended_ns: Time of the end, from the origin. Open ranges of the process end there.
        name: Name of its executable.
        is_program: Whether it is the process that the profiler started.
        signal: The signal that ended it, such as SIGKILL.
        exit_status: Its exit status.
        stopped_by: Why recording stopped: ``interrupt``, ``duration``, ``capture range``,
            ``steps``, ``launch count``, ``size`` or ``warpline stop``.
        open_ranges: Number of ranges that it had open.
        path: Names of the open ranges of one thread, the outermost first: of the main thread if it
            had any, else of the thread with the longest-open innermost range. Of many names, the
            first few and the last.
        opened_ns: Start of the innermost of these ranges, from the origin; None without any.
        last_event_ns: Time of the last event of that thread.
        tid: Id of that thread.
    """

    pid: int
    cause: str
    ended_ns: int
    name: str | None = None
    is_program: bool = False
    signal: str | None = None
    exit_status: int | None = None
    stopped_by: str | None = None
    open_ranges: int = 0
    path: tuple[str, ...] = ()
    opened_ns: int | None = None
    last_event_ns: int | None = None
    tid: int | None = None


@frozen
class TraceMeta:
    """Facts about a recording.

    Attributes:
        paths: The files it was read from.
        format: Name of the reader, such as ``nsys-sqlite``.
        producer: Program and version that wrote the recording.
        format_version: Version of the file's schema, if it has one.
        command: Command line of the recorded program. Words that may be secret are ``***``.
        host: Name of the machine of the recording.
        origin_utc_ns: UTC time of time 0 of the trace, ns since 1970; None if unknown.
        span_ns: Start and end of the recording, from the origin; None if unknown.
        windows_ns: Starts and ends of the recorded windows, ascending and disjoint, if only samples
            or capture ranges were recorded. Nothing is known about the time between them. None if
            recording did not pause.
        ends: How processes ended that died or had open ranges, in order of time.
        lost: Dropped events reported by the producer, as subject -> count; None without a count.
        unread: Tables of the file that Warpline does not read -> rows.
        warnings: Warnings of the reader and the producer, one sentence each.
        unrecorded: Why the events of an API are missing; each is a warning, too.
        damaged: Tables of the trace that could not be read -> reason.
        environment: Environment variables that change what the recorded program does. Variables
            that may contain secrets are omitted or redacted.
        software: Versions of what the program ran on, by name: ``driver``, ``CUDA``,
            ``CUDA runtime``, ``operating system``, and frameworks and libraries, such as
            ``PyTorch`` and ``cuDNN``; and its ``CPU``.
        record_cost_ns: Overhead of recording one row, in ns of program time, measured on the
            machine of the recording, by table.
        call_cost_ns: Profiling overhead on the CPU per recorded API call, as known for the profiler
            that wrote the file; None if unknown. Estimated, unlike `record_cost_ns`: it includes
            the time that CUPTI adds to a call.
        operator_cost_ns: Likewise per recorded operator of a framework, in addition; None if there
            is none.
        file_of_process: For a trace of several files, the index into `paths` of the file of each
            process row. Empty for a single file. Each file has its own clock.
    """

    paths: tuple[Path, ...]
    format: str
    producer: str | None = None
    format_version: str | None = None
    command: str | None = None
    host: str | None = None
    origin_utc_ns: int | None = None
    span_ns: tuple[int, int] | None = None
    windows_ns: tuple[tuple[int, int], ...] | None = None
    ends: tuple[ProcessEnd, ...] = ()
    lost: Mapping[str, int | None] = made(dict)
    unread: Mapping[str, int] = made(dict)
    warnings: tuple[str, ...] = ()
    unrecorded: tuple[Unrecorded, ...] = ()
    damaged: Mapping[str, str] = made(dict)
    environment: Mapping[str, str] = made(dict)
    software: Mapping[str, str] = made(dict)
    record_cost_ns: Mapping[str, float] = made(dict)
    call_cost_ns: Estimate | None = None
    operator_cost_ns: Estimate | None = None
    file_of_process: tuple[int, ...] = ()
