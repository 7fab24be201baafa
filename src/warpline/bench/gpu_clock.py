"""The clock of the measured GPU, as the driver's management library reports it."""

from __future__ import annotations

from warpline.bench.timing import ReadClock
from warpline.capture.machine.nvml import GpuLostError, Nvml


def gpu_clock(uuid: str, nvml: Nvml | None = None) -> ReadClock:
    """Return a function that reads the current clock of the SMs in Hz; it may return None.

    Args:
        uuid: The GPU's UUID, such as ``GPU-1a2b...``. An instance of MIG has no clock of its own.
        nvml: NVML; None to load that of this machine.
    """
    opened = Nvml.open() if nvml is None else nvml
    gpus = [] if opened is None else opened.gpus()
    found = next((gpu for gpu in gpus if gpu.uuid == uuid), None)

    def read() -> int | None:
        try:
            return None if found is None else found.sm_clock_hz()
        except GpuLostError:
            return None

    return read
