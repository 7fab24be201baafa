"""Facts about a recording itself, for every document about it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from warpline.result.ends import how_it_ended
from warpline.result.tables import Document, Result, Skipped
from warpline.schema.unrecorded import Unrecorded
from warpline.trace import Trace

_CUDA = "cuda"


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


def document_of(trace: Trace, sections: Sequence[Result | Skipped] = ()) -> Document:
    """Return a document about a recording, with these tables."""
    meta = describe_meta(trace)
    return Document(source_name(trace.meta.paths), meta, tuple(sections), warnings_of(trace))


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
    warnings = [
        f"dropped while recording: {subject}" + ("" if count is None else f" ({count:,})")
        for subject, count in meta.lost.items()
    ]
    warnings += [f"table {table!r} cannot be read: {why}" for table, why in meta.damaged.items()]
    return (*warnings, *meta.warnings)


def cuda_unrecorded(trace: Trace) -> list[Unrecorded]:
    """Return why a recording has no CUDA events of a process, for each cause."""
    meta = trace.meta
    causes = [cause for cause in meta.unrecorded if cause.api == _CUDA]
    # Earlier versions, and files that are exported from recordings, have the sentences only.
    known = {cause.text for cause in causes}
    sentences = (text for text in dict.fromkeys(meta.warnings) if text not in known)
    told = (Unrecorded.from_sentence(_CUDA, text) for text in sentences)
    return [*causes, *(cause for cause in told if cause is not None)]


def source_name(paths: Sequence[Path]) -> str:
    """Return a short name of one or several files."""
    first = paths[0].name if paths else "?"
    return first if len(paths) < 2 else f"{first} and {len(paths) - 1} more"
