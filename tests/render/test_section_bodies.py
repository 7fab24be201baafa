"""Charts and tables of sections as text."""

from __future__ import annotations

from textwrap import dedent
from typing import Any

from warpline.render.section_bodies import Drawing, body_texts

ASCII = Drawing(unicode=False)


def text(identifier: str, name: str, shown: Any, drawing: Drawing = ASCII) -> str:
    (found,) = body_texts([identifier], {name: shown}, drawing)
    return dedent(found)


def expected(lines: str) -> str:
    return dedent(lines).lstrip("\n") + "\n"


def test_a_section_without_a_body_has_none() -> None:
    assert body_texts(["LaunchStats", "Occupancy", "Other"], {}, ASCII) == ["", "", ""]


def test_bars_of_the_breakdown() -> None:
    parts = [
        {"metric": "a", "label": "SM: issue active", "ratio": 0.5},
        {"metric": "b", "label": "SM: pipe ALU", "ratio": 0.025},
        {"metric": "c", "label": "SM: pipe XU", "ratio": 0.0},
    ]
    shown = [
        {"name": "SM", "metric": "m", "ratio": 0.5, "breakdown": parts},
        {"name": "DRAM", "metric": "d", "ratio": 0.1, "breakdown": []},
    ]
    assert text("SpeedOfLight", "speed_of_light", shown) == expected(
        """
        SM throughput by part, of peak
        SM: issue active 50.0% ####################
        SM: pipe ALU      2.5% #
        """
    )
    assert "█" * 20 in text("SpeedOfLight", "speed_of_light", shown, Drawing())


def test_bars_of_stalls() -> None:
    states = [
        {"label": "Long Scoreboard", "cycles_per_instruction": 12.5, "ratio": 0.75},
        {"label": "Wait", "cycles_per_instruction": 4, "ratio": 0.25},
    ]
    assert text("WarpStateStats", "warp_states", states) == expected(
        """
        Warp states, cycles per issued instruction
        Long Scoreboard 12.50 75.0% ##############################
        Wait             4.00 25.0% ##########
        """
    )
    sampled = [state | {"cycles_per_instruction": None} for state in states]
    assert text("WarpStateStats", "warp_states", sampled).startswith(
        "Warp states, samples\nLong Scoreboard 75.0% ###"
    )


def test_the_roofline_comes_once() -> None:
    point = {"precision": "fp32", "name": "FP32", "level": "DRAM", "flop": 1, "bytes": 1}
    point |= {"flop_per_byte": 5, "flop_per_s": 5e12, "ceiling_flop_per_s": 10e12, "ratio": 0.5}
    point |= {"measured_ratio": None, "governed_by": "DRAM"}
    ceilings = [
        {"kind": "compute", "name": "FP32", "flop_per_s": 20e12, "source": "clock"},
        {"kind": "compute", "name": "FP32", "flop_per_s": 15e12, "source": "measured"},
        {"kind": "bandwidth", "name": "DRAM", "bytes_per_s": 2e12, "source": "clock"},
    ]
    roofline = {
        "points": [point],
        "ceilings": ceilings,
        "bound": "memory-bound at DRAM",
    }
    sections = ["SpeedOfLight_RooflineChart", "SpeedOfLight_HierarchicalSingleRooflineChart"]
    first, second = body_texts(sections, {"roofline": roofline}, ASCII)
    assert second == ""
    assert dedent(first) == expected(
        """
        --------- ------ ------ ------- ------- ---------- -----------
        Precision Memory FLOP/B TFLOP/s Ceiling Of Ceiling Governed by
        --------- ------ ------ ------- ------- ---------- -----------
        FP32        DRAM      5    5.00   10.00      50.0%        DRAM
        --------- ------ ------ ------- ------- ---------- -----------

        ------- ------------- -------------
        Ceiling At This Clock      Measured
        ------- ------------- -------------
        FP32    20.00 TFLOP/s 15.00 TFLOP/s
        DRAM        2.00 TB/s             -
        ------- ------------- -------------
        Bound: memory-bound at DRAM
        """
    )
    base = text(sections[0], "roofline", roofline, Drawing(is_scaled=False))
    assert "5000000000000.0" in base
    measured = roofline | {"points": [point | {"measured_ratio": 0.7}]}
    assert "Of Ceiling Of Measured Governed by" in text(sections[0], "roofline", measured)
    assert " 50.0%       70.0%        DRAM\n" in text(sections[0], "roofline", measured)
    nothing: dict[str, Any] = {"points": [], "ceilings": [], "bound": None}
    assert text(sections[0], "roofline", nothing).strip() == "No FLOP were counted."


