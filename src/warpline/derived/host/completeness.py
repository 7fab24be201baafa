"""Whether stacks are complete: they begin where the operating system started a thread."""

from __future__ import annotations

import numpy as np

from warpline.derived.host.blocking import plain_name
from warpline.derived.host.functions import functions, stack_ids, stacks
from warpline.lazy import lazy_pattern
from warpline.ops.arrays import BoolArray
from warpline.ops.stacks import ancestor
from warpline.trace import Trace

# Plain names of the first functions of processes and threads, of glibc, musl and Python, whose
# first imports are made from C.
_FIRST = frozenset(
    (
        *("start", "start_c", "dl_start_user", "start_main", "start_main_impl", "start_call_main"),
        *("start_main_stage2", "clone", "clone3", "start_thread", "thread_start"),
        *("<module>", "_bootstrap", "Thread._bootstrap", "_find_and_load"),
        "_install_external_importers",
    )
)
# They often have no symbol of their own there, and only they call others from the outside.
_C_LIBRARY = lazy_pattern(r"(?:.*/)?(?:libc|libpthread|ld-musl)[-.].*")


def has_complete_stack(trace: Trace, table: str) -> BoolArray:
    """Return which rows of a table have a complete stack, shape (rows,).

    One of the two outermost frames must be the first function of a process or a thread, because
    programs without symbols have no name for their own; or the outermost one is in the C library,
    and called another.
    """
    tree, stack = stacks(trace), stack_ids(trace, table)
    named, in_library = _first_functions(trace)
    has_stack = stack >= 0
    row = stack[has_stack]
    depth = tree.depth[row].astype(np.int64)
    function_of = functions(trace).of_frame
    outermost, next_one = (
        function_of[tree.frame[ancestor(tree, row, np.maximum(depth - at, 0))]] for at in (0, 1)
    )
    complete = np.zeros(len(stack), np.bool_)
    complete[has_stack] = named[outermost] | named[next_one] | (in_library[outermost] & (depth > 0))
    return complete


def _first_functions(trace: Trace) -> tuple[BoolArray, BoolArray]:
    """Return which functions are first ones by their names, and which are in the C library."""
    known = functions(trace)
    names = ({name, plain_name(name)} for name in trace.strings.texts(known.symbol))
    named = [not _FIRST.isdisjoint(each) for each in names]
    in_library = [bool(_C_LIBRARY.match(each)) for each in trace.strings.texts(known.module)]
    return np.array(named, np.bool_), np.array(in_library, np.bool_)
