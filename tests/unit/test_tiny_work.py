"""Kernels that are too small for the GPU, as findings about launches name them."""

from __future__ import annotations

import pytest
from support.machine import Machine

import warpline
from warpline.derived.efficiency.tiny_work import tiny_work
from warpline.trace import Run, Trace

STEPS, KERNELS, SMS = 12, 30, 132


def recorded(
    *, blocks: int = 4, ns: int = 2_000, large: int = 0, shapes: str | None = None
) -> Trace:
    """Return steps of GEMMs that are launched every 7 us; the first ones of a step have more."""
    machine = Machine()
    for _ in range(STEPS):
        for place in range(KERNELS):
            is_large = place < large
            begun = machine.now
            machine.launch(30_000 if is_large else ns, grid=(500 if is_large else blocks, 1, 1))
            machine.work(1_000)
            if shapes:
                machine.program.operator(begun, machine.now, "aten::mm", shapes)
        machine.wait()
        machine.end_step()
    return machine.trace(sm_count=SMS)


def test_tiny_kernels_are_named_with_what_a_launch_takes() -> None:
    found = tiny_work(Run(recorded()))
    assert found.claim == (
        " The GPU has little to do: all 30 kernels have blocks for less than half of the 132 SMs,"
        " and take a median of 2.00 us (a launch: 7.00 us)."
    )
    (evidence,) = found.evidence
    assert evidence.text == "30 tiny kernels per step"
    assert evidence.count == 30 * (STEPS - 1)


def test_the_finding_that_leads_says_it_with_its_saving() -> None:
    found = {item.rule: item for item in warpline.analyze(recorded()).findings}
    item = found["graph-opportunity"]
    assert "The GPU has little to do: all 30 kernels" in item.claim
    assert item.fix.endswith("use torch.bmm for independent GEMMs of one shape.") or (
        item.fix.endswith("use strided-batched GEMMs for independent GEMMs of one shape.")
    )
    assert item.saving_ns
    # It is one finding: the same idle time is not found twice.
    assert "launch-bound" not in found


def test_sizes_of_gemms_are_told_where_they_were_recorded() -> None:
    found = tiny_work(Run(recorded(shapes="[[32, 64], [64, 128]]")))
    assert found.claim.endswith(" The median GEMM has 0.52 MFLOP.")  # 2 x 32 x 64 x 128


@pytest.mark.parametrize(
    "trace",
    [
        pytest.param(recorded(blocks=SMS), id="blocks for all SMs"),
        pytest.param(recorded(ns=9_000), id="longer than a launch"),
        pytest.param(recorded(large=8), id="more than a fifth are large"),
        pytest.param(recorded(blocks=0), id="no grids recorded"),
    ],
)
def test_other_kernels_are_not_tiny(trace: Trace) -> None:
    assert tiny_work(Run(trace)).claim == ""


def test_a_few_large_ones_do_not_matter() -> None:
    assert "24 of 30 kernels" in tiny_work(Run(recorded(large=6))).claim
