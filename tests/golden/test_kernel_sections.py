"""Charts and tables of sections beside what Nsight Compute printed of the same reports."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support import ncu_captures
from support.section_numbers import RawPage, numbers_of, raw_pages

import warpline
from warpline.documents.kernel_filters import Choice
from warpline.documents.kernel_sections import ORDER, kernel_sections
from warpline.trace import MemorySource, Trace

Launch = tuple[dict[str, Any], RawPage]
_BYTES_PER_S = {
    "L1": "derived__l1tex__lsu_writeback_bytes_mem_lgds.sum.per_second",
    "L2": "derived__lts__lts2xbar_bytes.sum.per_second",
    "DRAM": "dram__bytes.sum.per_second",
}
_SAME = ("speed_of_light", "roofline", "pipes", "memory", "warp_states", "workload")
# What CUPTI does not count.
_NOT_COUNTED = r"^(launch|device|derived|sass|profiler)_|maximum_warps|:|Triage"
_RESOURCES = {
    "registers_per_thread": "launch__registers_per_thread",
    "static_shared_bytes": "launch__shared_mem_per_block_static",
    "dynamic_shared_bytes": "launch__shared_mem_per_block_dynamic",
}
_EXECUTED = "smsp__sass_thread_inst_executed_op_{}_pred_on.sum.per_cycle_elapsed"


@pytest.fixture(scope="module", params=ncu_captures.NAMES)
def launches(request: pytest.FixtureRequest, tmp_path_factory: Any) -> list[Launch]:
    folder: Path = tmp_path_factory.mktemp("ncu")
    trace = warpline.open(str(ncu_captures.unpack(request.param, folder)))
    printed = raw_pages(ncu_captures.printed(request.param, "raw.csv"))
    return [*zip(kernel_sections(trace, Choice()), printed, strict=True)]


def test_every_number_is_that_of_its_metric(launches: list[Launch]) -> None:
    for sections, printed in launches:
        numbers = [*numbers_of(sections)]
        wrong = [of for of in numbers if not printed.evaluate(of[1]).has(of[2])]
        assert wrong == []
        assert len(numbers) > 250


def test_a_full_report_has_every_section(launches: list[Launch]) -> None:
    for sections, _ in launches:
        assert [*sections] == [*ORDER]


def test_points_of_rooflines(launches: list[Launch]) -> None:
    points = [(point, of) for sections, of in launches for point in sections["roofline"]["points"]]
    assert points
    for point, printed in points:
        assert printed.value(_BYTES_PER_S[point["level"]]).has(point["bytes_per_s"])
        letter = {"fp16": "h", "fp32": "f", "fp64": "d"}[point["precision"]]
        add, multiply, fused = (
            printed.value(_EXECUTED.format(letter + of)) for of in ("add", "mul", "fma")
        )
        clock = printed.value("smsp__cycles_elapsed.avg.per_second")
        numbers = 2 if letter == "h" else 1
        per_cycle = numbers * (add.middle + multiply.middle + 2 * fused.middle)
        assert point["flop_per_s"] == pytest.approx(per_cycle * clock.middle, rel=1e-4)
        assert point["flop_per_byte"] == pytest.approx(point["flop"] / point["bytes"])
        assert 0 < point["ratio"] <= 1.001


def test_shares_of_warp_states_are_the_whole(launches: list[Launch]) -> None:
    for sections, printed in launches:
        states = sections["warp_states"]
        assert sum(state["ratio"] for state in states) == pytest.approx(1)
        shares = [state["ratio"] for state in states]
        assert shares == sorted(shares, reverse=True)
        latency = printed.value("smsp__average_warp_latency_per_inst_issued.ratio")
        cycles = sum(state["cycles_per_instruction"] for state in states)
        assert cycles == pytest.approx(latency.middle, rel=0.05), "counted in other passes"


def test_the_breakdown_explains_the_throughput(launches: list[Launch]) -> None:
    for sections, _ in launches:
        sm, memory = sections["speed_of_light"][:2]
        assert (sm["name"], memory["name"]) == ("SM", "Memory")
        for unit in (sm, memory):
            most = unit["breakdown"][0]
            assert most["ratio"] == pytest.approx(unit["ratio"], rel=1e-6), most["metric"]


def test_our_own_counters_show_the_same(tmp_path_factory: pytest.TempPathFactory) -> None:
    report = warpline.open(str(ncu_captures.unpack("target", tmp_path_factory.mktemp("ncu"))))
    own = kernel_sections(as_counted_by_us(report), Choice())
    for ours, theirs in zip(own, kernel_sections(report, Choice()), strict=True):
        for name in _SAME:
            assert ours[name] == theirs[name], name
        assert ours["occupancy"]["curves"] == theirs["occupancy"]["curves"]
        for of in ("theoretical_ratio", "achieved_ratio"):
            assert ours["occupancy"][of] == theirs["occupancy"][of]
        assert "samples" not in ours
        assert ours["instructions"], "by kind"


def as_counted_by_us(report: Trace) -> Trace:
    """Return the counters of a report as Warpline records them: no lists, no instances."""
    metrics = report["kernel_metric"].drop_nulls("value")
    counted = metrics.filter(~metrics["name"].str.contains(_NOT_COUNTED))
    resources = {
        column: metrics.filter(name=name).sort("profiled_kernel_id")["value"].cast(int).to_list()
        for column, name in _RESOURCES.items()
    }
    launches = report["profiled_kernel"]
    shapes = [f"{of}_{axis}" for of in ("grid", "block") for axis in "xyz"]
    columns = ("launch_number", "device_id", "name", *shapes)
    facts = ("name", "compute_major", "compute_minor", "sm_count", "memory_bytes_per_s")
    tables = {
        "device": {name: report["device"][name].to_list() for name in facts},
        "profiled_kernel": {
            **{name: launches[name].to_list() for name in columns},
            **resources,
            "is_range": [False] * len(launches),
        },
        "kernel_metric": {
            name: counted[name].to_list() for name in ("profiled_kernel_id", "name", "value")
        },
    }
    return Trace(MemorySource(tables))
