"""Whatever counters and timelines say, comparisons and step savings are finite and in order."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from support.any_trace import AnyTrace, any_traces
from support.kernel_counters import IDLE, OF_PEAK, trace

import warpline
from warpline.documents.kernel_filters import Choice
from warpline.documents.kernel_findings import kernel_findings, of_kernels
from warpline.documents.kernel_steps import TimelineSteps
from warpline.presentation.kernel_comparison import markdown, screen
from warpline.trace import Trace

TIME, DRAM = "gpu__time_duration.sum", "dram__bytes_read.sum"
NUMBERS = st.one_of(st.floats(1, 1e9), st.floats(), st.sampled_from([-1.0, 0.0, 1e18, 1e300]))
LAUNCH = st.fixed_dictionaries({}, optional={TIME: NUMBERS, DRAM: NUMBERS})
LAUNCHES = st.lists(st.tuples(LAUNCH, st.sampled_from("ab"), st.integers(1, 2)), max_size=6)


def counters(launches: list[tuple[dict[str, float], str, int]]) -> Trace:
    """Return launches of kernels with names and grids."""
    columns: dict[str, list[Any]] = {
        "name": [name for _, name, _ in launches],
        "grid_x": [size for _, _, size in launches],
    }
    return trace([{**IDLE, **metrics} for metrics, _, _ in launches], columns=columns)


@settings(max_examples=20)
@given(LAUNCHES, LAUNCHES)
def test_any_counters(before: Any, after: Any) -> None:
    with np.errstate(over="raise", divide="raise", invalid="raise"):
        found = warpline.compare_kernels(counters(before), counters(after))
    json.dumps(found.to_dict(), allow_nan=False)
    assert found.before.launches <= len(before)
    for item in found.kernels:
        assert (item.ratio is None) == (item.before is None or item.after is None)
        assert item.before is not None or item.change == "new"
        assert item.after is not None or item.change == "gone"
    assert len(screen(found).blocks) <= len(markdown(found).blocks)
    for side in (found.before, found.after):
        seen = [of for item in found.kernels for of in (item.before, item.after) if of]
        assert side.launches <= sum(of.launches for of in seen)


@settings(max_examples=20)
@given(any_traces())
def test_any_timeline(made: AnyTrace) -> None:
    timeline = made.trace()
    counted = trace([IDLE | {f"l1tex__data_pipe_lsu_wavefronts.{OF_PEAK}": 90.0}] * 2)
    if not timeline.row_count("kernel"):
        return
    for report in (counted, timeline):
        steps = TimelineSteps(timeline, report)
        for kernel in of_kernels(report, Choice(), timeline=steps):
            assert kernel.in_steps is not None
        for findings in kernel_findings(report, Choice(), timeline=steps):
            for item in findings:
                assert item.step is None or 0 <= item.step.low_ns <= item.step.high_ns
