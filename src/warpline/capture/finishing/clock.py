"""The times of a session: when its recording started and ended, on which clock."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from warpline.capture.finishing.ends import Life
from warpline.capture.finishing.raw_session import LogFile, RawSession
from warpline.capture.session.facts import Facts, time_of


@dataclass(frozen=True)
class Clock:
    """Times of a session.

    Attributes:
        origin_ns: The monotonic time that becomes 0.
        origin_utc_ns: The same time in UTC, if known.
        begin_ns: The monotonic time when recording started, or from which it was kept; else the
            origin.
        end_ns: The monotonic time when recording stopped, if known.
        last_ns: The monotonic time of the last event or process end; the origin if there is none.
    """

    origin_ns: int
    origin_utc_ns: int | None
    begin_ns: int
    end_ns: int | None
    last_ns: int

    @classmethod
    def of(
        cls, facts: Facts, session: RawSession, logs: Sequence[LogFile], lives: Sequence[Life]
    ) -> Clock:
        """Return the times of a decoded session, from its facts or else from its logs."""
        times = [ns for ns in session.facts("process", "first_ns") if ns]
        origin, utc = time_of(facts, "started_monotonic_ns"), time_of(facts, "started_utc_ns")
        if origin is None:
            origin = min(times, default=0)
            utc = next((origin + log.utc_offset_ns for log in logs if log.pid), None)
        end = time_of(facts, "stopped_monotonic_ns") or time_of(facts, "ended_monotonic_ns")
        begins = (time_of(facts, f"{name}_monotonic_ns") for name in ("recording", "kept_from"))
        begin = max(origin, *(ns or origin for ns in begins))
        lived = [life.until_ns for life in lives if life.until_ns is not None]
        last = max([*session.facts("process", "last_ns"), *lived], default=begin)
        return cls(origin, utc, begin, end if end is None else max(end, begin), max(last, begin))

    @property
    def span_ns(self) -> tuple[int, int]:
        """When recording started and ended, from the origin."""
        end_ns = self.last_ns if self.end_ns is None else self.end_ns
        return self.begin_ns - self.origin_ns, end_ns - self.origin_ns
