"""Nesting on numbers computed by hand."""

from __future__ import annotations

import numpy as np
import pytest

from warpline.errors import SchemaError
from warpline.ops.arrays import I64
from warpline.ops.tree import Nesting, accumulate_up, contents, enclosing, nest


def at(*values: int) -> I64:
    return np.array(values, np.int64)


def parents(found: Nesting) -> list[int | None]:
    return [
        row if ok else None
        for row, ok in zip(found.parent.tolist(), found.has_parent.tolist(), strict=True)
    ]


def test_pushes_and_pops_nest() -> None:
    #   step      forward   linear    backward
    found = nest(at(0, 1, 2, 6), at(10, 5, 4, 9))
    assert parents(found) == [None, 0, 1, 0]
    assert found.depth.tolist() == [0, 1, 2, 1]
    assert found.depth.dtype == np.int32


def test_row_order_does_not_matter() -> None:
    found = nest(at(2, 6, 0, 1), at(4, 9, 10, 5))
    assert parents(found) == [3, 2, None, 2]


def test_ranges_nest_within_their_thread_only() -> None:
    found = nest(at(0, 1, 2), at(10, 5, 4), at(1, 2, 1))
    assert parents(found) == [None, None, 0]


def test_shared_edges_nest_and_touching_ranges_do_not() -> None:
    assert parents(nest(at(0, 0), at(5, 10))) == [1, None]
    assert parents(nest(at(0, 5), at(10, 10))) == [None, 0]
    assert parents(nest(at(0, 5), at(5, 10))) == [None, None]


def test_of_equal_ranges_the_earlier_row_is_outside() -> None:
    found = nest(at(3, 3, 3), at(7, 7, 7))
    assert parents(found) == [None, 0, 1]


def test_partly_overlapping_ranges_do_not_contain_each_other() -> None:
    # 1 overlaps 0 and ends after it; 2 is in both; 3 is only in 1; 4 contains them all.
    found = nest(at(1, 5, 6, 12, 0), at(10, 15, 8, 14, 20))
    assert parents(found) == [4, 4, 1, 1, None]
    assert found.depth.tolist() == [1, 1, 2, 2, 0]


def test_a_zero_length_range_lies_where_it_starts_and_holds_nothing() -> None:
    found = nest(at(0, 0, 5, 5, 10), at(10, 0, 5, 5, 10))
    assert parents(found) == [None, 0, 0, 0, None]


def test_the_last_moment_of_int64_is_not_inside_what_ends_there() -> None:
    last = 2**63 - 1
    assert parents(nest(at(0, last), at(last, last))) == [None, None]


def test_enclosing_finds_the_innermost_range() -> None:
    found = enclosing(at(0, 4, 9, 10, -1), at(0, 3), at(10, 5))
    assert found.row.tolist() == [0, 1, 0, 0, 0]
    assert found.found.tolist() == [True, True, True, False, False]


def test_enclosing_looks_in_the_points_group_only() -> None:
    found = enclosing(at(4, 4), at(0, 3), at(10, 5), point_group=at(1, 2), group=at(1, 2))
    assert found.row.tolist() == [0, 1]


def test_nothing_in_nothing_out() -> None:
    assert nest(at(), at()).parent.tolist() == []
    assert enclosing(at(1), at(), at()).found.tolist() == [False]
    assert enclosing(at(), at(1), at(2)).row.tolist() == []


def test_deep_stacks_and_long_rows_of_siblings_stay_fast() -> None:
    n = 50_000
    depth = nest(np.arange(n), 2 * n - np.arange(n)).depth
    assert depth[-1] == n - 1
    start = np.arange(n)
    siblings = nest(np.append(start, -1), np.append(start + 1, n))
    assert siblings.parent[:-1].tolist() == [n] * n


def test_values_add_up_over_all_that_a_range_holds() -> None:
    #   step      forward   linear    backward
    found = nest(at(0, 1, 2, 6), at(10, 5, 4, 9))
    assert accumulate_up(found, at(1, 10, 100, 1000)).tolist() == [1111, 110, 100, 1000]
    assert accumulate_up(nest(at(), at()), at()).tolist() == []


def test_contents_are_runs_of_the_ordered_points() -> None:
    found = contents(at(9, 1, 4, 3), at(0, 3, 7, 4), at(5, 9, 7, 5))
    assert found.order.tolist() == [1, 3, 2, 0]
    assert (found.last - found.first).tolist() == [3, 2, 0, 1]
    blocks = [(p.interval.tolist(), p.point.tolist()) for p in found.pairs(block=3)]
    assert blocks == [([0, 0, 0], [1, 3, 2]), ([1, 1, 3], [3, 2, 2])]
    assert list(contents(at(), at(1), at(2)).pairs()) == []
    assert list(contents(at(1), at(), at()).pairs()) == []


def test_bad_intervals_and_groups_are_refused() -> None:
    with pytest.raises(SchemaError, match="before its start"):
        nest(at(5), at(4))
    with pytest.raises(SchemaError, match="group has 2, interval has 1"):
        nest(at(1), at(2), at(0, 0))
    with pytest.raises(SchemaError, match="values has 2, nesting has 1"):
        accumulate_up(nest(at(1), at(2)), at(0, 0))


def test_a_constant_group_is_as_none() -> None:
    start, end = at(0, 1, 2), at(10, 5, 4)
    one = np.broadcast_to(np.int32(3), 3)
    assert parents(nest(start, end, one)) == parents(nest(start, end)) == [None, 0, 1]
    with pytest.raises(SchemaError):
        nest(start, end, one[:2])
