"""Attention computed in pieces: a softmax between two GEMMs of each stream."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from warpline.derived import derived
from warpline.derived.efficiency.elementwise import ElementwiseWork, elementwise_work
from warpline.derived.efficiency.elementwise_names import ElementwiseKind
from warpline.derived.efficiency.launch_shapes import launch_shapes
from warpline.derived.efficiency.products import products
from warpline.derived.efficiency.softmax_names import softmax_name
from warpline.derived.efficiency.stream_order import kernels_by_stream
from warpline.derived.kernels.categories import operation_categories
from warpline.derived.kernels.named import names_of_operations
from warpline.derived.time_parts import TimePart
from warpline.derived.work.operations import operations
from warpline.ops.arrays import I64, BoolArray
from warpline.trace import Trace

_FARTHEST = 10  # kernels between softmax and GEMM
_LEAST_COLUMNS = 128
_LEAST_SCORES = 1 << 20
_MOST_ROWS = 1 << 30  # of a damaged recording: products must not overflow
_HEAD_DIMENSIONS = range(16, 257, 8)
_MOST_OF_TILES = 2  # elements of a GEMM's tiles, relative to those of its result
# Where the name of the softmax kernel gives the columns rounded up to a power of two.
_BETWEEN_POWERS = 2


class AttentionGroups(NamedTuple):
    """Kernels that compute attention in pieces; each row is one forward or backward computation.

    Attributes:
        softmax: Shape (n,), int64, places in `operations`.
        first: Shape (n,), int64, places in `kernels_by_stream` of the first kernel.
        last: Shape (n,), int64, of the last kernel.
        rows: Shape (n,), int64, rows of the scores in all heads and sequences.
        columns: Shape (n,), int64, columns of the scores.
        least_columns: Shape (n,), int64, fewer if the columns are not known exactly.
        head_dim: Shape (n,), int64, elements of a head; 0 if unknown.
        is_backward: Shape (n,), bool.
        is_causal: Shape (n,), bool, whether the softmax kernel masks the upper triangle.
        is_masked: Shape (n,), bool, whether kernels between GEMM and softmax may add a mask.
    """

    softmax: I64
    first: I64
    last: I64
    rows: I64
    columns: I64
    least_columns: I64
    head_dim: I64
    is_backward: BoolArray
    is_causal: BoolArray
    is_masked: BoolArray

    def __len__(self) -> int:
        return len(self.softmax)

    def members(self, order: I64) -> BoolArray:
        """Return which places of an order are in groups, shape (len(order),)."""
        change = np.zeros(len(order) + 1, np.int64)
        np.add.at(change, self.first, 1)
        np.add.at(change, self.last + 1, -1)
        inside: BoolArray = np.cumsum(change[:-1]) > 0
        return inside


@derived
def attention_groups(trace: Trace) -> AttentionGroups:
    """Return the attention that a trace computes in pieces.

    A softmax counts if GEMMs run before and after it in its stream (two on each side of that of a
    backward pass), at most ten kernels away and with only elementwise kernels and copies between.
    Its columns follow from the elements of a kernel between, from its name, or, if keys are as many
    as queries, from the batch of the GEMM before, whose tiles must then fit. Scores with fewer than
    128 columns or 2^20 elements do not count.
    """
    found = _softmax(trace)
    if not len(found):
        none, no = found.place, found.is_causal
        return AttentionGroups(none, none, none, none, none, none, none, no, no, no)
    order = kernels_by_stream(trace)
    sides = _reach(trace, order, found)
    is_whole = (sides.first >= 0) & (sides.last >= 0)
    found, sides = found.at(is_whole), sides.at(is_whole)
    columns, least = _columns(trace, order, found, sides)
    is_large = (columns >= _LEAST_COLUMNS) & (found.rows * columns >= _LEAST_SCORES)
    # A GEMM cannot belong to two groups.
    is_large &= sides.first > np.append(-1, np.maximum.accumulate(sides.last)[:-1])[: len(found)]
    found, sides = found.at(is_large), sides.at(is_large)
    return AttentionGroups(
        softmax=order[found.place],
        first=sides.first,
        last=sides.last,
        rows=found.rows,
        columns=columns[is_large],
        least_columns=least[is_large],
        head_dim=_head_dim(trace, order, found, sides),
        is_backward=found.is_backward,
        is_causal=found.is_causal,
        is_masked=_masks(trace, order, found, sides),
    )


class _Softmax(NamedTuple):
    """Softmax kernels: places in the order, rows, log2 of columns, and flags."""

    place: I64
    rows: I64
    log2_columns: I64
    is_backward: BoolArray
    is_causal: BoolArray

    def __len__(self) -> int:
        return len(self.place)

    def at(self, chosen: BoolArray) -> _Softmax:
        place, rows, log2, is_backward, is_causal = self
        flags = is_backward[chosen], is_causal[chosen]
        return _Softmax(place[chosen], rows[chosen], log2[chosen], *flags)


class _Sides(NamedTuple):
    """Places of the outermost and of the next GEMMs of each softmax; NONE where missing."""

    first: I64
    before: I64
    after: I64
    last: I64

    def at(self, chosen: BoolArray) -> _Sides:
        return _Sides(*(values[chosen] for values in self))


def _softmax(trace: Trace) -> _Softmax:
    none, no = np.zeros(0, np.int64), np.zeros(0, np.bool_)
    number, distinct = names_of_operations(trace)
    names = [softmax_name(text) for text in trace.strings.texts(distinct.tolist())]
    if not any(names):
        return _Softmax(none, none, none, no, no)
    is_softmax, order = np.array([name is not None for name in names]), kernels_by_stream(trace)
    name = number[order]
    place = np.flatnonzero(is_softmax[name])
    name = name[place]
    facts = np.array([(0, 0, 0, 0) if each is None else each for each in names], np.int64)[name]
    shapes, kernel = launch_shapes(trace), order[place]
    per_block = np.where(facts[:, 2] > 0, facts[:, 2] * shapes.block_rows[kernel], 1)
    count = np.minimum(shapes.blocks[kernel] * per_block, _MOST_ROWS)
    return _Softmax(place, count, facts[:, 1], facts[:, 0] > 0, facts[:, 3] > 0)


def _reach(trace: Trace, order: I64, found: _Softmax) -> _Sides:
    """Return the GEMMs on both sides of each softmax: one, or two of a backward pass."""
    work, category = operations(trace), operation_categories(trace)[order]
    is_sum = products(trace).fact("is_sum")[order] > 0
    is_product = (category == TimePart.GEMM) & ~is_sum
    codes = [TimePart.ELEMENTWISE, TimePart.CAST_COPY, TimePart.LAYOUT_COPY]
    is_between = np.isin(category, codes) | is_sum
    stream = work.stream[order]
    needed = np.where(found.is_backward, 2, 1)
    ends = []
    for direction in (-1, 1):
        count = np.zeros(len(found), np.int64)
        inner, outer = np.full(len(found), -1), np.full(len(found), -1)
        is_open = np.ones(len(found), np.bool_)
        for distance in range(1, _FARTHEST + 2):
            at = found.place + direction * distance
            is_open &= (at >= 0) & (at < len(order))
            near = np.where(is_open, at, found.place)
            is_open &= stream[near] == stream[found.place]
            here = is_open & is_product[near]
            count += here
            inner = np.where(here & (count == 1), near, inner)
            outer = np.where(here & (count == needed), near, outer)
            is_open &= (here | is_between[near]) & (count < needed)
        ends.append((inner, outer))
    return _Sides(ends[0][1], ends[0][0], ends[1][0], ends[1][1])


def _nearby(order: I64, low: I64, high: I64, count: int) -> tuple[I64, BoolArray]:
    """Return the operations at places from low on, below high, shape (n, count), and which are."""
    places = low[:, None] + np.arange(count)
    is_there = (places < high[:, None]) & (places >= 0) & (places < len(order))
    return order[np.where(is_there, places, 0)], is_there


def _masks(trace: Trace, order: I64, found: _Softmax, sides: _Sides) -> BoolArray:
    """Return where a kernel between GEMM and softmax reads two tensors, shape (n,).

    It adds a mask, or replaces masked scores. Copies and scaling read one.
    """
    nearby, is_there = _nearby(order, sides.before + 1, found.place, _FARTHEST)
    inputs = elementwise_work(trace).fact("inputs")[nearby] if len(order) else nearby
    masks: BoolArray = np.any(is_there & (inputs > 1), axis=1)
    return masks


def _columns(trace: Trace, order: I64, found: _Softmax, sides: _Sides) -> tuple[I64, I64]:
    """Return the columns of the scores, and the fewest possible; 0 if unknown."""
    if not len(found):
        return found.rows, found.rows
    moved, rows = elementwise_work(trace), np.maximum(found.rows, 1)
    nearby, is_there = _nearby(order, sides.before + 1, sides.after, 2 * _FARTHEST + 1)
    per_row = np.where(is_there, _per_row(moved, nearby, rows[:, None]), 0).max(axis=1)
    power = np.where(found.log2_columns > 0, 1 << np.clip(found.log2_columns, 0, 30), 0)
    fits = (power == 0) | ((per_row <= power) & (per_row > power // _BETWEEN_POWERS))
    is_known = (per_row >= _LEAST_COLUMNS) & fits
    columns = np.where(power > 0, power, _square(trace, order, found, sides))
    least = np.where(power > 0, power // _BETWEEN_POWERS, columns)
    return np.where(is_known, per_row, columns), np.where(is_known, per_row, least)


def _per_row(moved: ElementwiseWork, kernels: I64, rows: I64) -> I64:
    """Return the elements per row of kernels' tensors; 0 if they cannot be whole rows."""
    elements = moved.elements[kernels]
    fits = (elements % rows) < np.maximum(moved.slack[kernels], 1)
    per_row: I64 = np.where(fits, elements // rows, 0)
    return per_row


def _square(trace: Trace, order: I64, found: _Softmax, sides: _Sides) -> I64:
    """Return the columns if there are as many keys as queries; 0 if the GEMM contradicts that."""
    shapes, product = launch_shapes(trace), order[sides.before]
    batch = np.maximum(shapes.batches[product], 1)
    columns = np.where(found.rows % batch == 0, found.rows // batch, 0)
    scores = found.rows * columns
    tiles = shapes.blocks[product] * products(trace).fact("tile")[product]
    fits = (batch > 1) & (tiles >= scores) & (tiles <= _MOST_OF_TILES * scores)
    return np.where(fits, columns, 0)


def _head_dim(trace: Trace, order: I64, found: _Softmax, sides: _Sides) -> I64:
    """Return the most common elements per row of the kernels near each group, if plausible."""
    moved = elementwise_work(trace)
    low = sides.first - _FARTHEST
    before = _nearby(order, low, sides.first, _FARTHEST)
    after = _nearby(order, sides.last + 1, sides.last + 1 + _FARTHEST, _FARTHEST)
    nearby, is_there = (np.concatenate(part, axis=1) for part in zip(before, after, strict=True))
    rows = np.maximum(found.rows, 1)[:, None]
    per_row = np.where(is_there, _per_row(moved, nearby, rows), 0) if len(found) else nearby
    candidates = np.array(_HEAD_DIMENSIONS)
    votes = np.array([np.count_nonzero(per_row == each, axis=1) for each in candidates])
    best = votes.argmax(axis=0)
    return np.where(votes.max(axis=0) > 0, candidates[best], 0)


@derived
def copies_beside_attention(trace: Trace) -> I64:
    """Return the copies next to groups that only rearrange heads, indices into `operations`.

    They are strided copies of as many elements as the queries have. A fused kernel reads any
    strides.
    """
    groups, order = attention_groups(trace), kernels_by_stream(trace)
    if not len(groups):
        return np.zeros(0, np.int64)
    moved, work = elementwise_work(trace), operations(trace)
    is_copy = moved.is_copy & (moved.kind == ElementwiseKind.STRIDED)
    chosen = np.zeros(len(work), np.bool_)
    for edge, direction in ((groups.first, -1), (groups.last, 1)):
        is_open = groups.head_dim > 0
        for distance in range(1, _FARTHEST + 1):
            at = edge + direction * distance
            is_open = is_open & (at >= 0) & (at < len(order))
            kernel = order[np.where(is_open, at, edge)]
            is_open &= is_copy[kernel] & (work.stream[kernel] == work.stream[groups.softmax])
            is_open &= _per_row(moved, kernel, groups.rows) == groups.head_dim
            chosen[kernel[is_open]] = True
    return np.flatnonzero(chosen)
