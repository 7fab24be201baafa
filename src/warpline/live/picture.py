"""The timeline of a part of a recording in progress, as the page reads it (``CONTAINER.md``)."""

from __future__ import annotations

from typing import Any

from warpline.trace import MemorySource, Run, Trace, TraceMeta
from warpline.viewer.container import BlockWriter, Container, write_events
from warpline.viewer.names import Names
from warpline.viewer.pack import Frame, timeline_rows


def picture(part: Trace) -> Container:
    """Return the timeline of a part: all rows and events, without details of events and tables.

    Args:
        part: A part of a trace with a begin and an end.
    """
    run = Run(part)
    names = Names(part.strings)
    frame = Frame(run, names, tuple(timeline_rows(run, names)))
    writer = BlockWriter()
    frame.begin(writer)
    parts = [write_events(writer, events, frame.offset_ns) for events in frame.loaded()]
    low, high = part.span()
    more: dict[str, Any] = {
        "attributes": [],
        "thinned": None,
        "pending": None,
        "first_page": "timeline",
        "live": {"start_ns": low - frame.offset_ns, "end_ns": high - frame.offset_ns},
    }
    return frame.finish(writer, None, (), more, parts)


def empty_picture(meta: TraceMeta) -> Container:
    """Return the timeline of a recording of which nothing is known yet."""
    return picture(Trace(MemorySource({}, meta)).window(0, 1))
