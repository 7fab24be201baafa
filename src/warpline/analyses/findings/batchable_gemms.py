"""batchable-gemms: the same small GEMMs for one matrix after another."""

from __future__ import annotations

import numpy as np

from warpline.derived.breakdown.step_scope import step_scope
from warpline.derived.efficiency.repeated_gemms import RepeatedGemms, repeated_gemms
from warpline.derived.kernels.categories import operation_categories
from warpline.derived.time_parts import TimePart
from warpline.derived.work.operations import operations
from warpline.estimate import Estimate
from warpline.ops.arrays import I64, BoolArray
from warpline.result import Finding, rule
from warpline.result.changes import Change, DropOperations, SetDurations
from warpline.trace import Run, Trace
from warpline.units import format_ns, format_ratio, plural

NAME = "batchable-gemms"
TITLE = "Small GEMMs are launched matrix by matrix"

_LEAST_SHARE = 0.1  # of the step, with the idle time around them
# Of the time of all repetitions, batched: a share of it, but at least the time of one.
_BATCHED = (0.15, 0.4)
_STAYS_AT_WORST = Estimate(0.0, 0.0, 1.0)


@rule(name=NAME, title=TITLE)
def batchable_gemms(run: Run) -> list[Finding]:
    """The same sequence of small GEMMs, launched for one matrix after another.

    What it finds: Sequences of GEMMs of 30 us or less, elementwise kernels, reductions, and copies
        that a step launches at least eight times in a row, each with a loop of at least five equal
        iterations: at least 10% of the time from the first to the last launch of a step.
    Why it matters: A small GEMM uses few SMs, and takes the CPU longer to launch than the GPU to
        compute. One batched GEMM computes all matrices of a shape.
    How it is found: By kernel names, grids, and the order of launches. Predicted is one repetition
        whose operations take 0.4 (at best 0.15) of the time of all, but at least as long as one.
    What to do: Stack matrices of the same shape, and multiply them with batched GEMMs.
    Limits: A recording does not show whether the repetitions depend on each other, as the layers of
        a network do: the lower bound of the saving is zero, and the severity at most medium. Loops
        of single GEMMs, such as the time steps of an RNN, are not reported. Only the repetitions of
        a whole sequence are counted: batching matrices of one shape within it saves more.
    Source: cuBLAS documentation, cublasGemmBatchedEx and cublasGemmStridedBatchedEx. Measured on an
        H200: Newton-Schulz iterations of the optimizer Muon for each matrix, and batched.
    """
    scope, repeated = step_scope(run), repeated_gemms(run)
    work = operations(run.trace)
    places = np.zeros(len(work), np.bool_)
    places[repeated.operation] = True
    places &= scope.operations
    share, spent_ns = _share(run, places)
    if share < _LEAST_SHARE:
        return []
    is_gemm = operation_categories(run.trace) == TimePart.GEMM
    gemms = places & is_gemm
    number = max(round(scope.number_of(gemms)), 1)
    many = plural(number, "small GEMM")
    changes = _changes(run.trace, repeated)
    return [
        Finding(
            NAME,
            "medium",
            f"Small GEMMs matrix by matrix take {format_ratio(share)} of the time",
            f"{many}{scope.each}, in sequences that repeat, take {format_ns(round(spent_ns))} with"
            " the launches between them. The saving assumes that the repetitions do not depend on"
            " each other.",
            (scope.show_operations(f"{many}{scope.each}", gemms),),
            "Stack matrices of the same shape, and use torch.bmm or torch.baddbmm (torch.func.vmap"
            " does so for whole functions), for example in optimizers such as Muon or Shampoo.",
            "Profile again: `warpline stats -r cuda_kern_exec_sum` shows fewer GEMMs.",
            fix_cuda="Use cublasGemmStridedBatchedEx, cublasGemmBatchedEx, or a CUTLASS grouped"
            " GEMM.",
            fix_in={"jax": "Stack matrices of the same shape, and use jax.vmap."},
            changes=changes,
            is_conditional=True,
            on_devices=scope.on_devices(gemms),
            most_severe="medium",
        )
    ]


def _share(run: Run, places: BoolArray) -> tuple[float, float]:
    """Return the share of the step between the starts of these operations and the next ones'.

    And the time per step. Gaps of other operations do not count.
    """
    scope, work = step_scope(run), operations(run.trace)
    chosen = np.flatnonzero(places)
    if not len(chosen) or not scope.count:
        return 0.0, 0.0
    start, end = work.start_ns[chosen], work.end_ns[chosen]
    follows = (np.diff(chosen) == 1) & (np.diff(work.device[chosen]) == 0)
    spent = np.append(np.where(follows, np.diff(start), (end - start)[:-1]), end[-1] - start[-1])
    spent_ns = float(spent.sum()) / scope.count
    return scope.share(spent_ns), spent_ns


def _changes(trace: Trace, repeated: RepeatedGemms) -> tuple[Change, ...]:
    """Return what batching changes: the first repetition does the work of all."""
    work = operations(trace)
    first, group = np.unique(repeated.first, return_inverse=True)
    now: I64 = (work.end_ns - work.start_ns)[repeated.operation]
    total = np.bincount(group, weights=now, minlength=len(first))
    one: I64 = (work.end_ns - work.start_ns)[first]
    low, central = (np.maximum(np.rint(total * part).astype(np.int64), one) for part in _BATCHED)
    others = repeated.operation[repeated.operation != repeated.first]
    # At worst, nothing changes.
    return (
        DropOperations(np.sort(others), _STAYS_AT_WORST),
        SetDurations(first, low, central, one),
    )
