"""The version of the GPU driver and the models of its GPUs, without loading it."""

from __future__ import annotations

import re
from pathlib import Path

DRIVER = Path("proc/driver/nvidia")
_OF_WINDOWS = Path("usr/lib/wsl/lib/libcuda.so.1")
_MOST = 4096  # characters of the file


def gpu_models(root: Path = Path("/")) -> list[str]:
    """Return the names of the GPUs that the kernel module knows, in the order of their bus."""
    return [
        found[1].strip()
        for path in sorted((root / DRIVER / "gpus").glob("*/information"))
        if (found := re.search(r"^Model:(.*)$", _text(path), re.MULTILINE))
    ]


def counted(models: list[str]) -> str:
    """Return names with their numbers: ``2 x NVIDIA H200``."""
    return ", ".join(f"{models.count(model)} x {model}" for model in dict.fromkeys(models))


def driver_version(root: Path = Path("/")) -> str | None:
    """Return the version of the kernel module, such as ``580.159.04``; None without a driver.

    Args:
        root: Root of the file system.
    """
    text = _text(root / DRIVER / "version")
    found = re.search(r"Kernel Module(?: for \S+)?\s+(\d[\d.]*)", text)
    return found[1] if found else None


def is_of_windows(root: Path = Path("/")) -> bool:
    """Return whether the driver is that of Windows, as in WSL 2, where no kernel module is."""
    return (root / _OF_WINDOWS).exists()


def _text(path: Path) -> str:
    try:
        with path.open(encoding="utf-8", errors="replace") as file:
            return file.read(_MOST)
    except OSError:
        return ""
