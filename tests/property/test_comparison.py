"""What holds for any two sides of a comparison."""

from __future__ import annotations

from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st
from support.profiles import kernel, profile

from warpline.comparison.compare import compare
from warpline.comparison.matching import Listed, match
from warpline.comparison.parts import part_changes, rounded
from warpline.result.profile import PartName

fractions = st.fractions(min_value=0, max_value=10**12, max_denominator=10**6)
parts = st.dictionaries(
    st.builds(PartName, st.sampled_from("abcdefgh"), st.sampled_from(["busy", "idle"])), fractions
)
names = st.builds(
    kernel,
    st.sampled_from(["f", "f<1>(int)", "f<2>(int)", "void g(int)", "g", "h<", "(", ""]),
    st.sampled_from(["", "1 of 32", "2 of 32"]),
    st.sampled_from(["gemm", "other"]),
)


@st.composite
def sides(draw):
    distinct = draw(st.lists(names, unique=True, max_size=12))
    numbers = st.floats(0, 100, allow_nan=False)
    counts, position = (
        draw(st.lists(numbers, min_size=len(distinct), max_size=len(distinct))) for _ in range(2)
    )
    return Listed(distinct, counts, position)


@given(st.lists(fractions, max_size=40))
def test_rounded_values_sum_to_the_rounded_sum(values):
    whole = rounded(values)
    assert sum(whole) == round(sum(values, Fraction(0)))
    assert all(abs(a - b) < 1 for a, b in zip(whole, values, strict=True))


@given(parts, parts)
def test_differences_of_parts_sum_exactly_to_the_step(before, after):
    changes = part_changes(before, after)
    old, new = (round(sum(side.values(), Fraction(0))) for side in (before, after))
    assert sum(part.delta_ns for part in changes) == new - old
    assert sum(part.before_ns for part in changes) == old
    assert all(part.after_ns - part.before_ns == part.delta_ns for part in changes)


@given(sides(), sides())
def test_each_item_is_in_exactly_one_match(before, after):
    found = match(before, after)
    assert sorted(place for item in found for place in item.before) == list(
        range(len(before.names))
    )
    assert sorted(place for item in found for place in item.after) == list(range(len(after.names)))
    assert all((item.matched_by != "") == bool(item.before and item.after) for item in found)


@given(sides())
def test_items_match_themselves(side):
    assert all(
        item.before == item.after and item.matched_by == "shape" for item in match(side, side)
    )


times = st.lists(st.floats(1, 1e9), min_size=1, max_size=12)


@given(times, times)
def test_any_step_times_give_a_sentence(before, after):
    found = compare([profile(before)], [profile(after)])
    assert found.verdict in {"faster", "slower", "same", "undecided"}
    assert found.sentence.endswith(".")
    if found.verdict in {"faster", "slower"}:
        assert found.step is not None
        assert (found.step.ratio < 1) == (found.verdict == "faster")
