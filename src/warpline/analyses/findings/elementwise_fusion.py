"""elementwise-fusion: chains of elementwise kernels read and write the same tensors again."""

from __future__ import annotations

import numpy as np

from warpline.derived.breakdown.step_scope import StepScope, step_scope
from warpline.derived.efficiency.chains import Chains, elementwise_chains
from warpline.derived.metrics.memory_use import dram_in_words
from warpline.derived.program import is_compiled
from warpline.derived.severity import MEASURABLE_RATIO
from warpline.derived.work.operations import operations
from warpline.result import Finding, Severity, rule
from warpline.result.changes import DropOperations, SetDurations
from warpline.trace import Run
from warpline.units import format_ns, format_ratio, plural

NAME = "elementwise-fusion"
TITLE = "Chains of elementwise kernels could be fused"

_MOST = 0.5  # of the time
_FIX = "Compile the function around them with torch.compile, or use a fused operator."
_FIX_CUDA = (
    "Merge the kernels into one that keeps intermediate values in registers. In CuPy, decorate the"
    " function around them with cupy.fuse, or write a cupy.ElementwiseKernel."
)
_FIX_COMPILED = (
    "Extend the compiled part to the function around them: remove graph breaks"
    " (TORCH_LOGS=graph_breaks), so that torch.compile fuses them. Otherwise use a fused operator."
)


@rule(name=NAME, title=TITLE)
def elementwise_fusion(run: Run) -> list[Finding]:
    """Chains of elementwise kernels on tensors of one size.

    What it finds: Two or more elementwise kernels of PyTorch or CuPy in a row in a stream, each of
        4 us or more and with equally many elements, if fusing them would save at least 5% of the
        step.
    Why it matters: Each kernel reads and writes whole tensors, and does little else. A fused kernel
        reads its inputs and writes its results once.
    How it is found: Elements follow from the grid, tensors and types from the name. Predicted is a
        fused kernel that moves fewer bytes at the bandwidth that the vectorized kernels of the
        recording reach. In training, up to all results are written, because the backward pass
        needs them. Chains whose names repeat are cut there; one name over and over is no chain.
    What to do: Compile the function around them.
    Limits: A recording does not show which tensors a kernel reads. The severity is therefore low,
        or medium if such chains take most of the time. Layout conversions and the kernels of
        unfused attention do not count.
    Source: PyTorch's CUDALoops.cuh; checked on synthetic recordings, and on a program in CuPy that
        became five times faster (H200).
    """
    scope, chains = step_scope(run), elementwise_chains(run)
    if not len(chains) or scope.share(_saved_ns(scope, chains)) < MEASURABLE_RATIO:
        return []
    members = np.zeros(len(operations(run.trace)), np.bool_)
    members[chains.kernel] = True
    weight = scope.weigh(members)
    many = plural(max(round(weight.number), 1), "kernel")
    number = np.count_nonzero(scope.operations[chains.kernel[chains.first]]) / scope.count
    groups = plural(max(round(number), 1), "chain")
    others = np.ones(len(chains.kernel), np.bool_)
    others[chains.first] = False
    head = chains.kernel[chains.first]
    severity: Severity = "medium" if weight.share >= _MOST else "low"
    return [
        Finding(
            NAME,
            severity,
            f"Chains of elementwise kernels take {format_ratio(weight.share)} of the time",
            f"{groups} of elementwise kernels{scope.each} ({many}) take {weight.time}. Each kernel"
            f" reads and writes whole tensors.{dram_in_words(run, members)}",
            (scope.show_operations(f"{many}{scope.each} in {format_ns(weight.ns)}", members),),
            _FIX_COMPILED if is_compiled(run.trace) else _FIX,
            "Profile again: `warpline stats -r cuda_gpu_kern_sum` shows fewer elementwise kernels.",
            fix_cuda=_FIX_CUDA,
            fix_in={"jax": "Compile the function around them with one jax.jit, so that XLA fuses."},
            changes=(
                SetDurations(head, chains.low_ns, chains.central_ns, chains.high_ns),
                DropOperations(chains.kernel[others]),
            ),
            is_generic=True,  # casts and layout conversions may be avoided altogether
            on_devices=weight.on_devices,
            most_severe=severity,
        )
    ]


def _saved_ns(scope: StepScope, chains: Chains) -> float:
    """Return the time per step that fused kernels do not take, of the chains of included steps."""
    work = operations(scope.run.trace)
    counts = scope.operations[chains.kernel]
    now = float((work.end_ns - work.start_ns)[chains.kernel][counts].sum())
    fused = float(chains.central_ns[counts[chains.first]].sum())
    return (now - fused) / scope.count
