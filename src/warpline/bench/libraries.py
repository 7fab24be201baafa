"""Where cuBLAS is: in the toolkit of CUDA_HOME, packages of this Python, or other toolkits."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from warpline.bench.refusals import RefusedError

_VERSIONS = (13, 12, 11)
_IN_PACKAGES = ("nvidia/cu13/lib", "nvidia/cublas/lib")
_TOOLKIT_VARIABLES = ("CUDA_HOME", "CUDA_PATH")
_HINT = "pip install nvidia-cublas (CUDA 13) or nvidia-cublas-cu12"


def load_cublas(stem: str, environment: Mapping[str, str], newest: int) -> Any:
    """Return the first library of cuBLAS that can be loaded, by its path or by the system's search.

    Args:
        stem: ``libcublas`` or ``libcublasLt``.
        environment: The environment of this process.
        newest: The highest version of CUDA that the driver supports: 13.

    Raises:
        RefusedError: There is none.
    """
    problem = "cuBLAS was not found"
    names = [f"{stem}.so.{version}" for version in _VERSIONS if version <= newest]
    for path in (*_paths(environment, names), *names):
        try:
            # cuBLAS needs cuBLASLt, which is next to it and has no path of its own.
            light = str(path).replace("libcublas.", "libcublasLt.")
            if Path(light).is_file():
                ctypes.CDLL(light, mode=ctypes.RTLD_GLOBAL)
            return ctypes.CDLL(str(path))
        except OSError as error:
            if isinstance(path, Path):
                problem = f"cuBLAS cannot be loaded: {error}"
    raise RefusedError(f"{problem}; {_HINT}")


def _paths(environment: Mapping[str, str], names: Sequence[str]) -> Iterator[Path]:
    named = [Path(environment[name]) for name in _TOOLKIT_VARIABLES if environment.get(name)]
    found = [Path("/usr/local/cuda"), *sorted(Path("/usr/local").glob("cuda-*"), reverse=True)]
    folders = [root / "lib64" for root in named]
    folders += [Path(name, part) for name in sys.path if name for part in _IN_PACKAGES]
    folders += [root / "lib64" for root in found]
    for folder in folders:
        yield from (folder / name for name in names if (folder / name).is_file())
