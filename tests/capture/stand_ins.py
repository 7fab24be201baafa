"""Stand-ins for NVIDIA's libraries, compiled from the C files in this directory."""

from __future__ import annotations

import shutil
import subprocess
from functools import cache
from pathlib import Path
from tempfile import mkdtemp

import pytest

SOURCES = Path(__file__).parent


@cache
def compiled(source: str) -> bytes:
    """Return a library made of a C file; skip the test without a compiler."""
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("needs a C compiler")
    built = Path(mkdtemp()) / "library.so"
    try:
        command = [compiler, "-shared", "-fPIC", "-o", str(built), str(SOURCES / source)]
        subprocess.run([*command, "-ldl", "-lm"], check=True)
        return built.read_bytes()
    finally:
        shutil.rmtree(built.parent)
