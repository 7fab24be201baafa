"""What a reader returns: tables that are read when they are asked for, column by column."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol, runtime_checkable

from warpline.trace.column import ColumnData
from warpline.trace.meta import TraceMeta
from warpline.trace.strings import StringPool


class TableSource(Protocol):
    """A recording as a reader sees it. Rows come in the file's order; Trace sorts them.

    Dimension tables (process, thread, device, context, stream, metric) give the row numbers
    that ``*_id`` columns hold. Reading must not depend on which columns were read before,
    except for the row numbers of strings.
    """

    @property
    def meta(self) -> TraceMeta:
        """Facts about the recording."""
        ...

    @property
    def strings(self) -> StringPool:
        """The texts that name columns point into."""
        ...

    def tables(self) -> Sequence[str]:
        """Return the tables that were recorded, empty ones included."""
        ...

    def row_count(self, table: str) -> int:
        """Return the number of rows of a recorded table."""
        ...

    def load(self, table: str, columns: Sequence[str]) -> dict[str, ColumnData]:
        """Return the columns asked for; a nullable column may be left out if it is all null.

        Values hold the dtype that the schema declares. Raises CorruptTraceError when the
        file's rows cannot be read.
        """
        ...


@runtime_checkable
class HasForeign(Protocol):
    """A source that holds parts which this version does not know."""

    @property
    def foreign(self) -> Mapping[str, memoryview]:
        """Bytes of the unknown members of a recording file, by name."""
        ...
