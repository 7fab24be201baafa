"""A trace whose operators are NVTX ranges, with rows of `op` instead of these.

PyTorch, as with ``torch.autograd.profiler.emit_nvtx``, marks an operator as ``aten::addmm, seq = 9,
op_id = 7, sizes = [[64], [2, 32], [32, 64], [], []], input_op_ids = [...]`` in the default domain;
parts that are not known are left out. Ranges of ``record_function`` have such a text, too: a name
without ``::`` is one, unless it is a backward node's or has a sequence number or sizes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from warpline.lazy import lazy_pattern
from warpline.ops.arrays import I64, BoolArray
from warpline.schema import TABLES
from warpline.schema.labels import RANGE_STYLES
from warpline.trace.column import ColumnData, concatenate, make_column, null_column
from warpline.trace.replaced import ReplacedTables
from warpline.trace.same_ranges import NamedSpans, are_among
from warpline.trace.sampled_inputs import inputs_of
from warpline.trace.trace import Trace

_TEXT = lazy_pattern(
    r"(?P<name>.+?)(?P<has>, seq = (?P<seq>-?[0-9]{1,18}))?(?P<id>, op_id = (?P<op>[0-9]{1,18}))?"
    r"(?P<shaped>, sizes = (?P<sizes>\[[-\[\], 0-9]*\]))?(?:, input_op_ids = \[[-\[\](), 0-9]*\])?"
)
_BACKWARD = lazy_pattern(r"Backward[0-9]*$")
_EVALUATING = "autograd::engine::evaluate_function: "
_NAMED_PLAINLY = frozenset(("detach", "detach_"))  # operators
_PUSH_POP = next(value for value, label in RANGE_STYLES.items() if label == "PushPop")


class Annotation(NamedTuple):
    """What the text of a range says.

    Attributes:
        name: Of the operator, or of the range of record_function.
        is_operator: Whether it is one.
        sequence: Its sequence number, or None.
        op_id: Torch's number of the call, or None.
        sizes: The shapes of its inputs as in the text, or None.
    """

    name: str
    is_operator: bool
    sequence: int | None
    op_id: int | None
    sizes: str | None

    @property
    def is_backward(self) -> bool:
        """Whether it is a node of the backward pass, or the engine's call of one."""
        return self.is_operator and is_backward_name(self.name)


def annotation(text: str) -> Annotation | None:
    """Return what the text of a range says; None if PyTorch did not make it."""
    match = _TEXT.fullmatch(text)
    if match is None or not (match["has"] or match["id"] or match["shaped"]):
        return None
    name, sequence = match["name"], None if match["seq"] is None else int(match["seq"])
    is_operator = (
        "::" in name
        or name in _NAMED_PLAINLY
        or sequence is not None
        or match["sizes"] is not None
        or is_backward_name(name)
    )
    op_id = None if match["op"] is None else int(match["op"])
    known = sequence if sequence is not None and sequence >= 0 else None
    return Annotation(name, is_operator, known, op_id, match["sizes"])


def is_backward_name(name: str) -> bool:
    """Return whether an operator of that name is a node of the backward pass, or its engine's."""
    return name.startswith(_EVALUATING) or _BACKWARD.search(name) is not None


class _Ranges(NamedTuple):
    """The ranges that PyTorch made.

    Attributes:
        row: Shape (n,), int64, rows of `range`.
        said: What each says.
    """

    row: I64
    said: list[Annotation]


def with_annotated_operators(trace: Trace, *, keeps_backward: bool = False) -> Trace:
    """Return a trace with rows of `op` instead of PyTorch's ranges of operators.

    Ranges of record_function have their plain name, and are left out where another range has that
    name at the same time. Operators have element types and strides of the rows of `op` that are
    like them: see `sampled_inputs`.

    Args:
        trace: The trace; it is returned as it is if it has no such range.
        keeps_backward: Whether the ranges of backward nodes stay, beside their rows of `op`.
    """
    found = _ranges(trace)
    if not len(found.row):
        return trace
    is_operator = np.array([said.is_operator for said in found.said], np.bool_)
    tables = {"op": _operators(trace, found, is_operator)}
    stays = ~is_operator
    if keeps_backward:
        stays |= np.array([said.is_backward for said in found.said], np.bool_)
    is_kept, names = _kept(trace, found, stays)
    columns = trace.columns("range", *(column.name for column in TABLES["range"].columns))
    rows = np.flatnonzero(is_kept)
    tables["range"] = {name: data.take(rows) for name, data in {**columns, **names}.items()}
    tables |= _references(trace, is_kept)
    notes = _notes(tables["op"], len(tables["op"]["start_ns"]) - int(np.count_nonzero(is_operator)))
    meta = replace(trace.meta, warnings=(*trace.meta.warnings, *notes))
    return Trace(ReplacedTables(trace, tables, meta))


