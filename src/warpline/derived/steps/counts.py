"""The number of steps of a run with several processes."""

from __future__ import annotations

import numpy as np

from warpline.derived.steps.times import Steps


def steps_counted(run_steps: Steps) -> int:
    """Return the number of included steps of the process with the most of them.

    Ranks that run the same twelve steps make twelve steps, not twelve each.
    """
    return int(np.bincount(run_steps.process[run_steps.included]).max(initial=0))
