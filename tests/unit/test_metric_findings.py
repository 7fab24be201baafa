"""What sampled metrics say in the verdict and in findings."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from support.machine import ELEMENTWISE, GEMM, Machine
from support.metrics import PERCENT, PERIOD, SM_ACTIVE, sampled
from support.programs import ALL_REDUCE

import warpline
from warpline.analyses.findings.low_sm_activity import low_sm_activity
from warpline.analyses.findings.pcie_saturated import pcie_saturated
from warpline.derived.metrics.memory_use import dram_in_words
from warpline.derived.work.operations import operations
from warpline.result import Finding
from warpline.result.changes import SetDurations
from warpline.trace import Run, Trace

MS = 1_000_000
STEPS = 20
TENSOR = f"sm__pipe_tensor_cycles_active_realtime.{PERCENT}"
ISSUE = f"sm__inst_executed_realtime.{PERCENT}"
DRAM = f"dram__throughput.{PERCENT}"


def program(
    metrics: dict[str, float],
    *,
    name: str = GEMM,
    ns: int = 4 * MS,
    blocks: int = 4096,
    producer: str | None = None,
    link: tuple[int, int] = (0, 0),
) -> Trace:
    """Return steps of one kernel of 4 ms and an elementwise one of 1 ms, with constant metrics."""
    machine = Machine()
    for _ in range(STEPS):
        machine.launch(ns, name, grid=(blocks,), block=(128,))
        machine.launch(1 * MS, "other", grid=(4096,), block=(128,))
        machine.wait()
        machine.end_step()
    samples = machine.now // PERIOD + 1
    at = np.arange(samples) * PERIOD
    long = np.zeros(samples, np.bool_)
    for row in machine.program.rows["kernel"]:
        if row["name"] == name:
            long |= (at + PERIOD > row["start_ns"]) & (at < row["end_ns"])
    for metric, value in metrics.items():
        # The other kernel keeps all SMs active.
        other = 90 if metric == SM_ACTIVE else value
        sampled(machine.program, metric, *np.where(long, value, other).tolist())
    return machine.trace(
        meta={"producer": producer},
        sm_count=132,
        pcie_generation=link[0],
        pcie_width=link[1],
    )


def judged(trace: Trace) -> list[Finding]:
    found = low_sm_activity(Run(trace))
    assert isinstance(found, list)
    return found


def test_the_headline_says_how_few_sms_are_active() -> None:
    said = warpline.analyze(program({SM_ACTIVE: 10, ISSUE: 3, DRAM: 12})).verdict
    # 10% in 4 of 5 ms, 90% in one; samples at the edges show the longer kernel.
    assert said.startswith("GPU busy 99.")
    assert " On average, 24.5% of the SMs are active, 3.0% of issue slots are in use, and" in said
    assert "DRAM is at 12.0% of its peak. " in said
    assert "usually efficient" not in said


@pytest.mark.parametrize(
    ("metrics", "is_said"),
    [
        ({SM_ACTIVE: 90, ISSUE: 30}, False),
        ({SM_ACTIVE: 90, ISSUE: 4, TENSOR: 60}, False),  # Tensor Cores need few instructions
        ({SM_ACTIVE: 90, ISSUE: 4, TENSOR: 2}, True),
        ({SM_ACTIVE: 90, ISSUE: 4, TENSOR: 2, DRAM: 85}, False),  # they wait for memory
        ({SM_ACTIVE: 90}, False),
        ({SM_ACTIVE: 40}, True),
        ({ISSUE: 1}, False),
    ],
)
def test_only_much_less_activity_is_said(metrics: dict[str, float], is_said: bool) -> None:
    assert ("of the SMs are active" in warpline.analyze(program(metrics)).verdict) is is_said


def test_what_is_near_its_peak_is_said() -> None:
    said = warpline.analyze(program({SM_ACTIVE: 95, ISSUE: 4, DRAM: 85})).verdict
    assert ". On average, DRAM is at 85.0% of its peak." in said
    said = warpline.analyze(program({SM_ACTIVE: 95, TENSOR: 62, DRAM: 70})).verdict
    assert (
        ". On average, Tensor Cores are active in 62.0% of the cycles and DRAM is at 70.0% of its"
        " peak." in said
    )
    assert "usually efficient" in said


def test_kernels_on_few_sms() -> None:
    trace = program({SM_ACTIVE: 25, "sm__cycles_active.max.pct_of_peak_sustained_elapsed": 99})
    (found,) = judged(trace)
    assert (found.rule, found.severity) == ("low-sm-activity", "medium")
    assert found.title == "Kernels with 25.0% of the SMs active take 79.8% of the time"
    assert found.claim.startswith("1 kernel per step with 25.0% of the SMs active on average (7")
    assert "The busiest SM is active 99.0% of their time" in found.claim
    (change,) = found.changes
    assert isinstance(change, SetDurations)
    assert {*change.low_ns.tolist()} == {*change.central_ns.tolist()} == {MS}
    assert {*change.high_ns.tolist()} == {4 * MS}
    diagnosis = warpline.analyze(trace)
    (priced,) = (item for item in diagnosis.findings if item.rule == "low-sm-activity")
    assert (priced.severity, priced.saving_low_ns) == ("medium", 0)
    assert priced.saving_ns == pytest.approx(3 * MS, rel=0.01)
    assert "Fix first: kernels with 25.0% of the SMs active" in diagnosis.verdict
    assert "Estimated saving: up to 3.0" in diagnosis.verdict


@pytest.mark.parametrize(
    ("metrics", "options"),
    [
        ({SM_ACTIVE: 80}, {}),
        ({SM_ACTIVE: 25, DRAM: 85}, {}),  # more SMs would wait for memory
        ({SM_ACTIVE: 25}, {"name": ALL_REDUCE}),
        ({SM_ACTIVE: 25}, {"blocks": 16}),  # small-grids says so
        ({SM_ACTIVE: 25}, {"ns": 150_000}),  # too short for samples
        ({DRAM: 25}, {}),
        ({}, {}),
    ],
)
def test_no_finding(metrics: dict[str, float], options: dict[str, Any]) -> None:
    assert judged(program(metrics, **options)) == []


def test_a_busy_gpu_without_metrics_names_the_command() -> None:
    command = "warpline profile --gpu-metrics-devices=cuda-visible"

    def verdict(metrics: dict[str, float], producer: str) -> str:
        return warpline.analyze(program(metrics, producer=producer)).verdict

    assert command in verdict({}, "Warpline 0.1.0")
    assert command not in verdict({}, "NVIDIA Nsight Systems 2025.1")
    assert command not in verdict({SM_ACTIVE: 90}, "Warpline 0.1.0")


def test_findings_about_memory_say_how_much_of_its_bandwidth_is_used() -> None:
    trace = program({DRAM: 85}, name=ELEMENTWISE)
    kernels = np.ones(len(operations(trace)), np.bool_)
    said = dram_in_words(Run(trace), kernels)
    assert said.startswith(" While they run, DRAM is at 85.0% of its peak (")
    assert dram_in_words(Run(trace), ~kernels) == ""
    assert dram_in_words(Run(program({SM_ACTIVE: 85})), kernels) == ""


def saturated(trace: Trace) -> list[Finding]:
    found = pcie_saturated(Run(trace))
    assert isinstance(found, list)
    return found


def test_a_link_at_its_peak() -> None:
    (found,) = saturated(program({"PCIe RX Throughput [Throughput %]": 85}))
    assert found.title == "PCIe to GPU 0 is at its peak 100.0% of the time"
    assert found.severity == "low"
    assert not found.changes
    # 5.1 MB in 100 us are 51 GB/s, of 63 GB/s.
    metrics = {"pcie__write_bytes.sum": 5_100_000.0}
    (found,) = saturated(program(metrics, link=(5, 16)))
    assert found.title == "PCIe from GPU 0 is at its peak 100.0% of the time"


def test_a_link_with_room() -> None:
    assert saturated(program({"PCIe RX Throughput [Throughput %]": 60})) == []
    metrics = {"pcie__write_bytes.sum": 4_900_000.0}
    assert saturated(program(metrics, link=(5, 16))) == []
    assert saturated(program({"pcie__write_bytes.sum": 9e6})) == []  # the link is unknown
    assert saturated(program({})) == []


def test_compare_lists_the_activity_of_both_sides() -> None:
    before, after = program({SM_ACTIVE: 25, DRAM: 12}), program({SM_ACTIVE: 80, DRAM: 30})
    facts = {fact.name: fact for fact in warpline.compare(before, after).environment}
    active, dram = facts["SM active (sampled)"], facts["DRAM active (sampled)"]
    assert (active.before, active.after, active.effect) == ("37%", "82%", "information")
    assert (dram.before, dram.after) == ("12%", "30%")
    without = {fact.name for fact in warpline.compare(program({}), program({})).environment}
    assert not {"SM active (sampled)", "DRAM active (sampled)"} & without
