"""The clock of a GPU while something is measured, and what limits it, as the driver reports it."""

from __future__ import annotations

from typing import Any

from warpline.capture.machine.nvml import Gpu, GpuLostError, Nvml
from warpline.schema.health import CLOCK_LIMITS

_IDLE = 0x1
_PREFIX = "GPU-"


class GpuClocks:
    """Readings of a GPU's clock.

    Args:
        uuid: The GPU's UUID, with "GPU-" before it or not: PyTorch leaves that out.

    Attributes:
        clocks_hz: The readings.
    """

    def __init__(self, uuid: str) -> None:
        self._nvml = Nvml.open()
        self._gpu = self._found(uuid)
        self.clocks_hz: list[int] = []
        self._limits = 0

    def read(self) -> None:
        """Read the clock, if the driver gives it: 0.2 ms."""
        if self._gpu is None:
            return
        try:
            state = self._gpu.state()
        except GpuLostError:
            return
        clock_hz, limits = state["sm_clock_hz"], state["clock_limits"]
        if clock_hz is not None:
            self.clocks_hz.append(clock_hz)
        self._limits |= limits or 0

    def close(self) -> None:
        """Leave the driver's library."""
        if self._nvml is not None:
            self._nvml.close()
        self._nvml = self._gpu = None

    @property
    def limits(self) -> tuple[str, ...]:
        """What limited the clock at any reading, in the words of nvidia-smi."""
        limits = self._limits & ~_IDLE
        return tuple(words for bit, words in CLOCK_LIMITS.items() if limits & bit)

    def to_dict(self) -> dict[str, Any]:
        """Return the readings as JSON has them."""
        return {"sm_clock_hz": self.clocks_hz, "clock_limits": list(self.limits)}

    def _found(self, uuid: str) -> Gpu | None:
        gpus = [] if self._nvml is None else self._nvml.gpus()
        own = uuid.removeprefix(_PREFIX)
        return next((gpu for gpu in gpus if gpu.uuid.removeprefix(_PREFIX) == own), None)
