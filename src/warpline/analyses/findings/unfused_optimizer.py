"""unfused-optimizer: the same short kernels run for one tensor at a time."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from warpline.derived import derived
from warpline.derived.breakdown.step_scope import StepScope, step_scope
from warpline.derived.efficiency.launch_shapes import launch_shapes
from warpline.derived.kernels.categories import operation_categories
from warpline.derived.ranges.optimizer_steps import launched_by_optimizers
from warpline.derived.severity import severity_of
from warpline.derived.steps.launch_sequences import launch_sequences
from warpline.derived.time_parts import TimePart
from warpline.derived.work.operations import operations
from warpline.estimate import Estimate
from warpline.ops.arrays import I32, I64, BoolArray
from warpline.result import Finding, rule
from warpline.result.changes import FuseOperations
from warpline.trace import Run, Trace
from warpline.units import format_ns

NAME = "unfused-optimizer"
TITLE = "The optimizer updates one tensor at a time"

_LEAST = 64  # kernels in a row
_LONGEST_CYCLE = 32
_LEAST_REPEATS = 8
_SAME_RATIO = 0.7  # tensors differ in alignment, and therefore in the kernel variant
# Of kernels with the grid of the same kernel one cycle before: 0.33 for the parameters of a
# transformer. A loop over time steps or samples repeats on tensors of one size.
_SAME_SIZE_RATIO = 0.95
_MOST = 0.5
_FUSED_RATIO = (0.1, 0.2, 0.5)  # of the kernels' time: memory is read and written once


class _Runs(NamedTuple):
    """Runs of elementwise kernels: one group per step, and the longest cycle."""

    groups: tuple[I64, ...]
    cycle: int


@rule(name=NAME, title=TITLE)
def unfused_optimizer(run: Run) -> list[Finding]:
    """The same short elementwise kernels, repeated for each tensor.

    What it finds: At least 64 consecutive launches of elementwise kernels in a step, in which a
        cycle of at most 32 kernels repeats eight times or more, on tensors of several sizes.
    Why it matters: Each kernel takes a launch of 3 to 5 us plus framework overhead, and
        intermediate results go through memory. One fused kernel can update all tensors.
    How it is found: In the launch order of each step: a run without GEMMs, reductions, and copies,
        in which at least 70% of kernel names repeat at a fixed distance. Parameters differ in
        size: if 95% of the kernels or more also repeat their grid, the run is a loop over time
        steps or samples, and not reported, unless PyTorch's range of an optimizer's step is around
        it.
    What to do: Use the fused or multi-tensor (foreach) variant of the optimizer.
    Limits: Other elementwise loops, such as clipping or averaging weights tensor by tensor, look
        the same. The advice is the same too. The estimate assumes that the fused kernel takes 0.1
        to 0.5 of the time of the kernels that it replaces.
    Source: PyTorch's documentation of torch.optim (foreach and fused); measured on a program with
        and without it.
    """
    scope, runs = step_scope(run), _runs(run)
    places = np.zeros(len(operations(run.trace)), np.bool_)
    for group in runs.groups:
        places[group] = True
    count = scope.number_of(places)
    if count < _LEAST:
        return []
    each = scope.ns_of(places)
    host_ns = _host_ns(run.trace, scope, np.flatnonzero(places))
    share = scope.share(max(host_ns, each))
    again = f"repeat the same {runs.cycle}" if runs.cycle > 1 else "repeat the same one"
    slow = " They take longer to launch than to run." if host_ns > each else ""
    text = f"{count:,.0f} kernels{scope.each} in cycles of {runs.cycle} take {format_ns(each)}"
    return [
        Finding(
            NAME,
            severity_of(share),
            f"Unfused optimizer: {count:,.0f} kernels{scope.each}, one tensor at a time",
            f"{count:,.0f} short elementwise kernels{scope.each} {again} for each tensor and take"
            f" {format_ns(each)}.{slow}",
            (scope.show_operations(text, places),),
            "Create the optimizer with fused=True (otherwise foreach=True). Scale and clip"
            " gradients with torch._foreach_* functions instead of per-parameter loops.",
            "Profile again: `warpline stats -r cuda_gpu_kern_sum` shows a few multi_tensor_apply"
            " kernels for the update.",
            fix_cuda="Update all tensors in one kernel that takes a list of pointers and sizes, as"
            " multi_tensor_apply does, or keep parameters in one flat buffer.",
            fix_in={
                "jax": "Compile the update of all parameters with the gradients in one jax.jit, so"
                " that XLA fuses it."
            },
            changes=(_fused(run.trace, runs.groups),),
            on_devices=scope.on_devices(places),
        )
    ]


@derived
def _runs(run: Run) -> _Runs:
    """Return the longest run of each step in which a cycle repeats."""
    sequences = launch_sequences(run)
    codes = [TimePart.ELEMENTWISE, TimePart.OPTIMIZER]
    fits = np.isin(operation_categories(run.trace)[sequences.operation], codes)
    passed = np.append(0, np.cumsum(fits))
    groups, cycles = [], [0]
    for _, rows in sequences.of_steps():
        if passed[rows.stop] - passed[rows.start] < _LEAST:
            continue  # without a look at each of a million short steps
        for low, high in _longest_first(fits[rows]):
            cycle = _cycle(sequences.what[rows][low:high])
            group = sequences.operation[rows][low:high]
            if cycle and _is_of_parameters(run.trace, group, cycle):
                groups.append(group)
                cycles.append(cycle)
                break
    return _Runs(tuple(groups), max(cycles))


def _longest_first(fits: BoolArray) -> list[tuple[int, int]]:
    """Return the bounds of the runs of true values that are long enough, the longest first."""
    edges = np.diff(np.concatenate(([False], fits, [False])).astype(np.int8))
    begins, ends = np.flatnonzero(edges > 0), np.flatnonzero(edges < 0)
    order = np.argsort(begins - ends, kind="stable")
    order = order[(ends - begins)[order] >= _LEAST]
    return list(zip(begins[order].tolist(), ends[order].tolist(), strict=True))


def _is_of_parameters(trace: Trace, group: I64, cycle: int) -> bool:
    """Return whether repeated kernels may update the parameters of a model.

    These have several sizes. Where no grid is recorded, they may.
    """
    blocks = launch_shapes(trace).blocks[group]
    if not blocks.any():
        return True
    is_same = blocks[cycle:] == blocks[:-cycle]
    if float(is_same.mean()) < _SAME_SIZE_RATIO:
        return True
    return bool(launched_by_optimizers(trace)[group].mean() > _MOST)


def _cycle(what: I32) -> int:
    """Return the distance at which a sequence repeats, 0 if it does not."""
    for distance in range(1, min(_LONGEST_CYCLE, len(what) // _LEAST_REPEATS) + 1):
        if np.mean(what[distance:] == what[:-distance]) >= _SAME_RATIO:
            return distance
    return 0


def _host_ns(trace: Trace, scope: StepScope, places: I64) -> float:
    """Return the CPU time per step from the first to the last launch of each run."""
    work = operations(trace)
    chosen = places[scope.operations[places]]
    start = trace.columns("api_call", "start_ns")["start_ns"].values[work.call[chosen]]
    step = scope.step[chosen]
    order = np.lexsort((start, step))
    start, step = start[order], step[order]
    first = np.flatnonzero(np.diff(step, prepend=-1))
    last = np.append(first[1:], len(step)) - 1
    return float((start[last] - start[first]).sum()) / scope.count


def _fused(trace: Trace, groups: tuple[I64, ...]) -> FuseOperations:
    work = operations(trace)
    sums = [float((work.end_ns - work.start_ns)[group].sum()) for group in groups]
    typical = float(np.median(sums))
    return FuseOperations(groups, Estimate(*(ratio * typical for ratio in _FUSED_RATIO)))
