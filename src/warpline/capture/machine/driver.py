"""The version of the GPU driver, without loading it."""

from __future__ import annotations

import re
from pathlib import Path

DRIVER = Path("proc/driver/nvidia")
_MOST = 4096  # characters of the file


def driver_version(root: Path = Path("/")) -> str | None:
    """Return the version of the kernel module, such as ``580.159.04``; None without a driver.

    Args:
        root: Root of the file system.
    """
    try:
        with (root / DRIVER / "version").open(encoding="utf-8", errors="replace") as file:
            text = file.read(_MOST)
    except OSError:
        return None
    found = re.search(r"Kernel Module(?: for \S+)?\s+(\d[\d.]*)", text)
    return found[1] if found else None
