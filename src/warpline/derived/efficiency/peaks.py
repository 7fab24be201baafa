"""Peak memory bandwidth, L2 size and SMs of each GPU of a trace."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from warpline.derived import derived
from warpline.hardware import Peaks, peaks_of
from warpline.ops.arrays import I64
from warpline.trace import Trace

_USUAL_L2_BYTES = 60 << 20  # as on H200; the PyTorch profiler does not record it


class DevicePeaks(NamedTuple):
    """What limits kernels on each GPU, in rows of the device table.

    Attributes:
        model: The peaks of the model; None for unknown models.
        bytes_per_s: Shape (devices,), int64, peak memory bandwidth; 0 if unknown.
        l2_bytes: Shape (devices,), int64, size of the L2 cache.
        sm_count: Shape (devices,), int64; 0 if unknown.
        clock_hz: Shape (devices,), int64, highest clock of the SMs; 0 if unknown.
        compute_major: Shape (devices,), int64, compute capability; 0 if unknown.
    """

    model: tuple[Peaks | None, ...]
    bytes_per_s: I64
    l2_bytes: I64
    sm_count: I64
    clock_hz: I64
    compute_major: I64


@derived
def peaks_of_devices(trace: Trace) -> DevicePeaks:
    """Return the peaks of each GPU, as recorded or else of its model."""
    facts = ("memory_bytes_per_s", "l2_bytes", "sm_count", "clock_hz", "compute_major")
    if not trace.has("device"):
        none = np.zeros(0, np.int64)
        return DevicePeaks((), none, none, none, none, none)
    columns = trace.columns("device", *facts)
    recorded, l2, *others = (columns[name].filled(0).astype(np.int64) for name in facts)
    name = trace.columns("device", "name_id")["name_id"].filled(-1)
    known = {row: peaks_of(trace.strings.text(row)) for row in set(name.tolist()) if row >= 0}
    model = tuple(known.get(row) for row in name.tolist())
    of_model = np.array([peaks.memory_bytes_per_s if peaks else 0 for peaks in model], np.int64)
    rate = np.where(recorded > 0, recorded, of_model)
    return DevicePeaks(model, rate, np.where(l2 > 0, l2, _USUAL_L2_BYTES), *others)
