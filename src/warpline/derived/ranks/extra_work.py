"""GPU work that one rank runs and no other rank of the same program does."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from warpline.derived import derived
from warpline.derived.breakdown.step_scope import step_scope
from warpline.derived.kernels.categories import operation_categories
from warpline.derived.ranges.places import path_texts, range_of_operations
from warpline.derived.ranks.kinds import kinds_of_work
from warpline.derived.ranks.peers import (
    category_sums,
    compared,
    has_same_program,
    step_label,
    working_ranks,
)
from warpline.derived.time_parts import TimePart
from warpline.derived.work.operations import operations
from warpline.ops.arrays import I64, BoolArray
from warpline.ops.group import distinct_values
from warpline.trace import Run

_LEAST_SURPLUS = 0.5  # operations per step
# Of the operations that look extra: ranks that choose other kernels for the same math also run
# kernels that no other rank does, but not more of a category.
_LEAST_CONFIRMED = 0.5


@dataclass(frozen=True)
class ExtraWork:
    """Operations of one rank that no other rank runs.

    Attributes:
        operations: Shape (n,), int64, places in `operations`, in all steps.
        category: The category that takes most of their time.
        number: Operations of that category per step.
        ns: Their time per step.
        all_ns: Time of all of them per step.
        range_path: Names of the ranges around all launches of that category, outermost first;
            empty if that is only the step.
    """

    operations: I64
    category: TimePart
    number: float
    ns: float
    all_ns: float
    range_path: tuple[str, ...]


@derived
def extra_work(run: Run, process: int, device: int) -> ExtraWork | None:
    """Return the operations that one rank runs and no other rank does; None without any.

    Operations are compared by name and range: those of a rank in a step beyond the most that
    another rank runs are extra. A category counts only if the rank also runs more of it in all,
    and for longer. None if the ranks run different programs, such as stages of a pipeline.

    Args:
        run: The trace, and the choice of its steps.
        process: Row of the process table.
        device: Row of the device table.
    """
    ranks = working_ranks(run)
    place = ranks.place(process, device)
    if not has_same_program(run, place) or not _has_more(run, place):
        return None
    extra = _confirmed(run, place, _beyond_others(run, place))
    if not len(extra):
        return None
    work, category = operations(run.trace), operation_categories(run.trace)[extra]
    counted = step_scope(run).operations[extra]
    each = float(ranks.steps[place])
    length = np.where(counted, work.end_ns[extra] - work.start_ns[extra], 0)
    ns = np.bincount(category, length, len(TimePart)) / each
    main = int(np.argmax(ns))
    return ExtraWork(
        operations=extra,
        category=TimePart.at(main),
        number=int(np.count_nonzero(counted & (category == main))) / each,
        ns=float(ns[main]),
        all_ns=float(ns.sum()),
        range_path=_common_path(run, extra[category == main]),
    )


def _has_more(run: Run, place: int) -> bool:
    """Return whether a rank runs more operations of any category than all others, for longer."""
    sums = category_sums(run)
    number, ns = (
        values[place] - np.delete(values, place, axis=0).max(axis=0)
        for values in (sums.number, sums.ns)
    )
    return bool(((number >= _LEAST_SURPLUS) & (ns > 0)).any())


def _beyond_others(run: Run, place: int) -> I64:
    """Return the operations of a rank beyond the number that any other rank runs per step."""
    scope, (every, rank, codes, ordinal, n_codes) = step_scope(run), kinds_of_work(run)
    counted = scope.operations[every]
    number = compared(working_ranks(run), place, rank[counted], codes[counted], None, n_codes)
    is_beyond = (number.more >= _LEAST_SURPLUS)[codes] & (ordinal >= np.rint(number.most)[codes])
    beyond: I64 = every[(rank == place) & is_beyond]
    return beyond


def _confirmed(run: Run, place: int, extra: I64) -> I64:
    """Return the operations of categories of which the rank runs more, and for longer."""
    ranks, sums, work = working_ranks(run), category_sums(run), operations(run.trace)
    category = operation_categories(run.trace)[extra].astype(np.int64)
    counted, each = step_scope(run).operations[extra], float(ranks.steps[place])
    length = (work.end_ns - work.start_ns)[extra]
    confirmed: BoolArray = np.ones(len(TimePart), np.bool_)
    for values, weights in ((sums.number, None), (sums.ns, length)):
        own = counted if weights is None else np.where(counted, weights, 0)
        looks = np.bincount(category, own, len(TimePart)) / each
        more = values[place] - np.delete(values, place, axis=0).max(axis=0)
        confirmed &= more >= _LEAST_CONFIRMED * looks
    return extra[confirmed[category]]


def _common_path(run: Run, places: I64) -> tuple[str, ...]:
    """Return the names of the ranges around all launches of some operations."""
    texts, inside = path_texts(run.trace), range_of_operations(run.trace)[places]
    if not len(inside) or (inside < 0).any():
        return ()
    paths = [texts.paths[code] for code in distinct_values(texts.code[inside]).tolist()]
    shared = paths[0]
    for path in paths[1:]:
        length = next(
            (at for at, (one, other) in enumerate(zip(shared, path, strict=False)) if one != other),
            min(len(shared), len(path)),
        )
        shared = shared[:length]
    return shared if shared[-1:] != (step_label(run),) else ()
