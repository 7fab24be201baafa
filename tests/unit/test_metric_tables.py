"""Sampled metrics by hand: meanings of names, means in spans, and the tables."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from support.metrics import PERCENT, PERIOD, sampled
from support.programs import Program

import warpline
from warpline.derived.metrics.kernel_samples import TIME_ERROR_NS
from warpline.derived.metrics.known import known_metric, known_series
from warpline.derived.metrics.means import Integral
from warpline.derived.metrics.series import metric_series
from warpline.result import Skipped
from warpline.trace import Trace
from warpline.units import Unit

US = 1000


def rows_of(trace: Trace, table: str) -> list[dict[str, Any]]:
    result = warpline.stats(trace, table)
    return [dict(zip(result.columns, row, strict=True)) for row in result.rows()]


@pytest.mark.parametrize(
    ("name", "meaning", "unit"),
    [
        (f"sm__cycles_active.{PERCENT}", "sm_active", Unit.RATIO),
        ("SMs Active [Throughput %]", "sm_active", Unit.RATIO),
        ("sm__cycles_active.max.pct_of_peak_sustained_elapsed", "sm_active_most", Unit.RATIO),
        (f"TPC.TriageCompute.sm__inst_executed_realtime.{PERCENT}", "sm_issue", Unit.RATIO),
        ("SM Issue Active [Throughput %]", "sm_issue", Unit.RATIO),
        ("gr__cycles_active.sum.pct_of_peak_sustained_elapsed", "gr_active", Unit.RATIO),
        ("Compute Warps in Flight [Throughput %]", "warps_active", Unit.RATIO),
        ("dram__bytes_read.sum", "dram_read_rate", Unit.BYTES_PER_S),
        (f"dram__read_throughput.{PERCENT}", "dram_read", Unit.RATIO),
        ("GPU Memory Write Bandwidth [Throughput %]", "dram_write", Unit.RATIO),
        ("PCIe Read Bandwidth [GB/s]", "pcie_rx_rate", Unit.BYTES_PER_S),
        ("pcie__write_bytes.sum.per_second", "pcie_tx_rate", Unit.BYTES_PER_S),
        ("NVLink RX Responses User Data [Throughput %]", "nvlink_rx", Unit.RATIO),
        ("nvltx__bytes.sum", "nvlink_tx_rate", Unit.BYTES_PER_S),
        ("gpm__sm_util.pct", "sm_active", Unit.RATIO),
        ("gpm__dram_bw_util.pct", "dram_active", Unit.RATIO),
        ("gpm__pcie_rx_bytes.per_second", "pcie_rx_rate", Unit.BYTES_PER_S),
        ("nvlrx__bytes_data_user.sum", "nvlink_rx_user_rate", Unit.BYTES_PER_S),
        ("lts__t_sector_hit_rate.pct", "l2_hit", Unit.RATIO),
        ("gpc__cycles_elapsed.avg.per_second", "gpu_clock", Unit.HZ),
        ("SYS Clock Frequency [MHz]", "sys_clock", Unit.HZ),
        ("gpm__pcie_tx_bytes.sum.per_second", "pcie_tx_rate", Unit.BYTES_PER_S),
    ],
)
def test_names_of_recorders_have_one_meaning(name: str, meaning: str, unit: Unit) -> None:
    known = known_metric(name)
    assert known is not None
    assert (known.meaning.id, known.meaning.unit) == (meaning, unit)


@pytest.mark.parametrize(
    "name",
    [
        "",
        "SMs Active",
        "SMs Active [Sum]",
        "Tensor Active / FP16 Active [Throughput %]",  # a pipe that both share
        "Compute Warps in Flight [Avg Warps per Cycle]",
        "lts__t_sectors.sum",  # sectors, not bytes
        "sm__cycles_active.sum",  # cycles, not a share
        "sm__cycles_active.avg.per_second",
        f"sm__cycles_inactive.{PERCENT}",
        f"{'a.' * 5000}sm__cycles_active.{PERCENT}",
    ],
)
def test_other_names_have_none(name: str) -> None:
    assert known_metric(name) is None


def test_values_are_in_the_unit_of_their_meaning() -> None:
    program = Program()
    sampled(program, f"sm__cycles_active.{PERCENT}", 50, 100)
    sampled(program, "dram__bytes_read.sum", 200, 0)
    sampled(program, "GPC Clock Frequency [MHz]", 600)
    sampled(program, "PCIe Read Bandwidth [GB/s]", 1.5)
    for part, value in (("Requests User", 4), ("Requests Protocol", 1), ("Responses User", 2)):
        sampled(program, f"NVLink RX {part} Data [Throughput %]", value)
    for part, value in (("Read", 30), ("Write", 12)):
        sampled(program, f"DRAM {part} Bandwidth [Throughput %]", value, value)
    found = {
        key: each.samples.value.tolist() for key, each in known_series(program.trace()).items()
    }
    assert found[0, "sm_active"] == [0.5, 1.0]
    assert found[0, "dram_read_rate"] == [200 / 100e-6, 0]  # bytes in 100 us
    assert found[0, "gpu_clock"] == [600e6]
    assert found[0, "pcie_rx_rate"] == [1.5e9]
    assert found[0, "nvlink_rx"] == pytest.approx([0.07])
    assert found[0, "dram_active"] == pytest.approx([0.42, 0.42])


def test_the_first_name_of_a_meaning_counts() -> None:
    program = Program()
    sampled(program, "SMs Active [Throughput %]", 10)
    sampled(program, f"sm__cycles_active.{PERCENT}", 20)
    assert known_series(program.trace())[0, "sm_active"].samples.value.tolist() == [0.2]


def test_means_are_by_time_and_without_gaps() -> None:
    program = Program()
    sampled(program, "a", 10, 20)
    sampled(program, "b", 0)
    program.rows["counter_block"][0]["metric_id"] = 0
    sampled(program, "c", 40, 60, start=4 * PERIOD)
    program.rows["counter_block"][2]["metric_id"] = 0
    series = metric_series(program.trace())[0]  # 10 and 20, a gap of two samples, 40 and 60
    integral = Integral(series)
    assert integral.mean() == pytest.approx(130 / 4)
    start = np.array([0, 50, 100, 200, 400, 0]) * US
    end = np.array([200, 250, 350, 400, 600, 100]) * US
    found = integral.means_in(start, end)
    # The second has half of the first sample and the second one. Of the third, less than half was
    # sampled, of the fourth nothing; the last one is a single sample.
    assert found.is_known.tolist() == [True, True, False, False, True, False]
    assert found.value[[0, 1, 4]] == pytest.approx([15, (5 + 20) / 1.5, 50])
    together = integral.mean_of(start[[0, 4, 0]], end[[0, 4, 0]])
    assert together == pytest.approx(130 / 4)  # time in two spans counts once
    assert integral.mean_of(start[3:4], end[3:4]) is None


def test_gpu_metric_sum() -> None:
    program = Program()
    sampled(program, f"sm__cycles_active.{PERCENT}", 0, 10, 20, 100)
    sampled(program, "pcie__read_bytes.sum", 500, 100, device=1)
    sampled(program, "ib0: sent [Bytes/s]", 7)
    program.rows["counter_block"][2]["device_id"] = None
    first, second, third = sorted(
        rows_of(program.trace(), "gpu_metric_sum"), key=lambda row: -row["samples"]
    )
    assert (first["gpu_index"], first["samples"], first["period_ns"]) == (0, 4, PERIOD)
    assert (first["mean"], first["median"], first["min"], first["max"]) == (32.5, 15, 0, 100)
    assert first["p99"] == pytest.approx(20 + 0.97 * 80)
    assert (first["meaning"], first["total_bytes"]) == ("SM active", None)
    assert (second["gpu_index"], second["mean"], second["total_bytes"]) == (1, 300, 600)
    assert (third["gpu_index"], third["meaning"], third["mean"]) == (None, None, 7)
    assert rows_of(program.trace(), "gpu_metric_util_sum") == rows_of(
        program.trace(), "gpu_metric_sum"
    )


def test_samples_of_a_kernel_alone() -> None:
    """A sample counts if its kernel runs 50 us more on both sides, and nothing else runs."""
    program = Program()
    program.launch(0, 1, (250 * US, 550 * US), "long")  # covers samples 3 and 4, 50 us to spare
    program.launch(2, 3, (700 * US, 900 * US), "early")  # sample 7 begins with it
    program.launch(4, 5, (1050 * US, 1500 * US), "long")
    program.launch(6, 7, (1299 * US, 1310 * US), "beside", stream=1)
    sampled(program, f"sm__cycles_active.{PERCENT}", *(range(20)))
    sampled(program, "DRAM Read Bandwidth [Throughput %]", *(2 * each for each in range(20)))
    assert TIME_ERROR_NS == 50 * US
    result = warpline.stats(program.trace(), "gpu_metric_kernels")
    (row,) = rows_of(program.trace(), "gpu_metric_kernels")
    # Samples 3 and 4, then 11; 12 and 13 overlap the other kernel or are too near to it; and 14
    # ends with the kernel.
    assert (row["name"], row["instances"], row["sampled"], row["samples"]) == ("long", 2, 2, 3)
    assert row["total_ns"] == 750 * US
    assert row["sm_active_ratio"] == pytest.approx((3 + 4 + 11) / 300)
    assert row["dram_read_ratio"] == pytest.approx((3 + 4 + 11) / 150)
    assert row["tensor_active_ratio"] is None
    assert "left out: 2 launches, 22.0% of kernel time" in result.notes[0]
    (every,) = rows_of(program.trace(), "gpu_metric_kernels:class")
    assert (every["name"], every["instances"], every["samples"]) == ("other", 4, 3)
    assert every["sm_active_ratio"] == row["sm_active_ratio"]


def test_without_such_samples_the_table_says_so() -> None:
    program = Program()
    program.launch(0, 1, (250 * US, 350 * US), "short")
    sampled(program, f"sm__cycles_active.{PERCENT}", *(range(20)))
    with pytest.raises(warpline.MissingTableError, match="no sample shows one kernel alone"):
        warpline.stats(program.trace(), "gpu_metric_kernels")


def ranged() -> Trace:
    """Return a trace with two ranges of one name and a kernel in each, and metrics."""
    program = Program()
    for number, (start, end) in enumerate(((0, 300), (500, 600))):
        at = number * 20
        place = {"thread_id": 0, "process_id": 0, "domain_id": None}
        program.add("range", name="part", start_ns=at, end_ns=at + 10, **place)
        program.launch(at + 1, at + 2, (start * US, end * US), "k")
    sampled(program, f"sm__cycles_active.{PERCENT}", 10, 20, 30, 40, 50, 60)
    return program.trace()


def test_gpu_time_util() -> None:
    trace = ranged()
    rows = rows_of(trace, "gpu_time_util")
    assert len(rows) == 30
    assert [row["name"] for row in rows[:2]] == ["1", "2"]
    assert {row["mean_ns"] for row in rows} == {600 * US / 30}
    assert [row["busy_ratio"] for row in rows] == [1] * 15 + [0] * 10 + [1] * 5
    # 20 us are not resolved by samples of 100 us.
    assert {row["sm_active_ratio"] for row in rows} == {None}
    (ranges,) = rows_of(trace, "gpu_time_util:ranges")
    assert (ranges["of"], ranges["name"], ranges["instances"]) == ("range", "part", 2)
    assert (ranges["mean_ns"], ranges["busy_ratio"]) == (200 * US, 1)
    assert ranges["sm_active_ratio"] == pytest.approx(0.2)  # the second range is one sample long
    assert [*rows_of(trace, "cuda_gpu_time_util_map")] == rows


def test_gpu_load_balance() -> None:
    program = Program()
    program.launch(0, 1, (0, 1000 * US), "k")
    program.launch(2, 3, (0, 250 * US), "k", thread=2, stream=2)
    sampled(program, f"sm__cycles_active.{PERCENT}", *([40] * 10))
    sampled(program, f"sm__cycles_active.{PERCENT}", *([10] * 10), device=1)
    for roll_up, value in (("min", 5), ("max", 80)):
        name = f"sm__cycles_active.{roll_up}.pct_of_peak_sustained_elapsed"
        sampled(program, name, *([value] * 10))
    busy, active, sms = rows_of(program.trace(), "gpu_load_balance")
    assert (busy["measure"], busy["count"], busy["mean"]) == ("GPU busy (%)", 2, 62.5)
    assert (busy["min"], busy["max"], busy["spread_ratio"]) == (25, 100, 0.75)
    assert (busy["min_gpu"], busy["max_gpu"]) == (1, 0)
    assert (active["measure"], active["spread_ratio"]) == ("SM active (%)", pytest.approx(0.75))
    assert (sms["over"], sms["mean"]) == ("SMs of GPU 0", pytest.approx(40))
    assert (sms["min"], sms["max"]) == (pytest.approx(5), pytest.approx(80))


def test_a_recording_without_metrics_says_how_to_sample_them() -> None:
    program = Program()
    program.launch(0, 1, (0, 1000 * US), "k")
    outcome = warpline.api.run(program.trace(), "gpu_metric_sum")
    assert isinstance(outcome, Skipped)
    assert "--gpu-metrics-devices=cuda-visible" in (outcome.hint or "")
