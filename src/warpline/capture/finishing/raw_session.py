"""The logs of a session as columns: a thin layer over the core's ``wl_raw_*`` functions."""

from __future__ import annotations

import ctypes
import os
import stat
import struct
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from warpline import native
from warpline.capture.finishing.compressed_sections import EXPAND
from warpline.capture.session.facts import read_facts
from warpline.capture.session.raw_numbers import LogHeader
from warpline.capture.session.session import FOLDER_ENDING, LOG_ENDING
from warpline.errors import AgentMissingError, CaptureError

_UNKNOWN_NS = -(2**63)
_FAR_NS = 2**63
_OUTSIDE = 1  # LogHeader.writer
_STEP_BYTES = 16 << 20
_CHUNK_ROWS = 1 << 16
_MESSAGE_BYTES = 256

_LOG_MAGIC = b"WLRAW\r\n\x1a"
_HEAD_BYTES = LogHeader.executable.offset  # all that is needed of the first page


@dataclass(frozen=True)
class LogFile:
    """A log and the facts in its header; zeros if the file is not a log.

    Attributes:
        path: The file.
        size_bytes: Its length.
        pid: The process that wrote it.
        incarnation: When the agent started in the process, monotonic ns: pids are reused. Of a log
            written from outside: when the process was forked or executed its program.
        utc_offset_ns: UTC minus monotonic clock when the log was created.
        host: The machine.
        is_from_outside: Whether the process that samples CPUs wrote it, and not the agent.
        closed_ns: When its process ended normally, monotonic; 0: it runs, or was killed.
    """

    path: Path
    size_bytes: int
    pid: int = 0
    incarnation: int = 0
    utc_offset_ns: int = 0
    host: str = ""
    is_from_outside: bool = False
    closed_ns: int = 0

    @classmethod
    def read(cls, path: Path) -> LogFile:
        """Read the first page of a file."""
        try:
            # Without O_NONBLOCK, opening a named pipe would block.
            descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError:
            return cls(path, 0)
        try:
            facts = os.fstat(descriptor)
            head = os.pread(descriptor, _HEAD_BYTES, 0)
        except OSError:
            return cls(path, 0)
        finally:
            os.close(descriptor)
        size = facts.st_size if stat.S_ISREG(facts.st_mode) else 0
        if len(head) < _HEAD_BYTES or not head.startswith(_LOG_MAGIC):
            return cls(path, size)
        header = LogHeader.from_buffer_copy(head.ljust(ctypes.sizeof(LogHeader), b"\0"))
        offset_ns = header.anchor_utc_ns - header.anchor_monotonic_ns
        host = header.host.decode("utf-8", "replace")
        is_from_outside = header.writer == _OUTSIDE
        return cls(
            path,
            size,
            header.pid,
            header.incarnation,
            offset_ns,
            host,
            is_from_outside,
            header.closed_ns,
        )


def log_files(folder: Path) -> list[LogFile]:
    """Return the logs of a session, ordered by the start of their processes.

    Raises:
        CaptureError: The directory cannot be read.
    """
    try:
        paths = [path for path in folder.iterdir() if path.name.endswith(LOG_ENDING)]
    except OSError as error:
        raise CaptureError(f"cannot read {folder}: {error.strerror}") from error
    found = _joined([LogFile.read(path) for path in paths])
    # The agent knows more of a process than who looks at it from outside.
    return sorted(
        found, key=lambda log: (log.incarnation, log.pid, log.is_from_outside, _number(log.path))
    )


def _joined(logs: Sequence[LogFile]) -> list[LogFile]:
    """Give logs from outside the incarnation of the agent in the same process, if there is one.

    A process is what has one pid from its fork or exec until the next exec, or its end.
    """
    begins: dict[int, list[int]] = {}
    agents: dict[int, list[int]] = {}
    for log in logs:
        times = begins if log.is_from_outside else agents
        times.setdefault(log.pid, []).append(log.incarnation)
    joined = []
    for log in logs:
        if log.is_from_outside:
            later = [time for time in begins[log.pid] if time > log.incarnation]
            until = min(later, default=_FAR_NS)
            within = [t for t in agents.get(log.pid, ()) if log.incarnation <= t < until]
            log = replace(log, incarnation=min(within, default=log.incarnation))  # noqa: PLW2901
        joined.append(log)
    return joined


