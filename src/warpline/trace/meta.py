"""What is known about a recording as a whole."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True)
class ProcessEnd:
    """How a process ended that died, or had ranges open when it or the recording ended.

    Attributes:
        pid: Id of the process at the operating system.
        cause: ``killed`` or ``crashed`` by a signal, ``exited``, ``replaced`` by exec, ``died``
            (it is not known how), ``stopped`` (recording did, before it ended), ``alive`` (it ran
            on), ``unwatched`` (the profiler was killed; until then it lived).
        ended_ns: When that was, from the origin. What the process had open ends there.
        name: Of its executable.
        is_program: Whether it is the process that the profiler started.
        signal: The signal that ended it, such as SIGKILL.
        exit_status: What it returned.
        stopped_by: What stopped the recording: ``interrupt``, ``duration`` or ``capture range``.
        open_ranges: How many ranges it had open.
        path: Names of those of one thread, the outermost first: the main thread if it had any open,
            or else the one whose innermost was open longest. Of many the first few and the last.
        opened_ns: When the last of these was opened, from the origin; None without any.
        last_event_ns: When that thread's last event was.
        tid: That thread.
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


@dataclass(frozen=True)
class TraceMeta:
    """Facts about a recording.

    Attributes:
        paths: The files it was read from.
        format: Name of the reader, such as ``nsys-sqlite``.
        producer: The program and version that wrote the recording.
        format_version: Version of the file's own schema, if it has one.
        command: Command line of the recorded program; what is not known to be harmless is ``***``.
        host: Name of the machine it was recorded on.
        origin_utc_ns: UTC time of time 0 of the trace, ns since 1970, or None if unknown.
        span_ns: When recording began and ended, from the origin, or None if unknown.
        windows_ns: Beginnings and ends of what was recorded of that, ascending and apart, where
            only samples or capture ranges were: nothing is known of the time between. None if all
            of it was.
        ends: How processes ended that died or left ranges open, in the order of their ends.
        lost: What the producer says it dropped, as subject -> count, None where it gave no count.
        unread: Tables of the file that this program does not map -> rows.
        warnings: What the reader or the producer wants the user to know, one sentence each.
        damaged: Tables of the trace that could not be read -> why.
        environment: Variables of the recorded program that change what it does, by name; those
            that may hold secrets are left out or redacted.
        record_cost_ns: What the recorder took the program for a row of a table, as measured on
            the machine that it ran on, by table.
        file_of_process: Of several files in one trace, the place in `paths` of the file that each
            row of process is from; empty for a single file. Each file has a clock of its own.
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
    lost: Mapping[str, int | None] = field(default_factory=dict)
    unread: Mapping[str, int] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    damaged: Mapping[str, str] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)
    record_cost_ns: Mapping[str, float] = field(default_factory=dict)
    file_of_process: tuple[int, ...] = ()
