"""The steps that a check is about, and which CUDA API calls were made in each."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from warpline.derived import derived
from warpline.derived.steps.times import steps
from warpline.ops.arrays import I64
from warpline.ops.tree import enclosing
from warpline.trace import Run

NO_STEP = -1


class CheckedSteps(NamedTuple):
    """The included steps.

    Attributes:
        of_call: Shape (rows of api_call,), int64, the place in `steps` of the included step in
            which each call began; -1 for none.
        process: Shape (steps,), int64, the process of each of `steps`.
        included: Shape (processes,), int64, the number of included steps of each process.
    """

    of_call: I64
    process: I64
    included: I64

    def most_of_process(self, calls: I64) -> tuple[float, int, int]:
        """Return how often a process makes some calls, for the process that makes the most.

        Args:
            calls: Rows of api_call.

        Returns:
            Calls per step, steps with at least one, and all steps of that process.
        """
        step = self.of_call[calls]
        step = step[step != NO_STEP]
        if not len(step):
            return 0.0, 0, int(self.included.max(initial=0))
        number = np.bincount(self.process[step], minlength=len(self.included))
        most = int(np.argmax(number / np.maximum(self.included, 1)))
        own = step[self.process[step] == most]
        return (
            float(number[most] / self.included[most]),
            len(np.unique(own)),
            int(self.included[most]),
        )


@derived
def checked_steps(run: Run) -> CheckedSteps:
    """Return the included steps and their calls; none if there are no steps."""
    trace, found = run.trace, steps(run)
    n_calls = trace.row_count("api_call") if trace.has("api_call") else 0
    of_call = np.full(n_calls, NO_STEP, np.int64)
    rows = np.flatnonzero(found.included)
    if n_calls and len(rows):
        columns = trace.columns("api_call", "start_ns", "process_id")
        within = enclosing(
            columns["start_ns"].values,
            found.host_start_ns[rows],
            found.host_end_ns[rows],
            point_group=columns["process_id"].values.astype(np.int64),
            group=found.process[rows],
        )
        of_call[within.found] = rows[within.row[within.found]]
    return CheckedSteps(of_call, found.process, np.bincount(found.process[rows], minlength=1))
