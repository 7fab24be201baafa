"""Rows of several tables merged into one table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from warpline.ops.arrays import I32, I64
from warpline.result import Numbers, Texts, Values

Part = Mapping[str, Values]


def stack(parts: Sequence[Part], names: Sequence[str], by: str) -> dict[str, Values]:
    """Return the rows of several tables as one table.

    Args:
        parts: At least one table; all columns of a table have the same length.
        names: Columns to return; null for tables that lack them.
        by: Numeric column to sort rows by, ascending; ties keep the order of `parts`.
    """
    lengths = [len(next(iter(part.values()))) for part in parts]
    keys = _stack_column([part[by] for part in parts], lengths)
    assert isinstance(keys, Numbers), f"{by} is not a number"
    order = np.argsort(keys.values, kind="stable")
    # Column by column, so that only one column exists twice at any time.
    return {
        name: _take(_stack_column([part.get(name) for part in parts], lengths), order)
        for name in names
    }


def _stack_column(parts: Sequence[Values | None], lengths: Sequence[int]) -> Values:
    if any(isinstance(part, Texts) for part in parts):
        return _stack_texts([part if isinstance(part, Texts) else None for part in parts], lengths)
    return _stack_numbers([part if isinstance(part, Numbers) else None for part in parts], lengths)


def _stack_texts(parts: Sequence[Texts | None], lengths: Sequence[int]) -> Texts:
    codes: list[I32] = []
    texts: list[str] = []
    for part, length in zip(parts, lengths, strict=True):
        if part is None:
            codes.append(np.full(length, -1, np.int32))
        else:
            moved = part.codes + len(texts)
            codes.append(np.where(part.codes < 0, -1, moved).astype(np.int32))
            texts.extend(part.values)
    return Texts(np.concatenate(codes), texts)


def _stack_numbers(parts: Sequence[Numbers | None], lengths: Sequence[int]) -> Numbers:
    kind = np.result_type(*(part.values for part in parts if part is not None), np.int64)
    values, valid = [], []
    for part, length in zip(parts, lengths, strict=True):
        values.append(np.zeros(length, kind) if part is None else part.values)
        some = part is not None and part.valid is None
        mask = np.full(length, some) if part is None or part.valid is None else part.valid
        valid.append(mask)
    everywhere = np.concatenate(valid)
    return Numbers(np.concatenate(values), None if bool(everywhere.all()) else everywhere)


def _take(values: Values, rows: I64) -> Values:
    if isinstance(values, Texts):
        return Texts(values.codes[rows], values.values)
    return Numbers(values.values[rows], None if values.valid is None else values.valid[rows])
