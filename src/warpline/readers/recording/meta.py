"""Facts about a recording, from its meta.json."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from warpline.errors import CorruptTraceError
from warpline.estimate import Estimate
from warpline.schema.recording import FORMAT
from warpline.schema.unrecorded import Unrecorded
from warpline.trace.meta import ProcessEnd, TraceMeta

HINT = "the file is damaged: export it again"

_MAX_COST_NS = 1e12
_OWN_PRODUCER = "Warpline"
# Overhead of a recording on the CPU per recorded call, fitted to 16 pairs of programs that took
# turns with and without it. Ranges between the calls are part of it: too few programs have many.
_CALL_COST_NS = Estimate(300, 2_000, 4_000)
# Field of ProcessEnd -> its type and default.
_END_FIELDS: dict[str, tuple[Any, Any]] = {
    "pid": (int, None),
    "cause": (str, None),
    "ended_ns": (int, None),
    "path": (list, []),
    "open_ranges": (int, 0),
    **dict.fromkeys(("name", "signal", "stopped_by"), (str | None, None)),
    **dict.fromkeys(("exit_status", "opened_ns", "last_event_ns", "tid"), (int | None, None)),
}


def read_meta(facts: Any, path: Path, version: str) -> TraceMeta:
    """Return facts that `trace.recording.meta_to_json` wrote.

    Args:
        facts: The value of "recording" in meta.json.
        path: The recording.
        version: Its format's version.

    Raises:
        CorruptTraceError: A fact is missing or invalid.
    """
    return _MetaReader(facts, path).read(version)


class _MetaReader:
    """Reads and validates the facts that `trace.recording.meta_to_json` wrote."""

    def __init__(self, facts: Any, path: Path) -> None:
        self._facts = facts
        self._path = path

    def read(self, version: str) -> TraceMeta:
        if not isinstance(self._facts, dict):
            raise CorruptTraceError(f"{self._path}: meta.json holds no facts", hint=HINT)
        return TraceMeta(
            paths=(self._path,),
            format=FORMAT,
            producer=self._text("producer"),
            format_version=version,
            command=self._text("command"),
            host=self._text("host"),
            origin_utc_ns=self._int("origin_utc_ns"),
            span_ns=self._span(),
            windows_ns=self._windows(),
            ends=tuple(self._end(item) for item in self._values("ends", list, dict)),
            lost=self._mapping("lost", int | None),
            unread=self._mapping("unread", int),
            warnings=tuple(self._values("warnings", list, str)),
            unrecorded=self._unrecorded(),
            damaged=self._mapping("damaged", str),
            environment=self._mapping("environment", str),
            software=self._mapping("software", str),
            record_cost_ns=self._costs(),
            call_cost_ns=self._call_cost(),
            operator_cost_ns=self._estimate("operator_cost_ns"),
        )

    def _text(self, key: str) -> str | None:
        text: str | None = self._checked(key, self._facts.get(key), str | None)
        return text

    def _int(self, key: str) -> int | None:
        number: int | None = self._checked(key, self._facts.get(key), int | None)
        return number

    def _span(self) -> tuple[int, int] | None:
        if self._facts.get("span_ns") is None:
            return None
        span = self._values("span_ns", list, int)
        if len(span) != 2 or span[0] > span[1]:
            self._refuse("span_ns")
        return span[0], span[1]

    def _costs(self) -> dict[str, float]:
        costs = self._mapping("record_cost_ns", int | float)
        if not all(0 <= cost < _MAX_COST_NS for cost in costs.values()):  # also refuses NaN
            self._refuse("record_cost_ns")
        return costs

    def _call_cost(self) -> Estimate | None:
        """Return the cost as stored by an export, or that of our own agent."""
        is_own = (self._text("producer") or "").startswith(_OWN_PRODUCER)
        return self._estimate("call_cost_ns") or (_CALL_COST_NS if is_own else None)

    def _estimate(self, key: str) -> Estimate | None:
        if self._facts.get(key) is None:
            return None
        values = self._values(key, list, int | float)
        if len(values) != 3 or not 0 <= values[0] <= values[1] <= values[2] < _MAX_COST_NS:
            self._refuse(key)
        return Estimate(*values)

    def _unrecorded(self) -> tuple[Unrecorded, ...]:
        """Return why events are missing. Causes of a newer version are warnings only."""
        causes = map(Unrecorded.from_json, self._values("unrecorded", list, dict))
        return tuple(cause for cause in causes if cause is not None)

    def _windows(self) -> tuple[tuple[int, int], ...] | None:
        if self._facts.get("windows_ns") is None:
            return None
        windows, last = [], -(1 << 62)
        for window in self._values("windows_ns", list, list):
            times = [self._checked("windows_ns", time, int) for time in window]
            if len(times) != 2 or not last < times[0] < times[1]:
                self._refuse("windows_ns")
            windows.append((times[0], times[1]))
            last = times[1]
        return tuple(windows)

    def _end(self, item: dict[str, Any]) -> ProcessEnd:
        """Return how a process ended. Keys of a newer version are ignored."""
        facts = {
            name: self._checked("ends", item.get(name, default), kind)
            for name, (kind, default) in _END_FIELDS.items()
        }
        path = [self._checked("ends", name, str) for name in facts.pop("path")]
        is_program = self._truth("ends", item.get("is_program", False))
        return ProcessEnd(**facts, path=tuple(path), is_program=is_program)

    def _truth(self, key: str, value: Any) -> bool:
        if not isinstance(value, bool):
            self._refuse(key)
        return bool(value)

    def _mapping(self, key: str, kind: Any) -> dict[str, Any]:
        self._values(key, dict, kind)
        return dict(self._facts.get(key) or {})

    def _values(self, key: str, container: type, kind: Any) -> list[Any]:
        given = self._checked(key, self._facts.get(key, container()), container)
        values = given.values() if isinstance(given, dict) else given
        return [self._checked(key, value, kind) for value in values]

    def _checked(self, key: str, value: Any, kind: Any) -> Any:
        # bool is a subclass of int, but not valid here. No time needs more than 62 bits.
        is_wrong = isinstance(value, bool) or not isinstance(value, kind)
        if is_wrong or (isinstance(value, int) and abs(value) >= 1 << 62):
            self._refuse(key)
        return value

    def _refuse(self, key: str) -> None:
        raise CorruptTraceError(f"{self._path}: meta.json: invalid value of {key}", hint=HINT)
