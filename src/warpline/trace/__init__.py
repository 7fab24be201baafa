"""A recording in memory, and the source that it is read from."""

from warpline.trace.column import ColumnData, concatenate, make_column, null_column
from warpline.trace.filters import Excluded
from warpline.trace.memory import MemorySource
from warpline.trace.meta import ProcessEnd, TraceMeta
from warpline.trace.reading import READERS, Reader, read
from warpline.trace.run import Run
from warpline.trace.source import TableSource
from warpline.trace.strings import StringPool
from warpline.trace.trace import Table, Trace

__all__ = [
    "READERS",
    "ColumnData",
    "Excluded",
    "MemorySource",
    "ProcessEnd",
    "Reader",
    "Run",
    "StringPool",
    "Table",
    "TableSource",
    "Trace",
    "TraceMeta",
    "concatenate",
    "make_column",
    "null_column",
    "read",
]
