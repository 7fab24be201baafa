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


def measured_with(run: Run, name: str) -> tuple[Readings, ...]:
    """Return the readings of each GPU that have a value in a column, for what is read rarely.

    If none of them is in the included steps of a GPU, they are those of the whole recording.
    """
    found = []
    measured = {each.of: each for each in measured_readings(run)}
    for readings in gpu_readings(run.trace):
        in_steps = measured.get(readings.of)
        if in_steps is None:
            continue
        is_known = in_steps.is_known(name).any()
        chosen = in_steps if is_known else readings
        found.append(chosen.chosen(chosen.is_known(name)))
    return tuple(each for each in found if len(each))
