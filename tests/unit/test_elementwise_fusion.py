"""elementwise-fusion: which kernels form a chain, and the bytes that a fused one moves."""

from __future__ import annotations

import numpy as np
import pytest
from support.kernel_names import BF16, NVJET, binary, copy, softmax_warp, strided, unary, vectorized
from support.machine import Machine

import warpline
from warpline.analyses.findings.elementwise_fusion import elementwise_fusion
from warpline.derived.efficiency.chains import Chains, elementwise_chains
from warpline.result import Finding, Skipped
from warpline.result.changes import SetDurations
from warpline.trace import Run, Trace

BLOCKS = 131_072  # x 128 threads x 8 elements: 134 million, 268 MB each
TENSOR_NS = 62_000  # at 4.33 TB/s
ADD = vectorized(binary(BF16, "Add"), 3)
SCALE = vectorized(unary(BF16), 2)
GELU = vectorized("at::native::GeluCUDAKernelImpl(X)::[lambda(c10::BFloat16) (instance 1)]", 2)


def elementwise(machine: Machine, name: str, *, ns: int = 0, blocks: int = BLOCKS) -> None:
    tensors = 3 if "BinaryFunctor" in name else 2
    machine.launch(ns or tensors * TENSOR_NS, name, grid=(blocks,), block=(128,))


def chains_of(*names: str) -> tuple[Chains, Trace]:
    machine = Machine()
    for name in names:
        if "elementwise" in name:
            elementwise(machine, name)
        else:
            machine.launch(100_000, name, grid=(24_576,), block=(32, 4))
    trace = machine.trace()
    return elementwise_chains(Run(trace)), trace


def members(chains: Chains) -> list[list[int]]:
    return [part.tolist() for part in np.split(chains.kernel, chains.first[1:])]


def test_kernels_in_a_row_are_a_chain():
    assert members(chains_of(NVJET, ADD, SCALE, GELU, "gemm_a")[0]) == [[1, 2, 3]]
    assert members(chains_of(ADD, "gemm_a", SCALE, GELU, "gemm_b", ADD)[0]) == [[2, 3]]


def test_a_chain_ends_where_names_repeat():
    chains, _ = chains_of(*([ADD, SCALE, GELU] * 3))
    assert members(chains) == [[0, 1, 2], [3, 4, 5], [6, 7, 8]]
    # One name over and over: many tensors, not one.
    assert len(chains_of(*([ADD] * 9))[0]) == 0


def test_a_chain_ends_with_the_step():
    machine = Machine()
    for _ in range(5):
        elementwise(machine, SCALE)
        machine.launch(500_000, NVJET)
        elementwise(machine, ADD)
        machine.end_step()
    assert len(elementwise_chains(Run(machine.trace()))) == 0


def test_compilers_fuse_up_to_64_kernels():
    names = [vectorized(unary(BF16, f"Op{number}"), 2) for number in range(70)]
    assert [len(part) for part in members(chains_of(*names)[0])] == [64, 6]


def test_other_sizes_short_kernels_and_transposing_copies_are_not_in_chains():
    machine = Machine()
    elementwise(machine, ADD)
    elementwise(machine, SCALE, blocks=BLOCKS - 8)  # 8,192 elements fewer
    elementwise(machine, GELU, ns=3_900)
    elementwise(machine, ADD)
    machine.launch(400_000, strided(copy(BF16)), grid=(2 * BLOCKS,), block=(128,))  # 1.3 TB/s
    elementwise(machine, GELU)
    assert len(elementwise_chains(Run(machine.trace()))) == 0
    machine = Machine()
    elementwise(machine, ADD)
    machine.launch(130_000, strided(copy(BF16)), grid=(2 * BLOCKS,), block=(128,))  # 4.1 TB/s
    assert members(elementwise_chains(Run(machine.trace()))) == [[0, 1]]


def test_kernels_of_attention_are_not_in_chains():
    """Scores of 98,304 x 1,024 elements, scaled and masked."""
    machine = Machine()
    machine.launch(500_000, NVJET)
    for name in (SCALE, ADD):
        elementwise(machine, name, blocks=98_304)
    machine.launch(700_000, softmax_warp(10), grid=(24_576,), block=(32, 4))
    machine.launch(500_000, NVJET)
    assert len(elementwise_chains(Run(machine.trace()))) == 0


