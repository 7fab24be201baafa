"""The tables of a trace, declared as data: column, type, unit, nullability, meaning, reference.

Validation, DataFrames, and the documentation's table pages follow from these declarations.
The `string` table is not listed: it is the pool of texts that ``*_id`` columns with
``ref="string"`` point into.
"""

from warpline.schema.columns import Column, DType, TableSpec
from warpline.schema.tables import SCHEMA_VERSION, TABLES

__all__ = ["SCHEMA_VERSION", "TABLES", "Column", "DType", "TableSpec"]
