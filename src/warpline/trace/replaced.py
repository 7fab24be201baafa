"""A trace with some of its tables replaced, or more of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from warpline.schema import TABLES
from warpline.trace.column import ColumnData
from warpline.trace.meta import TraceMeta
from warpline.trace.trace import Trace


class ReplacedTables:
    """A source with the tables of a trace, in their total order, but for some.

    Args:
        base: The trace.
        replaced: Columns of the tables that are others, all of each. Texts are rows of the base's
            pool.
        meta: The facts about the result.
    """

    def __init__(
        self, base: Trace, replaced: Mapping[str, Mapping[str, ColumnData]], meta: TraceMeta
    ) -> None:
        self._base = base
        self._replaced = replaced
        self.meta = meta
        self.strings = base.strings

    @property
    def foreign(self) -> Mapping[str, memoryview]:
        """Unknown members of the base's recording file."""
        return self._base.foreign

    @property
    def foreign_rows(self) -> Mapping[str, int]:
        """Number of rows of its unknown tables."""
        return self._base.foreign_rows

    def tables(self) -> Sequence[str]:
        """Return the tables of both."""
        return [name for name in TABLES if self._base.has(name) or name in self._replaced]

    def row_count(self, table: str) -> int:
        """Return the number of rows of a table."""
        replaced = self._replaced.get(table)
        return (
            self._base.row_count(table) if replaced is None else len(next(iter(replaced.values())))
        )

    def load(self, table: str, columns: Sequence[str]) -> dict[str, ColumnData]:
        """Return columns of a table."""
        if table not in self._replaced:
            return self._base.columns(table, *columns)
        return {name: self._replaced[table][name] for name in columns}
