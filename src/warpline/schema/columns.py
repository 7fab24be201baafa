"""What a table is: its columns with type, unit, nullability and meaning, declared as data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from warpline.errors import SchemaError
from warpline.units import Unit


class DType(Enum):
    """The type of a column's values; the value is numpy's name for it."""

    INT64 = "int64"
    INT32 = "int32"
    FLOAT64 = "float64"
    BOOL = "bool"


@dataclass(frozen=True)
class Column:
    """One column.

    Attributes:
        name: Unique in its table; carries its unit (``start_ns``), or ``_id`` for a reference.
        dtype: Type of the values.
        unit: What the numbers count.
        doc: One sentence.
        nullable: Whether a validity mask may accompany the values.
        ref: Table whose row number the values are, or None.
        labels: Value -> text of an enumeration, or None.
    """

    name: str
    dtype: DType
    unit: Unit
    doc: str
    nullable: bool = False
    ref: str | None = None
    labels: Mapping[int, str] | None = None


@dataclass(frozen=True)
class TableSpec:
    """One table.

    Attributes:
        name: A singular noun.
        doc: What one row is.
        columns: In the order in which they are shown.
        order: Columns that define the total order of rows; rows equal in all keep the source's
            order. Empty for dimensions, whose row numbers are given by the reader.
    """

    name: str
    doc: str
    columns: tuple[Column, ...]
    order: tuple[str, ...] = ()

    def column(self, name: str) -> Column:
        """Return the column called `name`; an unknown name is a SchemaError."""
        for column in self.columns:
            if column.name == name:
                return column
        raise SchemaError(f"table {self.name!r} has no column {name!r}")

    def has(self, name: str) -> bool:
        """Return whether the table declares a column called `name`."""
        return any(column.name == name for column in self.columns)

    @property
    def start(self) -> str | None:
        """Name of the column that says when a row begins, or None for rows without a time."""
        return next((name for name in ("start_ns", "time_ns") if self.has(name)), None)

    @property
    def end(self) -> str | None:
        """Name of the column that says when a row ends; instants end where they begin."""
        return "end_ns" if self.has("end_ns") else self.start
