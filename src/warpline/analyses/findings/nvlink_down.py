"""nvlink-down: a GPU has fewer active NVLinks than others of its kind."""

from __future__ import annotations

import numpy as np

from warpline.derived.health.readings import Readings, gpu_readings
from warpline.derived.health.shown import gpus_in_words, show_readings
from warpline.ops.arrays import I64
from warpline.result import Finding, rule
from warpline.trace import Run, Trace
from warpline.units import plural

NAME = "nvlink-down"
TITLE = "NVLinks are down"


@rule(name=NAME, title=TITLE)
def nvlink_down(run: Run) -> list[Finding]:
    """GPUs with fewer active NVLinks than others of the same model, or than before.

    What it finds: A GPU whose number of active NVLinks is lower than that of another GPU of its
        model in the recording, or falls while it is recorded.
    Why it matters: Collectives are as fast as the slowest link. NCCL may use PCIe instead.
    How it is found: By the driver's readings of the state of each NVLink.
    What to do: Reset the GPU or the fabric, and look for Xid 74.
    Limits: Needs readings of the state of at least two GPUs of a model, except for links that fail
        meanwhile. GPUs with different numbers of links by design look the same. One without any has
        low severity, as it may have no bridge. No saving is estimated.
    Source: NVML API reference; NVIDIA's documentation of Xid errors.
    """
    trace, most = run.trace, dict[int, int]()
    every = (each.chosen(each.is_known("nvlinks")) for each in gpu_readings(trace))
    known = [each for each in every if len(each)]
    for each in known:
        model = _model(trace, each.of)
        most[model] = max(most.get(model, 0), int(each.known("nvlinks").values.max()))
    findings = []
    for each in known:
        highest = most[_model(trace, each.of)]
        if _model(trace, each.of) < 0:
            highest = int(each.known("nvlinks").values.max())
        rows = np.flatnonzero(each.columns["nvlinks"].values < highest)
        if len(rows):
            findings.append(_finding(trace, each, rows, highest))
    return findings


def _model(trace: Trace, device: int) -> int:
    """Return the name of a GPU as a row of the string pool, -1 if unknown."""
    return int(trace.columns("device", "name_id")["name_id"].filled(-1)[device])


def _finding(trace: Trace, readings: Readings, rows: I64, highest: int) -> Finding:
    gpu, values = gpus_in_words(trace, (readings.of,)), readings.columns["nvlinks"].values
    least = int(values[rows].min())
    has_fallen = int(readings.known("nvlinks").values.max()) == highest
    than = "at other times" if has_fallen else "on other GPUs of its model"
    return Finding(
        NAME,
        "medium" if least or has_fallen else "low",
        f"{gpu} has {least} of {highest} NVLinks",
        f"{gpu} has {plural(least, 'active NVLink')}, {highest} {than}. Communication with"
        " other GPUs is slower, or goes over PCIe.",
        (show_readings(readings, rows),),
        "Check nvidia-smi nvlink -s and the kernel log for Xid 74. Reset the GPU, or the fabric"
        " manager on machines with NVSwitch; if the link stays down, have it repaired.",
        "Profile again: `warpline stats -r gpu_health_sum` shows as many NVLinks for all GPUs.",
    )
