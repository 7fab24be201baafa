"""The diagnosis: where the time of a run went."""

from __future__ import annotations

from typing import TYPE_CHECKING

from warpline import plugins, progress
from warpline.documents import failures
from warpline.errors import MissingTableError
from warpline.lazy import lazy
from warpline.result import Diagnosis
from warpline.trace import Run

if TYPE_CHECKING:
    from warpline.diagnosis import diagnose
else:
    diagnose = lazy("warpline.diagnosis.diagnose")

_TIMELINE = ("kernel", "memcpy", "api_call")
_OF_KERNELS = {"profiled_kernel": "counters per kernel", "pc_sample": "samples of code"}


def diagnosis(run: Run, *, keep_going: bool) -> Diagnosis:
    """Return the diagnosis of a run.

    Args:
        run: The trace, and what counts as a step.
        keep_going: Whether a rule with a defect is listed as not judged; else its error is raised.

    Raises:
        MissingTableError: The trace has counters or samples of kernels, and no timeline.
    """
    for table, what in _OF_KERNELS.items():
        if run.trace.has(table) and not any(map(run.trace.has, _TIMELINE)):
            raise MissingTableError(
                f"the recording has {what}, and no timeline to analyze",
                hint="run warpline kernels, or record with warpline profile",
            )
    plugins.load("analyses")
    with progress.task("Analyzing"):
        return diagnose.diagnose(run, failures.marked if keep_going else failures.raised)
