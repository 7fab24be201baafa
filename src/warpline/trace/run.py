"""A trace, and what counts as a step in it."""

from __future__ import annotations

from warpline.frozen import frozen
from warpline.trace.trace import Trace


@frozen
class Run:
    """A recorded run of a program: its trace, and the choice of its steps.

    A function takes a Run if its result depends on the choice of steps, a Trace otherwise.

    Attributes:
        trace: The trace.
        steps: Name of the ranges that are steps, or a pattern such as ``epoch_*``; ``launches``
            takes repeating launches; None detects the steps.
    """

    trace: Trace
    steps: str | None = None
