"""Checks for NaN that the CPU waits for, recognized by their kernels."""

from __future__ import annotations

import pytest
from support.kernel_names import BF16, vectorized
from support.machine import GEMM, Machine

import warpline
from warpline.derived.idle.nan_checks import nan_checks
from warpline.trace import Trace


def equal(of: str, other: str) -> str:
    return vectorized(
        f"at::native::BinaryFunctor<{of}, {other}, bool,"
        f" at::native::(anonymous namespace)::CompareEqFunctor<{of}>>",
        3,
        4,
    )


ITSELF = equal(BF16, BF16)
ANY = (
    "void at::native::reduce_kernel<512, 1, at::native::ReduceOp<bool, at::native::func_wrapper_t<"
    "bool, at::native::or_kernel_cuda(at::TensorIterator&)::{lambda()#1}>>>"
)


def recorded(compare: str, any_: str = ANY, checks: int = 25) -> Trace:
    machine = Machine()
    for _ in range(8):
        for _ in range(checks):
            machine.launch(20_000, GEMM)
            machine.launch(2_000, compare)
            machine.launch(4_000, any_)
            machine.read()
        machine.end_step()
    return machine.trace()


def test_each_read_behind_a_comparison_and_any_is_a_check():
    trace = recorded(ITSELF)
    assert len(nan_checks(trace)) == 8 * 25
    first = warpline.analyze(trace).findings[0]
    assert (first.rule, first.severity) == ("debug-switch", "high")
    assert "25 times per step" in first.claim


@pytest.mark.parametrize(
    ("compare", "any_"),
    [
        (equal("long", "long"), ANY),  # integers have no NaN
        (GEMM, ANY),
        (ITSELF, "void at::native::reduce_kernel<512, 1, sum_functor>"),
    ],
)
def test_other_reads_are_no_checks(compare: str, any_: str) -> None:
    assert len(nan_checks(recorded(compare, any_))) == 0


def test_few_checks_are_no_mode():
    rules = [item.rule for item in warpline.analyze(recorded(ITSELF, checks=10)).findings]
    assert "debug-switch" not in rules
