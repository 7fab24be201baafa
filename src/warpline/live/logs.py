"""The logs of a session that goes on: which there are, and of which process each is."""

from __future__ import annotations

import os
from pathlib import Path

from warpline.capture.finishing.raw_session import LogFile, log_files
from warpline.capture.session.session import LOG_ENDING

# What identifies a process: its pid, and when the agent started in it.
ProcessKey = tuple[int, int]


class LogListing:
    """Lists the logs of a session again and again.

    Args:
        folder: The session's directory.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._names: frozenset[str] = frozenset()
        self._numbers: dict[ProcessKey, int] = {}

    def changed(self) -> list[LogFile] | None:
        """Return the logs, in the order of `log_files`; None if they are as before, or gone.

        Raises:
            CaptureError: The directory cannot be read.
        """
        try:
            with os.scandir(self._folder) as there:
                names = frozenset(each.name for each in there if each.name.endswith(LOG_ENDING))
        except (FileNotFoundError, NotADirectoryError):
            return None
        if names == self._names:
            return None
        logs = [log for log in log_files(self._folder) if log.pid]
        # One without a header is looked at again.
        self._names = names if len(logs) == len(names) else frozenset()
        return logs

    def number_of(self, log: LogFile) -> int:
        """Return the number of a log's process, from 0."""
        return self._numbers.setdefault(key_of(log), len(self._numbers))

    @property
    def processes(self) -> list[ProcessKey]:
        """The processes, by number."""
        return list(self._numbers)


def key_of(log: LogFile) -> ProcessKey:
    """Return what identifies the process of a log."""
    return log.pid, log.incarnation
