"""How the processes of a session ended, and in which of their ranges.

First, when each process ended or was last known to be running: its open ranges end there. Then,
from the sealed session, the facts about each end for the recording's metadata.
"""

from __future__ import annotations

import enum
import signal
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from warpline.capture.finishing.raw_session import LogFile, RawSession
from warpline.capture.session.control import ControlFile
from warpline.capture.session.exits import Exit, read_exits, signal_name
from warpline.capture.session.raw_numbers import Note
from warpline.errors import CaptureError

_WINDOWS = (Note.SAMPLE_BEGIN, Note.SAMPLE_END)
_MOST = 256  # processes to list
_CRASHES = {
    *(signal.SIGSEGV, signal.SIGBUS, signal.SIGILL, signal.SIGFPE),
    *(signal.SIGABRT, signal.SIGTRAP, signal.SIGSYS),
}

Facts = Mapping[str, Any]


class Cause(enum.StrEnum):
    """What ended a process, or the recording of it: `ProcessEnd.cause` of a recording."""

    KILLED = "killed"
    CRASHED = "crashed"
    EXITED = "exited"
    REPLACED = "replaced"  # by exec
    DIED = "died"  # the cause is unknown
    STOPPED = "stopped"  # recording stopped first
    ALIVE = "alive"
    UNWATCHED = "unwatched"  # the launcher was killed


@dataclass(frozen=True)
class Life:
    """The known end of a process.

    Attributes:
        cause: What ended it.
        until_ns: When it ended or was last known to be running, monotonic; None: its last event.
        exit: The launcher's note.
    """

    cause: Cause
    until_ns: int | None = None
    exit: Exit | None = None

    @property
    def cause_in_words(self) -> str:
        """The effect of its signal in words, such as "was killed (SIGKILL)"."""
        name = signal_name(self.exit.signal or 0) if self.exit else ""
        return f"crashed ({name})" if self.cause is Cause.CRASHED else f"was killed ({name})"


def lives_of(
    session: RawSession, logs: Sequence[LogFile], facts: Facts, folder: Path
) -> list[Life]:
    """Return the end of each process of a decoded session, in the order of its processes."""
    watch = _Watch.of(folder, facts)
    rows = _processes(session, logs)
    stopped = _int(facts.get("stopped_monotonic_ns"))
    resting, last = _rests_since(session, facts), session.facts("process", "last_ns")
    lives = []
    for place, row in enumerate(rows):
        life = _life(row, _successor(row, rows), watch)
        if stopped is not None and max(life.until_ns or 0, last[place]) > stopped:
            life = replace(life, cause=Cause.STOPPED)
        if place in resting:
            life = replace(life, until_ns=min(life.until_ns or resting[place], resting[place]))
        lives.append(life)
    return lives


@dataclass(frozen=True)
class _Process:
    pid: int
    incarnation: int
    is_closed: bool
    is_alive: bool
    host: str


@dataclass(frozen=True)
class _Watch:
    """The launcher's observations of the processes on its machine."""

    exits: Mapping[int, Sequence[Exit]]
    attached: frozenset[int]
    heartbeat_ns: int
    is_over: bool
    host: object

    @classmethod
    def of(cls, folder: Path, facts: Facts) -> _Watch:
        exits: dict[int, list[Exit]] = {}
        for each in (*read_exits(folder), *_exit_of_program(facts)):
            exits.setdefault(each.pid, []).append(each)
        attached, heartbeat_ns = _page(folder)
        is_over = _int(facts.get("ended_monotonic_ns")) is not None
        return cls(exits, attached, heartbeat_ns, is_over, facts.get("host"))


def _page(folder: Path) -> tuple[frozenset[int], int]:
    try:
        control = ControlFile.open(folder)
    except (CaptureError, OSError, ValueError):
        return frozenset(), 0
    found = frozenset(control.attached_pids()), control.heartbeat_ns
    control.close()
    return found


def _exit_of_program(facts: Facts) -> Iterable[Exit]:
    """Yield the program's end from session.json, in case the notes could not be written."""
    program = facts.get("program")
    ended_ns = _int(facts.get("ended_monotonic_ns"))
    if not isinstance(program, dict) or ended_ns is None or type(program.get("pid")) is not int:
        return
    number, status = program.get("signal"), program.get("exit_status")
    if type(number) is int:
        yield Exit(program["pid"], ended_ns, number & 0x7F)
    elif type(status) is int:
        yield Exit(program["pid"], ended_ns, (status & 0xFF) << 8)


def _processes(session: RawSession, logs: Sequence[LogFile]) -> list[_Process]:
    host_of = {(log.pid, log.incarnation): log.host for log in logs}
    names = ("pid", "incarnation", "is_closed", "is_alive")
    return [
        _Process(pid, number, bool(closed), bool(alive), host_of.get((pid, number), ""))
        for pid, number, closed, alive in zip(
            *(session.facts("process", name) for name in names), strict=True
        )
    ]


def _successor(process: _Process, rows: Sequence[_Process]) -> int | None:
    """Return when the agent started after an exec, or in another process with the same pid."""
    later = (
        row.incarnation
        for row in rows
        if (row.pid, row.host) == (process.pid, process.host)
        and row.incarnation > process.incarnation
    )
    return min(later, default=None)


