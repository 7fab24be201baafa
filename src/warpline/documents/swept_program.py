"""What is measured of a run of a sweep: step time, memory, busy share, first finding.

Run as a module, with a recording, it is a process of its own: sweeps fork programs from a process
without numpy, which starts threads.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from warpline import plugins
from warpline.derived.memory.device_peaks import READINGS, DevicePeak, device_peaks
from warpline.documents.diagnosis import diagnosis
from warpline.errors import WarplineError
from warpline.result import Diagnosis
from warpline.sweep.predicting import LIMIT, PEAK
from warpline.trace import Run, Trace
from warpline.trace.reading import read_all

_OUT_OF_MEMORY = 2  # cudaErrorMemoryAllocation, CUDA_ERROR_OUT_OF_MEMORY
_ALLOCATING = ("cudaMalloc", "cuMemAlloc", "cuMemCreate")


def measured(trace: Trace, steps: str | None = None) -> dict[str, Any]:
    """Return what is measured of a recording, for JSON; None for what it does not have.

    Args:
        trace: The recording.
        steps: Name of the ranges that are steps; None detects steps.
    """
    peaks = device_peaks(trace)
    fullest = max(peaks, key=_fullness, default=None)
    found = _timing(trace, steps)
    return {
        **found,
        PEAK: fullest.peak_bytes if fullest else None,
        LIMIT: fullest.limit_bytes if fullest else None,
        "memory_source": _source(fullest) if fullest else None,
        "taken_memory_bytes": fullest.taken_bytes if fullest else None,
        "allocated_bytes": fullest.allocated_bytes if fullest else None,
        "gpu": _name(trace, fullest.device if fullest else 0),
        "has_failed_allocation": _ends_without_memory(trace),
    }


def _timing(trace: Trace, steps: str | None) -> dict[str, Any]:
    """Return the numbers of the diagnosis; all None with a note, if there is none."""
    try:
        found = diagnosis(Run(trace, steps), keep_going=True)
    except WarplineError as error:
        nothing = dict.fromkeys(("step_ns", "steps", "busy_ratio", "finding"))
        return {**nothing, "note": error.message}
    first = found.findings[0] if found.findings else None
    on_gpu, on_cpu = found.steps.median_ns, found.steps.host_median_ns
    note = "no steps were detected" if on_cpu is None else "step times are those on the CPU"
    return {
        "step_ns": on_gpu if on_gpu is not None else on_cpu,
        "steps": found.steps.count,
        "busy_ratio": _busy_ratio(found),
        "finding": first
        and {"rule": first.rule, "title": first.title, "saving_ns": first.saving_ns},
        "note": note if on_gpu is None else None,
    }


def _busy_ratio(found: Diagnosis) -> float | None:
    total = sum(of.total_ns for of in found.breakdown)
    return sum(of.ns(kind="busy") for of in found.breakdown) / total if total else None


def _fullness(peak: DevicePeak) -> float:
    return peak.peak_bytes / peak.limit_bytes if peak.limit_bytes else float(peak.peak_bytes > 0)


def _source(peak: DevicePeak) -> str:
    if peak.source == READINGS:
        return "readings of the driver, which may miss short peaks"
    return f"{peak.source}{', context included' if peak.has_readings else ', without the context'}"


def _name(trace: Trace, device: int) -> str | None:
    if not trace.has("device") or not trace.row_count("device"):
        return None
    name = trace.columns("device", "name_id")["name_id"].to_list()[device]
    return None if name is None else trace.strings.texts([name])[0]


def _ends_without_memory(trace: Trace) -> bool:
    """Return whether the last call that allocates memory failed for lack of it."""
    if not trace.has("api_call"):
        return False
    columns = trace.columns("api_call", "start_ns", "name_id", "return_value")
    ids, places = np.unique(columns["name_id"].values, return_inverse=True)
    is_allocating = [name.startswith(_ALLOCATING) for name in trace.strings.texts(ids.tolist())]
    rows = np.flatnonzero(np.array(is_allocating, np.bool_)[places])
    if not len(rows):
        return False
    last = rows[np.argmax(columns["start_ns"].values[rows])]
    return bool(columns["return_value"].filled(0)[last] == _OUT_OF_MEMORY)


def main(words: Sequence[str]) -> int:
    """Print what is measured of a recording as JSON; return the exit status."""
    recording, *steps = words
    plugins.load("readers")
    try:
        trace = Trace(read_all([Path(recording)])[0])
        found = measured(trace, steps[0] if steps else None)
    except WarplineError as error:
        sys.stderr.write(f"{error.message}\n")
        return error.exit_code
    sys.stdout.write(json.dumps(found) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
