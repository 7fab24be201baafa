"""Trees of columns: what one launch has as JSON, all launches have as a tree of the same form.

A leaf is a column over launches, or a text that is the same for all of them. Members of a mapping
are there for every launch; an item of a list only for some.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from warpline.derived.counters.known import Known
from warpline.frozen import frozen
from warpline.ops.arrays import I64, BoolArray


@frozen
class Item:
    """Something that some launches have.

    Attributes:
        has: Which launches, shape (launches,).
        tree: What they have.
    """

    has: BoolArray
    tree: Tree


@frozen
class Ranked:
    """Items of which each launch has the largest first.

    Attributes:
        items: The items; their trees are mappings.
        by: The members that are compared, numbers; the second one if the first are equal.
    """

    items: Sequence[Item]
    by: tuple[str, ...]


@frozen
class Shared:
    """Values of which several launches have the same one.

    Attributes:
        codes: Number of the value of each launch, shape (launches,).
        value_of: Returns the value of a number, as in JSON.
    """

    codes: I64
    value_of: Callable[[int], Any]

    @classmethod
    def among(cls, codes: I64, values: Sequence[Any]) -> Shared:
        """Return one of some values for each launch."""
        return cls(codes, values.__getitem__)


@frozen
class Cells:
    """A list with a place for each of some trees, as the row of a table has."""

    trees: Sequence[Tree]


@frozen
class Constant:
    """A value of JSON that is the same for all launches."""

    value: Any


Leaf = Known | BoolArray | Shared | Constant | str
Tree = Leaf | Cells | Mapping[str, "Tree"] | Sequence[Item] | Ranked


def any_of(items: Sequence[Item], count: int) -> BoolArray:
    """Return which of some launches have any of the items, shape (count,)."""
    found = np.zeros(count, np.bool_)
    for item in items:
        found |= item.has
    return found


def of_launches(tree: Tree, rows: I64) -> list[Any]:
    """Return what launches have, as values of JSON; None for a number that is not known.

    Args:
        tree: The tree.
        rows: Rows of the launches in `profiled_kernel`.
    """
    found: list[Any]
    if isinstance(tree, Known):
        found = _numbers(tree, rows)
    elif isinstance(tree, np.ndarray):
        found = tree[rows].tolist()
    elif isinstance(tree, Shared):
        found = [tree.value_of(code) for code in tree.codes[rows].tolist()]
    elif isinstance(tree, str):
        found = [tree] * len(rows)
    elif isinstance(tree, Constant):
        found = [tree.value] * len(rows)
    elif isinstance(tree, Cells):
        cells = (of_launches(cell, rows) for cell in tree.trees)
        found = [list(values) for values in zip(*cells, strict=True)]
    elif isinstance(tree, Mapping):
        members = zip(*(of_launches(member, rows) for member in tree.values()), strict=True)
        found = [dict(zip(tree, values, strict=True)) for values in members]
    elif isinstance(tree, Ranked):
        by = tree.by
        items = _lists(tree.items, rows)
        found = [sorted(of, key=lambda item: [-(item[name] or 0) for name in by]) for of in items]
    else:
        found = _lists(tree, rows)
    return found


def _lists(items: Sequence[Item], rows: I64) -> list[list[Any]]:
    """Return the items that each launch has."""
    found: list[list[Any]] = [[] for _ in rows]
    for item in items:
        places = np.flatnonzero(item.has[rows])
        values = of_launches(item.tree, rows[places])
        for place, value in zip(places.tolist(), values, strict=True):
            found[place].append(value)
    return found


def _numbers(of: Known, rows: I64) -> list[float | int | None]:
    """Return numbers; whole ones are integers, as they are shorter in JSON."""
    values, is_known = of.values[rows], of.is_known[rows] & np.isfinite(of.values[rows])
    return [
        None if not known else int(value) if value.is_integer() else value
        for value, known in zip(values.tolist(), is_known.tolist(), strict=True)
    ]
