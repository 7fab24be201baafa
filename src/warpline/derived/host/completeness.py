"""Whether stacks are complete: they begin where the operating system started a thread."""

from __future__ import annotations

import numpy as np

from warpline.derived.host.blocking import plain_name
from warpline.derived.host.functions import functions, stack_ids, stacks
from warpline.ops.arrays import BoolArray
from warpline.ops.stacks import ancestor
from warpline.trace import Trace

# Plain names of the first functions of processes and threads, of glibc, musl and Python.
_FIRST = frozenset(
    (
        *("start", "start_c", "dl_start_user", "start_main", "start_main_impl", "start_call_main"),
        *("start_main_stage2", "clone", "clone3", "start_thread", "thread_start"),
        *("<module>", "_bootstrap"),
    )
)


def has_complete_stack(trace: Trace, table: str) -> BoolArray:
    """Return which rows of a table have a complete stack, shape (rows,).

    One of the two outermost frames must be the first function of a process or a thread: programs
    without symbols have no name for their own.
    """
    tree, known, stack = stacks(trace), functions(trace), stack_ids(trace, table)
    symbols = trace.strings.texts(known.symbol)
    named = ({name, plain_name(name)} for name in symbols)
    is_first = np.array([not _FIRST.isdisjoint(names) for names in named], np.bool_)
    has_stack = stack >= 0
    row = stack[has_stack]
    depth = tree.depth[row].astype(np.int64)
    complete = np.zeros(len(stack), np.bool_)
    outermost = [ancestor(tree, row, np.maximum(depth - at, 0)) for at in (0, 1)]
    complete[has_stack] = np.logical_or.reduce(
        [is_first[known.of_frame[tree.frame[each]]] for each in outermost]
    )
    return complete
