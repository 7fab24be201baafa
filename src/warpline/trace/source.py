"""The interface of readers: tables whose columns are loaded on demand."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol, runtime_checkable

from warpline.trace.column import ColumnData
from warpline.trace.meta import TraceMeta
from warpline.trace.strings import StringPool

# Beyond this, sources that can read a table in blocks do so: its columns would take more memory
# than all else. Below, it is quicker to read them once for several purposes.
LARGE_TABLE_ROWS = 2**21
ROWS_PER_BLOCK = 2**18


class TableSource(Protocol):
    """A recording as a reader provides it. Rows are in file order; Trace sorts them.

    The ``*_id`` columns hold row numbers of dimension tables (process, thread, device, context,
    stream, metric). Results must not depend on the columns loaded before, except for the row
    numbers of strings.
    """

    @property
    def meta(self) -> TraceMeta:
        """Facts about the recording."""
        ...

    @property
    def strings(self) -> StringPool:
        """The texts that name columns refer to."""
        ...

    def tables(self) -> Sequence[str]:
        """Return the names of the recorded tables, including empty ones."""
        ...

    def row_count(self, table: str) -> int:
        """Return the number of rows of a recorded table."""
        ...

    def load(self, table: str, columns: Sequence[str]) -> dict[str, ColumnData]:
        """Return the given columns. A nullable column may be omitted if it is all null.

        Values have the dtype that the schema declares. Raises CorruptTraceError if the rows of the
        file cannot be read.
        """
        ...


@runtime_checkable
class Foresees(Protocol):
    """A source that reads columns of several requests in one pass, if it knows them before."""

    def foresee(self, columns: Mapping[str, Sequence[str]]) -> None:
        """Note columns of tables that will be loaded."""
        ...


@runtime_checkable
class ReadsBlocks(Protocol):
    """A source that can read a large table a block of rows at a time."""

    def blocks(self, table: str, columns: Sequence[str]) -> Iterator[dict[str, ColumnData]] | None:
        """Return what `load` returns, for some rows at a time in file order.

        None for a table that is better loaded whole.
        """
        ...


@runtime_checkable
class HasForeign(Protocol):
    """A source with parts that are unknown to this version."""

    @property
    def foreign(self) -> Mapping[str, memoryview]:
        """The bytes of unknown members of a recording file, by name."""
        ...

    @property
    def foreign_rows(self) -> Mapping[str, int]:
        """The number of rows of unknown tables, by name."""
        ...
