"""Floating-point operations (FLOP) of operators, by the formulas of ``torch.utils.flop_counter``.

Operators are from PyTorch's profiler or from NVTX annotations with sizes (``aten::mm, seq = 5,
op_id = 7, sizes = [[64, 512], [512, 512]]``). As in PyTorch, a multiplication and an addition count
as two, causal attention counts in full, and other operators count nothing. An operator inside one
that counts does not count again.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache, partial
from math import prod
from typing import Any, NamedTuple

import numpy as np

from warpline.derived import derived
from warpline.derived.ranges.names import push_pop_ranges, range_names
from warpline.lazy import lazy_pattern
from warpline.ops.arrays import I32, I64, BoolArray
from warpline.ops.group import distinct_values, factorize_rows
from warpline.ops.tree import nest
from warpline.trace import Trace

Shape = Sequence[int]
Shapes = Sequence[Any]
Values = Sequence[Any]
Formula = Callable[[Shapes, Values], int]

_ANNOTATED = lazy_pattern(
    r"(?P<name>aten::\w+)(?:,.*)?, sizes = (?P<sizes>\[.*?\])(?:, input_op_ids|$)"
)
_LONGEST_TEXT = 65536
_MOST = 2**62
_NOTHING = -1


class CountedOperators(NamedTuple):
    """Operators that do floating-point operations, not inside another one.

    Attributes:
        start_ns: Shape (n,), int64.
        end_ns: Shape (n,), int64.
        thread: Shape (n,), int64, rows of the thread table.
        process: Shape (n,), int64, rows of the process table.
        flop: Shape (n,), int64; 0 if unknown.
        is_known: Shape (n,), bool, whether sizes and values are sufficient.
        dtype: Shape (n,), int64, types of the inputs as recorded, JSON, rows of the string pool;
            -1 if not recorded.
    """

    start_ns: I64
    end_ns: I64
    thread: I64
    process: I64
    flop: I64
    is_known: BoolArray
    dtype: I64

    def taken(self, rows: I64) -> CountedOperators:
        """Return the given operators."""
        return CountedOperators(
            start_ns=self.start_ns[rows],
            end_ns=self.end_ns[rows],
            thread=self.thread[rows],
            process=self.process[rows],
            flop=self.flop[rows],
            is_known=self.is_known[rows],
            dtype=self.dtype[rows],
        )

    def joined(self, other: CountedOperators) -> CountedOperators:
        """Return these operators, then others."""
        return CountedOperators(
            start_ns=np.append(self.start_ns, other.start_ns),
            end_ns=np.append(self.end_ns, other.end_ns),
            thread=np.append(self.thread, other.thread),
            process=np.append(self.process, other.process),
            flop=np.append(self.flop, other.flop),
            is_known=np.append(self.is_known, other.is_known),
            dtype=np.append(self.dtype, other.dtype),
        )


def flop_of(name: str, shapes: str | None, values: str | None = None) -> int | None:
    """Return the FLOP of a call of an operator.

    Args:
        name: Its name, such as ``aten::mm``.
        shapes: The shapes of its inputs as JSON, ``[]`` for inputs that are no tensors.
        values: The values of inputs that are no tensors as JSON, ``""`` for tensors.

    Returns:
        The number; None if the operator counts nothing, or if it is unknown.
    """
    formula = _FORMULAS.get(name)
    return None if formula is None or shapes is None else _evaluated(name, shapes, values)


@derived
def counted_operators(trace: Trace) -> CountedOperators:
    """Return the operators that count; of each process from its operators, otherwise its ranges."""
    of_ops = _operators(trace)
    of_ranges = _ranges(trace)
    if len(of_ops.process) and len(of_ranges.process):
        own = ~np.isin(of_ranges.process, distinct_values(of_ops.process))
        of_ranges = of_ranges.taken(np.flatnonzero(own))
    both = of_ops.joined(of_ranges)
    outer = np.flatnonzero(~nest(both.start_ns, both.end_ns, both.thread).has_parent)
    return both.taken(outer)


def _operators(trace: Trace) -> CountedOperators:
    if not trace.has("op"):
        return _none()
    columns = trace.columns(
        "op", "name_id", "input_shapes_id", "input_values_id", "input_dtypes_id", "flops"
    )
    numbers = [trace.strings.find(name) for name in _FORMULAS]
    counts = np.isin(columns["name_id"].values, [row for row in numbers if row is not None])
    rows = np.flatnonzero(counts)
    name, shapes, values, dtype = (
        columns[key].filled(_NOTHING)[rows].astype(np.int64) for key in list(columns)[:4]
    )
    groups = factorize_rows(name, shapes, values)
    found = [
        flop_of(*(None if row < 0 else trace.strings.text(row) for row in keys))  # type: ignore[arg-type]
        for keys in zip(
            *(column[groups.first].tolist() for column in (name, shapes, values)), strict=True
        )
    ]
    flop, is_known = _spread(found, groups.codes)
    given = columns["flops"]
    recorded = ~is_known & (given.filled(0)[rows] > 0)
    flop = np.where(recorded, given.values[rows], flop)
    return _placed(trace, "op", rows, flop, is_known | recorded, dtype)


def _ranges(trace: Trace) -> CountedOperators:
    if not trace.has("range") or not trace.row_count("range"):
        return _none()
    names = range_names(trace)
    found: list[int | None] = []
    counts = np.zeros(len(names.texts), np.bool_)
    for place, text in enumerate(names.texts):
        match = _ANNOTATED.match(text) if text is not None and text.startswith("aten::") else None
        counts[place] = match is not None and match["name"] in _FORMULAS
        found.append(flop_of(match["name"], match["sizes"]) if match and counts[place] else None)
    rows = np.flatnonzero(counts[names.codes] & push_pop_ranges(trace))
    flop, is_known = _spread(found, names.codes[rows])
    return _placed(trace, "range", rows, flop, is_known, np.full(len(rows), _NOTHING))


def _spread(found: Sequence[int | None], codes: I32) -> tuple[I64, BoolArray]:
    """Return the FLOP of each row, 0 if unknown, and whether they are known."""
    numbers = np.array([each or 0 for each in found], np.int64)
    known = np.array([each is not None for each in found], np.bool_)
    return numbers[codes], known[codes]


def _placed(
    trace: Trace, table: str, rows: I64, flop: I64, is_known: BoolArray, dtype: I64
) -> CountedOperators:
    names = ("start_ns", "end_ns", "thread_id", "process_id")
    start, end, thread, process = (
        column.values[rows].astype(np.int64) for column in trace.columns(table, *names).values()
    )
    return CountedOperators(start, np.maximum(start, end), thread, process, flop, is_known, dtype)


def _none() -> CountedOperators:
    none = np.zeros(0, np.int64)
    return CountedOperators(none, none, none, none, none, none.astype(np.bool_), none)


@lru_cache(maxsize=1 << 14)
def _evaluated(name: str, shapes: str, values: str | None) -> int | None:
    try:
        given = json.loads(shapes[:_LONGEST_TEXT])
        others = [] if values is None else json.loads(values[:_LONGEST_TEXT])
        flop = int(_FORMULAS[name](given, others))
    except (ValueError, TypeError, IndexError, KeyError, RecursionError, OverflowError):
        return None
    return flop if 0 <= flop < _MOST else None


def _product(left: Shape, right: Shape) -> int:
    rows, inner = left
    again, columns = right
    if inner != again:
        raise ValueError("inner dimensions differ")
    return int(2 * rows * columns * inner)


def _batched(left: Shape, right: Shape) -> int:
    batch, *first = left
    again, *second = right
    if batch != again:
        raise ValueError("batch dimensions differ")
    return batch * _product(first, second)


def _swapped(shape: Shape) -> Shape:
    return [shape[1], shape[0], *shape[2:]]


def _convolved(given: Shape, weight: Shape, result: Shape, *, transposed: bool) -> int:
    points = prod((given if transposed else result)[2:])
    return int(2 * points * prod(weight) * given[0])


def _value(values: Values, place: int) -> Any:
    """Return an input that is no tensor: ``[2, 2]``, ``False``; a missing one raises ValueError."""
    return json.loads(values[place].lower())


def _result_shape(shapes: Shapes, values: Values) -> Shape:
    """Return the shape of what a convolution that is not transposed makes, without channels."""
    given, weight = shapes[0], shapes[1]
    stride, padding, dilation = (_value(values, place) for place in (3, 4, 5))
    dims = len(given) - 2
    stride, padding, dilation = (
        each * dims if len(each) == 1 else each for each in (stride, padding, dilation)
    )
    sizes = zip(given[2:], weight[2:], stride, padding, dilation, strict=True)
    return [
        0,
        0,
        *(
            (size + 2 * pad - gap * (taps - 1) - 1) // step + 1
            for size, taps, step, pad, gap in sizes
        ),
    ]


def _convolution(shapes: Shapes, values: Values) -> int:
    transposed = bool(_value(values, 6))
    result = shapes[0] if transposed else _result_shape(shapes, values)
    return _convolved(shapes[0], shapes[1], result, transposed=transposed)


def _forward_only(shapes: Shapes, values: Values) -> int:
    """Return the FLOP of a convolution operator of a library, which is never transposed.

    Its padding, stride and dilation come in another order; so they follow from the result, which
    is not recorded. An operator of another name around it counts instead.
    """
    raise ValueError("the result's shape is not recorded")


def _convolution_backward(shapes: Shapes, values: Values) -> int:
    gradient, given, weight = shapes[:3]
    transposed, wanted = bool(_value(values, 7)), _value(values, 10)
    flop = 0
    if wanted[0]:
        flop += _convolved(gradient, weight, given, transposed=not transposed)
    if wanted[1]:
        one, other = (gradient, given) if transposed else (given, gradient)
        flop += _convolved(_swapped(one), _swapped(other), _swapped(weight), transposed=False)
    return flop


def _checked_heads(query: Shape, key: Shape, value: Shape) -> None:
    fits = query[0] == key[0] == value[0] and key[1] == value[1]
    fits = fits and query[3] == key[3] and key[2] == value[2]
    if not fits or query[1] < key[1] or query[1] % key[1]:
        raise ValueError("shapes do not fit")


def _attention(shapes: Shapes, _: Values) -> int:
    query, key, value = shapes[:3]
    _checked_heads(query, key, value)
    batch, heads, rows, width = query
    return int(2 * batch * heads * rows * key[2] * (width + value[3]))


def _attention_backward(shapes: Shapes, _: Values) -> int:
    gradient, query, key, value = shapes[:4]
    _checked_heads(query, key, value)
    if list(gradient) != [*query[:3], value[3]]:
        raise ValueError("shapes do not fit")
    batch, heads, rows, width = query
    return int(2 * batch * heads * rows * key[2] * (3 * width + 2 * value[3]))


def _heads_first(shape: Shape) -> Shape:
    batch, rows, heads, width = shape
    return [batch, heads, rows, width]


def _attention_by_rows(shapes: Shapes, _: Values, *, lengths: int) -> int:
    """Return the FLOP of the operators in those above, whose inputs have rows before heads.

    If a program calls them itself, PyTorch's own formula takes the rows for heads.

    Args:
        shapes: The shapes of inputs.
        lengths: The inputs from which on two are lengths of sequences, of which one batch consists.
    """
    if any(shapes[lengths : lengths + 2]):
        raise ValueError("the lengths of sequences are not recorded")
    return _attention([*map(_heads_first, shapes[:3])], [])


def _attention_by_rows_backward(shapes: Shapes, _: Values, *, lengths: int) -> int:
    if any(shapes[lengths : lengths + 2]):
        raise ValueError("the lengths of sequences are not recorded")
    return _attention_backward([*map(_heads_first, shapes[:4])], [])


_FORMULAS: Mapping[str, Formula] = {
    "aten::mm": lambda shapes, _: _product(shapes[0], shapes[1]),
    "aten::addmm": lambda shapes, _: _product(shapes[1], shapes[2]),
    "aten::bmm": lambda shapes, _: _batched(shapes[0], shapes[1]),
    "aten::baddbmm": lambda shapes, _: _batched(shapes[1], shapes[2]),
    "aten::_scaled_mm": lambda shapes, _: _product(shapes[0], shapes[1]),
    "aten::convolution": _convolution,
    "aten::_convolution": _convolution,
    "aten::convolution_overrideable": _convolution,
    "aten::cudnn_convolution": _forward_only,
    "aten::_slow_conv2d_forward": _forward_only,
    "aten::convolution_backward": _convolution_backward,
    "aten::_scaled_dot_product_efficient_attention": _attention,
    "aten::_scaled_dot_product_flash_attention": _attention,
    "aten::_scaled_dot_product_cudnn_attention": _attention,
    "aten::_flash_attention_forward": partial(_attention_by_rows, lengths=3),
    "aten::_efficient_attention_forward": partial(_attention_by_rows, lengths=4),
    "aten::_scaled_dot_product_efficient_attention_backward": _attention_backward,
    "aten::_scaled_dot_product_flash_attention_backward": _attention_backward,
    "aten::_scaled_dot_product_cudnn_attention_backward": _attention_backward,
    "aten::_flash_attention_backward": partial(_attention_by_rows_backward, lengths=6),
    "aten::_efficient_attention_backward": partial(_attention_by_rows_backward, lengths=6),
}
