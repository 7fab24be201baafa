"""unfused-epilogue: unfused elementwise kernels follow GEMMs."""

from __future__ import annotations

import numpy as np

from warpline.derived.breakdown.step_scope import step_scope
from warpline.derived.kernels.categories import operation_categories
from warpline.derived.metrics.memory_use import dram_in_words
from warpline.derived.program import is_compiled
from warpline.derived.severity import severity_of
from warpline.derived.steps.launch_sequences import launch_sequences
from warpline.derived.time_parts import TimePart
from warpline.derived.work.operations import operations
from warpline.estimate import Estimate
from warpline.ops.arrays import BoolArray
from warpline.result import Finding, rule
from warpline.result.changes import DropOperations
from warpline.trace import Run
from warpline.units import format_ns, format_ratio, plural

NAME = "unfused-epilogue"
TITLE = "Unfused elementwise kernels follow GEMMs"

_LEAST_CHAIN = 2  # a single one may be an activation whose input the backward pass needs
_LEAST_CHAINS = 4
_SHORTEST_PRODUCT_NS = 20_000
_REMAINING = Estimate(0.0, 0.0, 0.5)

_FIX = "Use torch.compile, built-in bias (nn.Linear, torch.addmm), or fused activations."
_FIX_COMPILED = (
    "Use built-in bias (nn.Linear, torch.addmm) or fused activations. Remove graph breaks around"
    " them (TORCH_LOGS=graph_breaks), so that torch.compile fuses them."
)


@rule(name=NAME, title=TITLE)
def unfused_epilogue(run: Run) -> list[Finding]:
    """Two or more elementwise kernels right after GEMMs.

    What it finds: Chains of two or more elementwise kernels launched right after a GEMM of 20 us
        or more: at least four chains per step, taking at least 5% of the step.
    Why it matters: Each kernel reads and writes the whole output of the GEMM. The GEMM kernel
        itself can add a bias, scale, and apply an activation, and then write the result once.
    How it is found: By kernel category, in the launch order of each step.
    What to do: Let a compiler fuse them, or call a GEMM with an epilogue.
    Limits: A recording does not show that the chain works on the GEMM's output. Values that the
        backward pass needs must still be written. The bounds of the saving assume that up to 50%
        of the time stays.
    Source: cuBLASLt's documentation of epilogues; measured on a program with and without them.
    """
    scope, chains = step_scope(run), _chains(run)
    weight = scope.weigh(chains)
    if not weight.is_measurable:
        return []
    many = plural(max(round(weight.number), 1), "kernel")
    return [
        Finding(
            NAME,
            severity_of(weight.share),
            f"Unfused elementwise kernels after GEMMs take {format_ratio(weight.share)} of the"
            " time",
            f"Chains of elementwise kernels after GEMMs ({many}{scope.each}) take {weight.time}."
            f"{dram_in_words(run, chains)}",
            (scope.show_operations(f"{many}{scope.each} in {format_ns(weight.ns)}", chains),),
            _FIX_COMPILED if is_compiled(run.trace) else _FIX,
            "Profile again: `warpline stats -r kernel_class_sum` shows fewer elementwise kernels.",
            fix_cuda="Use cublasLtMatmul with CUBLASLT_EPILOGUE_BIAS, RELU_BIAS, or GELU_BIAS, or"
            " a CUTLASS kernel with a custom epilogue.",
            fix_in={
                "jax": "Compile the GEMM and the operations after it with one jax.jit, so that XLA"
                " fuses them."
            },
            changes=(DropOperations(np.flatnonzero(chains), remaining=_REMAINING),),
            on_devices=weight.on_devices,
        )
    ]


def _chains(run: Run) -> BoolArray:
    """Return which operations are in chains after GEMMs."""
    sequences, work = launch_sequences(run), operations(run.trace)
    category = operation_categories(run.trace)[sequences.operation]
    length = (work.end_ns - work.start_ns)[sequences.operation]
    fits = category == TimePart.ELEMENTWISE
    is_product = category == TimePart.GEMM
    is_product &= length >= _SHORTEST_PRODUCT_NS
    edges = np.diff(np.concatenate(([False], fits, [False])).astype(np.int8))
    begins, ends = np.flatnonzero(edges > 0), np.flatnonzero(edges < 0)
    behind = np.append(is_product, np.zeros(1, np.bool_))[begins - 1]  # of none: the last one
    chosen = np.flatnonzero(behind & (ends - begins >= _LEAST_CHAIN))
    chains = np.zeros(len(work), np.bool_)
    if len(chosen) < _LEAST_CHAINS * step_scope(run).count:
        return chains
    for low, high in zip(begins[chosen].tolist(), ends[chosen].tolist(), strict=True):
        chains[sequences.operation[low:high]] = True
    return chains
