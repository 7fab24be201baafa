"""Facts about a recording itself, for every document about it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from warpline.result.ends import how_it_ended
from warpline.trace import Trace

# The start of a warning in Warpline's own recordings (finishing/cuda_tables.py), and of its advice
# if another profiler was active.
_NOT_RECORDED = "CUDA was not recorded: "
_STOP = "; stop it"


class Facts(Mapping[str, Any]):
    """Facts by name. A fact given as a function is computed on access."""

    def __init__(self, facts: Mapping[str, Any]) -> None:
        self._facts = dict(facts)

    def __getitem__(self, name: str) -> Any:
        fact = self._facts[name]
        return fact() if callable(fact) else fact

    def __iter__(self) -> Iterator[str]:
        return iter(self._facts)

    def __len__(self) -> int:
        return len(self._facts)


def describe_meta(trace: Trace) -> Mapping[str, Any]:
    """Return the facts about a recording that every JSON document contains."""
    meta = trace.meta

    def span_ns() -> int:
        # Reads every table of events, so only on access.
        start_ns, end_ns = trace.span()
        return end_ns - start_ns

    def recorded_ns() -> int:
        return trace.recorded_ns()

    facts = {
        "paths": [str(path) for path in meta.paths],
        "format": meta.format,
        "format_version": meta.format_version,
        "producer": meta.producer,
        "host": meta.host,
        "command": meta.command,
        "origin_utc_ns": meta.origin_utc_ns,
        "span_ns": span_ns,
        "recorded_ns": recorded_ns,
        "ended": how_it_ended(meta.ends),
        "ends": [asdict(end) for end in meta.ends],
        "lost": dict(meta.lost),
        "unread": dict(meta.unread),
        "damaged": dict(meta.damaged),
    }
    return Facts(facts)


def warnings_of(trace: Trace) -> tuple[str, ...]:
    """Return the warnings about a recording: dropped events first, then damaged tables."""
    meta = trace.meta
    found = [
        f"dropped while recording: {subject}" + ("" if count is None else f" ({count:,})")
        for subject, count in meta.lost.items()
    ]
    found += [f"table {table!r} cannot be read: {why}" for table, why in meta.damaged.items()]
    return (*found, *meta.warnings)


@dataclass(frozen=True)
class Unrecorded:
    """A warning about a process of a Warpline recording whose CUDA events could not be recorded.

    Attributes:
        text: The warning.
        why: The cause, such as another profiler that uses CUPTI.
        hint: The advice in the warning, if there is any.
    """

    text: str
    why: str
    hint: str | None


def cuda_unrecorded(trace: Trace) -> list[Unrecorded]:
    """Return the warnings of a recording about CUDA events that could not be recorded."""
    found = []
    for text in dict.fromkeys(trace.meta.warnings):
        if text.startswith(_NOT_RECORDED):
            why, stop, rest = text.removeprefix(_NOT_RECORDED).partition(_STOP)
            found.append(Unrecorded(text, why, "stop it" + rest if stop else None))
    return found


def source_name(paths: Sequence[Path]) -> str:
    """Return a short name of one or several files."""
    first = paths[0].name if paths else "?"
    return first if len(paths) < 2 else f"{first} and {len(paths) - 1} more"
