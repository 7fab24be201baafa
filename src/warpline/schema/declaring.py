"""The vocabulary of declarations: a column by its meaning, and the columns that tables share."""

from __future__ import annotations

from collections.abc import Mapping

from warpline.schema.columns import Column, DType
from warpline.units import Unit


def time(name: str, doc: str, *, nullable: bool = False) -> Column:
    """Return a column of points in time, in ns."""
    return Column(name, DType.INT64, Unit.NS, doc, nullable=nullable)


def duration(name: str, doc: str, *, nullable: bool = False) -> Column:
    """Return a column of lengths of time, in ns."""
    return Column(name, DType.INT64, Unit.NS, doc, nullable=nullable, is_duration=True)


def size(name: str, doc: str, *, nullable: bool = False) -> Column:
    """Return a column of sizes, in bytes."""
    return Column(name, DType.INT64, Unit.BYTES, doc, nullable=nullable)


def number(name: str, doc: str, *, nullable: bool = False) -> Column:
    """Return a column of integers without a unit."""
    return Column(name, DType.INT64, Unit.NONE, doc, nullable=nullable)


def flag(name: str, doc: str, *, nullable: bool = False) -> Column:
    """Return a column of truth values."""
    return Column(name, DType.BOOL, Unit.NONE, doc, nullable=nullable)


def ref(name: str, table: str, doc: str, *, nullable: bool = False) -> Column:
    """Return a column of row numbers of `table`."""
    return Column(name, DType.INT32, Unit.ID, doc, nullable=nullable, ref=table)


def text(name: str, doc: str, *, nullable: bool = False) -> Column:
    """Return the column ``NAME_id`` of texts."""
    return ref(f"{name}_id", "string", doc, nullable=nullable)


def enum(name: str, labels: Mapping[int, str], doc: str, *, nullable: bool = False) -> Column:
    """Return a column of numbers that stand for texts."""
    return Column(name, DType.INT32, Unit.NONE, doc, nullable=nullable, labels=labels)


SPAN = (
    time("start_ns", "Start, relative to the trace's origin; may be negative."),
    time("end_ns", "End; the interval is half-open."),
)
THREAD_ID = ref("thread_id", "thread", "CPU thread.")
HOST_ORDER = ("start_ns", "end_ns", "thread_id")
