"""The rows of each thread in a table, and blocks of threads with few rows.

What is computed for each thread alone is computed for some threads at a time: large recordings then
take the memory of their results, not that of all that leads to them.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from warpline.derived import derived
from warpline.ops.arrays import I32, I64
from warpline.ops.tiling import order_of_groups
from warpline.trace import Trace

_ROWS_PER_BLOCK = 2**18


class ThreadRows(NamedTuple):
    """The rows of a table whose thread is known, by thread.

    Attributes:
        row: Shape (n,), int32, those of a thread in the order of the table.
        first: Shape (threads + 1,), int64: those of thread t are from ``first[t]`` to before
            ``first[t + 1]``.
    """

    row: I32
    first: I64

    def of(self, threads: range) -> I64:
        """Return the rows of consecutive threads."""
        return self.row[self.first[threads.start] : self.first[threads.stop]].astype(np.int64)

    def threads_of(self, threads: range) -> I32:
        """Return the thread of each row that `of` returns."""
        counts = self.counts()[threads.start : threads.stop]
        return np.repeat(np.arange(threads.start, threads.stop, dtype=np.int32), counts)

    def counts(self) -> I64:
        """Return the number of rows of each thread, shape (threads,)."""
        return np.diff(self.first)


def all_threads(trace: Trace) -> range:
    """Return the rows of the table thread."""
    return range(trace.row_count("thread") if trace.has("thread") else 0)


@derived
def thread_rows(trace: Trace, table: str) -> ThreadRows:
    """Return the rows of each thread in a table, none if it was not recorded."""
    count = len(all_threads(trace))
    if not trace.has(table):
        return ThreadRows(np.zeros(0, np.int32), np.zeros(count + 1, np.int64))
    thread = trace.columns(table, "thread_id")["thread_id"]
    owner, row = thread.values, None
    if thread.valid is not None and not thread.valid.all():
        row = np.flatnonzero(thread.valid).astype(np.int32)
        owner = owner[row]
    order = order_of_groups(owner).astype(np.int32)
    first = np.zeros(count + 1, np.int64)
    np.cumsum(np.bincount(owner, minlength=count), out=first[1:])
    return ThreadRows(order if row is None else row[order], first)


def thread_blocks(trace: Trace, tables: Sequence[str]) -> list[range]:
    """Return all threads in blocks of about as many rows in these tables, a thread at least."""
    rows = np.zeros(len(all_threads(trace)), np.int64)
    for table in tables:
        rows += thread_rows(trace, table).counts()
    block = (np.cumsum(rows) - rows) // _ROWS_PER_BLOCK
    later = (np.flatnonzero(block[1:] != block[:-1]) + 1).tolist()
    return [range(*pair) for pair in pairwise((0, *later, len(rows)))]
