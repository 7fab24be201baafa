"""gpu-errors: errors that the driver reports: Xid, and uncorrected memory errors."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

import numpy as np

from warpline.derived.health.readings import Readings, gpu_readings
from warpline.derived.health.shown import gpus_in_words, show_readings
from warpline.ops.arrays import I64
from warpline.ops.group import factorize_rows
from warpline.ops.tiling import by_group
from warpline.result import Evidence, Finding, Severity, rule
from warpline.trace import Run, Trace
from warpline.units import plural

NAME = "gpu-errors"
TITLE = "The GPU reports errors (Xid, ECC)"

_SHOWN = 5
_PROGRAM = "Look for the error in the program: run it under compute-sanitizer."
_HARDWARE = (
    "Look up the Xid in NVIDIA's documentation and the kernel log (dmesg). Drain the GPU and reset"
    " it (nvidia-smi -r). If the error returns, have the GPU repaired."
)


class _Xid(NamedTuple):
    """The meaning of an Xid, and what to do."""

    meaning: str
    severity: Severity
    fix: str


# NVIDIA, "Xid Errors": those that programs meet.
_XIDS: Mapping[int, _Xid] = {
    13: _Xid("an exception in a kernel, often of the program", "medium", _PROGRAM),
    31: _Xid("an access to an invalid address", "medium", _PROGRAM),
    43: _Xid("a program's work was stopped after an error", "medium", _PROGRAM),
    45: _Xid("work was canceled, as when a program ends", "low", _PROGRAM),
    48: _Xid("a memory error that ECC cannot correct", "high", _HARDWARE),
    61: _Xid("an error inside the GPU", "high", _HARDWARE),
    62: _Xid("an error inside the GPU", "high", _HARDWARE),
    63: _Xid("a damaged row of memory will be replaced", "medium", _HARDWARE),
    64: _Xid("a damaged row of memory could not be replaced", "high", _HARDWARE),
    74: _Xid("an NVLink error", "high", _HARDWARE),
    79: _Xid("the GPU has fallen off the bus", "high", _HARDWARE),
    92: _Xid("many memory errors that ECC corrects", "medium", _HARDWARE),
    94: _Xid("a memory error that ended one program", "high", _HARDWARE),
    95: _Xid("a memory error that may have affected any program", "high", _HARDWARE),
    119: _Xid("the GPU's own processor does not answer", "high", _HARDWARE),
    120: _Xid("an error of the GPU's own processor", "high", _HARDWARE),
}
_OTHER = _Xid("see NVIDIA's documentation of Xid errors", "medium", _HARDWARE)


@rule(name=NAME, title=TITLE)
def gpu_errors(run: Run) -> list[Finding]:
    """Errors of GPUs while the program was recorded.

    What it finds: Xid errors of the driver, and memory errors that ECC could not correct.
    Why it matters: Some are errors of the program, some of the GPU or its links. Results after an
        uncorrected memory error may be wrong, and a GPU that retries is slow.
    How it is found: By the driver's events and counters (NVML), during the recording.
    What to do: It depends on the number. Errors of the program show up under compute-sanitizer;
        errors of the GPU need a reset or a repair.
    Limits: Needs readings of the GPU's state, and a driver that permits its events. Errors of other
        programs on the GPU are among them.
    Source: NVIDIA's documentation of Xid errors; NVML API reference.
    """
    memory = (
        _memory_errors(run.trace, readings, round(number))
        for readings in gpu_readings(run.trace)
        for number in (readings.increase("ecc_uncorrected"),)
        if number
    )
    return [*_xid_errors(run.trace), *memory]


def _xid_errors(trace: Trace) -> Iterator[Finding]:
    if not trace.has("gpu_error") or not trace.row_count("gpu_error"):
        return
    columns = trace.columns("gpu_error", "time_ns", "device_id", "xid")
    time_ns, device, xid = (column.values for column in columns.values())
    for rows in by_group(factorize_rows(device.astype(np.int64), xid).codes):
        number, gpu = int(xid[rows[0]]), gpus_in_words(trace, (int(device[rows[0]]),))
        what = _XIDS.get(number, _OTHER)
        yield Finding(
            NAME,
            what.severity,
            f"Xid {number} on {gpu}",
            f"The driver reports Xid {number} on {gpu} {plural(len(rows), 'time')}:"
            f" {what.meaning}.",
            (_shown(number, rows, time_ns),),
            what.fix,
            "Profile again: `warpline stats -r gpu_health_sum` shows no Xid.",
        )


def _shown(number: int, rows: I64, time_ns: I64) -> Evidence:
    first = rows[:_SHOWN]
    windows = ((time, time) for time in time_ns[first].tolist())
    seen = f"{plural(len(rows), 'event')} with Xid {number}"
    return Evidence(seen, "gpu_error", tuple(first.tolist()), len(rows), tuple(windows))


def _memory_errors(trace: Trace, readings: Readings, number: int) -> Finding:
    gpu, many = gpus_in_words(trace, (readings.of,)), plural(number, "memory error")
    rows = np.flatnonzero(readings.is_known("ecc_uncorrected"))
    return Finding(
        NAME,
        "high",
        f"{many} on {gpu} that ECC could not correct",
        f"{gpu} counts {many} that ECC could not correct, during the recording. Results may be"
        " wrong.",
        (show_readings(readings, rows[-1:]),),
        _HARDWARE,
        "Profile again: `warpline stats -r gpu_health_sum` shows no uncorrected errors.",
    )
