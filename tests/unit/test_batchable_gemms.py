"""batchable-gemms: sequences of small GEMMs that repeat for one matrix after another."""

from __future__ import annotations

import numpy as np
import pytest
from support.machine import Machine

import warpline
from warpline.analyses.findings.batchable_gemms import batchable_gemms
from warpline.result import Finding, Skipped
from warpline.result.changes import DropOperations, SetDurations
from warpline.trace import Run, Trace

ELEMENTWISE = "void at::native::vectorized_elementwise_kernel<4, Add>"
SOFTMAX = "void cunn_SoftMaxForward<4, float>"


def recorded(
    *, matrices: int = 10, iterations: int = 5, ns: int = 4_000, between: str | None = None
) -> Trace:
    """Return steps that multiply each matrix twice per iteration, and add once."""
    machine = Machine()
    for _ in range(14):
        for _ in range(matrices):
            machine.launch(2_000, between or ELEMENTWISE, grid=(7, 1, 1))
            for _ in range(iterations):
                machine.launch(ns, "nvjet_sm90_tst_64x48_h_bz_NNT", grid=(96, 1, 1))
                machine.launch(ns, "nvjet_sm90_tst_64x64_v_bz_NTN", grid=(96, 1, 1))
                machine.launch(1_000, ELEMENTWISE, grid=(64, 1, 1))
        machine.launch(100_000, "large", grid=(4096,))
        machine.wait()
        machine.end_step()
    return machine.trace(sm_count=132)


def judged(trace: Trace) -> list[Finding]:
    found = batchable_gemms(Run(trace))
    return [] if isinstance(found, Skipped) else list(found)


def test_one_repetition_does_the_work_of_all():
    """Ten matrices, sixteen kernels each: nine of ten sequences go, the first takes longer."""
    (found,) = judged(recorded())
    dropped, longer = found.changes
    assert isinstance(dropped, DropOperations)
    assert isinstance(longer, SetDurations)
    steps = len(longer.operations) // 16
    assert steps >= 12
    assert len(dropped.operations) == 9 * 16 * steps
    assert not np.isin(longer.operations, dropped.operations).any()
    assert set(longer.central_ns.tolist()) == {8_000, 16_000, 4_000}  # 0.4 x 10 launches
    assert set(longer.low_ns.tolist()) == {3_000, 6_000, 1_500}  # 0.15 x 10
    assert set(longer.high_ns.tolist()) == {2_000, 4_000, 1_000}  # as now, if nothing is dropped
    assert "100 small GEMMs per step" in found.claim


def test_the_saving_is_conditional_and_may_be_nothing():
    found = next(
        item for item in warpline.analyze(recorded()).findings if item.rule == "batchable-gemms"
    )
    assert found.severity == "medium"
    assert found.saving_low_ns == 0
    assert (found.saving_high_ns or 0) > (found.saving_ns or 0) > 0


@pytest.mark.parametrize(
    "trace",
    [
        pytest.param(recorded(matrices=7), id="few matrices"),
        pytest.param(recorded(iterations=4), id="gates of a recurrent cell"),
        pytest.param(recorded(matrices=1, iterations=80), id="one chain, such as time steps"),
        pytest.param(recorded(ns=31_000), id="large GEMMs"),
        pytest.param(recorded(between=SOFTMAX), id="layers with a softmax"),
    ],
)
def test_what_is_not_reported(trace):
    assert judged(trace) == []
