"""The event graph of a trace, and what its steps would take if something were changed.

The graph holds what must happen before what: the calls of the host in the order of each thread,
the work that they launch, the order of streams, events between streams, calls that wait for the
device, collectives in which ranks meet. `predict` says what a step would take with changes,
`replay_quality` how well the graph explains what was recorded.
"""

from warpline.replay.prediction import HOST_SPEED, Prediction, predict
from warpline.replay.quality import Quality, replay_quality

__all__ = ["HOST_SPEED", "Prediction", "Quality", "predict", "replay_quality"]
