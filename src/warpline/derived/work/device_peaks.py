"""Peak rates of the GPUs of a trace."""

from __future__ import annotations

from warpline.hardware import Peaks, peaks_of
from warpline.trace import Trace


def device_peaks(trace: Trace, device: int) -> Peaks | None:
    """Return the peaks of a GPU, given its row in the device table; None for unknown models."""
    name = int(trace.columns("device", "name_id")["name_id"].filled(-1)[device])
    return None if name < 0 else peaks_of(trace.strings.text(name))