def test_fused_kernels_move_fewer_bytes():
    """Three kernels with 4 inputs and 3 results leave 2 outer inputs.

    A tensor has 268,435,456 bytes. Only the bandwidth of the chain's own kernels is known: they all
    take 62 us per tensor.
    """
    chains, _ = chains_of(NVJET, ADD, SCALE, GELU)
    assert chains.low_ns.tolist() == [2 * TENSOR_NS]
    assert chains.central_ns.tolist() == [round((2**0.5 + 1) * TENSOR_NS)]
    assert chains.high_ns.tolist() == [3 * TENSOR_NS]


def test_in_training_results_are_kept():
    backward = vectorized(
        "at::native::GeluBackwardCUDAKernelImpl(X)::[lambda(c10::BFloat16) (instance 1)]", 2
    )
    chains, _ = chains_of(NVJET, ADD, SCALE, backward)
    assert chains.low_ns.tolist() == [2 * TENSOR_NS]
    assert chains.central_ns.tolist() == [round((2**0.5 + 3**0.5) * TENSOR_NS)]
    assert chains.high_ns.tolist() == [5 * TENSOR_NS]  # two inputs, three results


def test_instructions_bound_the_worst_case():
    """134 million elements x (4 + 4 + 40) instructions at 10 SMs x 128 x 1 GHz take 5 ms."""
    machine = Machine()
    for name in (ADD, SCALE, GELU):
        elementwise(machine, name)
    trace = machine.trace(sm_count=10, clock_hz=1_000_000_000)
    chains = elementwise_chains(Run(trace))
    assert chains.central_ns.tolist() == [round((2**0.5 + 1) * TENSOR_NS)]
    assert chains.high_ns.tolist() == [7 * TENSOR_NS]  # never longer than now


def test_small_tensors_scale_with_their_bytes():
    machine = Machine()
    for name in (ADD, SCALE, GELU):
        elementwise(machine, name, ns=10_000, blocks=2_048)  # 4 MB per tensor, of 60 MB L2
    chains = elementwise_chains(Run(machine.trace()))
    # 7 tensors in 30 us now; 2, 2.41, and 3 of them.
    assert chains.low_ns.tolist() == [round(30_000 * 2 / 7)]
    assert chains.high_ns.tolist() == [round(30_000 * 3 / 7)]


def test_an_unknown_bandwidth_has_bounds():
    """Tensors of 33,554,432 bytes; 0.8 to 0.93 of 4.8 TB/s."""
    machine = Machine()
    for name in (ADD, SCALE):
        elementwise(machine, name, ns=40_000, blocks=16_384)
    chains = elementwise_chains(Run(machine.trace()))
    size = 33_554_432
    assert chains.low_ns.tolist() == [round(2 * size / (0.93 * 4.8e3))]
    assert chains.high_ns.tolist() == [round(3 * size / (0.80 * 4.8e3))]


def recorded(*names: str) -> Trace:
    machine = Machine()
    for _ in range(14):
        machine.launch(500_000, NVJET)
        for name in names:
            elementwise(machine, name)
        machine.wait()
        machine.end_step()
    return machine.trace()


def judged(trace: Trace) -> list[Finding]:
    found = elementwise_fusion(Run(trace))
    return [] if isinstance(found, Skipped) else list(found)


def test_the_finding_is_low_whatever_it_saves():
    trace = recorded(ADD, SCALE, GELU)
    (found,) = judged(trace)
    assert isinstance(found.changes[0], SetDurations)
    assert "1 chain of elementwise kernels per step (3 kernels) take" in found.claim
    (priced,) = (item for item in warpline.analyze(trace).findings if item.rule == found.rule)
    assert priced.severity == "low"
    # 434 us and two gaps of 1.2 us become 150 us, of a step of about 950 us.
    assert priced.saving_ns == pytest.approx(434_000 + 2_400 - 149_681, abs=10_000)
    assert "most_severe" not in warpline.analyze(trace).to_dict()["findings"][0]


def test_compiled_programs_need_no_compiler():
    (eager,) = judged(recorded(ADD, SCALE, GELU))
    assert eager.fix.startswith("Compile the function around them with torch.compile")
    (compiled,) = judged(recorded(ADD, SCALE, GELU, "triton_poi_fused_add_mul_0"))
    assert "TORCH_LOGS=graph_breaks" in compiled.fix
    assert "with torch.compile" not in compiled.fix


def test_little_to_save_is_no_finding():
    machine = Machine()
    for _ in range(14):
        machine.launch(8_000_000, NVJET)
        elementwise(machine, ADD)
        elementwise(machine, SCALE)
        machine.wait()
        machine.end_step()
    assert judged(machine.trace()) == []
    assert judged(recorded(ADD)) == []
