"""Copies of the logs of a session that goes on, in memory, of the last seconds only.

The copies are logs, too, so what reads logs reads them. They grow by what the originals grow by,
and the core trims them as it does those of ``--keep-last`` (``native/core/src/raw/trim.h``): what
later records refer to stays. The session itself is only read.
"""

from __future__ import annotations

import ctypes
import errno
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from warpline.capture.finishing.raw_session import LogFile, is_alive, log_files
from warpline.capture.session.keeping import trim
from warpline.capture.session.raw_numbers import LogHeader
from warpline.capture.session.session import LOG_ENDING, LOG_HEAD_BYTES
from warpline.errors import CaptureError

_HEADER_BYTES = ctypes.sizeof(LogHeader)
_COPY_BYTES = 1 << 20
_BACKLOG_BYTES = 32 << 20  # copied before what is old is removed
_ATTEMPTS = 5
_END = b"\0" * 8  # a record header of zero ends a log
# What the copy's own trimming has put there.
_OWN = ("first_bytes", "past_bytes", "trimmed_records")


class MirroredLog:
    """A copy of one log, with records at the same places.

    Args:
        log: The original.
        others_keep_ns: How much of it stays if others remove what is old.

    Attributes:
        log: The original.
        changed_ns: When it last grew, monotonic.
        known_from_ns: Since when all that the log had is known, monotonic; 0: since its begin.

    Raises:
        OSError: There are no more file descriptors, or no memory.
    """

    def __init__(self, log: LogFile, others_keep_ns: int) -> None:
        self.log = log
        self._others_keep_ns = others_keep_ns
        self.changed_ns = 0
        self.known_from_ns = 0
        self._copy = os.memfd_create(log.path.name[:200], os.MFD_CLOEXEC)
        self._end = 0  # of what is copied; 0: nothing
        self._is_gone = False

    @property
    def path(self) -> Path:
        """The path of the copy, in this process."""
        return Path(f"/proc/self/fd/{self._copy}")

    @property
    def copied(self) -> LogFile:
        """The copy, as a log of the original's process."""
        return replace(self.log, path=self.path, size_bytes=self._end)

    def close(self) -> None:
        """Free the copy."""
        os.close(self._copy)

    def read(self, now_ns: int) -> bool:
        """Copy what the log has grown by, as far as that is at most a certain size.

        Returns whether there is more. `now_ns` is the present, monotonic.
        """
        if self._is_gone:
            return False
        try:
            source = os.open(self.log.path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        except FileNotFoundError:
            self._is_gone = True
            return False
        try:
            return self._read(source, now_ns)
        finally:
            os.close(source)

    def _read(self, source: int, now_ns: int) -> bool:
        header = _header(source)
        if header is None:
            return False
        for _ in range(_ATTEMPTS):
            first = header.first_bytes or header.header_bytes
            is_anew = not self._end or first > self._end  # what is between was removed unseen
            begin, used = (first if is_anew else self._end), header.used_bytes
            end = min(used, begin + _BACKLOG_BYTES)
            if end <= begin and not is_anew:
                return False
            if is_anew:
                os.ftruncate(self._copy, 0)
            wanted, end = end, self._copied(source, begin, max(end, begin))
            again = _header(source)
            if again is None or (again.first_bytes or again.header_bytes) <= begin:
                self._put_header(header, end, is_anew=is_anew)
                self._end, self.changed_ns = end, now_ns
                if is_anew and header.first_bytes:
                    self.known_from_ns = now_ns - self._others_keep_ns
                return bool(wanted <= end < used)  # of a damaged log there may be less
            header, self._end = again, 0  # it was trimmed while it was read
        return False

    def _copied(self, source: int, begin: int, end: int) -> int:
        at = begin
        while at < end:
            data = os.pread(source, min(_COPY_BYTES, end - at), at)
            if not data:
                break
            os.pwrite(self._copy, data, at)
            at += len(data)
        return at

    def _put_header(self, header: LogHeader, end: int, *, is_anew: bool) -> None:
        own = None if is_anew else _header(self._copy)
        if own is not None:
            for name in _OWN:
                setattr(header, name, getattr(own, name))
        header.used_bytes = end
        os.ftruncate(self._copy, end)
        os.pwrite(self._copy, bytes(header), 0)
        os.pwrite(self._copy, _END, end)


class Mirror:
    """Copies of all logs of a session.

    Args:
        folder: The session's directory.
        seconds: What they have of it: the time before each `read`, and a little more.
        others_keep_s: How much of it stays if others remove what is old, as with ``--keep-last``.
        clock: The monotonic clock, in ns.
    """

    def __init__(
        self,
        folder: Path,
        seconds: float,
        *,
        others_keep_s: float = 0.0,
        clock: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        self._others_keep_ns = round(others_keep_s * 1e9)
        self._folder, self._kept_ns = folder, round(seconds * 1e9)
        self._clock = clock
        self._kept_from_ns = 0
        self._names: frozenset[str] = frozenset()
        self._mirrored: dict[str, MirroredLog] = {}
        self._over: set[str] = set()  # of processes that ended long ago

    def read(self) -> Sequence[LogFile]:
        """Copy what is new and remove what is old. Return the copies, in the order of `log_files`.

        If the session's directory is gone, they are as before.

        Raises:
            CaptureError: There are too many logs, or no memory.
        """
        try:
            self._look()
            self._catch_up()
        except OSError as error:
            raise _cannot_follow(error) from error
        self._forget()
        return [each.copied for each in self._mirrored.values()]

    @property
    def known_from_ns(self) -> int:
        """Since when all events are known, monotonic ns."""
        return max(self._kept_from_ns, self.removed_until_ns)

    @property
    def removed_until_ns(self) -> int:
        """Until when others may have removed events, monotonic ns; 0 if they did not.

        They do in a recording that keeps its end only.
        """
        return max((each.known_from_ns for each in self._mirrored.values()), default=0)

    def close(self) -> None:
        """Free the copies."""
        for each in self._mirrored.values():
            each.close()
        self._mirrored.clear()

    def _look(self) -> None:
        """Take in the logs that are new."""
        try:
            names = frozenset(path.name for path in self._folder.iterdir())
        except (FileNotFoundError, NotADirectoryError):
            return
        logs = frozenset(name for name in names if name.endswith(LOG_ENDING))
        if logs == self._names:
            return
        known, self._names = self._mirrored, logs
        found = [log for log in log_files(self._folder) if log.pid]
        if len(found) < len(logs):
            self._names = frozenset()  # one has no header yet
        wanted = [log for log in found if log.path.name not in self._over]
        mirrored = {}
        for log in wanted:
            each = known.pop(log.path.name, None) or MirroredLog(log, self._others_keep_ns)
            each.log = log
            mirrored[log.path.name] = each
        self._mirrored = {**known, **mirrored}  # the files of the first are deleted

    def _catch_up(self) -> None:
        behind = list(self._mirrored.values())
        while behind:
            now_ns = self._clock()
            behind = [each for each in behind if each.read(now_ns)]
            paths = [each.path for each in self._mirrored.values()]
            self._kept_from_ns = now_ns - self._kept_ns
            trim(paths, self._kept_from_ns, now_ns)

    def _forget(self) -> None:
        """Drop the logs of processes that have ended, once all in them is old."""
        oldest_ns = self._clock() - self._kept_ns
        alive: set[tuple[int, int]] = set()
        for each in self._mirrored.values():
            if each.changed_ns >= oldest_ns or is_alive(each.log):
                alive.add((each.log.pid, each.log.incarnation))
        for name, each in list(self._mirrored.items()):
            if (each.log.pid, each.log.incarnation) not in alive:
                each.close()
                del self._mirrored[name]
                self._over.add(name)


def _header(file: int) -> LogHeader | None:
    """Return the header of a log; None if it cannot be true."""
    page = os.pread(file, _HEADER_BYTES, 0)
    if len(page) < _HEADER_BYTES:
        return None
    header, size = LogHeader.from_buffer_copy(page), os.fstat(file).st_size
    is_sound = header.header_bytes == LOG_HEAD_BYTES and header.first_bytes <= size
    return header if is_sound and header.first_bytes % 8 == 0 else None


def _cannot_follow(error: OSError) -> CaptureError:
    hint = "raise the limit on open files (ulimit -n)" if error.errno == errno.EMFILE else None
    return CaptureError(f"cannot follow the recording: {error.strerror or error}", hint=hint)
