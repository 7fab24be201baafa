"""recording: the tables in a recording, and what is missing from it."""

from __future__ import annotations

import numpy as np

from warpline.derived.texts import labelled
from warpline.result import Arguments, Field, Numbers, Result, Values, analysis
from warpline.schema import TABLES, TableSpec, dimensions, profiled_kernels
from warpline.trace import Trace
from warpline.units import Unit

NAME = "recording"
TITLE = "Contents of the recording"
FIELDS = (
    Field("state", Unit.NONE, "Whether the table was recorded; states are listed below.", "State"),
    Field("rows", Unit.COUNT, "Rows, or dropped records; empty if unknown.", "Rows"),
    Field("table", Unit.NONE, "Table of the trace, or what was dropped or not read.", "Table"),
)


@analysis(name=NAME, title=TITLE, fields=FIELDS, needs=())
def recording(trace: Trace, arguments: Arguments) -> Result:
    """The tables in a recording, and what is missing from it.

    What it measures: The state and the rows of every table. States: recorded, empty (enabled, but
        without events), never recorded (not enabled), damaged (in the file, but unreadable), not
        read (in the file, but not used by Warpline), and lost (records that the profiler dropped).
    Why it matters: Results are only as complete as the records. An event type that was never
        recorded differs from one that did not occur.
    How it is computed: Rows of the trace are counted. The other facts are read from the file.
    Limits: A profiler can drop records without reporting it.
    Source: Warpline.
    """
    meta = trace.meta
    lines = [_line(trace, spec.name) for spec in TABLES.values() if _is_listed(trace, spec)]
    lines += [("not read", count, name) for name, count in meta.unread.items()]
    lines += [("lost", count, subject) for subject, count in meta.lost.items()]
    states, counts, tables = zip(*lines, strict=True)
    every = np.arange(len(lines))
    known = np.array([count is not None for count in counts], np.bool_)
    values: dict[str, Values] = {
        "state": labelled(every, states),
        "rows": Numbers(np.array([count or 0 for count in counts], np.int64), known),
        "table": labelled(every, tables),
    }
    return Result(NAME, TITLE, FIELDS, values, ("state", "table"))


def _is_listed(trace: Trace, spec: TableSpec) -> bool:
    """Return whether the state of a table says something about the recording.

    A file has either a timeline or counters per kernel: the tables of the other are not missing.
    """
    if spec in dimensions.TABLES:
        return False
    is_of_counters = spec in profiled_kernels.TABLES
    is_of_file = trace.has(spec.name) or spec.name in trace.meta.damaged
    return is_of_file or trace.has("profiled_kernel") == is_of_counters


def _line(trace: Trace, table: str) -> tuple[str, int | None, str]:
    if table in trace.meta.damaged:
        return "damaged", None, table
    if not trace.has(table):
        return "never recorded", None, table
    rows = trace.row_count(table)
    return ("recorded" if rows else "empty"), rows, table
