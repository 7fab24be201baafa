"""Runs that counted different metrics of the same launches are merged into one recording."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.counter_runs import CLOCK, A, B, Launch, run

from warpline import api
from warpline.errors import CounterError
from warpline.trace import Trace
from warpline.trace.counter_runs import merge_runs
from warpline.trace.recording import write_recording


def metrics_of(trace: Trace) -> list[dict[str, float]]:
    """Return the metrics of each launch."""
    found: list[dict[str, float]] = [{} for _ in range(trace.row_count("profiled_kernel"))]
    for row in trace["kernel_metric"].iter_rows(named=True):
        assert row["name"] not in found[row["profiled_kernel_id"]]
        assert row["unit"] == f"unit of {row['name']}"
        found[row["profiled_kernel_id"]][row["name"]] = row["value"]
    return found


WANTED = ["first", "second", "third"]


def merged(*launches: Sequence[Launch], clocks: Sequence[float] = (), **how: Any) -> Trace:
    """Return runs with these launches, each with a metric of its own, as one."""
    runs = [
        run(of, clock, **{metric: 100.0 * place})
        for place, (of, clock, metric) in enumerate(
            zip(launches, clocks or [1e9] * len(launches), WANTED, strict=False), 1
        )
    ]
    return merge_runs(runs, WANTED, clock=CLOCK, **how)


def test_launches_have_the_metrics_of_all_runs(tmp_path: Path) -> None:
    found = merged([A, B, A], [A, B, A], [A, B, A], clocks=[1.9e9, 2e9, 1.8e9])
    write_recording(found, tmp_path / "x.warpline")
    for trace in (found, api.open(tmp_path / "x.warpline")):
        assert metrics_of(trace) == [
            {"first": 100 + n, "second": 200 + n, "third": 300 + n} for n in range(3)
        ], "the clock was not asked for"
        kernels = trace["profiled_kernel"]
        assert kernels["clock_drift_ratio"].to_list() == pytest.approx([0.1] * 3)
        assert kernels["passes"].to_list() == [3] * 3
        assert trace["process"]["pid"].to_list() == [int(1.9e9)], "of the first run"


def test_a_metric_of_several_runs_is_that_of_the_first() -> None:
    runs = [run([A], 1e9, first=1.0), run([A], 2e9, first=2.0, second=3.0)]
    found = merge_runs(runs, [*WANTED, CLOCK], clock=CLOCK)
    assert metrics_of(found) == [{"first": 1.0, "second": 3.0, CLOCK: 1e9}]


def test_equal_launches_are_matched_in_their_order() -> None:
    found = merged([A, B, A, B], [B, A, B, A])
    assert found["profiled_kernel"]["name"].to_list() == ["a", "b", "a", "b"]
    # Launch 0 of the second run is the first b, which the first run launched second.
    assert [one["second"] for one in metrics_of(found)] == [201, 200, 203, 202]


def test_what_must_be_equal() -> None:
    first, second = [Launch("a", 1), Launch("a", 2)], [Launch("a", 2), Launch("a", 1)]
    assert [one["second"] for one in metrics_of(merged(first, second))] == [201, 200]
    by_name = merged(first, second, match="name")
    assert [one["second"] for one in metrics_of(by_name)] == [200, 201]
    on_others = [launch._replace(stream=8) for launch in first]
    assert len(metrics_of(merged(first, on_others))) == 2
    assert metrics_of(merged(first, on_others, match="all")) == []


def test_processes_are_matched_by_their_order() -> None:
    first = [Launch("a", 1, process) for process in (0, 0, 1)]
    assert len(metrics_of(merged(first, first))) == 3
    other = [Launch("a", 1, process) for process in (0, 1, 1)]
    found = merged(first, other)
    assert found["profiled_kernel"]["process_id"].to_list() == [0, 1]
    # A process without launches, before the others, has no place.
    assert (
        len(metrics_of(merged(first, [one._replace(process=one.process + 1) for one in first])))
        == 3
    )


@pytest.mark.parametrize(
    ("mode", "metrics", "told"),
    [
        (
            "balanced",
            [{"first": 100, "second": 200}],
            "2 of 3 launches are not in all passes: they",
        ),
        (
            "relaxed",
            [{"first": 100, "second": 200}, {"first": 101}],
            "2 of 3 launches are not in all passes: metrics of passes without them are missing",
        ),
    ],
)
def test_launches_that_differ(mode: str, metrics: list[dict[str, float]], told: str) -> None:
    found = merged([A, B], [A, A], mode=mode, warnings=["too few passes"])
    assert metrics_of(found) == metrics
    assert found["profiled_kernel"]["passes"].to_list() == [len(one) for one in metrics]
    drift = [0.0 if len(one) > 1 else None for one in metrics]
    assert found["profiled_kernel"]["clock_drift_ratio"].to_list() == drift
    deviation, other = found.meta.warnings
    assert deviation.startswith(told)
    assert other == "too few passes"


def test_launches_that_must_not_differ() -> None:
    assert merged([A, B], [A, B], mode="strict").meta.warnings == ()
    with pytest.raises(CounterError, match="1 of 2 launches is not in all passes"):
        merged([A, B], [A], mode="strict")


_LAUNCH = st.builds(Launch, st.sampled_from("ab"), st.integers(1, 2), st.integers(0, 1), st.just(7))
# Both processes have launches: those that have none have no place among the processes.
_RUN = st.lists(_LAUNCH, min_size=1, max_size=8).map(lambda run: [A, B._replace(process=1), *run])


@given(st.lists(_RUN, min_size=1, max_size=3))
def test_any_runs(runs: list[list[Launch]]) -> None:
    """Of equal launches, as many are kept as the run with the fewest has, the first ones."""
    found = merged(*runs)
    fewest = Counter(runs[0])
    for one in runs[1:]:
        fewest &= Counter(one)
    seen: Counter[Launch] = Counter()
    expected = []
    for place, launch in enumerate(runs[0]):
        if seen[launch] < fewest[launch]:
            nth = seen[launch]
            seen[launch] += 1
            places = [[p for p, other in enumerate(of) if other == launch][nth] for of in runs]
            expected.append(
                (place, {WANTED[n]: 100.0 * (n + 1) + at for n, at in enumerate(places)})
            )
    assert found["profiled_kernel"]["start_ns"].to_list() == [place for place, _ in expected]
    assert metrics_of(found) == [metrics for _, metrics in expected]
