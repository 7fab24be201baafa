"""Names of ranges, and which ranges are nested in another of the same name."""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

import numpy as np

from warpline.derived import derived
from warpline.ops.arrays import I32, BoolArray
from warpline.ops.group import factorize_rows
from warpline.ops.tree import nest
from warpline.schema.labels import RANGE_STYLES
from warpline.trace import Trace

_PUSH_POP = next(value for value, label in RANGE_STYLES.items() if label == "PushPop")


class RangeNames(NamedTuple):
    """The name of each range, rows in the table's total order.

    Attributes:
        codes: Shape (ranges,), int32, positions in `texts`.
        texts: The distinct names, ascending, None first: ``domain:name``, without prefix for the
            default domain. Unnamed ranges have None.
    """

    codes: I32
    texts: tuple[str | None, ...]


@derived
def range_names(trace: Trace) -> RangeNames:
    """Return the name of each range."""
    columns = trace.columns("range", "domain_id", "name_id")
    keys = [columns[name].filled(-1) for name in ("domain_id", "name_id")]
    groups = factorize_rows(*keys)
    pairs = zip(*(key[groups.first].tolist() for key in keys), strict=True)
    texts = [range_text(trace, domain, name) for domain, name in pairs]
    distinct = in_order(set(texts))
    place = {text: number for number, text in enumerate(distinct)}
    renumber = np.array([place[text] for text in texts], np.int32)
    return RangeNames(renumber[groups.codes], distinct)


def in_order(names: Collection[str | None]) -> tuple[str | None, ...]:
    """Return names of ranges in ascending order, None first."""
    return tuple(sorted(names, key=lambda text: (text is not None, text or "")))


@derived
def push_pop_ranges(trace: Trace) -> BoolArray:
    """Return which ranges are push/pop ranges and therefore nest, shape (ranges,)."""
    styles = trace.columns("range", "style")["style"].values
    return np.equal(styles, _PUSH_POP)


@derived
def outermost_of_name(trace: Trace) -> BoolArray:
    """Return which ranges are not nested in one of the same name and style, shape (ranges,).

    Push/pop ranges are compared on their thread, start/end ranges in their process.
    """
    times = ("start_ns", "end_ns", "thread_id", "process_id")
    columns = trace.columns("range", *times)
    start, end, thread, process = (columns[name].values for name in times)
    pushed = push_pop_ranges(trace)
    owner = np.where(pushed, thread.astype(np.int64), ~process.astype(np.int64))
    groups = factorize_rows(owner, range_names(trace).codes)
    return ~nest(start, end, groups.codes).has_parent


def range_text(trace: Trace, domain: int, name: int) -> str | None:
    """Return the name of a range by rows of the string pool, each -1 for none."""
    if name < 0:
        return None
    text = trace.strings.text(name)
    return text if domain < 0 else f"{trace.strings.text(domain)}:{text}"
