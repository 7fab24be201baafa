"""unfused-epilogue: element-wise kernels follow matrix products one by one."""

from __future__ import annotations

import numpy as np

from warpline.derived.breakdown.step_scope import step_scope
from warpline.derived.kernels.categories import BUSY_CATEGORIES, operation_categories
from warpline.derived.severity import severity_of
from warpline.derived.steps.launch_sequences import launch_sequences
from warpline.derived.work.operations import operations
from warpline.ops.arrays import BoolArray
from warpline.result import Finding, rule
from warpline.result.changes import DropOperations, Range
from warpline.trace import Trace
from warpline.units import format_ns

NAME = "unfused-epilogue"
TITLE = "Element-wise kernels follow products one by one"

_LEAST_CHAIN = 2  # a lone one may be an activation whose input the backward pass needs
_LEAST_CHAINS = 4
_SHORTEST_PRODUCT_NS = 20_000
_REMAINING = Range(0.0, 0.0, 0.5)


@rule(name=NAME, title=TITLE)
def unfused_epilogue(trace: Trace, steps: str | None) -> list[Finding]:
    """Two or more element-wise kernels right behind matrix products.

    What it finds: Chains of two or more element-wise kernels that were launched right after a
        matrix product of 20 us or more, at least four per step, if they take at least 5% of it.
    Why it matters: Each reads and writes the whole result of the product. The product's own kernel
        can add a bias, scale and apply an activation before it writes the result once.
    How it is found: In the order of the launches of each step, by what kernels are.
    What to do: Let a compiler fuse them, or call a product with an epilogue.
    Limits: That the chain works on the product's result does not show in a recording. What the
        backward pass needs again has to be written. The bounds let half of the time stay.
    Source: cuBLASLt's documentation of epilogues; measured on a program with and without them.
    """
    scope, chains = step_scope(trace, steps), _chains(trace, steps)
    weight = scope.weigh(chains)
    if not weight.is_measurable:
        return []
    return [
        Finding(
            NAME,
            severity_of(weight.share),
            TITLE,
            f"{weight.digits} element-wise kernels{scope.each} follow products, two or more at a"
            f" time; they take {weight.time}.",
            (scope.show_operations(f"{weight.digits} take {format_ns(weight.ns)}", chains),),
            "torch.compile the module, or use layers that add the bias themselves (nn.Linear,"
            " torch.addmm) and fused activations",
            "record again: fewer elementwise kernels in `warpline stats -r kernel_class_sum`",
            fix_cuda="cublasLtMatmul with CUBLASLT_EPILOGUE_BIAS, RELU_BIAS or GELU_BIAS, or a"
            " CUTLASS kernel with an epilogue of its own",
            changes=(DropOperations(np.flatnonzero(chains), remaining=_REMAINING),),
        )
    ]


def _chains(trace: Trace, name: str | None) -> BoolArray:
    """Return which operations are in chains behind products."""
    found, work = launch_sequences(trace, name), operations(trace)
    category = operation_categories(trace)[found.operation]
    length = (work.end_ns - work.start_ns)[found.operation]
    fits = category == BUSY_CATEGORIES.index("elementwise")
    is_product = category == BUSY_CATEGORIES.index("gemm")
    is_product &= length >= _SHORTEST_PRODUCT_NS
    edges = np.diff(np.concatenate(([False], fits, [False])).astype(np.int8))
    begins, ends = np.flatnonzero(edges > 0), np.flatnonzero(edges < 0)
    behind = np.append(is_product, np.zeros(1, np.bool_))[begins - 1]  # of none: the last one
    chosen = np.flatnonzero(behind & (ends - begins >= _LEAST_CHAIN))
    chains = np.zeros(len(work), np.bool_)
    if len(chosen) < _LEAST_CHAINS * step_scope(trace, name).count:
        return chains
    for low, high in zip(begins[chosen].tolist(), ends[chosen].tolist(), strict=True):
        chains[found.operation[low:high]] = True
    return chains
