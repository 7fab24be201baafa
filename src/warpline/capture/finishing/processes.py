"""The processes of a recording, by pid."""

from __future__ import annotations

from warpline.capture.finishing.raw_session import RawSession


class Processes:
    """The recording's processes, by pid and time: pids are reused, and an exec begins another."""

    def __init__(self, session: RawSession) -> None:
        self._rows: dict[int, list[tuple[int, int]]] = {}
        facts = (session.facts("process", name) for name in ("pid", "incarnation"))
        for row, (pid, incarnation) in enumerate(zip(*facts, strict=True)):
            self._rows.setdefault(pid, []).append((incarnation, row))
        for rows in self._rows.values():
            rows.sort()

    def row(self, pid: int, time_ns: int) -> int | None:
        """Return the row of the process with a pid at a time; None if it is not recorded."""
        found = None
        for incarnation, row in self._rows.get(pid, ()):
            if incarnation <= time_ns or found is None:
                found = row
        return found

    def first(self, pid: int) -> int | None:
        """Return the row of the first process with a pid; None if it is not recorded."""
        rows = self._rows.get(pid)
        return rows[0][1] if rows else None
