"""Stacks as Nsight Systems exports them: a row per frame of each backtrace."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from warpline.errors import InputError
from warpline.ops.arrays import I32, I64
from warpline.ops.stacks import Stacks, ancestors
from warpline.trace.column import ColumnData
from warpline.trace.trace import Trace

# Table of the trace -> the table of the export with its backtraces.
CHAIN_TABLES: Mapping[str, str] = {
    "api_call": "CUDA_CALLCHAINS",
    "os_call": "OSRT_CALLCHAINS",
    "cpu_sample": "SAMPLING_CALLCHAINS",
    "sched_event": "WARPLINE_SCHED_CALLCHAINS",  # nsys does not record where a thread stopped
}
_NATIVE, _KERNEL = 1, 2  # of schema.labels.CODE_KINDS
_MAX_FRAMES = 2**27  # some 8 GB of SQLite


def frame_columns(trace: Trace, table: str) -> dict[str, ColumnData]:
    """Return the columns of the export with all frames of a table's backtraces.

    symbol, module and warplineFile are rows of the string pool. Columns that nsys does not have
    begin with "warpline", and are left out if they say no more than its own. Raises InputError if
    there are too many frames.
    """
    ids, stack = _backtraces(trace, table)
    tree = trace.columns("stack", "parent_id", "depth", "frame_id")
    stacks = Stacks(tree["parent_id"].values, tree["depth"].values, tree["frame_id"].values)
    count = int((stacks.depth[stack].astype(np.int64) + 1).sum())
    if count > _MAX_FRAMES:
        raise InputError(
            f"the backtraces of {table} have {count:,} frames, more than an export can hold",
            hint="export a part, such as --filter-time 1s/2s, or to a .warpline file",
        )
    place, row = ancestors(stacks, stack)
    frames = stacks.frame[row].astype(np.int64)
    names = ("symbol_id", "module_id", "is_unresolved", "address", "kind", "line", "file_id")
    frame = {name: data.take(frames) for name, data in trace.columns("frame", *names).items()}
    more = {
        "warplineKind": ColumnData(frame["kind"].values.astype(np.int64)),
        "warplineLine": frame["line"],
        "warplineFile": frame["file_id"],
    }
    kind_is_known = np.isin(frame["kind"].values, (_NATIVE, _KERNEL)).all()
    if kind_is_known:
        del more["warplineKind"]
    more = {name: data for name, data in more.items() if bool(data.is_valid().any())}
    return more | {
        "id": ColumnData(ids[place]),
        "symbol": frame["symbol_id"],
        "module": frame["module_id"],
        "kernelMode": ColumnData((frame["kind"].values == _KERNEL).astype(np.int64)),
        "unresolved": ColumnData(frame["is_unresolved"].values.astype(np.int64)),
        "originalIP": frame["address"],
        "stackDepth": ColumnData(stacks.depth[stack[place]] - stacks.depth[row]),
    }


def _backtraces(trace: Trace, table: str) -> tuple[I64, I32]:
    """Return id and stack of each backtrace. Calls share those of a stack; samples do not."""
    data = trace.columns(table, "stack_id")["stack_id"]
    rows = np.flatnonzero(data.is_valid())
    if table == "cpu_sample":
        return rows + 1, data.values[rows]
    stack = np.unique(data.values[rows])
    return stack.astype(np.int64) + 1, stack
