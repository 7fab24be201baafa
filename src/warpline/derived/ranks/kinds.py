"""Operations of ranks, grouped by name and range: what ranks of one program have in common."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from warpline.derived import derived
from warpline.derived.breakdown.step_scope import step_scope
from warpline.derived.kernels.categories import operation_categories
from warpline.derived.ranges.places import path_texts, range_of_operations
from warpline.derived.ranks.peers import working_ranks
from warpline.derived.time_parts import TimePart
from warpline.derived.work.operations import operations
from warpline.ops.arrays import I64, Integers
from warpline.ops.group import factorize_rows
from warpline.trace import Run, Trace


class KindsOfWork(NamedTuple):
    """Operations of ranks in steps, without collectives, grouped by name, range and category.

    Attributes:
        operation: Shape (n,), int64, places in `operations`.
        rank: Shape (n,), int64, places in `working_ranks`.
        code: Shape (n,), int64, the group.
        ordinal: Shape (n,), int64, the place of the operation among those of its rank, step, and
            group, by start.
        n_codes: Number of groups.
    """

    operation: I64
    rank: I64
    code: I64
    ordinal: I64
    n_codes: int


@derived
def kinds_of_work(run: Run) -> KindsOfWork:
    """Return the operations of the ranks in steps, grouped so that ranks can be compared."""
    trace, ranks = run.trace, working_ranks(run)
    category = operation_categories(trace)
    every = np.flatnonzero((ranks.of_operation >= 0) & (category != TimePart.COLLECTIVE))
    every = every[step_scope(run).step[every] >= 0]
    path = np.append(path_texts(trace).code, -1)[range_of_operations(trace)[every]]
    groups = factorize_rows(_names(trace)[every], path, category[every].astype(np.int64))
    rank, codes = ranks.of_operation[every], groups.codes.astype(np.int64)
    ordinal = _ordinals(operations(trace).start_ns[every], step_scope(run).step[every], codes, rank)
    return KindsOfWork(every, rank, codes, ordinal, groups.n_groups)


def _ordinals(start_ns: I64, *keys: Integers) -> I64:
    """Return the place of each row among those with equal keys, by start."""
    groups = factorize_rows(*keys)
    order = np.lexsort((start_ns, groups.codes))
    is_first = np.diff(groups.codes[order], prepend=-1) != 0
    first = np.maximum.accumulate(np.where(is_first, np.arange(len(order)), 0))
    ordinal = np.zeros(len(order), np.int64)
    ordinal[order] = np.arange(len(order)) - first
    return ordinal


def _names(trace: Trace) -> I64:
    """Return a number for the name of each operation; copies and memsets have none."""
    work = operations(trace)
    name = np.full(len(work), -1)
    kernels = work.of_table("kernel")
    if len(kernels):
        ids = trace.columns("kernel", "name_id")["name_id"].values
        name[kernels] = ids[work.row[kernels]]
    return name