def _notes(operators: Mapping[str, ColumnData], n_recorded: int) -> list[str]:
    """Return what to say about element types, which only some operators have."""
    has_shapes = operators["input_shapes_id"].is_valid()
    known = int(np.count_nonzero(has_shapes & operators["input_dtypes_id"].is_valid()))
    total = int(np.count_nonzero(has_shapes))
    if not n_recorded or known == total:
        return []
    which = f"the {n_recorded:,} that torch recorded, and those like them in name and shapes"
    return [f"{known:,} of {total:,} operators have element types: {which}"]


def _ranges(trace: Trace) -> _Ranges:
    if not trace.has("range"):
        return _Ranges(np.zeros(0, np.int64), [])
    columns = trace.columns("range", "name_id", "domain_id", "style")
    names = columns["name_id"]
    is_one = names.is_valid() & ~columns["domain_id"].is_valid()
    is_one &= columns["style"].values == _PUSH_POP
    rows = np.flatnonzero(is_one)
    distinct, codes = np.unique(names.values[rows], return_inverse=True)
    said = [annotation(text) for text in trace.strings.texts(distinct.tolist())]
    places = np.array([one is not None for one in said], np.bool_)[codes] if len(rows) else rows
    kept = np.flatnonzero(places)
    chosen = (said[code] for code in codes[kept].tolist())
    return _Ranges(rows[kept], [one for one in chosen if one is not None])


def _operators(trace: Trace, found: _Ranges, is_operator: BoolArray) -> dict[str, ColumnData]:
    """Return the rows of `op`: those that there are, and one for each range of an operator."""
    spec = TABLES["op"]
    rows = found.row[is_operator]
    said = [one for one in found.said if one.is_operator]
    spans = trace.columns("range", "start_ns", "end_ns", "process_id", "thread_id")
    pool = trace.strings
    made: dict[str, ColumnData] = {name: data.take(rows) for name, data in spans.items()}
    names = [pool.intern_text(one.name) for one in said]
    made["name_id"] = make_column(spec.column("name_id"), names)
    made["external_id"] = _numbers("external_id", [one.op_id for one in said])
    made["sequence"] = _numbers("sequence", [one.sequence for one in said])
    made |= inputs_of(trace, rows, [(one.name, one.sizes) for one in said])
    own = trace.columns("op", *(c.name for c in spec.columns)) if trace.has("op") else {}
    return {
        column.name: concatenate(
            [
                *([own[column.name]] if own else []),
                made.get(column.name, null_column(column, len(rows))),
            ]
        )
        for column in spec.columns
    }


def _kept(
    trace: Trace, found: _Ranges, stays: BoolArray
) -> tuple[BoolArray, dict[str, ColumnData]]:
    """Return which ranges are kept, and their names: annotations have their plain ones.

    Args:
        trace: The trace.
        found: PyTorch's ranges.
        stays: Which of these stay, but for annotations that another range marks, too.
    """
    columns = trace.columns("range", "name_id", "thread_id", "start_ns", "end_ns")
    names = columns["name_id"]
    values = names.values.copy()
    annotations = np.array([not one.is_operator for one in found.said], np.bool_)
    plain = [one.name for one in found.said if not one.is_operator]
    values[found.row[annotations]] = [trace.strings.intern_text(name) for name in plain]
    is_kept = np.ones(len(values), np.bool_)
    is_kept[found.row[~stays]] = False
    thread, start, end = (data.values for data in list(columns.values())[1:])
    spans = NamedSpans(values.astype(np.int64), thread.astype(np.int64), start, end)
    others = np.ones(len(values), np.bool_)
    others[found.row] = False
    rows = found.row[annotations]
    is_kept[rows[are_among(spans.take(rows), spans.take(others))]] = False
    spec = TABLES["range"].column("name_id")
    return is_kept, {"name_id": make_column(spec, values, names.is_valid())}


def _references(trace: Trace, is_kept: BoolArray) -> dict[str, dict[str, ColumnData]]:
    """Return the tables that refer to ranges, with references to those that are kept."""
    places = np.cumsum(is_kept) - 1
    tables = {}
    for table in trace.tables:
        spec = TABLES[table]
        columns = [column for column in spec.columns if column.ref == "range"]
        if not columns or not trace.row_count(table):
            continue
        loaded = trace.columns(table, *(column.name for column in spec.columns))
        for column in columns:
            data = loaded[column.name]
            is_valid = data.is_valid() & is_kept[data.values]
            loaded[column.name] = make_column(
                column, np.where(is_valid, places[data.values], 0), is_valid
            )
        tables[table] = loaded
    return tables


def _numbers(name: str, values: list[int | None]) -> ColumnData:
    valid = np.array([value is not None for value in values], np.bool_)
    return make_column(TABLES["op"].column(name), [value or 0 for value in values], valid)
