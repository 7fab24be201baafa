"""recording: which tables a recording holds, and what is missing from it."""

from __future__ import annotations

import numpy as np

from warpline.derived.texts import labelled
from warpline.result import Arguments, Field, Numbers, Result, Values, analysis
from warpline.schema import TABLES
from warpline.trace import Trace
from warpline.units import Unit

NAME = "recording"
TITLE = "What the recording holds"
FIELDS = (
    Field("state", Unit.NONE, "Whether it is there: see below.", "State"),
    Field("rows", Unit.COUNT, "Rows, or lost records; none where unknown.", "Rows"),
    Field("table", Unit.NONE, "Table of the trace, or what was lost or not read.", "Table"),
)


@analysis(name=NAME, title=TITLE, fields=FIELDS, needs=())
def recording(trace: Trace, arguments: Arguments) -> Result:
    """Which tables a recording holds, and what is missing from it.

    What it measures: The rows of every table: recorded, empty (looked for, and nothing
        happened), never recorded, damaged (in the file, but unreadable), not read (tables of the
        file that Warpline does not use), and lost (records that the producer dropped).
    Why it matters: Numbers are no better than the records behind them, and "nothing happened"
        differs from "nobody looked".
    How it is computed: Rows of the trace are counted; the rest is what the file says.
    Limits: A producer may lose records without knowing.
    Source: Warpline.
    """
    meta = trace.meta
    lines = [_line(trace, name) for name, spec in TABLES.items() if spec.order]
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


def _line(trace: Trace, table: str) -> tuple[str, int | None, str]:
    if table in trace.meta.damaged:
        return "damaged", None, table
    if not trace.has(table):
        return "never recorded", None, table
    rows = trace.row_count(table)
    return ("recorded" if rows else "empty"), rows, table