def is_alive(log: LogFile) -> bool:
    """Return whether the process that wrote a log is still running on this machine."""
    if log.pid == 0 or log.host != os.uname().nodename:
        return False
    start_s = process_start_s(log.pid)
    if start_s is None:
        return False
    # A process younger than the log's agent reuses the pid.
    age_s = time.clock_gettime(time.CLOCK_BOOTTIME) - start_s
    agent_age_s = (time.monotonic_ns() - log.incarnation) / 1e9
    return agent_age_s < age_s + 1


def launched_by(facts: Mapping[str, Any]) -> int | None:
    """Return the pid of a session's launcher while it is running, else None."""
    if type(facts.get("ended_monotonic_ns")) is int:
        return None
    launcher = _launcher(facts)
    return launcher.pid if launcher is not None and is_alive(launcher) else None


def is_recording(folder: Path) -> bool:
    """Return whether a session of this machine goes on: its launcher runs and has not ended it."""
    try:
        facts = read_facts(folder)
    except CaptureError:
        return False
    over = ("stopped_monotonic_ns", "ended_monotonic_ns")
    return launched_by(facts) is not None and not any(type(facts.get(key)) is int for key in over)


def abandoned_in(folder: Path) -> list[Path]:
    """Return the sessions in a directory whose launcher, on this machine, is dead."""
    found = []
    for path in sorted(folder.glob(f"*{FOLDER_ENDING}")):
        try:
            launcher = _launcher(read_facts(path))
        except CaptureError:
            continue  # not a session
        is_ours = launcher is not None and launcher.host == os.uname().nodename
        if launcher is not None and is_ours and not is_alive(launcher):
            found.append(path)
    return found


def _launcher(facts: Mapping[str, Any]) -> LogFile | None:
    """Return the launcher of a session as if it had written a log, or None if unknown."""
    pid, host = facts.get("launcher_pid"), facts.get("host")
    started_ns = facts.get("started_monotonic_ns")
    if type(pid) is not int or pid <= 0 or type(started_ns) is not int:
        return None
    return LogFile(Path(), 0, pid, started_ns, host=host if isinstance(host, str) else "")


def process_start_s(pid: int) -> float | None:
    """Return the start time of a process in seconds since boot; None if it is not running."""
    try:
        line = Path(f"/proc/{pid}/stat").read_bytes()
        fields = line[line.rindex(b")") + 2 :].split()
        return None if fields[0] in {b"Z", b"X"} else int(fields[19]) / os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError, IndexError):
        return None


def _number(path: Path) -> tuple[int, str]:
    """Return the last number in a log's name: a process numbers its logs."""
    digits = path.name.removesuffix(LOG_ENDING).rpartition("-")[2]
    return (int(digits) if digits.isascii() and digits.isdigit() else -1, path.name)


