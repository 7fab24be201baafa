"""Facts that qualify the numbers of a recording, as name-value pairs.

Formats of other tools have a place for name-value pairs, but no fields for these facts. Their tools
ignore unknown names.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any

from warpline.trace.meta import TraceMeta

_WINDOW, _LOST, _WARNING = "WARPLINE_WINDOW_NS", "WARPLINE_LOST:", "WARPLINE_WARNING"
_MAX = 1 << 62
COMMAND = "WARPLINE_COMMAND"  # the program's command line, without secrets


def to_pairs(meta: TraceMeta) -> list[tuple[str, str]]:
    """Return the recorded windows, dropped events, damaged tables, and warnings."""
    damaged = [f"{table} could not be read: {why}" for table, why in meta.damaged.items()]
    return [
        *((_WINDOW, f"{start} {end}") for start, end in meta.windows_ns or ()),
        *((_LOST + what, str(count or "")) for what, count in meta.lost.items()),
        *((_WARNING, text) for text in (*meta.warnings, *damaged)),
    ]


def from_pairs(values: Mapping[str, Sequence[str]]) -> dict[str, Any]:
    """Return fields of TraceMeta from values by name. A name may have several values.

    Unknown names are ignored. Invalid values become a warning.
    """
    warnings = [*values.get(_WARNING, ())]
    windows = _windows(values.get(_WINDOW, ()))
    if windows is None:
        warnings.append("the recorded time windows in the file cannot be read")
    lost = {
        name.removeprefix(_LOST): _count(counts[0])
        for name, counts in values.items()
        if name.startswith(_LOST) and counts
    }
    return {"windows_ns": windows or None, "lost": lost, "warnings": tuple(warnings)}


def _count(text: str) -> int | None:
    """Return a count; None if it is unknown or not a plausible number."""
    return int(text) if text.isdecimal() and len(text) < len(str(_MAX)) else None


def _windows(texts: Iterable[str]) -> tuple[tuple[int, int], ...] | None:
    """Return windows; None if they are not ascending and disjoint."""
    try:
        windows = tuple((int(start), int(end)) for start, end in map(str.split, texts))
    except ValueError:
        return None
    flat = [time for window in windows for time in window]
    is_ascending = all(a < b for a, b in pairwise(flat))
    return windows if is_ascending and all(abs(time) < _MAX for time in flat) else None
