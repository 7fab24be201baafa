"""The samples of hardware metrics, from values with times and from blocks of regular samples."""

from __future__ import annotations

from typing import Any

import pytest
from support.programs import Program

from warpline.derived.metrics.series import NO_DEVICE, MetricSeries, metric_series
from warpline.errors import CorruptTraceError
from warpline.schema.counters import BLOCK_SAMPLES


def block(**row: Any) -> dict[str, Any]:
    return {"start_ns": 0, "end_ns": 300, "device_id": 0, "metric_id": 0, "scale": 2.0} | {
        "first_code_id": None,
        **row,
    }


def series_of(
    *rows: dict[str, Any], codes: tuple[int, ...] = (), window: tuple[int, int] | None = None
) -> tuple[MetricSeries, ...]:
    """Return the series of blocks (rows with samples) and timed values."""
    program = Program()
    for name in ("SM Active [%]", "DRAM read [B]"):
        program.add("metric", name=name)
    for row in rows:
        program.add("counter_block" if "samples" in row else "counter", **row)
    for code in codes:
        program.add("counter_code", code=code)
    trace = program.trace()
    return metric_series(trace if window is None else trace.window(*window))


def test_codes_are_values_of_equal_parts_of_the_time() -> None:
    (one,) = series_of(block(samples=3, first_code_id=1), codes=(9, 1, 2, 65535))
    assert (one.device, one.metric, one.name) == (0, 0, "SM Active [%]")
    assert one.start_ns.tolist() == [0, 100, 200]
    assert one.end_ns.tolist() == [100, 200, 300]
    assert one.value.tolist() == [2.0, 4.0, 131070.0]
    assert one.covered_ns == 300


def test_a_block_without_codes_is_constant() -> None:
    (one,) = series_of(block(samples=2, scale=7.5, first_code_id=None, end_ns=3))
    assert one.value.tolist() == [7.5, 7.5]
    assert (one.start_ns.tolist(), one.end_ns.tolist()) == ([0, 1], [1, 3])


def test_blocks_and_values_of_a_metric_are_one_series_in_order_of_time() -> None:
    series = series_of(
        block(samples=1, start_ns=1000, end_ns=1100),
        block(samples=1, scale=1.0),
        {"time_ns": 400, "device_id": 0, "metric_id": 1, "value": 5.0},
        {"time_ns": 450, "device_id": 0, "metric_id": 1, "value": 6.0},
        {"time_ns": 500, "device_id": 0, "metric_id": 1, "value": float("nan")},
        {"time_ns": 9, "device_id": None, "metric_id": 1, "value": 1.0},
    )
    found = {(one.device, one.metric): one for one in series}
    assert found.keys() == {(0, 0), (0, 1), (NO_DEVICE, 1)}
    assert found[0, 0].value.tolist() == [1.0, 2.0]
    assert found[0, 1].start_ns.tolist() == [400, 450]
    assert found[0, 1].end_ns.tolist() == [450, 500]  # the last one is as long as most
    assert found[NO_DEVICE, 1].covered_ns == 0  # how long one value lasts is unknown


def test_a_gap_in_regular_values_is_a_gap() -> None:
    times = [*range(0, 1000, 100), *range(3000, 4000, 100)]
    rows = [{"time_ns": at, "device_id": 0, "metric_id": 1, "value": 1.0} for at in times]
    (one,) = series_of(*rows)
    assert one.covered_ns == 20 * 100
    # Values that come when something changes last until the next one.
    irregular = [
        {**row, "time_ns": at} for row, at in zip(rows, [0, 7, 500, 510, 9000], strict=False)
    ]
    (one,) = series_of(*irregular)
    assert one.end_ns[:-1].tolist() == [7, 500, 510, 9000]


def test_a_window_has_the_samples_that_overlap_it() -> None:
    (one,) = series_of(block(samples=3, first_code_id=0), codes=(1, 2, 3), window=(150, 200))
    assert one.value.tolist() == [4.0]


@pytest.mark.parametrize(
    "damage",
    [
        {"samples": 0},
        {"samples": BLOCK_SAMPLES + 1},
        {"samples": 2, "first_code_id": 2},
    ],
)
def test_a_damaged_block_is_an_error(damage: dict[str, Any]) -> None:
    with pytest.raises(CorruptTraceError, match="sampled metrics are damaged"):
        series_of(block(**damage), codes=(1, 2, 3))
