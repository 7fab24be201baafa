"""The readings in the time that is analyzed."""

from __future__ import annotations

from warpline.derived import derived
from warpline.derived.health.readings import Readings, gpu_readings
from warpline.derived.steps.times import measure_windows
from warpline.ops.interval import union
from warpline.trace import Run


@derived
def measured_readings(run: Run) -> tuple[Readings, ...]:
    """Return the readings of each GPU in its included steps, or else in the whole recording.

    GPUs without any there have none.
    """
    windows = measure_windows(run)
    found = []
    for readings in gpu_readings(run.trace):
        own = windows.device == readings.of
        spans = union(windows.start_ns[own], windows.end_ns[own])
        within = readings.chosen(readings.inside(*spans))
        if len(within):
            found.append(within)
    return tuple(found)