def _life(process: _Process, successor: int | None, watch: _Watch) -> Life:
    if process.is_alive:
        return Life(Cause.ALIVE, time.monotonic_ns())
    if process.host == watch.host:
        ended = next((e for e in watch.exits.get(process.pid, ()) if _is_of(e, process)), None)
        if ended is not None and (successor is None or ended.ended_ns <= successor):
            return _ended(process, ended)
        if successor is not None and not process.is_closed:
            return Life(Cause.REPLACED, successor)
        if watch.heartbeat_ns and process.pid in watch.attached and not process.is_closed:
            return Life(Cause.DIED if watch.is_over else Cause.UNWATCHED, watch.heartbeat_ns)
    return Life(Cause.EXITED if process.is_closed else Cause.DIED)


def _is_of(ended: Exit, process: _Process) -> bool:
    return ended.ended_ns >= process.incarnation


def _ended(process: _Process, ended: Exit) -> Life:
    if ended.signal is not None:
        cause = Cause.CRASHED if ended.signal in _CRASHES else Cause.KILLED
        return Life(cause, ended.ended_ns, ended)
    if process.is_closed:  # a normal end: the agent has closed its open ranges
        return Life(Cause.EXITED, None, ended)
    return Life(Cause.EXITED if ended.status is not None else Cause.DIED, ended.ended_ns, ended)


def _rests_since(session: RawSession, facts: Facts) -> dict[int, int]:
    """Return when the launcher closed the last time window, for processes that rely on those."""
    found = facts.get("time_windows")
    ends = [
        window[1]
        for window in (found if isinstance(found, list) else ())
        if isinstance(window, list) and len(window) == 2 and type(window[1]) is int
    ]
    if not ends:
        return {}
    columns = (session.facts("note", name) for name in ("time_ns", "kind", "process_id"))
    notes = sorted(zip(*columns, strict=True))
    last = {place: kind for _, kind, place in notes if kind in _WINDOWS}
    processes = range(session.rows("process"))
    return {place: max(ends) for place in processes if last.get(place) != Note.SAMPLE_BEGIN}


@dataclass(frozen=True)
class Open:
    """The open ranges of a thread at the end: names, outermost first, and monotonic times."""

    process: int
    thread: int
    tid: int
    path: tuple[str | None, ...]
    opened_ns: int
    ended_ns: int
    last_ns: int
    is_pushed: bool


def opens_of(session: RawSession) -> dict[int, list[Open]]:
    """Return the open ranges of each process of a sealed session, by thread."""
    names = ("process_id", "thread_id", "tid", "start_ns", "end_ns", "last_ns", "name_id", "style")
    threads: dict[int, list[tuple[int, ...]]] = {}
    for row in zip(*(session.facts("open", name) for name in names), strict=True):
        threads.setdefault(row[1], []).append(row)
    found: dict[int, list[Open]] = {}
    for rows in threads.values():
        process, thread, tid, start_ns, end_ns, last_ns, _, style = rows[-1]
        nested = [row for row in rows if row[7] == style] if style == 0 else rows[-1:]
        path = tuple(session.text(row[6]) if row[6] >= 0 else None for row in nested)
        found.setdefault(process, []).append(
            Open(process, thread, tid, path, start_ns, end_ns, max(last_ns, start_ns), not style)
        )
    return found


def innermost(opens: Sequence[Open], pid: int) -> Open | None:
    """Return the open range of the main thread, or else the one open longest.

    Pushed ranges come first: a started range may belong to another thread.
    """
    return min(
        opens,
        key=lambda item: (not item.is_pushed, item.tid != pid, item.opened_ns, item.thread),
        default=None,
    )


def tell_ends(
    session: RawSession, lives: Sequence[Life], facts: Facts, origin_ns: int
) -> list[dict[str, Any]]:
    """Return the fields of `trace.meta.ProcessEnd` for processes with open ranges or killed ones.

    Args:
        session: The decoded logs, sealed.
        lives: The ends of its processes.
        facts: The content of session.json.
        origin_ns: The monotonic time that is 0 in the recording.
    """
    opens = opens_of(session)
    columns = ("pid", "truncated", "last_ns", "executable_id")
    pids, counts, last, names = (session.facts("process", name) for name in columns)
    program = facts.get("program")
    main = program.get("pid") if isinstance(program, dict) else None
    stopped_by = _text(facts.get("stopped_by"))
    found = []
    for place, life in enumerate(lives):
        where = innermost(opens.get(place, ()), pids[place])
        if where is None and life.cause not in {Cause.KILLED, Cause.CRASHED}:
            continue
        ended_ns = where.ended_ns if where else max(last[place], life.until_ns or 0)
        found.append(
            {
                "pid": pids[place],
                "name": session.text(names[place]) if names[place] >= 0 else None,
                "is_program": pids[place] == main,
                "cause": life.cause,
                "signal": signal_name(life.exit.signal) if life.exit and life.exit.signal else None,
                "exit_status": life.exit.exit_status if life.exit else None,
                "stopped_by": stopped_by if life.cause is Cause.STOPPED else None,
                "ended_ns": ended_ns - origin_ns,
                "open_ranges": counts[place] if where else 0,
                "path": ["" if name is None else name for name in where.path] if where else [],
                "opened_ns": where.opened_ns - origin_ns if where else None,
                "last_event_ns": where.last_ns - origin_ns if where else None,
                "tid": where.tid if where else None,
            }
        )
    return sorted(found, key=lambda item: (item["ended_ns"], not item["is_program"]))[:_MOST]


def _int(value: object) -> int | None:
    return value if type(value) is int and value > 0 else None


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and value else None
