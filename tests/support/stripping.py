"""Recordings without some of their tables: what is left when less was recorded."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from itertools import combinations

from warpline.trace import ColumnData, StringPool, Trace, TraceMeta
from warpline.trace.source import TableSource

# What a recording may hold about CPU threads besides CUDA API calls.
HOST_TABLES = ("os_call", "sched_event", "cpu_sample", "range", "op", "python_frame")


class Stripped:
    """A source without some of its tables."""

    def __init__(self, source: TableSource, without: Collection[str]) -> None:
        self.source, self.without = source, frozenset(without)

    @property
    def meta(self) -> TraceMeta:
        """Facts about the recording."""
        return self.source.meta

    @property
    def strings(self) -> StringPool:
        """The texts that name columns refer to."""
        return self.source.strings

    def tables(self) -> Sequence[str]:
        """Return the names of the tables that are left."""
        return [name for name in self.source.tables() if name not in self.without]

    def row_count(self, table: str) -> int:
        """Return the number of rows of a table."""
        return self.source.row_count(table)

    def load(self, table: str, columns: Sequence[str]) -> dict[str, ColumnData]:
        """Return columns of a table."""
        return self.source.load(table, columns)


def subsets(source: TableSource) -> Iterator[frozenset[str]]:
    """Return all sets of recorded tables about CPU threads, the largest first."""
    recorded = [name for name in HOST_TABLES if name in source.tables() and source.row_count(name)]
    for count in range(len(recorded), -1, -1):
        yield from map(frozenset, combinations(recorded, count))


def with_only(source: TableSource, kept: Collection[str]) -> Trace:
    """Return a recording with only some of its tables about CPU threads."""
    return Trace(Stripped(source, set(HOST_TABLES) - set(kept)))
