"""Texts that show the nesting of ranges: ids of the enclosing ranges, and indented names."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from warpline import native
from warpline.derived.ranges.names import RangeNames
from warpline.ops.arrays import I64, Integers, as_i64
from warpline.ops.group import factorize_rows
from warpline.ops.tree import Nesting
from warpline.result import Texts
from warpline.result.plain_texts import PlainTexts


def id_stacks(ids: Integers, nesting: Nesting, rows: I64) -> Texts:
    """Return the ids from the outermost range down to each of some rows: ``:3:5:6``.

    Args:
        ids: Shape (ranges,).
        nesting: Of all ranges.
        rows: Shape (n,); must include the enclosing ranges of each row.
    """
    packed = _packed_stacks(ids, nesting, rows)
    if packed is not None:
        return Texts(np.arange(len(rows), dtype=np.int32), packed)
    texts = np.full(len(ids), "", dtype=object)
    order = rows[np.argsort(nesting.depth[rows], kind="stable")]
    depth = nesting.depth[order]
    bounds = np.searchsorted(depth, np.arange(int(depth.max(initial=-1)) + 2))
    for level in range(len(bounds) - 1):
        at_level = order[bounds[level] : bounds[level + 1]]
        around = texts[nesting.parent[at_level]].tolist() if level else [""] * len(at_level)
        own = ids[at_level].tolist()
        texts[at_level] = [f"{outer}:{number}" for outer, number in zip(around, own, strict=True)]
    return Texts(np.arange(len(rows), dtype=np.int32), texts[rows].tolist())


def _packed_stacks(ids: Integers, nesting: Nesting, rows: I64) -> PlainTexts | None:
    """Return the same texts by the native core; None without it."""
    core = native.core()
    if core is None:
        return None
    columns = [
        np.ascontiguousarray(column)
        for column in (as_i64("ids", ids), nesting.parent, nesting.has_parent, rows)
    ]
    addresses = [column.ctypes.data for column in columns]
    offsets = np.empty(len(rows) + 1, np.int64)
    size = core.wl_id_paths(*addresses, len(rows), offsets.ctypes.data, None)
    if size < 0:
        return None
    blob = np.empty(size, np.uint8)
    core.wl_id_paths(*addresses, len(rows), offsets.ctypes.data, blob.ctypes.data)
    return PlainTexts(blob, offsets)


def indented_names(names: RangeNames, depth: Integers, rows: I64) -> Texts:
    """Return the names of some ranges, prefixed with two dashes per enclosing range.

    Args:
        names: Of all ranges.
        depth: Shape (ranges,).
        rows: Shape (n,).
    """
    groups = factorize_rows(depth[rows], names.codes[rows])
    first = rows[groups.first]
    named = zip(depth[first].tolist(), texts_at(names.texts, names.codes[first]), strict=True)
    texts = [None if name is None else "--" * level + name for level, name in named]
    none = np.array([text is None for text in texts], np.bool_)
    return Texts(
        np.where(none[groups.codes], -1, groups.codes).astype(np.int32),
        ["" if text is None else text for text in texts],
    )


def texts_at(texts: Sequence[str | None], codes: Integers) -> list[str | None]:
    """Return the text of each code."""
    return [texts[code] for code in codes.tolist()]