def test_the_memory_chart_and_its_tables() -> None:
    edge = {"bytes": None, "bytes_per_s": None, "ratio": None, "requests": None}
    to_l1 = {"from": "global", "to": "l1", "counts": "requests", "requests": 1000}
    to_l1 |= {"bytes": 131_072, "ratio": 0.1}
    memory = {
        "nodes": [
            {"id": "kernel", "label": "Kernel", "ratio": None, "ratio_label": ""},
            {"id": "global", "label": "Global", "ratio": None, "ratio_label": ""},
            {"id": "l1", "label": "L1", "ratio": 0.8, "ratio_label": "Hit Rate"},
        ],
        "edges": [
            edge | {"from": "kernel", "to": "global", "counts": "instructions", "requests": 1000},
            edge | to_l1,
            edge | {"from": "l1", "to": "global", "counts": "requests", "bytes": 0},
        ],
        "tables": [
            {
                "title": "L2",
                "columns": [
                    {"name": "Sectors", "unit": "sector"},
                    {"name": "Hit Rate", "unit": "ratio"},
                    {"name": "Misses", "unit": "sector"},
                ],
                "rows": [["L1 Load", 1234, 0.5, 0], ["ECC", 10, None, None]],
            }
        ],
    }
    assert text("MemoryWorkloadAnalysis_Chart", "memory", memory) == expected(
        """
        ---------------- ------------ -------- ------- ---------- -------
        Traffic          Instructions Requests   Bytes Throughput Of Peak
        ---------------- ------------ -------- ------- ---------- -------
        Kernel -> Global        1,000        -       -          -       -
        Global -> L1                -    1,000 128 KiB          -   10.0%
        ---------------- ------------ -------- ------- ---------- -------
        L1: hit rate 80.0%
        """
    )
    assert text("MemoryWorkloadAnalysis_Tables", "memory", memory) == expected(
        """
        ------- ------- --------
        L2      Sectors Hit Rate
        ------- ------- --------
        L1 Load   1,234    50.0%
        ECC          10        -
        ------- ------- --------
        """
    )


def test_occupancy_marks_the_present() -> None:
    shown = {
        "theoretical_ratio": 0.5,
        "achieved_ratio": None,
        "limits": [
            {"limit": "blocks", "blocks": 32, "is_limiting": False},
            {"limit": "registers", "blocks": 4, "is_limiting": True},
        ],
        "curves": [
            {"by": "block_size", "current": 96, "points": [[32, 0.5], [96, 0.5], [160, 0.4]]},
            {"by": "registers", "current": 48, "points": [[16, 1], [32, 1], [48, 0.5], [56, 0.5]]},
        ],
    }
    assert text("Occupancy", "occupancy", shown) == expected(
        """
        Theoretical 50.0%, achieved -
        Blocks per SM: 32 by the SM, 4 by registers (limits)
        By Block Size    32   96*
        Occupancy     50.0% 50.0%
        By Registers per Thread     32   48*    56
        Occupancy               100.0% 50.0% 50.0%
        * now
        """
    )


def test_plots_of_samples() -> None:
    item = {"metric": "m", "label": "DRAM: throughput", "unit": "ratio"}
    shown = [item | {"times_ns": [0, 1000, 2000], "values": [0.0, 0.25, 0.5]}]
    assert text("PmSampling", "samples", shown) == expected(
        """
        3 samples in 2.00 us
        Metric           Average Maximum
        DRAM: throughput   25.0%   50.0% _=#
        """
    )
    assert "▁▅█" in text("PmSampling", "samples", shown, Drawing())
    many = [item | {"times_ns": [*range(1000)], "values": [1.0] * 1000}]
    assert text("PmSampling", "samples", many).endswith(" " + "#" * 40 + "\n\n")


def test_workload_and_instructions() -> None:
    shown = [{"unit": "SM", "metric": "m", "min": 10, "avg": 20.5, "max": 41, "sum": 100}]
    assert text("WorkloadDistribution", "workload", shown) == expected(
        """
        Active cycles
        ---- ------- ------- ------- ---------
        Unit Minimum Average Maximum Max / Avg
        ---- ------- ------- ------- ---------
        SM        10      20      41      2.00
        ---- ------- ------- ------- ---------
        """
    )
    opcodes = [{"opcode": "FFMA", "executed": 3}, {"opcode": "LDG", "executed": 1}]
    assert text("InstructionStats", "instructions", opcodes) == expected(
        """
        Executed instructions
        FFMA 3 75.0% ##############################
        LDG  1 25.0% ##########
        """
    )
