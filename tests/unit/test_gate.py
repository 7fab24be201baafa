"""Limits of a gate, and what it says of summaries."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import warpline
from warpline.comparison import limits
from warpline.comparison.gate import judge
from warpline.comparison.summary import Summary, joined, thinned

H200 = {"GPU": "NVIDIA H200", "profiler": "Warpline"}


def side(level, *, seed, runs=8, between=0.005, **more):
    rng = np.random.default_rng(seed)
    levels = level * np.exp(rng.normal(0.0, between, runs))
    steps = tuple(tuple((own * rng.normal(1.0, 0.02, 30)).tolist()) for own in levels)
    facts = {"parts_ns": {"busy:gemm": tuple(levels.tolist())}, "environment": H200, **more}
    return Summary(f"side {seed}", "", "range:step", (), steps, **facts)


def gate(before, after, text="step:3%", *, paired=True):
    return judge(before, after, limits.parse(text), paired=paired)


def only(found):
    (item,) = found.metrics
    return item


@pytest.mark.parametrize(
    ("level", "outcome", "status"),
    [(100e6, "pass", 0), (90e6, "pass", 0), (106e6, "regression", 3)],
)
def test_a_step_passes_or_fails(level, outcome, status):
    found = gate(side(100e6, seed=1), side(level, seed=2))
    assert (found.outcome, found.status) == (outcome, status)
    assert only(found).low < level / 100e6 - 1 < only(found).high
    assert found.is_paired


def test_too_few_runs_cannot_decide_and_say_how_many_would():
    before = side(100e6, seed=1, runs=3, between=0.03)
    found = gate(before, side(102e6, seed=2, runs=3, between=0.03))
    assert (found.outcome, found.status) == ("undecided", 4)
    needed = only(found).runs_needed
    assert needed is not None
    assert needed > 3
    assert f"about {needed} runs of each side would decide" in found.sentence


def test_several_metrics_share_the_probability_of_a_false_alarm():
    before, after = side(100e6, seed=1, between=0.02), side(106e6, seed=5, between=0.02)
    alone = only(gate(before, after))
    assert 0.01 / 40 < alone.p < 0.01
    assert alone.outcome == "regression"
    many = ",".join(["step:3%", *(f"busy:gemm{'*' * n}:3%" for n in range(1, 41))])
    assert gate(before, after, many).metrics[0].outcome == "undecided"


def test_absolute_limits():
    rows = {"parts_ns": {"busy:collective": (1e6,) * 8, "busy:gemm": (9e6,) * 8}}
    more = {"parts_ns": {"busy:collective": (4e6,) * 8, "busy:gemm": (9e6,) * 8}}
    before, after = side(1e7, seed=1, **rows), side(1e7, seed=2, **more)
    assert gate(before, after, "exposed-communication:2ms").outcome == "regression"
    assert gate(before, after, "exposed-communication:4ms").outcome == "pass"
    assert gate(before, before, "exposed-communication:1us").outcome == "pass"


def test_a_new_kernel_of_a_recording_is_a_regression_and_that_of_a_baseline_unknown():
    kernels = {f"kernel{n}": (1e5,) * 8 for n in range(40)}
    before = side(1e7, seed=1, kernels_ns=kernels)
    after = side(1e7, seed=2, kernels_ns={**kernels, "new": (1e6,) * 8})
    assert gate(before, after, "kernel:new:1us").outcome == "regression"
    kept = thinned(before)
    assert not kept.has_all_kernels
    item = only(gate(kept, after, "kernel:new:1us"))
    assert item.outcome == "undecided"
    assert item.reason == "kernel:new: not among the 30 longest kernels that side 1 keeps"


def test_inferred_steps_of_other_work():
    few, many = (
        replace(side(1e7, seed=1), source="periodicity", operations=(count,) * 8)
        for count in (100.0, 200.0)
    )
    doubt = "may not be the same work: 100 GPU operations per step before, 200 after"
    assert doubt in gate(few, many).sentence
    assert "same work" not in gate(few, few).sentence
    named = replace(many, source="range:step")
    assert gate(few, named).outcome == "undecided"
    assert doubt in gate(few, named).sentence
    assert gate(few, replace(few, source="range:step")).outcome == "pass"


def test_levels_of_graph_traces_forbid_a_decision():
    whole, nodes = (
        side(1e7, seed=1, environment={**H200, "CUDA graph trace": level})
        for level in ("graph", "node")
    )
    found = gate(whole, nodes)
    assert found.sentence == "Cannot decide: CUDA graph trace differs (graph and node)."
    assert found.notes == ()


def test_several_metrics_pass_together():
    one = side(1e7, seed=1)
    found = gate(one, side(0.8e7, seed=2), "step:3%,busy:gemm:3%")
    assert found.sentence == "Pass: all 2 metrics are within their limits."


def test_kernels_by_pattern_are_summed_and_a_missing_pattern_is_no_pass():
    kernels = {"flash_fwd_kernel": (1e6,) * 8, "flash_bwd_kernel": (2e6,) * 8, "gemm": (1e6,) * 8}
    grown = {**kernels, "flash_bwd_kernel": (3e6,) * 8}
    before, after = side(1e7, seed=1, kernels_ns=kernels), side(1e7, seed=2, kernels_ns=grown)
    item = only(gate(before, after, "kernel:*FLASH*:10%"))
    assert (item.before, item.after, item.outcome) == (3e6, 4e6, "regression")
    assert gate(before, after, "kernel:gemm:10%").outcome == "pass"
    assert gate(before, after, "kernel:at::native::*:10%").outcome == "undecided"
    appeared = gate(replace(before, kernels_ns={}), after, "kernel:gemm:10%")
    assert appeared.outcome == "regression"
    assert only(appeared).change == np.inf
    assert appeared.to_dict()["metrics"][0]["change"] is None


def test_findings():
    before = side(1e7, seed=1, findings={"host-sync": "high", "small-copies": "low"})
    after = side(1e7, seed=2, findings={"host-sync": "high", "small-copies": "medium"})
    assert gate(before, after, "finding:high").outcome == "pass"
    worse = gate(before, after, "finding:medium")
    assert worse.outcome == "regression"
    assert "small-copies" in worse.sentence
    assert gate(before, after, "finding:small-copies").outcome == "pass"
    assert gate(replace(before, findings={}), after, "finding:host-sync").outcome == "regression"
    blind = replace(after, source="none", findings={})  # no steps: rules find little
    assert gate(before, blind, "finding:high").outcome == "undecided"


def test_memory_of_single_runs_is_compared_exactly():
    before = side(1e7, seed=1, runs=1, memory_peak_bytes=(1e9,))
    after = side(1e7, seed=2, runs=1, memory_peak_bytes=(1.06e9,))
    assert gate(before, after, "memory-peak:5%").outcome == "regression"
    assert gate(before, after, "memory-peak:100MB").outcome == "pass"
    assert gate(before, after, "memory-peak:50MB").outcome == "regression"
    assert gate(before, replace(after, memory_peak_bytes=()), "memory-peak:5%").status == 4


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"environment": {**H200, "GPU": "NVIDIA L4"}}, "GPU differs (NVIDIA H200 and NVIDIA L4)"),
        ({"environment": {**H200, "profiler": "Nsight Systems"}}, "profiler differs"),
        ({"source": "cpu:range:step"}, "timed on the CPU"),
        ({"source": "command"}, "times of whole commands"),
    ],
)
def test_what_cannot_be_compared_is_not_decided(changes, words):
    before = side(100e6, seed=1)
    found = gate(before, replace(side(200e6, seed=2), **changes))
    assert found.status == 4
    assert words in found.sentence


def test_one_run_of_each_side_says_what_it_assumes():
    found = gate(side(100e6, seed=1, runs=1), side(100e6, seed=2, runs=1))
    assert found.outcome == "undecided"
    assert not found.is_paired
    assert "assumed to be 2%" in found.notes[0]
    assert gate(side(100e6, seed=1, runs=1), side(130e6, seed=2, runs=1)).outcome == "regression"


def test_the_worst_metric_decides():
    before, after = side(100e6, seed=1), side(106e6, seed=2)
    found = gate(before, after, "finding:high,step:3%,kernel:none:5%")
    assert [item.outcome for item in found.metrics] == ["pass", "regression", "undecided"]
    assert found.outcome == "regression"


@pytest.mark.parametrize(
    "text",
    [
        *("", "step", "step:", "step:3", "step:-3%", "step:x%", "step:0%", "step:nan%", "stp:3%"),
        *("kernel:3%", "kernel::3%", "memory-peak:5ms", "step:5MB", "finding", "finding:"),
        *("step:3%,step:4%", "step:a:3%", "step:-2ms", "step:1e999%"),
    ],
)
def test_invalid_limits_are_refused(text):
    with pytest.raises(warpline.UsageError) as caught:
        limits.parse(text)
    assert caught.value.hint


def test_limits_are_read():
    found = limits.parse("step:3%, kernel:*a::b*:10%,idle:host-sync:1.5ms,memory-peak:1GiB")
    assert [item.metric for item in found] == [
        *("step", "kernel:*a::b*", "idle:host-sync", "memory-peak")
    ]
    assert [item.value for item in found] == [0.03, 0.1, 1.5e6, 2**30]


@given(st.lists(st.floats(1.0, 1e9), min_size=1, max_size=500))
def test_a_thinned_run_keeps_its_mean(steps):
    kept = thinned(Summary("x", "", "none", (), (tuple(steps),)))
    assert len(kept.step_ns[0]) <= 48
    assert np.mean(kept.step_ns[0]) == pytest.approx(np.mean(steps))


def test_runs_are_joined():
    one = Summary(
        "a",
        "2026-02-02T00:00:00Z",
        "range:step",
        ("a",),
        ((1.0,),),
        {"busy:gemm": (1.0,)},
        findings={"host-sync": "low"},
        environment={"GPU": "H200", "host": "a"},
    )
    two = replace(
        one,
        recorded_utc="2026-01-01T00:00:00Z",
        parts_ns={"busy:other": (3.0,)},
        findings={"host-sync": "high"},
        environment={"GPU": "H200", "host": "b"},
    )
    both = joined("both", [one, two, replace(one, findings={})])
    assert both.parts_ns == {"busy:gemm": (1.0, 0.0, 1.0), "busy:other": (0.0, 3.0, 0.0)}
    assert both.findings == {"host-sync": "high"}
    assert both.environment == {"GPU": "H200", "host": "a, b"}
    assert both.recorded_utc == "2026-01-01T00:00:00Z"
