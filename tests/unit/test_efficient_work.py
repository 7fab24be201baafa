"""Busy time in work of efficient kinds: which work counts, and for how much."""

from __future__ import annotations

import pytest
from support.kernel_names import (
    ALIGNED,
    BF16,
    MISALIGNED,
    NVJET,
    SGEMM,
    binary,
    strided,
    vectorized,
)
from support.machine import Machine
from support.programs import DEVICE, Program

import warpline
from warpline.derived.efficiency.efficient_work import EfficientWork, Evidence, efficient_work
from warpline.trace import Run, Trace

FLASH = "void flash::flash_fwd_kernel<Flash_fwd_kernel_traits<128>>"
ALL_REDUCE = "ncclDevKernel_AllReduce_Sum_f32_RING_LL"
ADD = vectorized(binary(BF16, "Add"), 3)
DEVICE_TO_DEVICE = 8
BLOCKS = 131_072  # x 128 threads x 8 elements x 6 bytes: 805 MB, 186 us at 4.32 TB/s


def judged(machine: Machine) -> EfficientWork:
    return efficient_work(Run(machine.trace()))


@pytest.mark.parametrize(
    ("name", "ns", "evidence"),
    [
        (NVJET, 10_000, Evidence.TENSOR_CORES),
        (ALIGNED, 50_000, Evidence.TENSOR_CORES),
        (NVJET, 9_999, None),
        (MISALIGNED, 50_000, None),
        (SGEMM, 50_000, None),
        ("my_gemm", 50_000, None),
        (FLASH, 5_000, Evidence.ATTENTION),
        (ADD, 186_000, Evidence.BANDWIDTH),
        (ADD, 500_000, None),
        (strided(binary(BF16), 8), 186_000, None),
        (ALL_REDUCE, 50_000, Evidence.COLLECTIVES),
        ("triton_red_fused_sum_0", 50_000, None),
    ],
)
def test_kernels(name, ns, evidence):
    machine = Machine()
    machine.launch(ns, name, grid=(BLOCKS,), block=(128,))
    work = judged(machine)
    assert work.busy_ns == ns
    assert work.ns == tuple(ns if kind is evidence else 0 for kind in Evidence)
    assert work.share == (0 if evidence is None else 1)


@pytest.mark.parametrize(("pinned", "is_fast"), [(True, True), (False, False)])
def test_copies_near_the_bandwidth_of_pcie(pinned, is_fast):
    """50 GB/s from pinned memory and 8 GB/s from pageable memory, of 63."""
    machine = Machine()
    machine.copy(64_000_000, pinned=pinned)
    assert (judged(machine).share == 1) is is_fast


@pytest.mark.parametrize(("ns", "is_fast"), [(69_000, True), (71_000, False)])
def test_copies_within_the_device_read_and_write(ns, is_fast):
    """100 MB at 2.4 TB/s, half of the peak, take 41.7 us: 0.6 of 69.4 us."""
    program = Program()
    program.copy(0, 5_000, (6_000, 6_000 + ns), 100_000_000, DEVICE_TO_DEVICE, host=DEVICE)
    work = efficient_work(Run(program.trace("NVIDIA H200")))
    assert (work.share == 1) is is_fast


def test_shares_are_of_the_busy_time():
    machine = Machine()
    for name, ns in ((NVJET, 600_000), (FLASH, 100_000), ("my_kernel", 300_000)):
        machine.launch(ns, name)
    machine.wait()
    machine.work(5_000_000)
    work = judged(machine)
    assert work.parts() == (("Tensor Core math", 0.6), ("fused attention", 0.1))
    assert work.share == pytest.approx(0.7)


def recorded(name: str) -> Trace:
    machine = Machine()
    for _ in range(14):
        machine.launch(900_000, name)
        machine.launch(100_000, "my_kernel")
        machine.wait()
        machine.end_step()
    return machine.trace()


def test_verdicts():
    healthy = warpline.analyze(recorded(NVJET)).verdict
    assert "90.0% of the busy time is in work that is usually efficient" in healthy
    unknown = warpline.analyze(recorded("my_gemm")).verdict
    assert unknown.endswith("this kernel is efficient: profile it with Nsight Compute (ncu).")


def test_no_gpu_work():
    assert judged(Machine()) == EfficientWork(0, (0, 0, 0, 0, 0))
    assert judged(Machine()).share == 0
