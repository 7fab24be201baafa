"""What modules cost per step: GPU time by phase, CPU time, calls, kernels, FLOP, share of peak."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from warpline.derived.breakdown.module_times import (
    module_busy_ns,
    slots_at,
    slots_of_operations,
    step_slots,
)
from warpline.derived.efficiency.operation_flop import operation_flop
from warpline.derived.modules.attribution import attribution
from warpline.derived.modules.calls import called_modules, module_calls
from warpline.derived.modules.places import Phase, places_at
from warpline.derived.modules.tree import module_of_called
from warpline.derived.work.busy import DEVICE_TABLES
from warpline.derived.work.operations import operations
from warpline.ops.arrays import F64, I32, I64, BoolArray
from warpline.ops.tree import Nesting, accumulate_up
from warpline.trace import Run

_KERNEL = DEVICE_TABLES.index("kernel")
# Of FLOP whose precision is known: below this share, the share of peak is not shown.
_LEAST_KNOWN = 0.99


class ModuleCosts(NamedTuple):
    """Costs of groups of modules; then of optimizers, and of everything else outside modules.

    With a tree, GPU time, kernels and FLOP include the modules inside.

    Attributes:
        n_steps: Number of steps; 0 if the numbers are of the whole recording.
        median_ns: Shape (rows,), float64, median GPU busy time per step.
        phase_median_ns: Shape (phases, rows), float64, the same of each `Phase`.
        total_ns: Shape (rows,), int64, busy time of all steps.
        all_ns: The busy time of all steps, of modules and outside.
        calls: Shape (rows,), float64, calls per step outside the backward pass.
        host_median_ns: Shape (rows,), float64, median CPU time of these calls per step.
        kernels: Shape (rows,), float64, kernels per step.
        flop: Shape (rows,), float64, per step.
        has_flop: Shape (rows,), bool; False if those of an operator are unknown.
        peak_ratio: Shape (rows,), float64, the time that the FLOP take at the peaks of the GPU for
            their precision, as a share of the busy time.
        has_peak: Shape (rows,), bool.
    """

    n_steps: int
    median_ns: F64
    phase_median_ns: F64
    total_ns: I64
    all_ns: int
    calls: F64
    host_median_ns: F64
    kernels: F64
    flop: F64
    has_flop: BoolArray
    peak_ratio: F64
    has_peak: BoolArray


class _Rows(NamedTuple):
    """The rows that modules and what is outside them count for."""

    group: I32
    n_groups: int
    tree: Nesting | None

    def inclusive(self, own: I64) -> I64:
        """Return sums over each row and those inside it, shape (rows,)."""
        if self.tree is None:
            return own
        return np.append(accumulate_up(self.tree, own[: self.n_groups]), own[self.n_groups :])


def module_costs(run: Run, group: I32, n_groups: int, tree: Nesting | None = None) -> ModuleCosts:
    """Return the costs of groups of modules.

    Args:
        run: The trace and its steps.
        group: Shape (modules,), the group of each module.
        n_groups: Number of groups.
        tree: The nesting of the groups, each after its parent; None for costs of modules alone.
    """
    rows, slots = _Rows(group, n_groups, tree), step_slots(run)
    whole, medians, all_ns = np.zeros((n_groups + 2, slots.n_slots), np.int64), [], 0
    count = max(slots.n_slots, 1)
    for phase in Phase:
        busy = _by_row(module_busy_ns(run, group, n_groups, phase), phase)
        all_ns += int(busy.sum())
        if tree is not None:
            _add_up(tree, busy)
        whole += busy
        medians.append(_medians(busy))
    total_ns = whole.sum(axis=1)
    calls, host = _calls(run, rows)
    kernels, flop, least_ns, known, unknown = _work(run, rows)
    has_flop = (flop > 0) & (unknown == 0)
    has_peak = (total_ns > 0) & has_flop & (known >= _LEAST_KNOWN * flop)
    return ModuleCosts(
        n_steps=int(np.count_nonzero(slots.steps >= 0)),
        median_ns=_medians(whole),
        phase_median_ns=np.stack(medians),
        total_ns=total_ns,
        all_ns=all_ns,
        calls=calls / count,
        host_median_ns=host,
        kernels=kernels / count,
        flop=flop / count,
        has_flop=has_flop,
        peak_ratio=least_ns / np.maximum(total_ns, 1),
        has_peak=has_peak & (least_ns > 0),
    )


def _by_row(busy: I64, phase: Phase) -> I64:
    """Return the times with a row for optimizers and one for the rest, instead of one."""
    nothing = np.zeros_like(busy[-1:])
    if phase is Phase.OPTIMIZER:
        return np.concatenate((busy, nothing))
    return np.concatenate((busy[:-1], nothing, busy[-1:]))


def _add_up(tree: Nesting, times: I64) -> None:
    """Add the times of each row to its parent's, from the last row to the first."""
    parent, has_parent = tree.parent.tolist(), tree.has_parent.tolist()
    for row in range(len(parent) - 1, -1, -1):
        if has_parent[row]:
            times[parent[row]] += times[row]


def _medians(times: I64) -> F64:
    if not times.shape[1]:
        return np.zeros(len(times))
    medians: F64 = np.median(times, axis=1)
    return medians


def _calls(run: Run, rows: _Rows) -> tuple[I64, F64]:
    """Return the number of calls of each row in all steps, and the median CPU time per step."""
    trace, n_slots = run.trace, step_slots(run).n_slots
    calls = module_calls(trace)
    module = module_of_called(trace)[called_modules(trace).of_call]
    slot = slots_at(run, calls.start_ns, calls.process)
    is_forward = places_at(trace, calls.start_ns, calls.thread).phase == Phase.FORWARD
    chosen = np.flatnonzero((slot >= 0) & is_forward)
    cell = rows.group[module[chosen]].astype(np.int64) * max(n_slots, 1) + slot[chosen]
    n_rows = rows.n_groups + 2
    host = np.zeros(n_rows * n_slots, np.int64)
    np.add.at(host, cell, (calls.end_ns - calls.start_ns)[chosen])
    count = np.bincount(rows.group[module[chosen]], minlength=n_rows)
    return count, _medians(host.reshape(n_rows, n_slots))


def _work(run: Run, rows: _Rows) -> tuple[I64, I64, F64, I64, I64]:
    """Return kernels, FLOP, their least time, FLOP with a known one, and unknown operators."""
    trace = run.trace
    work, placed, counted = operations(trace), attribution(trace), operation_flop(trace)
    row = np.append(rows.group, rows.n_groups + 1)[placed.module]
    row[(placed.module < 0) & (placed.phase == Phase.OPTIMIZER)] = rows.n_groups
    chosen = np.flatnonzero(slots_of_operations(run) >= 0)
    row = row[chosen]

    def summed(values: I64) -> I64:
        own = np.zeros(rows.n_groups + 2, np.int64)
        np.add.at(own, row, values[chosen])
        return rows.inclusive(own)

    known = np.where(counted.least_ns > 0, counted.flop, 0)
    # Picoseconds, so that sums are exact.
    least = summed(np.rint(counted.least_ns * 1e3).astype(np.int64))
    kernels = summed((work.table == _KERNEL).astype(np.int64))
    unknown = summed(counted.is_unknown.astype(np.int64))
    return kernels, summed(counted.flop), least / 1e3, summed(known), unknown
