"""Charts and tables of sections, on launches with a few metrics."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from support.kernel_counters import trace

from warpline.derived.kernel_sections.registry import SECTION_BODIES
from warpline.documents.kernel_filters import Choice
from warpline.documents.kernel_sections import ORDER, kernel_sections
from warpline.hardware.measured import MeasuredCeilings
from warpline.trace import MemorySource, Trace

ELAPSED = "pct_of_peak_sustained_elapsed"
H100 = "NVIDIA H100 80GB HBM3"


def sections(metrics: Mapping[str, float | None], **counts: int) -> dict[str, Any]:
    (found,) = kernel_sections(trace([metrics], [counts] if counts else ()), Choice())
    return found


def test_without_counters_there_are_no_sections() -> None:
    assert sections({"gpu__time_duration.sum": 1000}) == {}
    assert kernel_sections(trace([]), Choice()) == []
    unknown = Trace(MemorySource({"profiled_kernel": {"name": ["k"], "launch_number": [0]}}))
    assert kernel_sections(unknown, Choice()) == [{}]


def test_each_launch_has_its_own() -> None:
    warps = "sm__warps_active.avg.pct_of_peak_sustained_active"
    alu = f"sm__pipe_alu_cycles_active.avg.{ELAPSED}"
    found = kernel_sections(trace([{warps: 50}, {}, {alu: 25}]), Choice())
    assert [[*of] for of in found] == [["occupancy"], [], ["pipes"]]
    assert found[0]["occupancy"]["achieved_ratio"] == 0.5
    assert found[0]["occupancy"]["theoretical_ratio"] is None
    assert found[2]["pipes"] == [{"name": "ALU", "metric": alu, "ratio": 0.25}]


def test_pipes_by_elapsed_cycles_if_these_were_collected() -> None:
    active, elapsed = (
        f"sm__pipe_fma_cycles_active.avg.pct_of_peak_sustained_{of}" for of in ("active", "elapsed")
    )
    found = kernel_sections(trace([{active: 80, elapsed: 40}, {active: 60}]), Choice())
    assert found[0]["pipes"] == [{"name": "FMA", "metric": elapsed, "ratio": 0.4}]
    assert found[1]["pipes"] == [{"name": "FMA", "metric": active, "ratio": 0.6}]


def test_a_breakdown_without_the_list_of_a_report() -> None:
    found = sections(
        {
            f"sm__throughput.avg.{ELAPSED}": 30,
            f"sm__issue_active.avg.{ELAPSED}": 20,
            f"sm__inst_executed_pipe_xu.avg.{ELAPSED}": 30,
            f"lts__t_sectors.avg.{ELAPSED}": 90,
        }
    )
    (sm,) = found["speed_of_light"]
    assert [(of["label"], of["ratio"]) for of in sm["breakdown"]] == [
        ("SM: instructions executed pipe XU", 0.3),
        ("SM: issue active", 0.2),
    ]


def test_an_edge_names_what_it_adds_up() -> None:
    counter = "l1tex__t_requests_pipe_lsu_mem_global_op_{}.sum"
    found = sections(
        {
            counter.format("ld"): 100,
            counter.format("st"): 20,
            f"{counter.format('ld')}.{ELAPSED}": 10,
            f"{counter.format('st')}.{ELAPSED}": 2,
            "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum": 400,
            "dram__bytes_op_read.sum": 4096,
            "dram__bytes_op_read.sum.per_second": 4e12,
        }
    )
    to_l1, from_dram = found["memory"]["edges"]
    assert (to_l1["from"], to_l1["to"], to_l1["counts"]) == ("global", "l1", "requests")
    assert (to_l1["requests"], to_l1["bytes"]) == (120, 12_800)
    assert to_l1["ratio"] == pytest.approx(0.12)
    assert to_l1["metrics"]["requests"] == f"{counter.format('ld')} + {counter.format('st')}"
    assert to_l1["metrics"]["bytes"] == "32 * l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum"
    assert (from_dram["from"], from_dram["bytes"], from_dram["bytes_per_s"]) == ("dram", 4096, 4e12)
    assert from_dram["requests"] is None
    assert [node["id"] for node in found["memory"]["nodes"]] == ["global", "l1", "l2", "dram"]


def test_a_launch_that_lacks_a_part_of_a_sum_lacks_the_sum() -> None:
    load, store = (f"l1tex__t_requests_pipe_lsu_mem_global_op_{of}.sum" for of in ("ld", "st"))
    found = kernel_sections(trace([{load: 1, store: 2}, {load: 1}]), Choice())
    assert found[0]["memory"]["edges"][0]["requests"] == 3
    assert found[1]["memory"]["edges"] == []


def test_rare_parts_are_left_out_where_nothing_uses_them() -> None:
    name = "smsp__inst_executed_op_tma_ld.sum"
    found = kernel_sections(trace([{name: 0}, {name: 8}]), Choice())
    assert "memory" not in found[0]
    (edge,) = found[1]["memory"]["edges"]
    assert (edge["from"], edge["to"], edge["requests"]) == ("kernel", "tma", 8)
    assert edge["counts"] == "instructions"


def test_a_memory_table() -> None:
    of = "lts__t_{}_srcunit_tex_op_read{}.sum"
    found = sections(
        {
            of.format("requests", ""): 10,
            of.format("sectors", ""): 40,
            of.format("sectors", "_lookup_hit"): 30,
            of.format("sectors", "_lookup_miss"): 10,
            "lts__t_requests_srcunit_tex_op_write.sum": 0,
            "lts__t_sectors_srcunit_tex_op_write.sum": 0,
        }
    )
    (table,) = found["memory"]["tables"]
    assert table["title"] == "L2"
    names = [column["name"] for column in table["columns"]]
    (row,) = table["rows"]  # nothing was written
    assert dict(zip(names, row[1:], strict=True)) == {
        "Requests": 10,
        "Sectors": 40,
        "Sectors/Request": 4,
        "Of Peak": None,
        "Hit Rate": 0.75,
        "Bytes": 1280,
        "Throughput": None,
        "Misses to Device": None,
        "Misses to System": None,
        "Misses to Peer": None,
    }
    hits, misses = (of.format("sectors", f"_lookup_{way}") for way in ("hit", "miss"))
    assert table["metrics"][0][names.index("Hit Rate")] == f"{hits} / ({hits} + {misses})"


def test_a_share_without_its_whole_is_unknown() -> None:
    of = "lts__t_{}_srcunit_tex_op_read{}.sum"
    counted = {of.format("sectors", ""): 40, of.format("sectors", "_lookup_hit"): 30}
    (table,) = sections(counted)["memory"]["tables"]
    names = [column["name"] for column in table["columns"]]
    assert table["rows"][0][1 + names.index("Hit Rate")] is None


def test_opcodes_and_else_kinds_of_instructions() -> None:
    load = "smsp__sass_inst_executed_op_global_ld.sum"
    by_kind = sections({load: 7, "smsp__inst_executed_op_branch.sum": 9})["instructions"]
    assert [(of["opcode"], of["executed"]) for of in by_kind] == [("Branch", 9), ("Global load", 7)]
    by_opcode = sections({load: 7}, LDG=7, FFMA=100)["instructions"]
    assert [(of["opcode"], of["executed"]) for of in by_opcode] == [("FFMA", 100), ("LDG", 7)]


def test_a_few_warp_states_are_no_whole() -> None:
    of = "smsp__average_warps_issue_stalled_{}_per_issue_active.ratio"
    found = sections({of.format("wait"): 2, of.format("long_scoreboard"): 8})["warp_states"]
    states = [(state["stall"], state["cycles_per_instruction"], state["ratio"]) for state in found]
    assert states == [("long_scoreboard", 8, None), ("wait", 2, None)]


def test_warp_states_by_samples() -> None:
    of = "smsp__pcsamp_warps_issue_stalled_{}"
    found = sections({of.format("long_scoreboard"): 30, of.format("no_instructions"): 10})
    first, second = found["warp_states"]
    assert (first["label"], first["ratio"]) == ("Long Scoreboard", 0.75)
    assert first["cycles_per_instruction"] is None
    assert (second["stall"], second["ratio"]) == ("no_instruction", 0.25)


FP32 = {
    "gpu__time_duration.sum": 1e6,
    "smsp__cycles_elapsed.avg.per_second": 1e9,
    "sm__cycles_elapsed.avg.per_second": 1e9,
    "smsp__sass_thread_inst_executed_op_fadd_pred_on.sum.per_cycle_elapsed": 1000,
    "smsp__sass_thread_inst_executed_op_fmul_pred_on.sum.per_cycle_elapsed": 0,
    "smsp__sass_thread_inst_executed_op_ffma_pred_on.sum.per_cycle_elapsed": 2000,
    "sm__sass_thread_inst_executed_op_ffma_pred_on.sum.peak_sustained": 10_000,
    "dram__bytes.sum.per_second": 1e12,
    "dram__bytes.sum.peak_sustained": 2000,
    "dram__cycles_elapsed.avg.per_second": 1e9,
}


def test_a_roofline() -> None:
    roofline = sections(FP32)["roofline"]
    (point,) = roofline["points"]
    assert (point["precision"], point["level"]) == ("fp32", "DRAM")
    assert point["flop"] == pytest.approx(5e9)  # (1000 + 2 x 2000) a cycle, a million cycles
    assert point["bytes"] == 1_000_000_000
    assert point["flop_per_byte"] == pytest.approx(5)
    # 5 FLOP per byte x 2 TB/s is less than 2 x 10,000 FLOP a cycle.
    assert point["ceiling_flop_per_s"] == pytest.approx(10e12)
    assert point["governed_by"] == "DRAM"
    assert point["ratio"] == pytest.approx(0.5)
    rates = {
        (of["name"], of["source"]): of.get("flop_per_s", of.get("bytes_per_s"))
        for of in roofline["ceilings"]
    }
    assert rates == {
        ("FP32", "clock"): pytest.approx(20e12),
        ("FP32", "nominal"): pytest.approx(67e12),
        ("DRAM", "clock"): pytest.approx(2e12),
        ("DRAM", "nominal"): pytest.approx(3.35e12),
    }


def test_operations_of_int8() -> None:
    metrics = {
        "gpu__time_duration.sum": 1e6,
        "sm__cycles_elapsed.avg.per_second": 1e9,
        "sm__ops_path_tensor_src_int8.sum": 4e9,
        "sm__ops_path_tensor_op_igmma_src_int8_sparsity_off.sum": 4e9,
        "sm__ops_path_tensor_op_igmma_src_int8_sparsity_off.sum.peak_sustained": 40_000,
        "dram__bytes.sum.per_second": 1e12,
    }
    roofline = sections(metrics)["roofline"]
    (point,) = roofline["points"]
    assert (point["precision"], point["flop"]) == ("tensor_int8", 4e9)
    rates = {of["name"]: of["flop_per_s"] for of in roofline["ceilings"] if "flop_per_s" in of}
    assert rates == {"FP32": 67e12, "INT8 Tensor Core": pytest.approx(40e12)}


def test_bytes_at_l1_before_hopper() -> None:
    roofline = sections(FP32 | {"l1tex__lsu_writeback_active_mem_lg.sum.per_second": 1e9})[
        "roofline"
    ]
    bytes_at = {point["level"]: point["bytes"] for point in roofline["points"]}
    assert bytes_at == {"L1": 128_000_000, "DRAM": 1_000_000_000}


@pytest.mark.parametrize(("gpu", "is_used"), [(H100, True), ("NVIDIA H200", False)])
def test_measured_ceilings_of_the_same_gpu(gpu: str, *, is_used: bool) -> None:
    measured = MeasuredCeilings(gpu, "GPU-1", {"fp32": 55e12}, {"d2d": 1.4e12}, {})
    (found,) = kernel_sections(trace([FP32]), Choice(), measured=[measured])
    rates = {
        of["name"]: of.get("flop_per_s", of.get("bytes_per_s"))
        for of in found["roofline"]["ceilings"]
        if of["source"] == "measured"
    }
    assert rates == ({"FP32": 55e12, "DRAM": 2.8e12} if is_used else {})
    (point,) = found["roofline"]["points"]
    # 5 FLOP per byte at 2.8 TB/s allow 14 TFLOP/s, of which there are 5.
    assert point["measured_ratio"] == (pytest.approx(5 / 14) if is_used else None)


@pytest.mark.parametrize(
    "clock",
    [
        {"sm__cycles_elapsed.avg.per_second": 1.5e9},
        {"sm__cycles_elapsed.max": 1_500_000},  # in 1 ms
    ],
)
def test_measured_gemms_are_scaled_to_the_clock_of_the_launch(clock: dict[str, float]) -> None:
    measured = MeasuredCeilings(H100, "GPU-1", {"fp32": 48e12}, {"d2d": 1.4e12}, {}, {"fp32": 4e4})
    without = {of: value for of, value in FP32.items() if not of.startswith("sm__cycles")}
    found = kernel_sections(trace([without | clock, without]), Choice(), measured=[measured])
    rates = [
        {
            (of["name"], of["source"]): of.get("flop_per_s", of.get("bytes_per_s"))
            for of in sections["roofline"]["ceilings"]
            if of["source"].startswith("measured")
        }
        for sections in found
    ]
    assert rates == [
        {("FP32", "measured_clock"): 60e12, ("DRAM", "measured"): 2.8e12},
        {("FP32", "measured"): 48e12, ("DRAM", "measured"): 2.8e12},
    ]


def kernel(registers: int, dynamic: int) -> Trace:
    """Return a launch that Warpline counted, of 256 threads on an H100."""
    tables: dict[str, dict[str, list[Any]]] = {
        "device": {"name": [H100], "compute_major": [9], "compute_minor": [0], "sm_count": [132]},
        "profiled_kernel": {
            "launch_number": [0],
            "device_id": [0],
            "name": ["k"],
            "is_range": [False],
            **{f"grid_{axis}": [1] for axis in "xyz"},
            "block_x": [256],
            **{f"block_{axis}": [1] for axis in "yz"},
            "registers_per_thread": [registers],
            "static_shared_bytes": [0],
            "dynamic_shared_bytes": [dynamic],
        },
        "kernel_metric": {
            "profiled_kernel_id": [0],
            "name": ["sm__warps_active.avg.pct_of_peak_sustained_active"],
            "value": [40.0],
        },
    }
    return Trace(MemorySource(tables))


def test_occupancy_of_our_own_counters() -> None:
    (found,) = kernel_sections(kernel(registers=64, dynamic=0), Choice())
    occupancy = found["occupancy"]
    # 65,536 registers of an SM / (64 x 256) = 4 blocks of 8 warps, of 64 warps.
    assert (occupancy["theoretical_ratio"], occupancy["achieved_ratio"]) == (0.5, 0.4)
    blocks = {of["limit"]: (of["blocks"], of["is_limiting"]) for of in occupancy["limits"]}
    assert blocks == {"blocks": (32, False), "registers": (4, True), "warps": (8, False)}
    curves = {of["by"]: of for of in occupancy["curves"]}
    assert curves["registers"]["current"] == 64
    registers = dict(map(tuple, curves["registers"]["points"]))
    assert (registers[32], registers[40], registers[64], registers[255]) == (1, 0.75, 0.5, 0.125)
    by_block = dict(map(tuple, curves["block_size"]["points"]))
    assert (by_block[256], by_block[1024]) == (0.5, 0.5)
    # An SM has 228 KiB, of which each block takes 1 KiB for the driver.
    shared = dict(map(tuple, curves["shared_bytes"]["points"]))
    assert shared == {0: 0.5, 57_344: 0.5, 76_800: 0.375, 115_712: 0.25, 232_448: 0.125}
    launch = {of["metric"]: of["value"] for of in found["launch"]}
    assert launch["launch__registers_per_thread"] == 64


def test_what_cannot_be_launched_has_no_occupancy() -> None:
    (found,) = kernel_sections(kernel(registers=128, dynamic=0), Choice())
    curves = {of["by"]: dict(map(tuple, of["points"])) for of in found["occupancy"]["curves"]}
    assert curves["block_size"][512] == 0.25
    assert curves["block_size"][544] == 0


def test_samples_of_a_report() -> None:
    name = "pmsampling:dramc__throughput.avg.pct_of_peak_sustained_elapsed"
    tables: dict[str, dict[str, list[Any]]] = {
        "profiled_kernel": {"launch_number": [0], "name": ["k"]},
        "kernel_metric": {
            "profiled_kernel_id": [0, 0],
            "name": [name, "pmsampling:sm__cycles_active.avg"],
            "value": [None, None],
        },
        "metric_instance": {
            "kernel_metric_id": [0, 0, 0, 1],
            "key": [0, 5000, 4000, 4000],
            "value": [1.0, 50.0, 25.0, 0.0],
        },
    }
    (found,) = kernel_sections(Trace(MemorySource(tables)), Choice())
    (samples,) = found["samples"]  # the other was 0 all the time
    assert (samples["metric"], samples["label"]) == (name, "DRAM: throughput")
    assert (samples["times_ns"], samples["values"]) == ([0, 1000], [0.25, 0.5])


def test_numbers_of_damaged_reports_are_not_in_json() -> None:
    found = sections({f"sm__throughput.avg.{ELAPSED}": float("nan"), "launch__sm_count": 1e300})
    assert found == {}


def test_the_order_names_every_body() -> None:
    assert {*ORDER} == {*SECTION_BODIES.names()}
