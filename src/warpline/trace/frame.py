"""A table of a trace as a Polars DataFrame."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from warpline.schema import Column, TableSpec
from warpline.trace.column import ColumnData

if TYPE_CHECKING:
    from warpline.trace.trace import Trace


def to_polars(trace: Trace, spec: TableSpec, columns: Sequence[str] | None) -> pl.DataFrame:
    """Return a DataFrame with rows in the table's total order.

    References to texts become String columns, named without the suffix ``_id``. Enumerations
    become their labels. Other references stay row numbers. Nulls stay nulls.

    Args:
        trace: The trace.
        spec: The table.
        columns: Names as in the schema or as in the DataFrame; None for all.
    """
    chosen = [c for c in spec.columns if columns is None or {c.name, _frame_name(c)} & {*columns}]
    if columns is not None:
        for name in columns:
            if not any(name in (c.name, _frame_name(c)) for c in spec.columns):
                spec.column(name)
    data = trace.columns(spec.name, *(column.name for column in chosen))
    return pl.DataFrame([_series(trace, column, data[column.name]) for column in chosen])


def _frame_name(column: Column) -> str:
    return column.name.removesuffix("_id") if column.ref == "string" else column.name


def _series(trace: Trace, column: Column, data: ColumnData) -> pl.Series:
    name = _frame_name(column)
    if column.ref == "string":
        rows, codes = np.unique(data.values, return_inverse=True)
        texts = trace.strings.texts(rows) if _any_valid(data) else [""] * len(rows)
        values = pl.Series(name, texts, pl.String).gather(codes)
    elif column.labels is not None:
        present, codes = np.unique(data.values, return_inverse=True)
        texts = [column.labels.get(value, str(value)) for value in present.tolist()]
        values = pl.Series(name, texts, pl.String).gather(codes)
    else:
        values = pl.Series(name, data.values)
    if data.valid is None:
        return values
    mask = pl.Series("valid", data.valid)
    return pl.select(pl.when(mask).then(values).otherwise(None).alias(name)).to_series()


def _any_valid(data: ColumnData) -> bool:
    return data.valid is None or bool(data.valid.any())
