"""The number of steps of a run with several processes."""

from __future__ import annotations

import numpy as np

from warpline.derived.steps.times import Steps


def steps_counted(found: Steps) -> int:
    """Return the number of included steps of the process with the most of them.

    Ranks that run the same twelve steps make twelve steps, not twelve each.
    """
    return int(np.bincount(found.process[found.included]).max(initial=0))
