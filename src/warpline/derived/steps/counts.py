"""How many steps stand for a run in which several processes step together."""

from __future__ import annotations

import numpy as np

from warpline.derived.steps.times import Steps


def steps_counted(found: Steps) -> int:
    """Return the number of included steps, of the process that has the most of them.

    Ranks that run the same twelve steps are twelve steps, not twelve for each.
    """
    return int(np.bincount(found.process[found.included]).max(initial=0))
