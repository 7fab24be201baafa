"""Ranks that run the same program: what each does per step can be compared."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from warpline.derived import derived
from warpline.derived.breakdown.step_scope import step_scope
from warpline.derived.collectives.kinds import collective_kinds
from warpline.derived.kernels.categories import operation_categories
from warpline.derived.steps.times import steps
from warpline.derived.time_parts import OF_KERNELS, TimePart
from warpline.derived.work.operations import operations
from warpline.ops.arrays import F64, I64, BoolArray
from warpline.ops.group import distinct_values, factorize_rows
from warpline.trace import Run

# Of the operations that all other ranks run: a rank that lacks more of them has another task.
_MOST_LACKING = 0.1
_POINT_TO_POINT = {"Send", "Recv", "SendRecv"}


class Ranks(NamedTuple):
    """The ranks with GPU work in the included steps, by process and device.

    Attributes:
        process: Shape (ranks,), int64, rows of the process table.
        device: Shape (ranks,), int64, rows of the device table.
        steps: Shape (ranks,), int64, included steps of the process; 1 without steps.
        of_operation: Shape (operations,), int64, the rank of each operation, -1 for none.
    """

    process: I64
    device: I64
    steps: I64
    of_operation: I64

    def __len__(self) -> int:
        return len(self.process)

    def place(self, process: int, device: int) -> int:
        """Return the place of a rank, -1 if it has no work."""
        found = np.flatnonzero((self.process == process) & (self.device == device))
        return int(found[0]) if len(found) else -1


@derived
def working_ranks(run: Run) -> Ranks:
    """Return the ranks with GPU work in the included steps."""
    work, scope, run_steps = operations(run.trace), step_scope(run), steps(run)
    groups = factorize_rows(work.process, work.device)
    process, device = work.process[groups.first], work.device[groups.first]
    counts = np.bincount(run_steps.process[run_steps.included], minlength=1 + _most(process))
    number = counts[process] if scope.has_steps else np.ones(len(process), np.int64)
    works = np.bincount(groups.codes[scope.operations], minlength=groups.n_groups) > 0
    kept = np.flatnonzero(works & (number > 0))
    place = np.full(groups.n_groups + 1, -1)
    place[kept] = np.arange(len(kept))
    return Ranks(process[kept], device[kept], number[kept], place[groups.codes])


def _most(values: I64) -> int:
    return int(values.max(initial=0))


class Compared(NamedTuple):
    """Sums per step of one rank and of the others.

    Attributes:
        own: Shape (codes,), float64, of the rank.
        most: Shape (codes,), float64, the largest of any other rank.
    """

    own: F64
    most: F64

    @property
    def more(self) -> F64:
        """How much the rank has beyond any other, negative where another has more."""
        difference: F64 = self.own - self.most
        return difference


def compared(
    ranks: Ranks, place: int, rank: I64, code: I64, values: I64 | None, n_codes: int
) -> Compared:
    """Return sums by code per step, of a rank and the most of any other.

    Args:
        ranks: The ranks.
        place: The rank.
        rank: Shape (n,), the rank of each row, -1 for none.
        code: Shape (n,), in ``[0, n_codes)``.
        values: Shape (n,), summed; None counts rows.
        n_codes: The number of codes.
    """
    known = np.flatnonzero(rank >= 0)
    pairs = factorize_rows(rank[known], code[known])
    weights = None if values is None else values[known]
    sums = np.bincount(pairs.codes, weights, pairs.n_groups)
    rank, code = rank[known[pairs.first]], code[known[pairs.first]]
    each = sums / np.maximum(ranks.steps[rank], 1)
    own, most = np.zeros(n_codes), np.zeros(n_codes)
    is_own = rank == place
    own[code[is_own]] = each[is_own]
    np.maximum.at(most, code[~is_own], each[~is_own])
    return Compared(own, most)


class CategorySums(NamedTuple):
    """GPU work of each rank per step, by category.

    Attributes:
        number: Shape (ranks, `TimePart`), float64, operations per step.
        ns: Shape (ranks, `TimePart`), float64, their time per step.
    """

    number: F64
    ns: F64


@derived
def category_sums(run: Run) -> CategorySums:
    """Return the GPU work of the ranks of `working_ranks`, without collectives."""
    work, ranks = operations(run.trace), working_ranks(run)
    category = operation_categories(run.trace).astype(np.int64)
    own = np.flatnonzero(
        step_scope(run).operations & (ranks.of_operation >= 0) & (category != TimePart.COLLECTIVE)
    )
    shape = (len(ranks), len(TimePart))
    code = ranks.of_operation[own] * len(TimePart) + category[own]
    length = (work.end_ns - work.start_ns)[own]
    number, ns = (
        np.bincount(code, weights, len(ranks) * len(TimePart)).reshape(shape)
        for weights in (None, length)
    )
    each = np.maximum(ranks.steps, 1)[:, None]
    return CategorySums(number / each, ns / each)


def has_same_program(run: Run, rank: int) -> bool:
    """Return whether a rank does at least what all other ranks do.

    Stages of a pipeline, which send each other data, run different kernels by design. So do ranks
    that lack kernels of the others.

    Args:
        run: The trace, and the choice of its steps.
        rank: A place in `working_ranks`; False for -1.
    """
    if rank < 0 or len(working_ranks(run)) < 2:
        return False
    number = category_sums(run).number[:, list(OF_KERNELS)]
    shared = np.delete(number, rank, axis=0).min(axis=0)
    lacking = np.maximum(shared - number[rank], 0).sum()
    return bool(lacking <= _MOST_LACKING * shared.sum()) and not _sends(run)


@derived
def _sends(run: Run) -> bool:
    """Return whether ranks send each other data outside collectives."""
    is_included: BoolArray = step_scope(run).operations
    places = np.flatnonzero(is_included & (operation_categories(run.trace) == TimePart.COLLECTIVE))
    kinds = collective_kinds(run.trace, places)
    used = {kinds.operations[code] for code in distinct_values(kinds.operation).tolist()}
    return bool(used & _POINT_TO_POINT)


def step_label(run: Run) -> str:
    """Return the name of the ranges that are steps, such as ``step_*``; empty without."""
    found = steps(run)
    return found.source.removeprefix("range:") if found.has_ranges else ""
