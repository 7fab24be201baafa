"""The stand-in for NVML, ``fake_nvml.c``, compiled."""

from __future__ import annotations

from pathlib import Path
from tempfile import mkdtemp

from capture.stand_ins import compiled

from warpline.capture.machine.nvml import LIBRARY

UUIDS = [f"GPU-0000000{number}-0000-0000-0000-000000000000" for number in range(2)]


def stand_in(folder: Path) -> Path:
    """Return a copy of the library, which has a state of its own, in a directory of its own."""
    path = Path(mkdtemp(dir=folder)) / LIBRARY
    path.write_bytes(compiled("fake_nvml.c"))
    return path
