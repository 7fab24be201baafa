"""The last seconds of a session that goes on, as a trace."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from warpline.capture.finishing.draft import recorded_tables, rows_of
from warpline.capture.finishing.raw_session import RawSession
from warpline.capture.finishing.samples import find_samples
from warpline.capture.session.facts import Facts, time_of
from warpline.capture.session.keeping import KeepLast
from warpline.errors import UsageError
from warpline.live.follow import DeviceKey, Following
from warpline.live.source import LiveSource, empty_meta
from warpline.trace import Trace


@dataclass(frozen=True)
class Seen:
    """What the logs of a session had at a moment.

    Attributes:
        trace: The events of the last seconds. Its origin is that of the recording.
        now_ns: The moment, from the origin.
        missing_from_ns: When the first call began whose GPU work has no record yet, from the
            origin; None if there is none. All work that began before is in the trace.
        known_from_ns: Since when all events are known, from the origin.
        damaged_logs: Logs that cannot be read to their end.
        device_rows: The row of the device table of each GPU, as processes number them.
    """

    trace: Trace
    now_ns: int
    missing_from_ns: int | None
    known_from_ns: int
    damaged_logs: int
    device_rows: Mapping[DeviceKey, int]


class Windows:
    """The last seconds of a session, of one or several lengths, as traces.

    Args:
        following: What reads the session.
        folder: The session's directory.
        facts: The content of its session.json.
    """

    def __init__(self, following: Following, folder: Path, facts: Facts) -> None:
        self._following, self._folder, self._facts = following, folder, facts
        self.origin_ns = time_of(facts, "started_monotonic_ns") or 0

    @contextmanager
    def look(self, tail: int) -> Iterator[Seen]:
        """Give what was there when the logs were read last; it is valid within the context.

        Args:
            tail: Which of the lengths.

        Raises:
            CaptureError: The logs cannot be read.
        """
        with RawSession(self._following.copies(tail)) as session:
            session.decode(_silent)
            session.seal(self.origin_ns, self._following.state.now_ns)
            yield self._seen(session, tail)

    def _seen(self, session: RawSession, tail: int) -> Seen:
        state = self._following.state
        at_ns, missing_ns = state.now_ns - self.origin_ns, state.missing_from_ns
        rows = rows_of(session)
        there = recorded_tables(session, self._facts, rows)
        meta = replace(
            empty_meta(Path(_text(self._facts, "output") or self._folder).name),
            span_ns=(0, at_ns),
            windows_ns=self._samples(session, at_ns),
            host=_text(self._facts, "host"),
        )
        known = {name: count for name, count in rows.items() if name in there}
        return Seen(
            trace=Trace(LiveSource(session, known, meta)),
            now_ns=at_ns,
            missing_from_ns=None if missing_ns is None else missing_ns - self.origin_ns,
            known_from_ns=max(self._following.known_from_ns(tail) - self.origin_ns, 0),
            damaged_logs=sum(session.facts("log", "is_damaged")),
            device_rows=_device_rows(session),
        )

    def _samples(self, session: RawSession, at_ns: int) -> tuple[tuple[int, int], ...] | None:
        """Return when recording was on, from the origin; None if it always was."""
        found = find_samples(
            session, self._facts, None, origin_ns=self.origin_ns, span_ns=(0, at_ns)
        )
        return None if found is None else found.windows


def _device_rows(session: RawSession) -> dict[DeviceKey, int]:
    pids, incarnations = (session.facts("process", name) for name in ("pid", "incarnation"))
    processes = list(zip(pids, incarnations, strict=True))
    names = ("process_id", "number", "device_id")
    rows = zip(*(session.facts("device_number", name) for name in names), strict=True)
    return {(processes[process], number): row for process, number, row in rows}


def kept_s(facts: Facts) -> float:
    """Return how many seconds of its end a recording keeps; 0 if a number of steps says it."""
    options = facts.get("options")
    text = options.get("keep_last") if isinstance(options, dict) else None
    if not isinstance(text, str):
        return 0.0
    try:
        kept = KeepLast.of(text)
    except UsageError:
        return 0.0
    return 0.0 if kept.steps else kept.seconds


def _silent(_: float) -> None:
    pass


def _text(facts: Mapping[str, Any], key: str) -> str | None:
    value = facts.get(key)
    return value if isinstance(value, str) else None
