"""The diagnosis: where the time of a run went."""

from __future__ import annotations

from typing import TYPE_CHECKING

from warpline import plugins, progress
from warpline.documents import failures
from warpline.lazy import lazy
from warpline.result import Diagnosis
from warpline.trace import Run

if TYPE_CHECKING:
    from warpline.diagnosis import diagnose
else:
    diagnose = lazy("warpline.diagnosis.diagnose")


def diagnosis(run: Run, *, keep_going: bool) -> Diagnosis:
    """Return the diagnosis of a run.

    Args:
        run: The trace, and what counts as a step.
        keep_going: Whether a rule with a defect is listed as not judged; else its error is raised.
    """
    plugins.load("analyses")
    with progress.task("Analyzing"):
        return diagnose.diagnose(run, failures.marked if keep_going else failures.raised)
