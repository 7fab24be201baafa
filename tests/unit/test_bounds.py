"""Limits of one side: how they are read, and what of a summary they are about."""

from __future__ import annotations

import pytest

from warpline.comparison.bounds import judge_bound, judge_findings, parse_bound
from warpline.comparison.summary import Summary
from warpline.errors import UsageError

GPU = Summary(
    title="run",
    recorded_utc="",
    source="range:step",
    recordings=("a", "b"),
    step_ns=((1e6, 3e6), (4e6, 4e6)),  # means of 2 and 4 ms
    parts_ns={
        "busy:gemm": (1.5e6, 3.0e6),
        "idle:host-sync": (0.4e6, 0.8e6),
        "idle:tail": (0.1e6, 0.2e6),
    },
    memory_peak_bytes=(2**30, 3 * 2**30),
    findings={"host-sync": "medium", "fp64": "low"},
)
CPU = Summary("run", "", "cpu:range:step", ("a",), ((5e6,),))
WHOLE = Summary("run", "", "none", ("a",), ((5e6,),), parts_ns={"busy:gemm": (5e6,)})


@pytest.mark.parametrize(
    ("metric", "text", "value", "shown"),
    [
        ("step_ms", "<= 12", 12e6, "<= 12 ms"),
        ("step_ms", "<1.5 ms", 1.5e6, "< 1.5 ms"),
        ("step_ms", 12, 12e6, "<= 12 ms"),
        ("idle", "<= 10 %", 0.1, "<= 10%"),
        ("idle", "0%", 0.0, "<= 0%"),
        ("memory_peak", "<= 8 GiB", 8 * 2**30, "<= 8 GiB"),
        ("memory_peak", "< 500MB", 500e6, "< 500MB"),
    ],
)
def test_a_limit_is_read(metric, text, value, shown):
    bound = parse_bound(metric, text)
    assert bound.value == pytest.approx(value)
    assert bound.text == shown
    assert bound.holds(bound.value) != bound.is_strict
    assert bound.is_strict == shown.startswith("< ")


@pytest.mark.parametrize(
    ("metric", "text"),
    [
        *[("step_ms", text) for text in ("", ">= 2", "-1", "nan", "inf", "2 s", True)],
        *[("idle", text) for text in ("10", "<= -1%", ">= 5%", "%", 0.1)],
        *[("memory_peak", text) for text in ("8", "8 GB/s", "GiB", "-1 GiB")],
    ],
)
def test_what_is_no_limit_is_an_error(metric, text):
    with pytest.raises(UsageError, match=rf"^{metric}=.* is not a limit\n"):
        parse_bound(metric, text)


@pytest.mark.parametrize(
    ("metric", "at_most", "said"),
    [
        ("step_ms", "3", "3.00 ms, limit <= {}"),  # the mean of both runs
        ("idle", "25%", "25.0%, limit <= {}"),  # 1.5 of 6 ms
        ("memory_peak", "2 GiB", "2.00 GiB, limit <= {}"),
    ],
)
def test_the_mean_of_all_runs_counts(metric, at_most, said):
    bound = parse_bound(metric, at_most)
    found = judge_bound(GPU, bound._replace(value=bound.value * (1 + 1e-9)))
    assert found.outcome == "ok"
    assert found.said == said.format(bound.text.removeprefix("<= "))
    assert judge_bound(GPU, bound._replace(value=bound.value * (1 - 1e-9))).outcome == "failed"


def test_what_was_not_recorded_is_unknown():
    for metric, text, side in [
        ("step_ms", "9", WHOLE),
        ("idle", "9%", CPU),
        ("memory_peak", "9 GiB", CPU),
        ("memory_peak", "9 GiB", WHOLE),
    ]:
        found = judge_bound(side, parse_bound(metric, text))
        assert (found.outcome, found.value) == ("unknown", None)
    assert judge_bound(CPU, parse_bound("step_ms", "5")).outcome == "ok"
    assert judge_findings(CPU, ["high"]).outcome == "unknown"


def test_findings_of_a_severity_or_higher_or_of_a_rule():
    assert judge_findings(GPU, ["high"]).outcome == "ok"
    assert judge_findings(GPU, ["medium"]).said.startswith("host-sync (medium); limit: none")
    assert judge_findings(GPU, ["low"]).said.startswith("host-sync (medium), fp64 (low);")
    assert judge_findings(GPU, ["fp64"]).said.startswith("fp64 (low);")
    assert judge_findings(GPU, ["high", "launch-bound"]).outcome == "ok"
