"""Declarations of tables: columns with type, unit, nullability and meaning."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum

from warpline.errors import SchemaError
from warpline.frozen import frozen
from warpline.units import Unit


class DType(Enum):
    """The type of a column's values, by its numpy name."""

    INT64 = "int64"
    INT32 = "int32"
    UINT16 = "uint16"
    FLOAT64 = "float64"
    BOOL = "bool"


@frozen
class Column:
    """One column.

    Attributes:
        name: Unique in its table; ends in the unit (``start_ns``), or ``_id`` for a reference.
        dtype: Type of the values.
        unit: Unit of the values.
        doc: One-sentence description.
        nullable: Whether the column may have a validity mask.
        ref: Table that the values refer to by row number, or None.
        labels: Texts of an enumeration by value, or None.
        is_duration: Whether values in ns are lengths of time, not points in time.
    """

    name: str
    dtype: DType
    unit: Unit
    doc: str
    nullable: bool = False
    ref: str | None = None
    labels: Mapping[int, str] | None = None
    is_duration: bool = False

    @property
    def is_time(self) -> bool:
        """Whether values are points in time, which move with the trace's origin."""
        return self.unit is Unit.NS and not self.is_duration


@frozen
class TableSpec:
    """One table.

    Attributes:
        name: A singular noun.
        doc: Description of one row.
        columns: The columns, in display order.
        order: Columns that define the total order of rows; ties keep the source's order. Empty
            for dimensions, whose row numbers are assigned by the reader.
    """

    name: str
    doc: str
    columns: tuple[Column, ...]
    order: tuple[str, ...] = ()

    def column(self, name: str) -> Column:
        """Return the column `name`; raises SchemaError if there is none."""
        for column in self.columns:
            if column.name == name:
                return column
        raise SchemaError(f"table {self.name!r} has no column {name!r}")

    def has(self, name: str) -> bool:
        """Return whether the table has a column `name`."""
        return any(column.name == name for column in self.columns)

    @property
    def start(self) -> str | None:
        """Name of the column with a row's start time, or None for rows without a time."""
        return next((name for name in ("start_ns", "time_ns") if self.has(name)), None)

    @property
    def end(self) -> str | None:
        """Name of the column with a row's end time; instants end at their start."""
        return "end_ns" if self.has("end_ns") else self.start
