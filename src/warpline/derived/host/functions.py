"""The functions that frames of stacks belong to, and the stacks of rows of a table."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from warpline.derived import derived
from warpline.ops.arrays import I8, I32, Integers
from warpline.ops.group import factorize_rows
from warpline.ops.stack_sums import Forest, forest
from warpline.ops.stacks import Stacks
from warpline.schema.labels import CODE_KINDS
from warpline.trace import Trace

PYTHON = next(value for value, label in CODE_KINDS.items() if label == "Python")
KERNEL = next(value for value, label in CODE_KINDS.items() if label == "Kernel")
NO_STACK = -1
_NO_FILE = -1
UNRESOLVED = "[unresolved]"


class Functions(NamedTuple):
    """The functions of all frames: the same name in the same file or library.

    Frames without a name are one function of their library, UNRESOLVED.

    Attributes:
        of_frame: Shape (frames,), int32, the function of each row of `frame`.
        symbol: Shape (functions,), int32, rows of the string pool.
        module: Shape (functions,), int32, rows of the string pool.
        kind: Shape (functions,), int8, of CODE_KINDS.
    """

    of_frame: I32
    symbol: I32
    module: I32
    kind: I8

    def __len__(self) -> int:
        return len(self.symbol)


@derived
def functions(trace: Trace) -> Functions:
    """Return the functions of the frames of a trace, none without stacks."""
    if not trace.has("frame") or not trace.row_count("frame"):
        nothing = np.zeros(0, np.int32)
        return Functions(nothing, nothing, nothing, np.zeros(0, np.int8))
    columns = trace.columns("frame", "symbol_id", "module_id", "kind", "is_unresolved")
    symbol, module, kind, is_unresolved = (column.filled(0) for column in columns.values())
    if is_unresolved.any():
        unnamed = np.int32(trace.strings.intern_text(UNRESOLVED))
        symbol = np.where(is_unresolved != 0, unnamed, symbol)
    groups = factorize_rows(symbol, module, kind)
    first = groups.first
    return Functions(
        groups.codes,
        symbol[first].astype(np.int32),
        module[first].astype(np.int32),
        kind[first].astype(np.int8),
    )


@derived
def frame_files(trace: Trace) -> I32:
    """Return the file of each frame's line, shape (frames,), int32, rows of the string pool.

    It is the source file of native code where that is known, else the library. Of Python code it
    is the file.
    """
    if not trace.has("frame"):
        return np.zeros(0, np.int32)
    columns = trace.columns("frame", "module_id", "file_id")
    module, file = (column.filled(_NO_FILE) for column in columns.values())
    return np.where(file == _NO_FILE, module, file).astype(np.int32)


@derived
def stacks(trace: Trace) -> Stacks:
    """Return the tree of all stacks of a trace, empty without any."""
    if not trace.has("stack"):
        nothing = np.zeros(0, np.int32)
        return Stacks(nothing, nothing, nothing)
    columns = trace.columns("stack", "parent_id", "depth", "frame_id")
    parent, depth, frame = (column.values.astype(np.int32) for column in columns.values())
    # Stacks without callers have any parent; their own row would end walks as well.
    return Stacks(np.where(columns["parent_id"].is_valid(), parent, 0), depth, frame)


@derived
def stack_ids(trace: Trace, table: str) -> I32:
    """Return the stack of each row of a table, shape (rows,), int32; NO_STACK for none."""
    column = trace.columns(table, "stack_id")["stack_id"]
    return column.filled(NO_STACK).astype(np.int32, copy=False)


def forest_of(trace: Trace, table: str, group: Integers | None = None) -> Forest:
    """Return the stacks of the rows of a table, with their callers, apart for each group.

    Args:
        trace: The trace.
        table: A table with stacks, such as ``cpu_sample``.
        group: Shape (rows,), not negative, such as threads; None for a single group.
    """
    return forest(stacks(trace), stack_ids(trace, table), group)
