"""unfused-optimizer: what tells the parameters of an optimizer from the time steps of a loop."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from support.machine import ELEMENTWISE, GEMM, Machine

import warpline
from warpline import plugins
from warpline.analyses.findings.unfused_optimizer import unfused_optimizer
from warpline.result import Finding, Skipped
from warpline.trace import Run, Trace

plugins.load("analyses")

STEPS = 6
FUSED = "void at::native::multi_tensor_apply_kernel<FusedAdamMathFunctor<float, 4>>"
# What generalized advantage estimation launches for one token: mul, add, sub, mul, add, then twice
# mul, rsub, mul, add.
OF_TOKEN = ("Mul", "Add", "Sub", "Mul", "Add", *("Mul", "Rsub", "Mul", "Add") * 2)
OF_ADAM = ("Mul", "Lerp", "Mul", "Addcmul", "Sqrt", "Div", "Add", "Addcdiv")
# Blocks of the parameters of a transformer's layer: norms, biases, and weights.
OF_LAYER = (1, 1, 768, 3, 256, 1, 1, 1, 1024, 4, 1024, 1)


def looped(
    names: Sequence[str], blocks: Sequence[int], *, recorded: bool = True, marked: str = ""
) -> Trace:
    """Return steps of a model and a loop over tensors in Python, at 9 us per launch.

    Args:
        names: The elementwise kernels for each tensor.
        blocks: The grid of each tensor's kernels.
        recorded: Whether grids are.
        marked: The name of a range around the loop.
    """
    machine = Machine()
    for _ in range(STEPS):
        for _ in range(30):
            machine.launch(250_000, GEMM, grid=(512,) if recorded else ())
        begun = machine.now
        for size in blocks:
            for name in names:
                machine.work(3_000)
                kernel = ELEMENTWISE.replace("Add", name)
                machine.launch(1_500, kernel, grid=(size,) if recorded else ())
        if marked:
            machine.program.mark(marked, begun, machine.now)
        for _ in range(60):
            machine.launch(250_000, GEMM, grid=(512,) if recorded else ())
        machine.launch(400_000, FUSED, grid=(320,) if recorded else ())
        machine.end_step()
    return machine.trace()


def judged(trace: Trace) -> list[Finding]:
    found = unfused_optimizer(Run(trace))
    return [] if isinstance(found, Skipped) else list(found)


def test_a_loop_over_time_steps_is_no_optimizer() -> None:
    trace = looped(OF_TOKEN, [1] * 400)
    assert judged(trace) == []
    diagnosis = warpline.analyze(trace)
    first = diagnosis.findings[0]
    assert first.rule == "graph-opportunity"
    assert first.severity == "high"
    # A graph leaves 90 GEMMs of 250 us, 5,200 kernels of 1.5 us, and the fused update of 400 us.
    work_ns = 90 * 250_000 + 5_200 * 1_500 + 400_000
    assert diagnosis.steps.median_ns is not None
    assert first.saving_ns == pytest.approx(diagnosis.steps.median_ns - work_ns, rel=0.05)


def test_other_elementwise_kernels_around_a_loop_do_not_make_it_an_optimizer() -> None:
    assert judged(looped(OF_TOKEN, [7, *[1] * 400, 96])) == []


@pytest.mark.parametrize("recorded", [True, False])
def test_parameters_have_several_sizes(recorded: bool) -> None:
    (found,) = judged(looped(OF_ADAM, OF_LAYER * 12, recorded=recorded))
    assert "1,152 short elementwise kernels per step repeat the same 8" in found.claim


def test_an_optimizer_behind_a_longer_loop_is_found() -> None:
    machine = Machine()
    for _ in range(STEPS):
        for blocks, names in (([1] * 200, OF_TOKEN), (OF_LAYER * 4, OF_ADAM)):
            machine.launch(500_000, GEMM, grid=(512,))
            for size in blocks:
                for name in names:
                    machine.launch(1_500, ELEMENTWISE.replace("Add", name), grid=(size,))
        machine.end_step()
    (found,) = judged(machine.trace())
    assert "384 short elementwise kernels per step repeat the same 8" in found.claim


def test_the_range_of_pytorchs_optimizers_decides() -> None:
    """A small network whose parameters all fit into one block."""
    assert judged(looped(OF_ADAM, [1] * 40, marked="aten::sum")) == []
    (found,) = judged(looped(OF_ADAM, [1] * 40, marked="Optimizer.step#AdamW.step"))
    assert "320 short elementwise kernels per step" in found.claim
