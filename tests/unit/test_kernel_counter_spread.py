"""kernel_counter_spread: medians and spread of hardware counters by kernel and shape."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support import ncu_captures
from support.ncu_files import Field, block, launch, message, metric, report

import warpline

DURATION, ISSUE, READ, OTHER_READ, L2_HIT = range(5)
NAMES = (
    b"gpu__time_duration.sum",
    b"sm__issue_active.avg.pct_of_peak_sustained_elapsed",
    b"dram__bytes_read.sum",
    b"dram__bytes_op_read.sum",
    b"lts__t_sector_hit_rate.pct",
)


def _launch(grid: int = 2, name: bytes = b"work", **values: float) -> bytes:
    found = [metric(globals()[of], message((2, value))) for of, value in values.items()]
    size: list[Field] = [(10, message((1, grid), (2, 1), (3, 1)))]
    return launch(*size, name=name, metrics=found)


def _rows(folder: Path, *launches: bytes) -> list[dict[str, Any]]:
    path = folder / "run.ncu-rep"
    path.write_bytes(report(block([("kernel", data) for data in launches], NAMES)))
    return warpline.stats(path, "kernel_counter_spread").to_polars().to_dicts()


def test_launches_of_a_kernel_and_shape_are_one_row(tmp_path):
    rows = _rows(
        tmp_path,
        *(_launch(DURATION=value, ISSUE=value / 10) for value in (300.0, 100.0, 200.0, 400.0)),
        _launch(grid=8, DURATION=50.0),
        _launch(name=b"other", DURATION=5000.0),
    )
    assert [(row["kernel"], row["grid"], row["block"], row["launches"]) for row in rows] == [
        ("other()", "2x1x1", "32x1x1", 1),
        ("work()", "2x1x1", "32x1x1", 4),
        ("work()", "8x1x1", "32x1x1", 1),
    ], "the most time first"
    four = rows[1]
    assert (four["duration_min_ns"], four["duration_median_ns"], four["duration_max_ns"]) == (
        *(100.0, 250.0, 400.0),
    )
    variation = np.std([300, 100, 200, 400], ddof=1) / 250
    assert four["duration_cv_ratio"] == pytest.approx(variation)
    assert four["issue_median_ratio"] == pytest.approx(0.25)
    assert four["issue_cv_ratio"] == pytest.approx(variation)
    single = rows[2]
    assert single["duration_min_ns"] == single["duration_median_ns"] == 50.0
    assert single["duration_cv_ratio"] is None, "one launch has no spread"


def test_what_was_not_collected_is_null(tmp_path):
    (row,) = _rows(
        tmp_path,
        *(_launch(DURATION=1.0), _launch(DURATION=3.0, READ=64.0), _launch(OTHER_READ=32.0)),
    )
    assert (row["launches"], row["duration_median_ns"]) == (3, 2.0)
    # A chip has one of these names, and each column is over the launches that have the metric.
    assert (row["dram_read_min_bytes"], row["dram_read_max_bytes"]) == (32.0, 64.0)
    empty = {name for name, value in row.items() if value is None}
    assert {f"l2_hit_{what}_ratio" for what in ("median", "min", "max", "cv")} < empty
    assert "clock_median_hz" in empty


def test_zeros_have_no_variation(tmp_path):
    (row,) = _rows(tmp_path, _launch(L2_HIT=0.0), _launch(L2_HIT=0.0))
    assert (row["l2_hit_median_ratio"], row["l2_hit_cv_ratio"]) == (0.0, None)


def test_a_report_of_ncu(tmp_path):
    trace = warpline.open(ncu_captures.unpack("target", tmp_path))
    table = warpline.stats(trace, "kernel_counter_spread").to_polars()
    assert table["launches"].to_list() == [1] * 5
    metrics = trace["kernel_metric"]
    durations = metrics.filter(metrics["name"] == "gpu__time_duration.sum")["value"]
    assert table["duration_median_ns"].to_list() == sorted(durations, reverse=True)
    adding = table.filter(table["kernel"].str.starts_with("vec_add")).row(0, named=True)
    assert adding["grid"] == "2048x1x1"
    assert adding["dram_median_ratio"] == pytest.approx(0.734, abs=5e-4)
    assert adding["l2_hit_median_ratio"] == pytest.approx(0.335, abs=5e-4)
    assert adding["clock_median_hz"] == pytest.approx(1.95e9, rel=0.01)
    assert adding["l2_request_hit_median_ratio"] is None, "ncu's full set lacks it"


def test_a_printed_page(tmp_path):
    path = tmp_path / "any.csv"
    path.write_text(ncu_captures.printed("target", "raw.csv"))
    durations = warpline.stats(path, "kernel_counter_spread").to_polars()["duration_median_ns"]
    assert sorted(durations) == [65440.0, 75520.0, 110208.0, 339104.0, 532256.0]
