"""Means of sampled metrics against sums over each moment, and samples of kernels alone."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.programs import Program

from warpline.derived.metrics.kernel_samples import TIME_ERROR_NS, kernel_samples
from warpline.derived.metrics.means import Integral
from warpline.derived.metrics.series import MetricSeries
from warpline.derived.work.operations import operations

LAST = 60  # moments
few = settings(max_examples=200, deadline=None)
Span = tuple[int, int]


@st.composite
def series(draw: st.DrawFn, unit: int = 1) -> MetricSeries:
    """Return samples of different lengths, with gaps between."""
    edges = sorted(draw(st.sets(st.integers(0, LAST), min_size=2, max_size=20)))
    kept = [span for span in pairwise(edges) if draw(st.booleans())]
    kept = kept or [(edges[0], edges[1])]
    start, end = (np.array(column, np.int64) * unit for column in zip(*kept, strict=True))
    value = np.array([draw(st.integers(0, 100)) for _ in kept], np.float64)
    return MetricSeries(0, 0, "metric", start, end, value)


spans = st.lists(
    st.tuples(st.integers(0, LAST - 1), st.integers(1, LAST)).map(
        lambda pair: (pair[0], max(pair[0] + 1, pair[1]))
    ),
    min_size=1,
    max_size=6,
)


@few
@given(series(), spans)
def test_a_mean_is_that_of_all_moments(samples: MetricSeries, chosen: list[Span]) -> None:
    at = np.full(LAST, np.nan)
    for start, end, value in zip(samples.start_ns, samples.end_ns, samples.value, strict=True):
        at[start:end] = value
    integral = Integral(samples)
    assert integral.mean() == pytest.approx(np.nanmean(at))
    start, end = (np.array(column, np.int64) for column in zip(*chosen, strict=True))
    found = integral.means_in(start, end)
    for row, (low, high) in enumerate(chosen):
        within = at[low:high]
        covered = int(np.count_nonzero(~np.isnan(within)))
        is_known = covered > 0 and 2 * covered >= high - low
        is_known = is_known and bool(high - low >= 2 * integral.period_ns)
        assert bool(found.is_known[row]) is is_known
        if is_known:
            assert found.value[row] == pytest.approx(np.nanmean(within))


@few
@given(
    series(TIME_ERROR_NS),
    st.lists(st.tuples(st.integers(0, LAST), st.integers(0, 30), st.booleans()), max_size=6),
)
def test_a_sample_shows_a_kernel_that_runs_alone(
    samples: MetricSeries, work: list[tuple[int, int, bool]]
) -> None:
    """The brute force looks at each moment; a time is off by one moment at most."""
    program = Program()
    running: list[set[int]] = [set() for _ in range(2 * LAST)]
    for number, (start, length, is_copy) in enumerate(work):
        times = start * TIME_ERROR_NS, (start + length) * TIME_ERROR_NS
        if is_copy:
            program.copy(number, number, times, 1, stream=number % 2)
        else:
            program.launch(number, number, times, f"k{number}", stream=number % 2)
        for moment in range(start, start + length):
            running[moment].add(number)
    trace = program.trace()
    found = kernel_samples(trace, samples)
    expected = {}
    for row, (low, high) in enumerate(
        zip(samples.start_ns // TIME_ERROR_NS, samples.end_ns // TIME_ERROR_NS, strict=True)
    ):
        around = running[max(low - 1, 0) : high + 1]
        alone = set.union(*around) if around else set()
        is_alone = low > 0 and all(each == alone for each in around) and len(alone) == 1
        if is_alone and not work[min(alone)][2]:
            expected[row] = min(alone)
    rows = dict(zip(found.sample.tolist(), found.kernel.tolist(), strict=True))
    assert rows.keys() == expected.keys()
    starts = operations(trace).start_ns
    for row, number in expected.items():
        assert starts[rows[row]] == work[number][0] * TIME_ERROR_NS
