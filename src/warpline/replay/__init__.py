"""Simulation of a trace's steps with changes, on an event graph.

The graph holds the dependencies: the order of CPU calls on each thread, the operations that they
launch, the order of streams, events between streams, calls that wait for the GPU, and collectives
in which ranks meet. `predict` estimates the step time with changes, with bounds from the errors of
measured pairs (`calibration`). `replay_quality` measures how
well the graph explains the recorded times.
"""

from warpline.replay.calibration import MEASURED, Calibration
from warpline.replay.prediction import Prediction, overhead_ratio, predict
from warpline.replay.quality import Quality, replay_quality

__all__ = [
    "MEASURED",
    "Calibration",
    "Prediction",
    "Quality",
    "overhead_ratio",
    "predict",
    "replay_quality",
]
