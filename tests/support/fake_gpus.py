"""A machine with GPUs for `warpline bench`: a CUDA driver and a cuBLAS that only check and count.

Their work takes no time, but events say what it would take: see fake_cuda.c.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

_SOURCES = Path(__file__).parent
GPU = "NVIDIA H100 80GB HBM3"


def build(folder: Path) -> Path:
    """Build the libraries; return the directory that stands for CUDA_HOME."""
    if shutil.which("cc") is None:
        pytest.skip("no compiler: cc")
    (folder / "lib64").mkdir()
    driver = "libcuda.so.1"
    for source, name in (
        ("fake_cuda.c", driver),
        ("fake_cublas.c", "libcublas.so.12"),
        ("fake_cublas_lt.c", "libcublasLt.so.12"),
    ):
        library = folder / "lib64" / name
        linked = [f"-Wl,-soname,{name}", f"-L{library.parent}"]
        linked += [] if name == driver else [f"-l:{driver}"]
        command = ["cc", "-O1", "-shared", "-fPIC", "-Wall", "-Werror", str(_SOURCES / source)]
        subprocess.run([*command, "-o", str(library), *linked], check=True)
    return folder


def environment(folder: Path, **settings: str) -> Mapping[str, str]:
    """Return the environment of a process that finds these libraries."""
    found = {"LD_LIBRARY_PATH": str(folder / "lib64"), "CUDA_HOME": str(folder)}
    return {**os.environ, **found, **settings}
