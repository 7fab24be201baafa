"""The time that checks are about, by rank: a process on a GPU."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from warpline.derived import derived
from warpline.derived.breakdown.overlaps import OverlapKind, step_overlaps
from warpline.derived.breakdown.partition import step_partition
from warpline.derived.kernels.categories import operation_categories
from warpline.derived.steps.times import Steps, steps
from warpline.derived.time_parts import BUSY, TimePart
from warpline.derived.work.operations import Operations, operations
from warpline.ops.arrays import I64, BoolArray
from warpline.ops.tree import enclosing
from warpline.trace import Run

_OPAQUE = 0.5  # of the busy time


@dataclass(frozen=True)
class MeasuredTime:
    """The time that checks are about: the included steps, or the whole recording.

    Attributes:
        run: The trace, and the choice of its steps.
    """

    run: Run

    @cached_property
    def steps(self) -> Steps:
        """The detected steps."""
        return steps(self.run)

    @cached_property
    def total_ns(self) -> I64:
        """Shape (ranks,), int64; without steps, from the first to the last operation."""
        tail = 0 if self.has_steps else self.part_ns(TimePart.TAIL)
        whole: I64 = self._sums.sum(axis=1) - tail
        return whole

    @property
    def has_steps(self) -> bool:
        """Whether steps are measured, not the whole recording."""
        windows = step_partition(self.run).windows
        return bool((windows.step >= 0).any())

    def part_ns(self, *parts: TimePart) -> I64:
        """Return the time of parts by rank."""
        sums: I64 = self._sums[:, list(parts)].sum(axis=1)
        return sums

    @cached_property
    def busy_ns(self) -> I64:
        """Shape (ranks,), int64; the time of any operation."""
        return self.part_ns(*BUSY)

    def together_ns(self, kind: OverlapKind) -> I64:
        """Return the time of a kind of overlap by rank."""
        ns = step_overlaps(self.run).ns[:, kind]
        ranks = step_partition(self.run).ranks
        return np.array([ns[rank.windows].sum() for rank in ranks], np.int64)

    def worst(self, ns: I64, of_ns: I64 | None = None) -> float:
        """Return the largest share among ranks, of each rank's time or of `of_ns`."""
        whole = self.total_ns if of_ns is None else of_ns
        return float(np.max(ns / np.maximum(whole, 1), initial=0.0))

    @cached_property
    def _sums(self) -> I64:
        parts = step_partition(self.run)
        sums = [parts.total(rank) for rank in parts.ranks]
        return np.array(sums, np.int64).reshape(len(sums), len(TimePart))

    @cached_property
    def work(self) -> Operations:
        """The operations of the trace."""
        return operations(self.run.trace)

    @cached_property
    def counted(self) -> BoolArray:
        """Shape (operations,), which operations began in the counted windows."""
        windows = step_partition(self.run).windows
        return enclosing(
            self.work.start_ns,
            windows.start_ns,
            windows.end_ns,
            point_group=self.work.device,
            group=windows.device,
        ).found

    def of_category(self, *categories: TimePart) -> BoolArray:
        """Return which of the counted operations belong to the categories."""
        return self.counted & np.isin(operation_categories(self.run.trace), categories)

    @cached_property
    def count(self) -> int:
        """Number of counted windows, the divisor of counts per step; at least 1."""
        return max(len(step_partition(self.run).windows.device), 1)

    @property
    def is_opaque(self) -> bool:
        """Whether most of the busy time is graphs without recorded kernels."""
        return int(self.part_ns(TimePart.GRAPH).sum()) > _OPAQUE * int(self.busy_ns.sum())

    @property
    def each(self) -> str:
        """Text to append to numbers: ``per step``, or nothing."""
        return " per step" if self.has_steps else ""


@derived
def measured_time(run: Run) -> MeasuredTime:
    """Return the time that checks of a run are about."""
    return MeasuredTime(run)
