"""What qualifies the numbers of a recording, as pairs of names and values.

A format of others has a place for pairs, and none for these: its own tools pass over names that
they do not know.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any

from warpline.trace.meta import TraceMeta

_WINDOW, _LOST, _WARNING = "WARPLINE_WINDOW_NS", "WARPLINE_LOST:", "WARPLINE_WARNING"
_MAX = 1 << 62
COMMAND = "WARPLINE_COMMAND"  # the program's command line, from which secrets were left out


def to_pairs(meta: TraceMeta) -> list[tuple[str, str]]:
    """Return what was not recorded, what was lost or damaged, and the warnings."""
    damaged = [f"{table} could not be read: {why}" for table, why in meta.damaged.items()]
    return [
        *((_WINDOW, f"{start} {end}") for start, end in meta.windows_ns or ()),
        *((_LOST + what, str(count or "")) for what, count in meta.lost.items()),
        *((_WARNING, text) for text in (*meta.warnings, *damaged)),
    ]


def from_pairs(values: Mapping[str, Sequence[str]]) -> dict[str, Any]:
    """Return fields of TraceMeta from values by name, of which a name may have several.

    What says nothing of the kind is passed over. What cannot be read becomes a warning.
    """
    warnings = [*values.get(_WARNING, ())]
    windows = _windows(values.get(_WINDOW, ()))
    if windows is None:
        warnings.append("what the file says of the times that were recorded cannot be read")
    lost = {
        name.removeprefix(_LOST): _count(counts[0])
        for name, counts in values.items()
        if name.startswith(_LOST) and counts
    }
    return {"windows_ns": windows or None, "lost": lost, "warnings": tuple(warnings)}


def _count(text: str) -> int | None:
    """Return a count; None if it is not known or no number of records."""
    return int(text) if text.isdecimal() and len(text) < len(str(_MAX)) else None


def _windows(texts: Iterable[str]) -> tuple[tuple[int, int], ...] | None:
    """Return times, ascending and apart; None if they are not."""
    try:
        windows = tuple((int(start), int(end)) for start, end in map(str.split, texts))
    except ValueError:
        return None
    flat = [time for window in windows for time in window]
    is_ascending = all(a < b for a, b in pairwise(flat))
    return windows if is_ascending and all(abs(time) < _MAX for time in flat) else None
