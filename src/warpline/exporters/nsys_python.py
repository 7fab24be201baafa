"""Python samples and the GIL as Nsight Systems exports them: NVTX events in domains of its own.

A sample is a mark whose binary payload has the state of the thread and its frames. What nsys does
not have, the time that a sample stands for and who held the GIL, are columns of our own.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from warpline.ops.arrays import I32, I64
from warpline.ops.group import factorize_rows
from warpline.ops.stacks import Stacks, ancestors
from warpline.schema.labels import CODE_KINDS, GIL_STATES, THREAD_STATES
from warpline.trace.trace import Trace

# Table of the trace -> the domain of its events.
DOMAINS: Mapping[str, str] = {
    "python_sample": "Python Periodic Sampling",
    "gil_span": "GIL Trace",
}
# Of which tables NVTX_EVENTS has the same events, too, if nsys recorded them.
TWINS: Mapping[str, str] = {"mark": "python_sample", "range": "gil_span"}
COLUMNS = ("binaryData", "warplinePeriodNs", "warplineHasGil")
WAS_SAMPLED = ("PYTHON_BACKTRACE_SAMPLING_OPTIONS:COLLECT_SAMPLES", "true")

_GIL_TEXTS = {"Holding": "Holding GIL", "Waiting": "Waiting for GIL"}
_NUMBER_OF = {label: value for value, label in THREAD_STATES.items()}
_PYTHON = next(value for value, label in CODE_KINDS.items() if label == "Python")
_ENVELOPE = struct.Struct("<QQQQ")  # payloads; of the only one: schema, size, offset
_HEAD = struct.Struct("<QII")  # text of the state, state, frames
_SCHEMA = 2**32 + 2
_NO_STACK = _NO_THREAD = -1


def twin_rows(trace: Trace, table: str) -> I64:
    """Return the rows of `range` or `mark` that are events of these domains: nsys recorded them."""
    if not trace.has(table):
        return np.zeros(0, np.int64)
    domain = trace.columns(table, "domain_id")["domain_id"]
    name = trace.strings.find(DOMAINS[TWINS[table]])
    if name is None:
        return np.zeros(0, np.int64)
    return np.flatnonzero(domain.is_valid() & (domain.values == name))


def gil_names(trace: Trace) -> tuple[I32, I64]:
    """Return the name of each span's event, and all names: rows of the string pool.

    All of them are written: whoever reads the export knows by them that the GIL was recorded.
    """
    state = trace.columns("gil_span", "state")["state"].filled(0)
    texts = [_GIL_TEXTS.get(label, f"GIL {label}") for label in GIL_STATES.values()]
    names = [trace.strings.intern_text(text) for text in texts]
    name_of = dict(zip(GIL_STATES, names, strict=True))
    known = np.array([name_of.get(value, names[0]) for value in range(max(name_of) + 1)], np.int32)
    is_known = (state >= 0) & (state < len(known))
    return known[np.where(is_known, state, 0)], np.array(names, np.int64)


def sample_columns(trace: Trace) -> tuple[dict[str, Sequence[Any]], I64]:
    """Return COLUMNS and the color of the samples, and the rows of the string pool in use."""
    columns = trace.columns("python_sample", "period_ns", "has_gil", "is_running", "stack_id")
    running, stack = columns["is_running"], columns["stack_id"].filled(_NO_STACK)
    state = np.where(running.filled(0) != 0, _NUMBER_OF["Running"], _NUMBER_OF["Waiting"])
    state[~running.is_valid()] = _NUMBER_OF["Unknown"]
    pairs = factorize_rows(stack, state)
    frames, used = _frames(trace, stack[pairs.first])
    texts = {
        number: trace.strings.intern_text(THREAD_STATES[number]) for number in set(state.tolist())
    }
    payloads = [
        _payload(texts[number], number, packed)
        for number, packed in zip(state[pairs.first].tolist(), frames, strict=True)
    ]
    values: dict[str, Sequence[Any]] = {
        "color": _colors(trace),
        "binaryData": [payloads[code] for code in pairs.codes.tolist()],
        "warplinePeriodNs": columns["period_ns"].to_list(),
        "warplineHasGil": [
            None if held is None else int(held) for held in columns["has_gil"].to_list()
        ],
    }
    return values, np.append(used, np.array([*texts.values()], np.int64))


def _colors(trace: Trace) -> list[int | None]:
    """Return the color of each sample's mark, if nsys recorded it."""
    count, rows = trace.row_count("python_sample"), twin_rows(trace, "mark")
    if len(rows) != count:
        return [None] * count
    marks = {
        name: data.take(rows)
        for name, data in trace.columns("mark", "time_ns", "thread_id", "color").items()
    }
    samples = trace.columns("python_sample", "time_ns", "thread_id")
    theirs, ours = (
        np.lexsort((each["thread_id"].filled(_NO_THREAD), each["time_ns"].values))
        for each in (marks, samples)
    )
    place = np.empty(count, np.int64)
    place[ours] = theirs
    return marks["color"].take(place).to_list()


def _payload(text: int, state: int, frames: bytes) -> bytes:
    body = _HEAD.pack(text, state, len(frames) // 24) + frames
    return _ENVELOPE.pack(1, _SCHEMA, len(body), _ENVELOPE.size) + body


def _frames(trace: Trace, stack: I32) -> tuple[list[bytes], I64]:
    """Return function, file and line of each stack's Python frames, innermost first, and texts."""
    packed = [b""] * len(stack)
    rows = np.flatnonzero(stack != _NO_STACK)
    if not len(rows) or not trace.has("stack"):
        return packed, np.zeros(0, np.int64)
    tree = [
        data.values for data in trace.columns("stack", "parent_id", "depth", "frame_id").values()
    ]
    place, row = ancestors(Stacks(*tree), stack[rows])
    columns = trace.columns("frame", "symbol_id", "module_id", "line", "kind")
    frame = tree[2][row].astype(np.int64)
    known = {name: data.take(frame).filled(0) for name, data in columns.items()}
    kept = np.flatnonzero(known["kind"] == _PYTHON)
    parts = [known[name][kept].astype("<u8") for name in ("symbol_id", "module_id", "line")]
    content = np.stack(parts, axis=1).tobytes()
    ends = 24 * np.searchsorted(place[kept], np.arange(1, len(rows) + 1))
    begins = np.append(0, ends[:-1])
    for at, begin, end in zip(rows.tolist(), begins.tolist(), ends.tolist(), strict=True):
        packed[at] = content[begin:end]
    return packed, np.concatenate(parts[:2]).astype(np.int64)
