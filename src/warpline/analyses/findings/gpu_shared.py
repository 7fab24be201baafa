"""gpu-shared: processes of others use the same GPU."""

from __future__ import annotations

import numpy as np

from warpline.derived.breakdown.partition import step_partition
from warpline.derived.health.measured import measured_readings, measured_with
from warpline.derived.health.readings import Readings
from warpline.derived.health.shown import gpus_in_words, show_readings
from warpline.derived.time_parts import BUSY
from warpline.result import Finding, rule
from warpline.trace import Run
from warpline.units import format_bytes, format_ratio, plural

NAME = "gpu-shared"
TITLE = "Other processes use the GPU"

_WORK = 0.2  # of the time: the driver sees this much more work than the program's
_LEAST_READINGS = 5  # to compare the two


@rule(name=NAME, title=TITLE)
def gpu_shared(run: Run) -> list[Finding]:
    """Processes that are not the program's on its GPUs.

    What it finds: Readings with other processes on a GPU, and how much of its memory these use.
    Why it matters: Their kernels take turns with the program's, so that steps are longer and vary.
        Their memory is not there for larger batches. Times are not comparable with those of a run
        alone.
    How it is found: By the driver's list of processes on the GPU (NVML). Others also run kernels if
        the GPU utilization that the driver measures exceeds the program's own busy time by at least
        20% of the time, over at least 5 readings.
    What to do: Run alone, or on another GPU.
    Limits: Needs readings of the GPU's state. In most containers the driver does not show processes
        of others: then nothing is found. Without much more utilization it is unknown whether others
        run kernels. In several recordings together, processes that only some of them report are
        taken to be those of the other recordings. No saving is estimated.
    Source: NVML API reference.
    """
    # In each of several recordings, the processes of the others are not the program's.
    is_one = len(run.trace.meta.paths) <= 1
    found = []
    for readings in measured_with(run, "other_processes"):
        others = readings.known("other_processes").values
        if len(others) and (others.max() if is_one else others.min()) > 0:
            found.append(_finding(run, readings))
    return found


def _finding(run: Run, readings: Readings) -> Finding:
    gpu = gpus_in_words(run.trace, (readings.of,))
    number = readings.columns["other_processes"].values
    many = plural(int(number.max()), "other process", "other processes")
    memory = readings.known("other_memory_bytes").values
    used = f" with up to {format_bytes(memory.max())} of memory" if len(memory) else ""
    more = _work_of_others(run, readings.of)
    works = " Whether they run kernels is unknown."
    if more is not None:
        works = f" They also run kernels: the GPU is busy {format_ratio(more)} of the time without"
        works += " work of the program."
    rows = np.flatnonzero(number > 0)
    return Finding(
        NAME,
        "low" if more is None else "medium",
        f"{gpu} is shared with {many}",
        f"{gpu} has {many}{used}, in {format_ratio(len(rows) / len(readings))} of the readings."
        f"{works}",
        (show_readings(readings, rows),),
        "Stop them, or run on a GPU of its own (nvidia-smi lists the processes)."
        " Measure step times on an otherwise idle GPU.",
        "Profile again: `warpline stats -r gpu_health_sum` shows no other processes.",
    )


def _work_of_others(run: Run, device: int) -> float | None:
    """Return the share of the time in which only others keep a GPU busy; None if unknown."""
    measured = (each.known("busy_ratio") for each in measured_readings(run) if each.of == device)
    utilization = next(measured).values
    if len(utilization) < _LEAST_READINGS:
        return None
    parts = step_partition(run)
    own = parts.windows.device == device
    whole_ns = int((parts.windows.end_ns - parts.windows.start_ns)[own].sum())
    busy_ns = int(parts.ns[own][:, list(BUSY)].sum())
    more = float(utilization.mean()) - busy_ns / max(whole_ns, 1)
    return more if more >= _WORK else None
