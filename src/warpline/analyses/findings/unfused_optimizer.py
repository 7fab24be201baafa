"""unfused-optimizer: the same short kernels run for one tensor after the other."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from warpline.derived import derived
from warpline.derived.breakdown.step_scope import StepScope, step_scope
from warpline.derived.kernels.categories import BUSY_CATEGORIES, operation_categories
from warpline.derived.severity import severity_of
from warpline.derived.steps.launch_sequences import launch_sequences
from warpline.derived.work.operations import operations
from warpline.ops.arrays import I64
from warpline.result import Finding, rule
from warpline.result.changes import FuseOperations, Range
from warpline.trace import Trace
from warpline.units import format_ns

NAME = "unfused-optimizer"
TITLE = "The optimizer updates one tensor after the other"

_LEAST = 64  # kernels in a row
_LONGEST_CYCLE = 32
_LEAST_REPEATS = 8
_SAME_RATIO = 0.7  # tensors differ in alignment, and so in the variant of a kernel
_FUSED_RATIO = (0.1, 0.2, 0.5)  # of the time of the kernels: memory is read and written once


class _Runs(NamedTuple):
    """Runs of element-wise kernels: one group for each step, and its longest cycle."""

    groups: tuple[I64, ...]
    cycle: int


@rule(name=NAME, title=TITLE)
def unfused_optimizer(trace: Trace, steps: str | None) -> list[Finding]:
    """The same short element-wise kernels, repeated for one tensor after the other.

    What it finds: At least 64 element-wise kernels launched in a row in a step, in which a cycle of
        at most 32 repeats eight times or more.
    Why it matters: Each kernel costs a launch of 3 to 5 us and the framework's work for it, and
        intermediate results go through memory. One fused kernel does it for all tensors.
    How it is found: In the order of the launches of each step: a run without products, reductions
        and copies, whose names repeat with a fixed distance in at least 70% of the places.
    What to do: Use the fused or the multi-tensor variant of the optimizer.
    Limits: Element-wise loops that are no optimizer, such as clipping or averaging of weights
        tensor by tensor, look the same; the advice is the same too. The fused kernel is taken to
        need 0.1 to 0.5 of the time of the others.
    Source: PyTorch's documentation of torch.optim (foreach and fused); measured on a program with
        and without it.
    """
    scope, runs = step_scope(trace, steps), _runs(trace, steps)
    places = np.zeros(len(operations(trace)), np.bool_)
    for group in runs.groups:
        places[group] = True
    count = scope.number_of(places)
    if count < _LEAST:
        return []
    each = scope.ns_of(places)
    host_ns = _host_ns(trace, scope, np.flatnonzero(places))
    share = scope.share(max(host_ns, each))
    again = f"repeat the same {runs.cycle}" if runs.cycle > 1 else "are the same"
    slow = "; launching them takes the host longer than the device" if host_ns > each else ""
    text = f"{count:,.0f} kernels{scope.each} in cycles of {runs.cycle} take {format_ns(each)}"
    return [
        Finding(
            NAME,
            severity_of(share),
            TITLE,
            f"{count:,.0f} short element-wise kernels{scope.each} {again} for one tensor after the"
            f" other{slow}.",
            (scope.show_operations(text, places),),
            "Create the optimizer with fused=True, else foreach=True; scale and clip gradients"
            " with torch._foreach_* functions instead of a loop over parameters",
            "record again: a few multi_tensor_apply kernels do the update in"
            " `warpline stats -r cuda_gpu_kern_sum`",
            fix_cuda="Update all tensors in one kernel that gets a list of pointers and sizes, as"
            " multi_tensor_apply does, or keep the parameters in one flat buffer",
            changes=(_fused(trace, runs.groups),),
        )
    ]


@derived
def _runs(trace: Trace, name: str | None) -> _Runs:
    """Return the longest run of each step in which a cycle repeats."""
    found = launch_sequences(trace, name)
    codes = [BUSY_CATEGORIES.index(category) for category in ("elementwise", "optimizer")]
    fits = np.isin(operation_categories(trace)[found.operation], codes)
    groups, cycles = [], [0]
    for _, rows in found.of_steps():
        low, high = _longest(fits[rows])
        if high - low < _LEAST:
            continue
        cycle = _cycle(found.what[rows][low:high])
        if cycle:
            groups.append(found.operation[rows][low:high])
            cycles.append(cycle)
    return _Runs(tuple(groups), max(cycles))


def _longest(fits: np.typing.NDArray[np.bool_]) -> tuple[int, int]:
    """Return where the longest run of true values begins and ends."""
    edges = np.diff(np.concatenate(([False], fits, [False])).astype(np.int8))
    begins, ends = np.flatnonzero(edges > 0), np.flatnonzero(edges < 0)
    if not len(begins):
        return 0, 0
    place = int(np.argmax(ends - begins))
    return int(begins[place]), int(ends[place])


def _cycle(what: I64) -> int:
    """Return after how many places a sequence repeats, 0 if it does not."""
    for distance in range(1, min(_LONGEST_CYCLE, len(what) // _LEAST_REPEATS) + 1):
        if np.mean(what[distance:] == what[:-distance]) >= _SAME_RATIO:
            return distance
    return 0


def _host_ns(trace: Trace, scope: StepScope, places: I64) -> float:
    """Return from the first launch to the last one of the runs, per step, at most."""
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
    return FuseOperations(groups, Range(*(ratio * typical for ratio in _FUSED_RATIO)))
