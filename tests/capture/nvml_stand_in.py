"""The stand-in for NVML, ``fake_nvml.c``, compiled."""

from __future__ import annotations

import shutil
import subprocess
from functools import cache
from pathlib import Path
from tempfile import mkdtemp

import pytest

from warpline.capture.machine.nvml import LIBRARY

UUIDS = [f"GPU-0000000{number}-0000-0000-0000-000000000000" for number in range(2)]


def stand_in(folder: Path) -> Path:
    """Return a copy of the library, which has a state of its own, in a directory of its own."""
    path = Path(mkdtemp(dir=folder)) / LIBRARY
    path.write_bytes(_compiled())
    return path


@cache
def _compiled() -> bytes:
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("needs a C compiler")
    built = Path(mkdtemp()) / LIBRARY
    source = Path(__file__).parent / "fake_nvml.c"
    try:
        subprocess.run([compiler, "-shared", "-fPIC", "-o", built, source], check=True)
        return built.read_bytes()
    finally:
        shutil.rmtree(built.parent)
