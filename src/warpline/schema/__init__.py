"""The tables of a trace, declared as data: columns, types, units, nullability, meaning, references.

One module per subject declares its tables in the vocabulary of `declaring`; `tables` lists them.
Validation, DataFrames and the documentation are generated from these declarations. The `string`
table is not listed: it is the pool of texts referenced by ``*_id`` columns with ``ref="string"``.
"""

from warpline.schema.columns import Column, DType, TableSpec
from warpline.schema.tables import SCHEMA_VERSION, SUBJECTS, TABLES

__all__ = ["SCHEMA_VERSION", "SUBJECTS", "TABLES", "Column", "DType", "TableSpec"]
