"""The kinds of rows in CUPTI_ACTIVITY_KIND_SYNCHRONIZATION.

Its types do not separate rows that block the CPU from those that do not:

- Schema 3.20 gives both cudaStreamWaitEvent and cudaStreamSynchronize the type "stream wait";
  only the first names an event.
- A poll such as cudaEventQuery has the type of an event synchronization. It returns at once and
  stays among the API calls.
"""

from __future__ import annotations

import numpy as np

from warpline.lazy import lazy_pattern
from warpline.ops.arrays import I64, BoolArray
from warpline.ops.group import factorize, factorize_rows
from warpline.readers.nsys.database import Kind
from warpline.readers.nsys.export import SourceTable
from warpline.readers.nsys.fields import Field, Reading, label
from warpline.readers.nsys.identity import NO_ID, PROCESS_MASK
from warpline.schema import Column
from warpline.trace.column import ColumnData, make_column

SYNC = "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION"
CALLS = "CUPTI_ACTIVITY_KIND_RUNTIME"

_STREAM_WAIT, _STREAM = 2, 3  # CUPTI's types
_POLL = lazy_pattern(r"cu(da)?(Event|Stream)Query(_\w+)?")


def stream_wait_rows(reading: Reading) -> I64:
    """Return the rows that make a stream wait for an event."""
    return np.flatnonzero(_is_stream_wait(SourceTable(reading.export, SYNC)))


def host_wait_rows(reading: Reading) -> I64:
    """Return the rows that blocked the CPU."""
    is_wait = ~_is_stream_wait(SourceTable(reading.export, SYNC))
    return np.flatnonzero(is_wait & ~_is_poll(reading)) if is_wait.any() else np.zeros(0, np.int64)


def wait_kind() -> Field:
    """Return the awaited objects."""
    plain = label("syncType")

    def load(reading: Reading, table: SourceTable, spec: Column) -> ColumnData:
        kinds = plain.load(reading, table, spec).values
        is_stream = table.ints("syncType").values == _STREAM_WAIT
        return make_column(spec, np.where(is_stream, _STREAM, kinds))

    return Field(load, plain.kinds)


def _is_stream_wait(table: SourceTable) -> BoolArray:
    table.fetch({"syncType": Kind.INT64, "eventId": Kind.INT64})
    event, kind = table.ints("eventId"), table.ints("syncType")
    names_event: BoolArray = event.is_valid() & (event.values != NO_ID)
    names_event &= kind.values == _STREAM_WAIT
    return names_event


def _is_poll(reading: Reading) -> BoolArray:
    """Return which rows were caused by a polling call."""
    calls = SourceTable(reading.export, CALLS)
    names = factorize(calls.ints("nameId").values)
    texts = [reading.names.text_of_id(key) for key in names.uniques.tolist()]
    is_poll = np.array([bool(_POLL.fullmatch(text)) for text in texts], np.bool_)
    polls = SourceTable(reading.export, CALLS, np.flatnonzero(is_poll[names.codes]))
    waits = SourceTable(reading.export, SYNC)
    keys = [*_call_keys(waits, "globalPid"), *_call_keys(polls, "globalTid")]
    codes = factorize_rows(np.concatenate(keys[::2]), np.concatenate(keys[1::2])).codes
    return np.isin(codes[: len(waits)], codes[len(waits) :])


def _call_keys(table: SourceTable, process: str) -> tuple[I64, I64]:
    """Return the process and the correlation of each row: what identifies a call."""
    table.fetch({process: Kind.INT64, "correlationId": Kind.INT64})
    return table.ints(process).values & PROCESS_MASK, table.ints("correlationId").filled(-1)
