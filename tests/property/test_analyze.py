"""Properties of every diagnosis: its contract, its sums, and its invariants."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.any_trace import any_traces, empty_trace
from support.json_schema import violations

import warpline
from warpline.render import Options
from warpline.render.diagnosis import json as as_json
from warpline.render.diagnosis import markdown as as_markdown
from warpline.render.diagnosis import text as as_text
from warpline.render.escaping import display_width
from warpline.result import Diagnosis
from warpline.trace import Trace

SCHEMA = json.loads(
    (Path(__file__).parents[2] / "docs" / "analyze.schema.json").read_text(encoding="utf-8")
)
INDEPENDENT_OF_ORIGIN = ("steps", "breakdown", "overlap", "phases", "checklist", "verdict")


def analysed(trace: Trace) -> Diagnosis:
    found = warpline.analyze(trace)
    assert violations(json.loads(json.dumps(found.to_dict())), SCHEMA) == []
    for item in found.breakdown:
        assert sum(part.ns for part in item.parts) == item.total_ns
        assert sum(item.origins.values()) == item.ns(kind="busy")
    outermost = [phase for phase in found.phases if len(phase.path) <= 1]
    total = sum(item.total_ns for item in found.breakdown)
    assert sum(phase.total_ns for phase in outermost) == total
    return found


@settings(max_examples=60)
@given(any_traces(max_rows=10), st.integers(40, 130), st.booleans(), st.booleans())
def test_every_trace_is_diagnosed_and_shown(made, width, unicode, color):
    found = analysed(made.trace())
    options = Options(width=width, row_limit=40, unicode=unicode, color=color)
    for render in (
        as_text.render,
        as_text.render_checklist,
        as_markdown.render,
        as_markdown.render_checklist,
        as_json.render,
    ):
        out = io.StringIO()
        render(found, out, options)
        assert out.getvalue().endswith("\n")
        assert unicode or out.getvalue().isascii()
        if not color:
            assert "\x1b" not in out.getvalue()


@settings(max_examples=30)
@given(any_traces(max_rows=10), st.integers(0, 2**16))
def test_the_order_of_rows_changes_nothing(made, seed):
    before, after = (analysed(item.trace()).to_dict() for item in (made, made.permuted(seed)))
    assert before == after


@settings(max_examples=30)
@given(any_traces(max_rows=10), st.integers(-(2**40), 2**40))
def test_the_origin_of_time_changes_nothing(made, by_ns):
    before, after = (analysed(item.trace()).to_dict() for item in (made, made.shifted(by_ns)))
    for key in INDEPENDENT_OF_ORIGIN:
        assert before[key] == after[key]


def test_an_empty_trace_is_told():
    found = analysed(empty_trace())
    assert found.verdict.startswith("No GPU work was recorded")
    assert not found.breakdown
    assert not found.phases


@pytest.mark.parametrize("width", [80, 120])
def test_lines_of_real_recordings_fit(capture, width):
    found = warpline.analyze(warpline.open(capture("rich_metrics_sampling")))
    out = io.StringIO()
    as_text.render(found, out, Options(width=width, row_limit=40))
    lines = out.getvalue().splitlines()
    free = [line for line in lines if "ncu --set" not in line and ".sqlite" not in line]
    assert max(map(display_width, free)) <= width
