"""Values of one column with an optional validity mask."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from warpline.schema import Column

Array = npt.NDArray[Any]
BoolArray = npt.NDArray[np.bool_]
Rows = slice | npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class ColumnData:
    """The values of a column.

    Attributes:
        values: Shape (n,), read-only, of the column's dtype. Where `valid` is False the value
            is 0 and means nothing.
        valid: Shape (n,), read-only bool, True where there is a value; None when all are valid.
    """

    values: Array
    valid: BoolArray | None = None

    def __post_init__(self) -> None:
        self.values.flags.writeable = False
        if self.valid is not None:
            self.valid.flags.writeable = False

    def __len__(self) -> int:
        return len(self.values)

    def take(self, rows: Rows) -> ColumnData:
        """Return the chosen rows; a slice shares memory with this column."""
        return ColumnData(self.values[rows], None if self.valid is None else self.valid[rows])

    def is_valid(self) -> BoolArray:
        """Return the mask, all True when every value is valid."""
        return np.ones(len(self.values), np.bool_) if self.valid is None else self.valid

    def filled(self, fill: int | float) -> Array:
        """Return the values with `fill` where there is none."""
        if self.valid is None:
            return self.values
        return np.where(self.valid, self.values, np.asarray(fill, self.values.dtype))

    def to_list(self) -> list[Any]:
        """Return Python values, None where there is none."""
        values: list[Any] = self.values.tolist()
        if self.valid is None:
            return values
        return [v if ok else None for v, ok in zip(values, self.valid.tolist(), strict=True)]


def make_column(spec: Column, values: npt.ArrayLike, valid: BoolArray | None = None) -> ColumnData:
    """Return a column in the dtype that `spec` declares, with masked values set to 0.

    A mask that is all True is dropped; `values` is copied only if its type differs or it
    must be changed.
    """
    array = np.asarray(values).astype(spec.dtype.value, copy=False)
    if valid is None or bool(valid.all()):
        return ColumnData(array)
    if np.any(array[~valid]):
        array = np.where(valid, array, np.zeros(1, array.dtype))
    return ColumnData(array, valid)


def null_column(spec: Column, row_count: int) -> ColumnData:
    """Return a column of `row_count` nulls."""
    valid = np.zeros(row_count, np.bool_) if row_count else None
    return ColumnData(np.zeros(row_count, spec.dtype.value), valid)


def concatenate(parts: list[ColumnData]) -> ColumnData:
    """Return the parts one after another."""
    if len(parts) == 1:
        return parts[0]
    values = np.concatenate([part.values for part in parts])
    if all(part.valid is None for part in parts):
        return ColumnData(values)
    return ColumnData(values, np.concatenate([part.is_valid() for part in parts]))
