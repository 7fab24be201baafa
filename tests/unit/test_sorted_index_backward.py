"""sorted-index-backward: PyTorch's sort of indices before it adds up gradients."""

from __future__ import annotations

import numpy as np
import pytest
from support.machine import Machine

import warpline
from warpline.analyses.findings.sorted_index_backward import sorted_index_backward
from warpline.derived.efficiency.index_backward import index_backward
from warpline.result import Finding, Skipped
from warpline.result.changes import DropOperations, ScaleOperations
from warpline.trace import Run, Trace

ADD = "void <unnamed>::indexing_backward_kernel<float, (int)4>(const long *, const long *)"
SORT = "void cub::detail::radix_sort::DeviceRadixSortOnesweepKernel<Policy>"
ARANGE = "void elementwise_kernel_with_index<int, at::native::arange_cuda_out()>"
OTHER = "void at::native::vectorized_elementwise_kernel<4, CUDAFunctor_add<float>>"


def judged(trace: Trace) -> list[Finding]:
    found = sorted_index_backward(Run(trace))
    return [] if isinstance(found, Skipped) else list(found)


def recorded(*, add: str = ADD, sort: str = SORT, last: str = ADD, ns: int = 200_000) -> Trace:
    """Return steps with arange, two sorts of 10 us each, a kernel that adds, and another one."""
    machine = Machine()
    for _ in range(14):
        machine.launch(300_000, OTHER)
        machine.launch(5_000, ARANGE)
        machine.launch(10_000, sort)
        machine.launch(10_000, sort)
        machine.launch(ns, add)
        machine.launch(100_000, OTHER)
        machine.launch(5_000, ARANGE)
        machine.launch(ns, last)
        machine.wait()
        machine.end_step()
    return machine.trace(sm_count=132)


def test_the_sort_goes_and_adding_is_faster():
    trace = recorded(last=OTHER)
    (found,) = judged(trace)
    dropped, faster = found.changes
    assert isinstance(dropped, DropOperations)
    assert isinstance(faster, ScaleOperations)
    assert len(dropped.operations) == 3 * len(faster.operations)
    assert len(faster.operations) == 14
    expected = faster.operations[:, np.newaxis] - [3, 2, 1]
    assert dropped.operations.tolist() == expected.ravel().tolist()
    finding = next(item for item in warpline.analyze(trace).findings if item.rule == found.rule)
    # At 0.3 of 200 us and without 25 us of sorting.
    assert finding.saving_ns == pytest.approx(165_000, rel=0.1)
    assert finding.saving_low_ns == 0


def test_a_kernel_without_a_sort_before_it_does_not_count():
    assert len(index_backward(recorded()).adding) == 14


@pytest.mark.parametrize(
    "trace",
    [
        pytest.param(recorded(add=OTHER, last=OTHER), id="a sort alone"),
        pytest.param(recorded(sort=OTHER), id="no sort"),
        pytest.param(recorded(ns=1_000, last=OTHER, sort=SORT.replace("Radix", "")), id="little"),
    ],
)
def test_what_is_not_reported(trace):
    assert judged(trace) == []
