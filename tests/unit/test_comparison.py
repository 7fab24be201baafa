"""Comparisons of two sides: verdicts, reasons, matching of kernels, findings, environment."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from support.profiles import COPY, GEMM, MACHINE, SYNC, finding, items, kernel, profile

from warpline.comparison.compare import compare
from warpline.comparison.findings import finding_differences
from warpline.comparison.items import item_changes
from warpline.comparison.matching import Listed, base_name, match, normalized, without_parameters
from warpline.comparison.parts import rounded
from warpline.comparison.statistics import difference_p, step_difference
from warpline.comparison.tables import compare_tables
from warpline.result import Field, Numbers, Result, Skipped, column_of
from warpline.units import Unit

SLOW = [100_000.0, 101_000.0, 99_000.0, 100_500.0, 99_500.0] * 4
FAST = [ns * 0.8 for ns in SLOW]


def test_the_verdict_names_change_interval_and_reason():
    before = profile(SLOW, {COPY: 40_000, GEMM: 60_000})
    after = profile(FAST, {COPY: 21_000, GEMM: 59_000})
    found = compare([before], [after])
    assert found.verdict == "faster"
    assert found.sentence.startswith("Faster: 20.0% less time (")
    assert "100 us to 80.0 us per step. 95% of it is copy-h2d" in found.sentence
    assert [(part.category, part.delta_ns) for part in found.parts] == [
        ("copy-h2d", -19_000),
        ("gemm", -1_000),
    ]


def test_exchanged_sides_are_slower():
    found = compare([profile(FAST)], [profile(SLOW)])
    assert found.verdict == "slower"
    assert found.sentence.startswith("Slower: 25.0% more time (")


def test_a_part_larger_than_the_difference_is_stated_as_time():
    before = profile(SLOW, {SYNC: 50_000, GEMM: 50_000})
    after = profile(FAST, {GEMM: 80_000})
    found = compare([before] * 3, [after] * 3)
    assert "The main reason is host-sync: 50.0 us less" in found.sentence


def test_one_run_per_side_is_less_certain_where_the_gpu_idles():
    idle = profile(SLOW, {SYNC: 90_000, GEMM: 10_000}), profile(FAST, {SYNC: 70_000, GEMM: 10_000})
    busy = profile(SLOW, {SYNC: 5_000, GEMM: 95_000}), profile(FAST, {SYNC: 5_000, GEMM: 75_000})
    assert compare([idle[0]], [idle[1]]).verdict == "undecided"
    assert compare([busy[0]], [busy[1]]).verdict == "faster"
    # Several runs show how they vary, so nothing is assumed.
    assert compare([idle[0]] * 3, [idle[1]] * 3).verdict == "faster"


def test_equal_runs_are_the_same_only_if_runs_show_it():
    one = compare([profile(SLOW)], [profile(SLOW)])
    assert one.verdict == "undecided"
    assert "of each side would decide" in one.sentence
    several = compare([profile(SLOW)] * 4, [profile(SLOW)] * 4)
    assert several.verdict == "same"
    assert several.sentence.startswith("Same within 2%: ")


def test_as_many_runs_as_there_are_did_not_decide():
    two = [profile(SLOW), profile([ns * 1.02 for ns in SLOW])]
    found = compare(two, [profile([ns * 1.6 for ns in SLOW]), profile([ns * 1.2 for ns in SLOW])])
    assert found.verdict == "undecided"
    assert "About 2 runs" not in found.sentence
    assert "runs of each side would decide" in found.sentence


def test_sides_that_are_mixed_are_told_apart():
    one, two = ({**MACHINE, "number of GPUs": number} for number in ("1", "2"))
    mixed = [profile(SLOW, environment=one), profile(SLOW, environment=two)]
    sentence = compare(mixed, [profile(SLOW, environment=two)]).sentence
    assert "different numbers of GPUs (1, 2 before, 2 after)" in sentence


def test_one_run_per_side_says_what_it_cannot_see():
    assert any(
        "One run per side" in text for text in compare([profile(SLOW)], [profile(FAST)]).limits
    )
    several = compare([profile(SLOW)] * 2, [profile(FAST)] * 2)
    assert not any("One run per side" in text for text in several.limits)


@pytest.mark.parametrize(
    ("name", "value", "word"),
    [
        ("GPU", "H100", "the GPUs differ (H200 and H100)"),
        ("number of GPUs", "2", "different numbers of GPUs (1 and 2)"),
        ("ranks", "8", "different numbers of ranks (1 and 8)"),
        ("profiler", "Nsight Systems", "different profilers"),
    ],
)
def test_another_machine_forbids_a_verdict(name, value, word):
    found = compare([profile(SLOW)], [profile(FAST, environment={**MACHINE, name: value})])
    assert found.verdict == "undecided"
    assert word in found.sentence
    assert found.environment[0].effect == "forbids a verdict"
    assert found.step is not None
    assert found.step.p is None


def test_another_setting_may_be_the_reason_but_allows_a_verdict():
    after = profile(FAST, environment={**MACHINE, "variable NCCL_ALGO": "Ring", "host": "b"})
    before = profile(SLOW, environment={**MACHINE, "variable NCCL_ALGO": "Tree", "host": None})
    found = compare([before], [after])
    assert found.verdict == "faster"
    effects = {fact.name: fact.effect for fact in found.environment}
    assert effects["variable NCCL_ALGO"] == "may be the reason"
    assert effects["host"] == "information"  # not recorded on one side
    assert effects["GPU"] == ""


@pytest.mark.parametrize(
    ("clocks", "effect"),
    [
        (("1980 MHz", "1950 MHz"), "information"),  # 1.5%
        (("1980 MHz", "1935 MHz"), "may be the reason"),  # 2.3%
        (("1980 MHz", "1980 MHz"), ""),
        ((None, "1980 MHz"), "information"),  # read on one side only
    ],
)
def test_clocks_that_differ_by_more_than_2_percent_may_be_the_reason(clocks, effect):
    sides = [profile(SLOW, environment={**MACHINE, "GPU clock": clock}) for clock in clocks]
    found = compare(sides[:1], sides[1:])
    assert {fact.name: fact.effect for fact in found.environment}["GPU clock"] == effect


def test_another_version_of_a_framework_may_be_the_reason():
    sides = [
        profile(SLOW, environment={**MACHINE, "PyTorch": version}) for version in ("2.10", "2.11")
    ]
    found = compare(sides[:1], sides[1:])
    effects = {fact.name: fact.effect for fact in found.environment}
    assert effects["PyTorch"] == "may be the reason"
    assert not any("framework version" in text for text in found.limits)
    assert any("framework version" in text for text in compare(*[[profile(SLOW)]] * 2).limits)


def test_steps_of_another_kind_with_other_work_forbid_a_verdict():
    few = items({kernel("k"): SLOW}, executions=10)
    many = items({kernel("k"): FAST}, executions=20)
    facts = [{**MACHINE, "steps": source} for source in ("range:step_*", "periodicity")]
    before = profile(SLOW, work=few, environment=facts[0])
    after = profile(FAST, work=many, environment=facts[1], source="periodicity")
    assert "a step is not the same work" in compare([before], [after]).sentence
    after = profile(FAST, work=few, environment=facts[1], source="periodicity")
    assert compare([before], [after]).verdict == "faster"


def test_inferred_steps_with_other_work_are_doubted_in_the_sentence():
    works = [items({kernel("k"): SLOW}, executions=count) for count in (10, 20)]
    few, many = (profile(SLOW, work=work, source="periodicity") for work in works)
    doubt = "Inferred steps may not be the same work: 10 GPU operations per step before, 20 after"
    assert doubt in compare([few], [many]).sentence
    assert "Inferred" not in compare([few], [few]).sentence
    named = [profile(SLOW, work=work) for work in works]
    assert "Inferred" not in compare(named[:1], named[1:]).sentence


def test_levels_of_graph_traces_forbid_a_verdict():
    whole, nodes = (
        profile(ns, environment={**MACHINE, "CUDA graph trace": level})
        for ns, level in ((FAST, "graph"), (SLOW, "node"))
    )
    found = compare([whole], [nodes])
    assert found.verdict == "undecided"
    assert "traced at different levels (graph and node)" in found.sentence
    without = profile(SLOW, environment={**MACHINE, "CUDA graph trace": None})
    assert compare([without], [whole]).verdict == "faster"


def test_sides_without_comparable_times_get_a_sentence():
    nothing = profile([], {}, title="empty")
    found = compare([profile(SLOW)], [nothing])
    assert (found.verdict, found.step, found.parts) == ("undecided", None, ())
    assert found.sentence == "Cannot decide: no GPU work was recorded after (empty)."
    found = compare([nothing], [nothing])
    assert found.sentence.startswith("Cannot decide: no GPU work was recorded. To compare steps on")
    without = profile([50.0], source="none", title="plain")
    found = compare([profile(SLOW)], [without])
    assert "no steps were detected in plain" in found.sentence
    assert (found.verdict, found.step) == ("undecided", None)
    both = compare([without], [without])
    assert both.verdict == "undecided"
    assert "shows no variation" in both.sentence


def test_whole_recordings_are_compared_by_runs():
    slow = [profile([ns], source="none") for ns in SLOW[:5]]
    fast = [profile([ns], source="none") for ns in FAST[:5]]
    found = compare(slow, fast)
    assert found.verdict == "faster"
    assert "100 us to 80.0 us in all" in found.sentence


def test_means_are_means_over_runs():
    runs = [profile([10.0] * 10), profile([40.0])]
    found = compare(runs, runs)
    assert found.step is not None
    assert found.step.before_ns == 25


def test_rounding_by_largest_remainder():
    thirds = [Fraction(10, 3)] * 3
    assert rounded(thirds) == [4, 3, 3]
    assert rounded([Fraction(7, 10), Fraction(7, 10), Fraction(-4, 10)]) == [1, 1, -1]
    assert rounded([]) == []


# --- Matching


def listed(*names, executions=1.0):
    return Listed(names, [executions] * len(names), list(range(len(names))))


def test_names_without_what_differs_between_compilations():
    name = "void ns::gemm<float, (int)4>(float *, int)"
    assert without_parameters("void f<int>(float *, int)") == "f<int>"
    assert normalized(name) == normalized("void ns::gemm<float, 4>(float*, int)")
    assert base_name(name) == "gemm"
    assert base_name("nvjet_sm90_tst_128x256") == "nvjet_sm90_tst_128x256"
    assert base_name("(((") == "((("
    assert base_name("") == ""
    lambdas = "f<op()::[lambda() (instance 3)]>", "f<op()::{lambda()#3}>"
    assert normalized(lambdas[0]) == normalized(lambdas[1])
    unnamed = "ns::(anonymous namespace)::f<int>(int)", "ns::<unnamed>::f<int>(int)"
    assert normalized(unnamed[0]) == normalized(unnamed[1]) != normalized("ns::f<int>(int)")


def levels(before, after):
    return {(item.before, item.after): item.matched_by for item in match(before, after)}


def test_each_level_matches_what_the_ones_before_left():
    before = listed(
        kernel("same"), kernel("resized"), kernel("void t<4>(int)"), kernel("gone", "1 of 32", "x")
    )
    after = listed(
        kernel("same"),
        kernel("resized", "2 of 32"),
        kernel("void t<8>(int)"),
        kernel("new", "1 of 32", "y"),
    )
    assert levels(before, after) == {
        ((0,), (0,)): "shape",
        ((1,), (1,)): "name",
        ((2,), (2,)): "base",
        ((3,), ()): "",
        ((), (3,)): "",
    }


def test_one_shape_splits_into_several_and_back():
    one, two = listed(kernel("k")), listed(kernel("k", "2 of 32"), kernel("k", "3 of 32"))
    assert levels(one, two) == {((0,), (0, 1)): "name"}
    assert levels(two, one) == {((0, 1), (0,)): "name"}


def test_position_matches_between_the_same_neighbors_only():
    first, last = kernel("first"), kernel("last")
    before = listed(first, kernel("old"), last)
    assert levels(before, listed(first, kernel("renamed"), last))[((1,), (1,))] == "position"
    moved = levels(before, listed(first, last, kernel("renamed")))
    assert ((1,), ()) in moved
    other = levels(before, listed(first, kernel("renamed", category="copy"), last))
    assert ((1,), ()) in other
    fused = levels(listed(first, kernel("a"), kernel("b"), last), listed(first, kernel("ab"), last))
    assert fused[((1, 2), (1,))] == "position"


def test_instances_of_a_template_are_matched_by_their_number_of_executions():
    before = Listed((kernel("t<1>"), kernel("t<2>")), [8.0, 16.0], [0.0, 1.0])
    after = Listed((kernel("t<3>"), kernel("t<4>")), [16.0, 8.0], [0.0, 1.0])
    assert levels(before, after) == {((0,), (1,)): "base", ((1,), (0,)): "base"}


def test_an_item_changes_if_its_time_or_its_number_does():
    steady = [50_000.0 + ns / 100 for ns in SLOW]
    before = profile(
        SLOW, work=items({kernel("a"): SLOW, kernel("b"): steady, kernel("c"): steady})
    )
    after = profile(SLOW, work=items({kernel("a"): FAST, kernel("b"): steady, kernel("d"): steady}))
    found = {item.name: item for item in item_changes([before], [after], paired=False)}
    assert found["a"].change == "changed"
    assert found["a"].is_significant
    assert found["a"].delta_ns == pytest.approx(-20_000)
    assert (found["b"].change, found["b"].is_significant) == ("same", False)
    twice = profile(SLOW, work=items({kernel("b"): steady}, executions=2))
    once = profile(SLOW, work=items({kernel("b"): steady}))
    assert item_changes([once], [twice], paired=False)[0].change == "changed"


def test_the_p_value_alone_is_that_of_the_difference():
    for paired, before, after in (
        (False, [SLOW], [FAST]),
        (True, [SLOW, FAST, SLOW], [FAST, FAST, SLOW]),
        (False, [SLOW, FAST], [SLOW]),
    ):
        alone = difference_p(before, after, paired=paired)
        assert alone == step_difference(before, after, paired=paired).p


def test_single_steps_are_not_tested():
    run = profile([100.0], work=items({kernel("a"): [100.0]}))
    assert item_changes([run], [run], paired=False)[0].p is None


# --- Findings


def test_findings_are_fixed_new_better_worse_or_the_same():
    before = profile(
        SLOW,
        findings=(
            finding("a", "A 12 times"),
            finding("b", "B", 1000),
            finding("c", "C", 1000),
            finding("d", "D", 1000),
        ),
    )
    after = profile(
        SLOW,
        findings=(
            finding("b", "B", 2000),
            finding("c", "C", 500),
            finding("d", "D", 1050),
            finding("e", "E"),
        ),
    )
    found = {item.rule: item.change for item in finding_differences([before], [after])}
    assert found == {"a": "fixed", "b": "worse", "c": "better", "d": "same", "e": "new"}


def test_a_problem_that_is_worded_differently_is_the_same_problem():
    before = profile(SLOW, findings=(finding("a", "Far too slow", 900), finding("a", "B", 10)))
    after = profile(FAST, findings=(finding("a", "A bit slow", 100),))
    found = finding_differences([before], [after])
    changes = [(item.change, item.title) for item in found]
    assert changes == [("fixed", "B"), ("better", "A bit slow")]
    assert "fixed" not in compare([before], [after]).sentence


def test_what_is_wrong_with_recordings_is_told_apart():
    rule = "capture-quality"
    sides = [profile(SLOW, findings=(finding(rule, title),)) for title in ("No steps", "Lost")]
    found = finding_differences(sides[:1], sides[1:])
    assert [item.change for item in found] == ["fixed", "new"]


def test_nothing_is_fixed_where_nothing_was_recorded():
    before = profile(SLOW, findings=(finding("a", "A"),))
    after = profile([], {}, findings=(finding("capture-quality", "No GPU work"),))
    assert [item.change for item in compare([before], [after]).findings] == ["new"]


def test_numbers_in_titles_do_not_make_findings_new():
    sides = [profile(SLOW, findings=(finding("a", f"A {n} times"),)) for n in (3, 40)]
    assert [item.change for item in finding_differences(sides[:1], sides[1:])] == ["same"]


def test_a_side_has_what_most_of_its_runs_have():
    has, lacks = profile(SLOW, findings=(finding("a", "A"),)), profile(SLOW)
    assert finding_differences([has, lacks, lacks], [lacks]) == ()
    assert finding_differences([has, has, lacks], [lacks])[0].change == "fixed"


# --- Tables


def table(rows, key=("pid", "name")):
    fields = (
        Field("total_ns", Unit.NS, "Total."),
        Field("pid", Unit.ID, "Process."),
        Field("name", Unit.NONE, "Name."),
    )
    columns = {
        field.name: column_of([row[place] for row in rows]) if rows else Numbers(np.zeros(0))
        for place, field in enumerate(fields)
    }
    return Result("made", "Made", fields, columns, key)


def test_a_table_is_compared_by_its_key():
    before = table([(10, 1, "a"), (20, 1, "b")])
    after = table([(15, 1, "a"), (7, 1, "c")])
    found = compare_tables(before, after)
    assert isinstance(found, Result)
    rows = [dict(zip(found.columns, row, strict=True)) for row in found.rows()]
    assert [(row["name"], row["change"], row["delta_total_ns"]) for row in rows] == [
        ("b", "gone", -20),
        ("c", "new", 7),
        ("a", "changed", 5),
    ]
    assert [row["before_total_ns"] for row in rows] == [20, None, 10]


def test_ids_that_the_system_assigned_are_matched_in_order():
    found = compare_tables(
        table([(10, 71, "a"), (20, 72, "a")]), table([(10, 93, "a"), (25, 94, "a")])
    )
    assert isinstance(found, Result)
    assert [row[0] for row in found.rows()] == ["changed", "same"]


def test_times_in_a_key_are_matched_in_order_for_each_of_the_others():
    key = ("name", "total_ns")
    found = compare_tables(
        table([(30, 1, "a"), (10, 1, "a"), (11, 1, "b")], key),
        table([(102, 1, "b"), (104, 1, "a"), (101, 1, "a"), (109, 1, "a")], key),
    )
    assert isinstance(found, Result)
    changes = sorted((row[-2:], row[0]) for row in found.rows())
    assert [change for _, change in changes] == ["same", "same", "same", "new"]


def test_tables_that_cannot_be_compared_say_why():
    made = table([(10, 1, "a")])
    skipped = Skipped("made", "no copies", "profile again")
    assert compare_tables(skipped, made) == Skipped("made", "before: no copies", "profile again")
    keyless = compare_tables(table([(10, 1, "a")], ()), table([(10, 1, "a")], ()))
    assert isinstance(keyless, Skipped)
    assert "no key" in keyless.reason


def test_work_outside_the_counted_steps_of_a_side_is_not_on_that_side():
    own, other = kernel("warm_up"), kernel("main")
    before = items({own: SLOW[:1] * 4, other: SLOW[:1] * 4})
    after = before._replace(executions=np.array([0.0, 1.0]), ns=np.array([0.0, before.ns[1]]))
    runs = [profile(SLOW[:4], {GEMM: 100_000}, each) for each in (before, after)]
    found = {item.name: item for item in item_changes(runs[:1], runs[1:], paired=False)}
    assert (found["warm_up"].change, found["warm_up"].after) == ("gone", None)
    assert found["main"].change == "same"


def test_phases_are_tested_if_there_are_several_runs():
    def runs(*seconds):
        steady = {("gemm", "busy"): 500.0}
        return [
            replace(
                profile(SLOW), phases={("a",): {("gemm", "busy"): ns}, ("b",): steady, (): steady}
            )
            for ns in seconds
        ]

    before, after = runs(900.0, 905.0, 910.0, 900.0), runs(700.0, 702.0, 699.0, 700.0)
    found = {item.path: item for item in compare(before, after).phases}
    series = [[[900.0], [905.0], [910.0], [900.0]], [[700.0], [702.0], [699.0], [700.0]]]
    assert found["a",].p == difference_p(*series)
    assert found["a",].is_significant
    assert not found["b",].is_significant
    assert {item.p for item in compare(before[:1], after[:1]).phases} == {None}


def test_memory_is_compared_by_allocator():
    before = [replace(profile(SLOW), memory_peak_bytes={"driver": size}) for size in (90, 110)]
    after = [replace(profile(SLOW), memory_peak_bytes={"driver": 50, "framework": 40})]
    found = compare(before, after).memory
    assert [(item.allocator, item.before_bytes, item.after_bytes) for item in found] == [
        ("driver", 100, 50),
        ("framework", None, 40),
    ]
    assert [item.delta_bytes for item in found] == [-50, None]
