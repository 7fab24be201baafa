"""Backtraces recorded as a row per frame, turned into the tables stack and frame."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property

import numpy as np

from warpline.frozen import frozen
from warpline.ops.arrays import I32, I64
from warpline.ops.group import factorize, factorize_rows
from warpline.ops.stacks import intern
from warpline.schema import TABLES
from warpline.trace.column import ColumnData, concatenate, make_column, null_column

_STACK, _FRAME = TABLES["stack"], TABLES["frame"]
_STACK_ID = TABLES["api_call"].column("stack_id")


@frozen
class FrameRows:
    """A row per frame, of backtraces that share one numbering.

    Attributes:
        chain: Shape (n,), the backtrace of each frame.
        position: Shape (n,), ascending from the innermost frame.
        columns: Columns of the table frame, each of n rows. Omitted ones are null, or 0.
    """

    chain: I64
    position: I64
    columns: Mapping[str, ColumnData]


class Backtraces:
    """The tables stack and frame of a recording with a row per frame.

    Args:
        read: Returns the frames, one part per numbering of backtraces. Called once, on first use.

    Attributes:
        stack: The rows of the table stack.
        frame: The rows of the table frame, in the order in which they first occur.
    """

    def __init__(self, read: Callable[[], Sequence[FrameRows]]) -> None:
        self._read = read
        self.stack = DerivedTable(lambda: self._found.stack)
        self.frame = DerivedTable(lambda: self._found.frame)

    def stack_of(self, part: int, chains: ColumnData) -> ColumnData:
        """Return the column stack_id for a column of backtraces of one part.

        A backtrace without frames is null.
        """
        known, stacks = self._found.chains[part]
        if not len(known):
            return null_column(_STACK_ID, len(chains))
        place = np.minimum(np.searchsorted(known, chains.values), len(known) - 1)
        valid = chains.is_valid() & (known[place] == chains.values)
        return make_column(_STACK_ID, stacks[place], valid)

    @cached_property
    def _found(self) -> _Found:
        parts = self._read()
        columns = {name: _joined(parts, name) for name in _frame_columns(parts)}
        sizes = [len(part.chain) for part in parts]
        frames, first = _frames(columns, sum(sizes))
        # Chains of all parts, numbered one after another.
        chains = [factorize(part.chain) for part in parts]
        begin = np.cumsum([0, *(chain.n_groups for chain in chains)])
        numbers = [chain.codes + start for chain, start in zip(chains, begin[:-1], strict=True)]
        position = [part.position for part in parts]
        stacks, _, stack_of_chain = intern(_all(numbers), _all(position), frames)
        has_parent = stacks.depth > 0
        return _Found(
            {
                "parent_id": make_column(_STACK.column("parent_id"), stacks.parent, has_parent),
                "frame_id": ColumnData(stacks.frame),
                "depth": make_column(_STACK.column("depth"), stacks.depth),
            },
            {name: data.take(first) for name, data in columns.items()},
            [
                (chain.uniques, stack_of_chain[start:end])
                for chain, start, end in zip(chains, begin[:-1], begin[1:], strict=True)
            ],
        )


class DerivedTable:
    """Rows of a table that are computed on first use."""

    def __init__(self, build: Callable[[], Mapping[str, ColumnData]]) -> None:
        self._build = build

    def __len__(self) -> int:
        return len(next(iter(self._build().values())))

    def load(self, columns: Sequence[str]) -> dict[str, ColumnData]:
        """Return columns, without those that are null."""
        table = self._build()
        return {name: table[name] for name in columns if name in table}


@frozen
class _Found:
    """Columns of stack and of frame; and of each part the chains, ascending, and their stacks."""

    stack: Mapping[str, ColumnData]
    frame: Mapping[str, ColumnData]
    chains: Sequence[tuple[I64, I32]]


def _frame_columns(parts: Sequence[FrameRows]) -> list[str]:
    """Return the columns that are not null everywhere."""
    given = {name for part in parts for name in part.columns}
    return [c.name for c in _FRAME.columns if not c.nullable or c.name in given]


def _joined(parts: Sequence[FrameRows], name: str) -> ColumnData:
    spec, pieces = _FRAME.column(name), []
    for part in parts:
        data, count = part.columns.get(name), len(part.chain)
        if data is None and spec.nullable:
            data = null_column(spec, count)
        pieces.append(make_column(spec, np.zeros(count)) if data is None else data)
    return concatenate(pieces) if pieces else null_column(spec, 0)


def _frames(columns: Mapping[str, ColumnData], count: int) -> tuple[I64, I64]:
    """Return the number of each row's frame, by first occurrence, and the first row of each."""
    keys = [data.values.astype(np.int64) for data in columns.values()]
    keys += [d.valid.astype(np.int64) for d in columns.values() if d.valid is not None]
    if not count:
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    groups = factorize_rows(*keys)
    order = np.argsort(groups.first)
    number = np.empty(len(order), np.int64)
    number[order] = np.arange(len(order))
    return number[groups.codes], groups.first[order]


def _all(arrays: Sequence[I64]) -> I64:
    return np.concatenate(arrays) if arrays else np.zeros(0, np.int64)
