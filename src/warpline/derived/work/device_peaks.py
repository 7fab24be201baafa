"""What the devices of a trace can do at most."""

from __future__ import annotations

from warpline.hardware import Peaks, peaks_of
from warpline.trace import Trace


def device_peaks(trace: Trace, device: int) -> Peaks | None:
    """Return the peaks of a device, a row of the device table; None if its model is unknown."""
    name = int(trace.columns("device", "name_id")["name_id"].filled(-1)[device])
    return None if name < 0 else peaks_of(trace.strings.text(name))
