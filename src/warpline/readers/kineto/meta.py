"""Facts about a trace: recording time, producer, and missing data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from warpline.estimate import Estimate
from warpline.readers.kineto.events import Events
from warpline.readers.kineto.kinds import Kind
from warpline.readers.kineto.scan import Scan
from warpline.readers.kineto.sniff import FORMAT
from warpline.trace.meta import TraceMeta
from warpline.units import plural

# Overhead of the PyTorch profiler on the CPU per recorded call and per operator, fitted to programs
# that ran with and without it. It recorded shapes and memory, but no Python stacks.
_CALL_COST_NS = Estimate(3_500, 6_500, 10_000)
_OPERATOR_COST_NS = Estimate(400, 1_000, 1_800)

# Times from 2015 to 2100 count from 1970, others from the start of some clock.
_UTC_NS = range(1_420_000_000 * 10**9, 4_102_000_000 * 10**9)
_PROJECTIONS = "gpu_user_annotation without its user_annotation"
# A scan's messages when it could not read the whole file.
_CUT = ("the file is truncated", "was not read")
_MAX_TOLD = 5
_MAX_TOLD_CHARACTERS = 300


def origin_of(events: Events) -> int:
    """Return the file's time, in ns, that becomes 0 in the trace: when recording began.

    It is the start of the recording's span event, or of the first event if there is none.
    """
    scan = events.scan
    spans = events.rows(Kind.SPAN)
    if len(spans):
        return int(scan.ts_ns[spans].min())
    is_timed = ~np.isin(events.kinds, (Kind.OTHER, Kind.METADATA, Kind.UNPLACED))
    timed = scan.ts_ns[is_timed]
    return int(timed.min()) if len(timed) else 0


def read_meta(events: Events, origin_ns: int) -> TraceMeta:
    """Return the facts of a trace."""
    scan = events.scan
    return TraceMeta(
        paths=(events.path,),
        format=FORMAT,
        call_cost_ns=_CALL_COST_NS,
        operator_cost_ns=_OPERATOR_COST_NS,
        producer=_producer(scan.top),
        format_version=_text(scan.top.get("schemaVersion")),
        software=_software(scan.top),
        host=_text(scan.top.get("host_name")),
        origin_utc_ns=_utc_ns(scan.top.get("baseTimeNanoseconds"), origin_ns),
        span_ns=_span(events, origin_ns),
        lost=_lost(events),
        unread=_unread(events),
        warnings=(*scan.lost, *_told(scan.top)),
    )


def describe_other(path: Path, scan: Scan) -> str:
    """Describe a file without events of the PyTorch profiler."""
    if not len(scan):
        return f"{path}: a JSON file without trace events"
    used = [number for number in np.unique(scan.category).tolist() if number >= 0]
    names = [scan.texts[number].decode("utf-8", "replace") for number in used[:4]]
    more = ", ..." if len(used) > len(names) else ""
    told = f" (categories: {', '.join(names)}{more})" if names else " (without categories)"
    return f"{path}: a Chrome trace, but not from the PyTorch profiler{told}"


def _producer(top: Mapping[str, Any]) -> str:
    runtime, driver = (_version(top.get(f"cuda_{part}_version")) for part in ("runtime", "driver"))
    facts = {
        "CUDA": runtime,
        "CUDA driver": None if driver == runtime else driver,
        "CUPTI": _text(top.get("cupti_version")),
    }
    known = [f"{name} {value}" for name, value in facts.items() if value]
    return ", ".join(["PyTorch profiler", *known])


def _software(top: Mapping[str, Any]) -> dict[str, str]:
    """Return the versions of CUDA that the driver supports and that the program was built for."""
    facts = {
        "CUDA": _version(top.get("cuda_driver_version")),
        "CUDA runtime": _version(top.get("cuda_runtime_version")),
    }
    return {name: version for name, version in facts.items() if version is not None}


def _version(value: Any) -> str | None:
    """Return 13.0 for CUDA's version number 13000."""
    if type(value) is not int or not 0 < value < 10**6:
        return None
    return f"{value // 1000}.{value % 1000 // 10}"


def _text(value: Any) -> str | None:
    is_plain = isinstance(value, (str, int)) and not isinstance(value, bool)
    return str(value)[:_MAX_TOLD_CHARACTERS] or None if is_plain else None


def _utc_ns(base: Any, origin_ns: int) -> int | None:
    start = base if type(base) is int and abs(base) < 1 << 62 else 0
    return start + origin_ns if start + origin_ns in _UTC_NS else None


def _span(events: Events, origin_ns: int) -> tuple[int, int] | None:
    spans, scan = events.rows(Kind.SPAN), events.scan
    if not len(spans):
        return None
    end_ns = int((scan.ts_ns[spans] + scan.dur_ns[spans]).max()) - origin_ns
    return (0, end_ns) if end_ns >= 0 else None


def _lost(events: Events) -> dict[str, int | None]:
    lost: dict[str, int | None] = {}
    if any(mark in text for text in events.scan.lost for mark in _CUT):
        lost["events that could not be read"] = None
    unplaced = int(np.count_nonzero(events.kinds == Kind.UNPLACED))
    if unplaced:
        lost["events without a recorded time"] = unplaced
    return lost


def _unread(events: Events) -> dict[str, int]:
    """Return the counts of unread events, by phase and category."""
    unread: dict[str, int] = {}
    rows, scan = events.rows(Kind.OTHER), events.scan
    # An annotation's GPU side follows from the operations launched inside it, so skipping it
    # loses nothing unless the annotation itself is missing.
    shown, marked = (events.rows(kind) for kind in (Kind.PROJECTION, Kind.ANNOTATION))
    orphans = int(np.count_nonzero(~np.isin(scan.name[shown], scan.name[marked])))
    if orphans:
        unread[_PROJECTIONS] = orphans
    if len(rows):
        keys = scan.category[rows].astype(np.int64) * 256 + scan.phase[rows]
        for key, count in zip(*np.unique(keys, return_counts=True), strict=True):
            category, phase = divmod(int(key), 256)
            label = events.text(category) or "no category"
            unread[f"{label} of phase {chr(phase) if phase else 'none'}"] = int(count)
    return unread


def _told(top: Mapping[str, Any]) -> list[str]:
    """Return the problems that the profiler itself logged."""
    told = []
    for level in ("ERROR", "WARNING"):
        texts: Sequence[Any] = top.get(level) if isinstance(top.get(level), list) else []  # type: ignore[assignment]
        shown = [text for text in texts if isinstance(text, str)]
        told += [
            f"the profiler logged: {text[:_MAX_TOLD_CHARACTERS]}" for text in shown[:_MAX_TOLD]
        ]
        if len(shown) > _MAX_TOLD:
            told.append(f"the profiler logged {plural(len(shown) - _MAX_TOLD, 'more ' + level)}")
    return told
