"""Traces with rows in every table, generated from the schema's declarations alone.

New tables and columns of the schema need no change here.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st

from warpline.schema import TABLES, Column, DType, TableSpec
from warpline.trace import MemorySource, Trace
from warpline.units import Unit

Rows = dict[str, list[Any]]

TEXTS = ("", "a", "b:c", "cudaMalloc_v3020", "cudaGraphLaunch_v10000", "Größe, \x1b[31m|", "ncclA")
DIMENSION_ROWS = {"process": 2, "thread": 3, "device": 2, "context": 3, "stream": 4, "metric": 2}
NULL_RATE = 0.25


@dataclass(frozen=True)
class AnyTrace:
    """The tables of a trace, for creating modified traces."""

    tables: Mapping[str, Rows]

    def trace(self) -> Trace:
        """Return the trace."""
        return Trace(MemorySource(self.tables))

    def shifted(self, by_ns: int) -> AnyTrace:
        """Return the same trace with all times shifted by `by_ns`."""
        return AnyTrace({name: _shift(TABLES[name], rows, by_ns) for name, rows in self._items()})

    def permuted(self, seed: int) -> AnyTrace:
        """Return the same trace with the rows of every table in another order."""
        rng = random.Random(seed)
        order = {
            name: rng.sample(range(_length(rows)), _length(rows)) if TABLES[name].order else None
            for name, rows in self._items()
        }
        return AnyTrace({name: _permute(TABLES[name], rows, order) for name, rows in self._items()})

    def _items(self) -> list[tuple[str, Rows]]:
        return list(self.tables.items())


@st.composite
def any_traces(draw: st.DrawFn, max_rows: int = 6) -> AnyTrace:
    """Return a trace with up to `max_rows` rows in each table, whose order keys are unique."""
    rng = random.Random(draw(st.integers(0, 2**32)))
    counts = {name: draw(st.integers(0, max_rows)) for name in TABLES} | DIMENSION_ROWS
    tables: dict[str, Rows] = {}
    for name in _referred_first():
        spec = TABLES[name]
        counts = counts | {done: _length(rows) for done, rows in tables.items()}
        if any(not c.nullable and counts.get(c.ref or "", 1) == 0 for c in spec.columns):
            counts[name] = 0
        tables[name] = _unique(spec, _make_rows(spec, counts, rng))
    return AnyTrace(tables)


def empty_trace() -> Trace:
    """Return a trace in which every table was recorded and is empty."""
    columns: dict[str, Rows] = {
        name: {spec.columns[0].name: []} for name, spec in TABLES.items() if spec.order
    }
    return Trace(MemorySource(columns))


def _referred_first() -> list[str]:
    """Return the tables' names, each after the tables it references."""
    names: list[str] = []
    pending = list(TABLES)
    while pending:
        for name in pending:
            refs = {c.ref for c in TABLES[name].columns} - {None, "string", name}
            if refs <= {*names}:
                names.append(name)
        pending = [name for name in pending if name not in names]
    return names


def _make_rows(spec: TableSpec, counts: Mapping[str, int], rng: random.Random) -> Rows:
    columns: Rows = {_given_name(column): [] for column in spec.columns}
    for row in range(counts[spec.name]):
        begin = rng.randrange(-500, 500)
        known = {**counts, spec.name: row}  # a row of a tree refers to an earlier one
        for column in spec.columns:
            columns[_given_name(column)].append(_value(column, begin, known, rng))
    if spec.name == "stack":
        columns["depth"] = _depths(columns["parent_id"])
    if spec.name == "counter_block":
        columns["samples"] = [1] * counts[spec.name]  # there is a code for each
    return columns


def _depths(parents: Sequence[int | None]) -> list[int]:
    """Return the number of ancestors of each row of a tree."""
    found: list[int] = []
    for parent in parents:
        found.append(0 if parent is None else found[parent] + 1)
    return found


def _value(column: Column, begin: int, counts: Mapping[str, int], rng: random.Random) -> Any:
    if column.nullable and (rng.random() < NULL_RATE or not counts.get(column.ref or "", 1)):
        return None
    if column.ref is not None:
        return rng.choice(TEXTS) if column.ref == "string" else rng.randrange(counts[column.ref])
    if column.labels is not None:
        return rng.choice(list(column.labels))
    if column.is_time:
        return begin + (0 if column.name.startswith("start") else rng.randrange(200))
    low, high = (0, 1) if column.unit is Unit.RATIO else (-10, 10)
    plain = {DType.BOOL: rng.random() < 0.5, DType.FLOAT64: rng.uniform(low, high)}
    return plain.get(column.dtype, rng.randrange(2000))


def _given_name(column: Column) -> str:
    return column.name.removesuffix("_id") if column.ref == "string" else column.name


def _unique(spec: TableSpec, rows: Rows) -> Rows:
    """Keep the first row of each order key, so that the order of rows is total."""
    order = [_given_name(spec.column(name)) for name in spec.order]
    keys = list(zip(*(rows[name] for name in order), strict=True))
    keep = [row for row, key in enumerate(keys) if key not in keys[:row]]
    return {name: [v[row] for row in keep] for name, v in rows.items()} if spec.order else rows


def _length(rows: Rows) -> int:
    return len(next(iter(rows.values())))


def _shift(spec: TableSpec, rows: Rows, by_ns: int) -> Rows:
    times = {column.name for column in spec.columns if column.is_time}
    return {
        name: [v if v is None else v + by_ns for v in values] if name in times else values
        for name, values in rows.items()
    }


def _permute(spec: TableSpec, rows: Rows, order: Mapping[str, Sequence[int] | None]) -> Rows:
    """Reorder rows and update references to them."""
    own = order[spec.name]
    moved: Rows = {}
    for column in spec.columns:
        values = rows[_given_name(column)]
        target = order.get(column.ref or "")
        if target is not None:
            place = {old: new for new, old in enumerate(target)}
            values = [v if v is None else place[v] for v in values]
        moved[_given_name(column)] = values if own is None else [values[row] for row in own]
    return moved
