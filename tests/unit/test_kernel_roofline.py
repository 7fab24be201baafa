"""kernel_roofline against what Nsight Compute printed, and against work known from the source."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from support import ncu_captures
from support.recorded_reports import recorded

import warpline
from warpline import native
from warpline.trace import MemorySource, Trace

H100 = "NVIDIA H100 80GB HBM3"
SMALL = 0.001
PREFIXES = {"": 1, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "n": 1e-9, "u": 1e-6, "m": 1e-3}
UNITS = re.compile(r"^([KMGTnum]?)(byte(?:/s|/cycle)?|[Hh]z|s)$")


def printed(name: str) -> list[dict[str, Any]]:
    """Return the metrics of each launch in base units, as ncu printed them."""
    headings, units, *rows = csv.reader(io.StringIO(ncu_captures.printed(name, "raw.csv")))
    found = []
    for row in rows:
        values: dict[str, Any] = {}
        for heading, unit, text in zip(headings, units, row, strict=True):
            scaled = UNITS.match(unit)
            try:
                number = float(text.replace(",", ""))
            except ValueError:
                values[heading] = text
            else:
                values[heading] = number * (PREFIXES[scaled[1]] if scaled else 1)
        found.append(values)
    return found


@pytest.fixture(scope="module", params=["target", "uncoalesced.fixed", "pairs"])
def report(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Trace, list[dict[str, Any]]]:
    name, folder = request.param, tmp_path_factory.mktemp("roofline")
    if name != "pairs":
        return warpline.open(ncu_captures.unpack(name, folder)), printed(name)
    return warpline.open(pairs(folder)), printed(name)


def pairs(folder: Path) -> Path:
    """Return a page of 14 kernels of an H100: numbers that rooflines and occupancy need."""
    path = folder / "pairs.csv"
    path.write_text(ncu_captures.printed("pairs", "raw.csv"))
    return path


def rows_of(trace: Trace, name: str = "kernel_roofline") -> list[dict[str, Any]]:
    return warpline.stats(trace, name).to_polars().to_dicts()


def test_flop_and_bytes_are_those_of_ncu(report: tuple[Trace, list[dict[str, Any]]]) -> None:
    trace, launches = report
    for row, ncu in zip(rows_of(trace), launches, strict=True):
        seconds = ncu["gpu__time_duration.sum"]
        clock = ncu["smsp__cycles_elapsed.avg.per_second"]
        for letter, field in (("d", "fp64_flop"), ("f", "fp32_flop")):
            rate = "smsp__sass_thread_inst_executed_op_{}{}_pred_on.sum.per_cycle_elapsed"
            add, multiply = (ncu[rate.format(letter, of)] for of in ("add", "mul"))
            fma = ncu[f"derived__smsp__sass_thread_inst_executed_op_{letter}fma_pred_on_x2"]
            flop = (add + multiply + fma) * clock * seconds
            assert row[field] == pytest.approx(flop, rel=SMALL)
        pairs = "derived__smsp__sass_thread_inst_executed_op_{}_pred_on_x{}"
        half = sum(ncu[pairs.format(*of)] for of in (("hadd", 2), ("hmul", 2), ("hfma", 4)))
        assert row["fp16_flop"] == pytest.approx(half * clock * seconds, rel=SMALL)
        for field, metric in (
            ("l1_bytes", "derived__l1tex__lsu_writeback_bytes_mem_lgds.sum.per_second"),
            ("l2_bytes", "derived__lts__lts2xbar_bytes.sum.per_second"),
            ("dram_bytes", "dram__bytes.sum.per_second"),
        ):
            rounding = 1e6 * seconds  # rates are printed in TB/s, with six decimals
            assert row[field] == pytest.approx(ncu[metric] * seconds, rel=SMALL, abs=rounding)
        assert row["dram_bytes"] == pytest.approx(
            ncu["dram__bytes_read.sum"] + ncu["dram__bytes_write.sum"], rel=SMALL, abs=1
        )


def test_ceilings_are_those_of_ncu(report: tuple[Trace, list[dict[str, Any]]]) -> None:
    trace, launches = report
    for point in rows_of(trace, "kernel_roofline:points"):
        ncu = launches[point["launch"]]
        clocks = {
            of: ncu[f"{of}__cycles_elapsed.avg.per_second"] for of in ("sm", "l1tex", "lts", "dram")
        }
        ffma = ncu["derived__sm__sass_thread_inst_executed_op_ffma_pred_on_x2"]
        expected = {
            "FP32": ffma * clocks["sm"],
            "FP16": ncu["derived__sm__sass_thread_inst_executed_op_hfma_pred_on_x4"] * clocks["sm"],
            "L1": ncu["derived__l1tex__lsu_writeback_bytes_mem_lgds.sum.peak_sustained"]
            * clocks["l1tex"],
            "L2": ncu["derived__lts__lts2xbar_bytes.sum.peak_sustained"] * clocks["lts"],
            "DRAM": ncu["dram__bytes.sum.peak_sustained"] * clocks["dram"],
        }
        bandwidth = expected[point["level"]]
        assert point["peak_bytes_per_s"] == pytest.approx(bandwidth, rel=SMALL)
        if point["precision"] in expected:
            peak = expected[point["precision"]]
            assert point["peak_flop_per_s"] == pytest.approx(peak, rel=SMALL)
            roof = min(peak, point["intensity"] * bandwidth)
            assert point["roof_flop_per_s"] == pytest.approx(roof, rel=2 * SMALL)
            assert point["share_ratio"] == pytest.approx(point["flop_per_s"] / roof, rel=2 * SMALL)
            is_left = point["intensity"] < point["ridge"]
            assert point["governed_by"] == point["level" if is_left else "precision"]


# What the rule SOLFPRoofline of ncu printed: percent of the peak of FP32.
FP32_PERCENT = {
    "target": (0, 9, 0, 0, 0),
    "pairs": (0, 1, 0, 1, 0, 0, 11, 0, 34, 19, 0, 1, 0, 1),
}


@pytest.mark.parametrize("name", FP32_PERCENT)
def test_the_share_of_fp32_is_what_the_rule_of_ncu_says(name: str, tmp_path: Path) -> None:
    path = pairs(tmp_path) if name == "pairs" else ncu_captures.unpack(name, tmp_path)
    points = rows_of(warpline.open(path), "kernel_roofline:points")
    shares = {
        point["launch"]: 100 * point["flop_per_s"] / point["peak_flop_per_s"]
        for point in points
        if point["precision"] == "FP32"
    }
    expected = FP32_PERCENT[name]
    assert [round(shares.get(launch, 0)) for launch in range(len(expected))] == [*expected]


def test_work_is_what_the_program_did(tmp_path: Path) -> None:
    target = rows_of(warpline.open(ncu_captures.unpack("target", tmp_path)))
    by_kernel = {row["kernel"].partition("(")[0]: row for row in target}
    assert by_kernel["vec_add"]["fp32_flop"] == pytest.approx(2**25)
    assert by_kernel["naive_gemm"]["fp32_flop"] == pytest.approx(2 * 1024**3)
    assert by_kernel["copy_stream"]["flop"] == 0
    assert by_kernel["vec_add"]["l1_bytes"] == pytest.approx(2 * 4 * 2**25, rel=0.02)
    rows = rows_of(warpline.open(pairs(tmp_path)))
    of_pairs = {row["kernel"].partition("(")[0]: row for row in rows}
    assert of_pairs["mm_fma"]["fp32_flop"] == pytest.approx(2 * 2048**3)
    wmma = of_pairs["mm_wmma"]
    assert wmma["tensor_flop"] == wmma["flop"] == pytest.approx(2 * 2048**3)
    assert (wmma["fp32_flop"], wmma["fp16_flop"]) == (0, 0)


def test_the_ceiling_of_tensor_cores_is_that_of_the_instruction(tmp_path: Path) -> None:
    (ncu,) = (row for row in printed("pairs") if row["Kernel Name"].startswith("mm_wmma"))
    points = [
        point
        for point in rows_of(warpline.open(pairs(tmp_path)), "kernel_roofline:points")
        if point["kernel"].startswith("mm_wmma")
    ]
    assert {(of["precision"], of["level"]) for of in points} == {
        ("FP16 Tensor Core", level) for level in ("L1", "L2", "DRAM")
    }
    # HMMA of an H100 reaches two thirds of HGMMA: 4096 operations per SM and cycle.
    clock = ncu["sm__cycles_elapsed.avg.per_second"]
    assert points[0]["peak_flop_per_s"] == pytest.approx(132 * 4096 * 2 / 3 * clock, rel=SMALL)


def test_what_bounds_each_kernel(report: tuple[Trace, list[dict[str, Any]]]) -> None:
    bounds = {row["kernel"].partition("(")[0]: row["bound"] for row in rows_of(report[0])}
    expected = {
        "vec_add": "memory-bound at DRAM",
        "naive_gemm": "memory-bound at L1",
        "copy_stream": "memory-bound at DRAM",
        "smem_conflict": "memory-bound, other units",
        "rowsum_warp": "memory-bound at DRAM",
        "rowsum_strided": "memory-bound, other units",  # sectors that are not used
        "hist_global": "neither: latency",
        "void transpose<1>": "memory-bound at DRAM",
        "mm_fma": "memory-bound, other units",
        "trig_slow": "compute-bound, other instructions",
    }
    assert {name: bounds[name] for name in bounds.keys() & expected} == {
        name: expected[name] for name in bounds.keys() & expected
    }


@pytest.mark.skipif(native.core() is None, reason="needs the native core")
def test_counters_of_warpline_give_the_same(tmp_path: Path) -> None:
    report = warpline.open(ncu_captures.unpack("target", tmp_path))
    own = recorded(report, tmp_path)
    for ours, theirs in zip(rows_of(own), rows_of(report), strict=True):
        for field, value in theirs.items():
            assert ours[field] == (pytest.approx(value) if isinstance(value, float) else value)


def made(launches: list[dict[str, float]], names: list[str] | None = None) -> Trace:
    """Return a trace with these metrics of launches on an H100."""
    count = len(launches)
    metrics = [(row, name, value) for row, of in enumerate(launches) for name, value in of.items()]
    kernels: dict[str, Sequence[Any]] = {
        "launch_number": range(count),
        "process_id": [0] * count,
        "device_id": [0] * count,
        "name": names or [f"k{row}" for row in range(count)],
        **{f"{of}_{axis}": [1] * count for of in ("grid", "block") for axis in "xyz"},
    }
    rows, metric_names, values = zip(*metrics, strict=True)
    tables: dict[str, dict[str, Sequence[Any]]] = {
        "process": {"pid": [1]},
        "device": {"gpu_index": [0], "name": [H100]},
        "profiled_kernel": kernels,
        "kernel_metric": {"profiled_kernel_id": rows, "name": metric_names, "value": values},
    }
    return Trace(MemorySource(tables))


TIME, READ, WRITTEN = "gpu__time_duration.sum", "dram__bytes_read.sum", "dram__bytes_write.sum"
PERCENT = "avg.pct_of_peak_sustained_elapsed"
SM, MEMORY = f"sm__throughput.{PERCENT}", f"gpu__compute_memory_throughput.{PERCENT}"
FLOP = "smsp__sass_thread_inst_executed_op_f{}_pred_on.sum"


def test_without_peaks_the_ceilings_are_those_of_the_data_sheet() -> None:
    # 3.35 TB/s and 67 TFLOP/s in 1 ms: 3.35 GB and 67 GFLOP.
    half = {TIME: 1e6, READ: 3.35e9 / 4, WRITTEN: 3.35e9 / 4}
    (row,) = rows_of(made([half | {SM: 10.0, MEMORY: 50.0}]))
    assert (row["roof"], row["ceilings"]) == ("DRAM", "data sheet")
    assert row["share_ratio"] == pytest.approx(0.5)
    assert row["bound"] == "neither: latency"
    assert row["fp32_flop"] is None
    assert row["dram_intensity"] is None
    counts = {FLOP.format("add"): 1e9, FLOP.format("mul"): 2e9, FLOP.format("fma"): 26.8e9}
    (row,) = rows_of(made([half | counts]))
    assert row["fp32_flop"] == row["flop"] == pytest.approx(56.6e9)
    assert (row["roof"], row["bound"]) == ("FP32", "compute-bound FP32")
    assert row["share_ratio"] == pytest.approx(56.6 / 67)
    assert row["dram_intensity"] == pytest.approx(56.6e9 / 1.675e9)
    (point,) = rows_of(made([half | counts]), "kernel_roofline:points")
    assert point["nominal_ratio"] == pytest.approx(56.6 / 67)
    assert point["ridge"] == pytest.approx(20)


def test_what_was_not_counted_leaves_the_bound_unknown() -> None:
    slow = {TIME: 1e6, READ: 1e6, WRITTEN: 0.0}
    fast = {TIME: 1e6, READ: 3e9, WRITTEN: 0.0}
    others = [slow | {SM: 90.0, MEMORY: 20.0}, slow | {SM: 5.0, MEMORY: 70.0}]
    rows = rows_of(made([slow, fast, *others]))
    assert [row["bound"] for row in rows] == [
        None,
        "memory-bound at DRAM",
        "compute-bound, other instructions",
        "memory-bound, other units",
    ]
    near = fast | {READ: 0.7 * 3.35e9}
    rows = rows_of(made([near | {SM: of, MEMORY: 70.0} for of in (70.0, 74.0, 76.0)]))
    assert [row["bound"] for row in rows] == [
        "memory-bound at DRAM",
        "memory-bound at DRAM",
        "compute-bound, other instructions",
    ]
    with pytest.raises(warpline.MissingTableError, match="kernel_roofline"):
        warpline.stats(made([{TIME: 1e6}]), "kernel_roofline")


def test_launches_of_a_kernel_are_added_up() -> None:
    launches = [
        {TIME: 1e6, READ: 1e9, WRITTEN: 0.0, SM: 10.0, MEMORY: 30.0},
        {TIME: 3e6, READ: 9e9, WRITTEN: 0.0, SM: 10.0, MEMORY: 90.0},
        {TIME: 9e6, READ: 1e9, WRITTEN: 0.0},
    ]
    rows = rows_of(made(launches, ["a", "a", "b"]), "kernel_roofline:kernel")
    assert [(row["kernel"], row["launches"], row["duration_ns"]) for row in rows] == [
        ("b", 1, 9_000_000),
        ("a", 2, 4_000_000),
    ], "the most time first"
    assert rows[1]["dram_bytes"] == 10**10
    assert rows[1]["share_ratio"] == pytest.approx(1e10 / (3.35e12 * 4e-3))
    assert rows[1]["bound"] == "memory-bound at DRAM"


def test_launches_without_an_amount_do_as_much_per_time() -> None:
    """As where FLOP of the first launches only were counted, in a second run of the program."""
    traffic = {TIME: 1e6, READ: 1e9, WRITTEN: 0.0}
    flop = {FLOP.format(of): value for of, value in (("add", 0.0), ("mul", 0.0), ("fma", 5e9))}
    longer = traffic | {TIME: 2e6, READ: 2e9}
    (row,) = rows_of(made([traffic | flop, traffic, longer], ["a"] * 3), "kernel_roofline:kernel")
    assert row["flop"] == pytest.approx(4e10)
    assert row["flop_per_s"] == pytest.approx(1e13)
    assert row["dram_intensity"] == pytest.approx(10)
    assert row["share_ratio"] == pytest.approx(1e12 / 3.35e12)


CLOCK = "sm__cycles_elapsed.avg.per_second"
TENSOR = "sm__ops_path_tensor_"


def test_instructions_of_tensor_cores_share_the_time() -> None:
    # 4 ms at 1 GHz are 4,000,000 cycles: a quarter for dense matrices, an eighth for sparse ones.
    dense, sparse, older = (
        f"{TENSOR}op_{kind}_src_bf16_dst_fp32_sparsity_{density}.sum"
        for kind, density in (("hgmma", "off"), ("hgmma", "on"), ("hmma", "off"))
    )
    peaks = {f"{dense}.peak_sustained": 4096.0, f"{sparse}.peak_sustained": 8192.0}
    work = {dense: 4096e6, sparse: 8192e6 / 2}
    (row,) = rows_of(made([{TIME: 4e6, CLOCK: 1e9} | peaks | work]))
    assert (row["roof"], row["ceilings"]) == ("BF16 Tensor Core", "counters")
    assert row["tensor_flop"] == pytest.approx(8192e6)
    assert row["share_ratio"] == pytest.approx(3 / 8)
    # Without the peak of an instruction that was executed, the data sheet has the ceiling.
    (row,) = rows_of(made([{TIME: 4e6, CLOCK: 1e9} | peaks | work | {older: 8192e6}]))
    assert (row["roof"], row["ceilings"]) == ("BF16 Tensor Core", "data sheet")
    assert row["share_ratio"] == pytest.approx(16384e6 / (989.4e12 * 4e-3))
    # An idle one has the ceiling of dense matrices.
    (row,) = rows_of(made([{TIME: 4e6, CLOCK: 1e9} | peaks | {dense: 0.0, sparse: 0.0}]))
    assert (row["tensor_flop"], row["share_ratio"], row["ceilings"]) == (0, 0, "counters")


def test_operations_of_integers_are_no_flop() -> None:
    kind = f"{TENSOR}op_igmma_src_int8_sparsity_off.sum"
    work = {kind: 4e9, f"{kind}.peak_sustained": 8000.0}
    (row,) = rows_of(made([{TIME: 1e6, CLOCK: 1e9, FLOP.format("fma"): 0.0} | work]))
    assert row["tensor_flop"] is None
    assert (row["roof"], row["share_ratio"]) == ("INT8 Tensor Core", pytest.approx(0.5))


def test_bytes_of_all_accesses_are_second_best() -> None:
    l2 = {"lts__t_bytes.sum": 2e9, "lts__t_bytes.sum.peak_sustained": 4000.0}
    clock = {"lts__cycles_elapsed.avg.per_second": 1e9}
    (row,) = rows_of(made([{TIME: 1e6} | l2 | clock]))
    assert (row["l2_bytes"], row["roof"], row["share_ratio"]) == (2 * 10**9, "L2", 0.5)
    returned = {"lts__lts2xbar_cycles_active.sum": 1e6}
    (row,) = rows_of(made([{TIME: 1e6} | l2 | clock | returned]))
    assert row["l2_bytes"] == 32_000_000
    assert row["share_ratio"] is None, "the peak of another counter is no ceiling"
    peak = {"lts__lts2xbar_cycles_active.sum.peak_sustained": 100.0}
    (row,) = rows_of(made([{TIME: 1e6, "lts__t_bytes.sum": 2e9} | peak | clock]))
    assert (row["l2_bytes"], row["share_ratio"]) == (2 * 10**9, None)


def test_sums_have_a_ceiling_if_all_launches_have_it() -> None:
    peak = {
        "dram__bytes.sum.peak_sustained": 1000.0,
        "dram__cycles_elapsed.avg.per_second": 1e9,  # 1 TB/s, less than in the data sheet
    }
    moved = {TIME: 1e6, READ: 5e8, WRITTEN: 0.0}

    def summed(*launches: dict[str, float]) -> Any:
        names = ["a"] * len(launches)
        (row,) = rows_of(made([*launches], names), "kernel_roofline:kernel")
        return row["ceilings"], row["share_ratio"]

    assert summed(moved | peak, moved | peak) == ("counters", pytest.approx(0.5))
    assert summed(moved | peak, moved) == ("data sheet", pytest.approx(0.5 / 3.35))
    not_counted = {TIME: 1e6} | peak
    assert summed(moved | peak, not_counted) == ("counters", pytest.approx(0.5))


def test_throughputs_are_means_over_time() -> None:
    moved = {READ: 0.0, WRITTEN: 0.0, MEMORY: 5.0}
    launches = [moved | {TIME: 9e6, SM: 90.0}, moved | {TIME: 1e6, SM: 10.0}]
    (row,) = rows_of(made(launches, ["a", "a"]), "kernel_roofline:kernel")
    assert row["bound"] == "compute-bound, other instructions"
    launches = [moved | {TIME: 1e6, SM: 90.0}, moved | {TIME: 9e6, SM: 10.0}]
    (row,) = rows_of(made(launches, ["a", "a"]), "kernel_roofline:kernel")
    assert row["bound"] == "neither: latency"