class RawSession:
    """The logs of a session, decoded by the native core; use it as a context manager.

    Args:
        logs: The logs; processes and threads are numbered in their order.

    Raises:
        AgentMissingError: The native core is missing.
    """

    def __init__(self, logs: list[LogFile]) -> None:
        core = native.core()
        if core is None:
            raise _no_core(native.status())
        self._core = core
        self._handle = ctypes.c_void_p()
        self._message = ctypes.create_string_buffer(_MESSAGE_BYTES)
        handle = ctypes.byref(self._handle)
        self._check(core.wl_raw_open(handle, EXPAND, self._message, _MESSAGE_BYTES))
        self._total_bytes = sum(log.size_bytes for log in logs)
        newest: dict[int, int] = {}
        for log in logs:
            newest[log.pid] = max(log.incarnation, newest.get(log.pid, 0))
        lives = {pid: any(is_alive(log) for log in logs if log.pid == pid) for pid in newest}
        for log in logs:
            # A process that called exec is no longer the writer of its older log.
            alive = lives[log.pid] and newest[log.pid] == log.incarnation
            self._add(log, alive=alive)

    def decode(self, progress: Callable[[float], None]) -> None:
        """Decode all logs; call `progress` with the completed fraction, from 0 to 1."""
        done = 0
        while True:
            step = self._core.wl_raw_decode(
                self._handle, _STEP_BYTES, self._message, _MESSAGE_BYTES
            )
            if step == 0:
                return
            self._check(-min(step, 0))
            done += step
            progress(min(done / max(self._total_bytes, 1), 1.0))

    def end_process(self, process: int, ended_ns: int) -> None:
        """Set when a process ended or was last known to be running; open ranges end then."""
        status = self._core.wl_raw_end_process(
            self._handle, process, ended_ns, self._message, _MESSAGE_BYTES
        )
        self._check(status)

    def seal(self, origin_ns: int, end_ns: int | None) -> None:
        """Complete and sort the tables.

        Args:
            origin_ns: The monotonic time that is 0 in the tables.
            end_ns: When recording stopped, or None if unknown.
        """
        end = _UNKNOWN_NS if end_ns is None else end_ns
        status = self._core.wl_raw_seal(self._handle, origin_ns, end, self._message, _MESSAGE_BYTES)
        self._check(status)

    def rows(self, table: str) -> int:
        """Return the number of rows of a table, of facts, or of the string offsets."""
        return self._core.wl_raw_rows(self._handle, table.encode())

    def nulls(self, column: str, rows: int) -> int | None:
        """Return the number of nulls in a column; None if there is no such column."""
        found = self._core.wl_raw_column(self._handle, column.encode(), 0, rows, None, None)
        return None if found < 0 else found

    def values(self, column: str, count: int, item_bytes: int) -> Iterator[memoryview]:
        """Yield the values of a column in chunks; each is valid until the next one."""
        for first, n, buffer in _pieces(count, item_bytes):
            self._column(column, first, n, values=buffer)
            yield memoryview(buffer)[: n * item_bytes]

    def mask(self, column: str, count: int) -> Iterator[memoryview]:
        """Yield the validity mask of a column, one byte per value, in chunks."""
        for first, n, buffer in _pieces(count, 1):
            self._column(column, first, n, valid=buffer)
            yield memoryview(buffer)[:n]

    def fill(self, column: str, rows: int, values: Any, valid: Any = None) -> None:
        """Copy a column to memory.

        Args:
            column: The column, of that many `rows`.
            rows: The rows.
            values: Where its values go.
            valid: Where its validity mask goes, a byte per value; None for nowhere.
        """
        self._column(column, 0, rows, values=values, valid=valid)

    def facts(self, table: str, column: str) -> list[int]:
        """Return a column of facts, such as ``process/last_ns``."""
        count = self.rows(table)
        raw = b"".join(self.values(f"{table}/{column}", count, 8))
        return list(struct.unpack(f"={count}q", raw))

    @property
    def text_bytes(self) -> int:
        """The total size of all strings in bytes."""
        last = ctypes.c_int64()
        self._column("string/offsets", self.rows("string") - 1, 1, values=ctypes.byref(last))
        return last.value

    def text(self, number: int) -> str:
        """Return a string by its index."""
        ends = (ctypes.c_int64 * 2)()
        self._column("string/offsets", number, 2, values=ends)
        raw = ctypes.create_string_buffer(ends[1] - ends[0])
        self._column("string/blob", ends[0], ends[1] - ends[0], values=raw)
        return raw.raw.decode("utf-8", "replace")

    def intern(self, text: str) -> int:
        """Return the index of a string; add it if it is new."""
        raw = text.encode("utf-8", "surrogatepass")
        number = self._core.wl_raw_intern(self._handle, raw, len(raw))
        self._check(-min(number, 0))
        return number

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._core.wl_raw_close(self._handle)

    def _add(self, log: LogFile, *, alive: bool) -> None:
        name = os.fsencode(log.path)
        status = self._core.wl_raw_add_log(
            self._handle, name, log.incarnation, int(alive), self._message, _MESSAGE_BYTES
        )
        self._check(status)

    def _column(
        self,
        column: str,
        first: int,
        count: int,
        *,
        values: Any = None,
        valid: Any = None,
    ) -> None:
        found = self._core.wl_raw_column(self._handle, column.encode(), first, count, values, valid)
        if found < 0:
            raise RuntimeError(
                f"the native core has no rows {first} to {first + count} of {column}"
            )

    def _check(self, status: int) -> None:
        if status != native.OK:
            said = self._message.value.decode("utf-8", "replace") or f"status {status}"
            raise CaptureError(f"cannot decode the raw records: {said}")


def _no_core(status: native.NativeStatus) -> AgentMissingError:
    hint = "run warpline doctor for details; after a reinstall, run warpline recover"
    if status.abi is not None:  # its version does not match
        hint = (
            f"reinstall or rebuild Warpline together with {status.path}, then run warpline recover"
        )
    return AgentMissingError(
        f"cannot write the recording without the native core: {status.reason}", hint=hint
    )


def _pieces(count: int, item_bytes: int) -> Iterator[tuple[int, int, ctypes.Array[ctypes.c_char]]]:
    buffer = ctypes.create_string_buffer(min(count, _CHUNK_ROWS) * item_bytes)
    for first in range(0, count, _CHUNK_ROWS):
        yield first, min(_CHUNK_ROWS, count - first), buffer
