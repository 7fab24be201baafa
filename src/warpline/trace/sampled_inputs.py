"""Inputs of operators of which only names and shapes were recorded, from a sample of whole records.

The sample is the rows of `op`: one step of the program. An operator is like one of the sample if it
comes at the same place in the same sequence of operators on its thread, as in the next step of a
loop, or else if all of the sample with its name and shapes agree. Values of inputs, such as
learning rates, may change from step to step, so only those of convolutions are taken over: strides,
padding and the like, without which their FLOP are unknown.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from warpline.ops.arrays import I64
from warpline.schema import TABLES
from warpline.trace.column import ColumnData, make_column
from warpline.trace.trace import Trace

_TAKEN_OVER = "input_shapes_id", "input_dtypes_id", "input_strides_id", "input_values_id"
_VALUES = _TAKEN_OVER.index("input_values_id")
_WITH_VALUES = "aten::convolution", "aten::_convolution", "aten::convolution_backward"
_NONE = -1
_MOST_BEGINNINGS = 10_000  # of a sequence that are compared

Key = tuple[str, str | None]  # the name of an operator, and its shapes as an NVTX range has them


class _Sample(NamedTuple):
    """The rows of `op`, in the order of their starts.

    Attributes:
        key: What identifies each.
        thread: Shape (n,), int64.
        inputs: Shape (n, 4), int64, texts of the columns taken over; -1 for none.
    """

    key: list[Key]
    thread: I64
    inputs: I64


def inputs_of(trace: Trace, rows: I64, said: Sequence[Key]) -> dict[str, ColumnData]:
    """Return the columns of inputs of operators that are NVTX ranges.

    Args:
        trace: The trace.
        rows: Shape (n,), rows of `range`, ascending.
        said: The name and the shapes in the text of each, or None.
    """
    plain: dict[str | None, str | None] = {None: None}
    for _, sizes in said:
        if sizes not in plain:
            plain[sizes] = flat(sizes or "")
    keys: list[Key] = [(name, plain[sizes]) for name, sizes in said]
    sample = _sample(trace)
    by_name, pool = _common(trace, sample), trace.strings
    for key in set(keys) - by_name.keys():
        shapes = _NONE if key[1] is None else pool.intern_text(key[1])
        by_name[key] = (shapes, *(_NONE for _ in _TAKEN_OVER[1:]))
    values = np.array([by_name[key] for key in keys], np.int64).reshape(-1, len(_TAKEN_OVER))
    thread = trace.columns("range", "thread_id")["thread_id"].values[rows]
    like = _at_the_same_place(sample, keys, thread.astype(np.int64))
    values[like >= 0] = sample.inputs[like[like >= 0]]
    return {name: _texts(name, values[:, place]) for place, name in enumerate(_TAKEN_OVER)}


def flat(shapes: str) -> str:
    """Return shapes with those of a list of tensors as if they were inputs, as NVTX ranges have."""
    try:
        parsed = json.loads(shapes)
    except (ValueError, RecursionError):
        return shapes
    inputs: list[Any] = []
    for shape in parsed if isinstance(parsed, list) else []:
        is_list = isinstance(shape, list) and bool(shape) and isinstance(shape[0], list)
        inputs.extend(shape if is_list else [shape])
    return json.dumps(inputs)


def _sample(trace: Trace) -> _Sample:
    if not trace.has("op"):
        none = np.zeros(0, np.int64)
        return _Sample([], none, none.reshape(0, len(_TAKEN_OVER)))
    columns = trace.columns("op", "name_id", "thread_id", *_TAKEN_OVER)
    inputs = np.stack([columns[name].filled(_NONE) for name in _TAKEN_OVER], axis=1)
    names, shapes = columns["name_id"].values.tolist(), inputs[:, 0].tolist()
    structural = [trace.strings.find(name) for name in _WITH_VALUES]
    inputs[~np.isin(names, [row for row in structural if row is not None]), _VALUES] = _NONE
    texts = {row: trace.strings.text(row) for row in {*names, *shapes} - {_NONE}}
    plain = {row: None if row == _NONE else flat(texts[row]) for row in set(shapes)}
    # Torch's records have empty shapes for operators without inputs, NVTX ranges have none.
    key = [(texts[name], _shown(plain[row])) for name, row in zip(names, shapes, strict=True)]
    return _Sample(key, columns["thread_id"].values.astype(np.int64), inputs.astype(np.int64))


def _shown(shapes: str | None) -> str | None:
    return None if shapes == "[]" else shapes


def _common(trace: Trace, sample: _Sample) -> dict[Key, tuple[int, ...]]:
    """Return what all operators of the sample with a name and shapes have in common."""
    common: dict[Key, tuple[int, ...]] = {}
    for key, inputs in set(zip(sample.key, map(tuple, sample.inputs.tolist()), strict=True)):
        before = common.get(key, inputs)
        common[key] = tuple(
            one if one == other else _NONE for one, other in zip(before, inputs, strict=True)
        )
    # Shapes that differ in their nesting only are still those of the text.
    return {
        key: (
            trace.strings.intern_text(key[1]) if shapes == _NONE and key[1] is not None else shapes,
            *others,
        )
        for key, (shapes, *others) in common.items()
    }


def _at_the_same_place(sample: _Sample, keys: Sequence[Key], thread: I64) -> I64:
    """Return the place in the sample of each operator in a repetition of it; -1 outside these."""
    numbers = {key: number for number, key in enumerate(dict.fromkeys((*sample.key, *keys)))}
    recorded = np.array([numbers[key] for key in sample.key], np.int64)
    codes = np.array([numbers[key] for key in keys], np.int64)
    like = np.full(len(codes), _NONE, np.int64)
    for one in np.unique(sample.thread).tolist():
        places, rows = np.flatnonzero(sample.thread == one), np.flatnonzero(thread == one)
        sequence, operators = recorded[places], codes[rows]
        for begin in _repetitions(sequence, operators):
            like[rows[begin : begin + len(places)]] = places
    return like


def _repetitions(sequence: I64, operators: I64) -> list[int]:
    """Return where a sequence begins among others, without overlaps."""
    counts = np.bincount(operators, minlength=int(sequence.max()) + 1)[sequence]
    rarest = int(np.argmin(counts))
    begins = np.flatnonzero(operators == sequence[rarest])[:_MOST_BEGINNINGS] - rarest
    found: list[int] = []
    free = 0
    for begin in begins.tolist():
        end = begin + len(sequence)
        if begin >= free and np.array_equal(operators[begin:end], sequence):
            found.append(begin)
            free = end
    return found


def _texts(name: str, values: I64) -> ColumnData:
    return make_column(TABLES["op"].column(name), np.maximum(values, 0), values >= 0)
