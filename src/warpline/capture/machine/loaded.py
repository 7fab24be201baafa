"""Versions of the frameworks and CUDA libraries that a process has loaded.

They follow from the files that the process has mapped, and from the directories that pip and conda
leave beside packages (``torch-2.11.0.dist-info``): nothing is imported, and the process takes no
part in it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

# The directory of a package with libraries: its name, and its distribution.
_FRAMEWORKS = {
    "torch": ("PyTorch", "torch"),
    "jaxlib": ("JAX", "jaxlib"),
    "tensorflow": ("TensorFlow", "tensorflow"),
    "cupy": ("CuPy", "cupy"),
    "triton": ("Triton", "triton"),
    "vllm": ("vLLM", "vllm"),
    "transformer_engine": ("Transformer Engine", "transformer_engine"),
}
_LIBRARIES = {
    "libcublas": ("cuBLAS", "nvidia_cublas"),
    "libcudnn": ("cuDNN", "nvidia_cudnn"),
    "libnccl": ("NCCL", "nvidia_nccl"),
}
NAMES = tuple(name for name, _ in (*_FRAMEWORKS.values(), *_LIBRARIES.values()))
_PATH = re.compile(rb"\s(/[^\n]+)\n")
_PACKAGE = re.compile(r"(.*/(?:site|dist)-packages)/([^/]+)/")
_LIBRARY = re.compile(r"(?:.*/)?(lib[a-z]+)\.so(?:\.([0-9.]+))?")
_DISTRIBUTION = re.compile(
    r"(?P<name>[a-z_]+?)(?:_(?:cu(?:da)?[0-9]+x?|cpu|gpu|nightly))?"
    r"-(?P<version>[^-]+)\.(?:dist|egg)-info",
    re.IGNORECASE,
)
_MOST_CHARACTERS = 60


def loaded_versions(pid: int) -> dict[str, str]:
    """Return the version of each framework and library of a process, by name.

    Empty if the process cannot be read. What no version is known of is left out.
    """
    try:
        maps = Path(f"/proc/{pid}/maps").read_bytes()
    except OSError:
        return {}
    paths = {path.decode("utf-8", "replace") for path in set(_PATH.findall(maps))}
    return _versions(sorted(paths))


def _versions(paths: Iterable[str]) -> dict[str, str]:
    wanted: dict[str, str] = {}  # distribution by name
    found: dict[str, str] = {}
    roots: dict[str, None] = {}
    for path in paths:
        package, library = _PACKAGE.match(path), _LIBRARY.fullmatch(path)
        if package is not None:
            roots[package[1]] = None
            if package[2] in _FRAMEWORKS:
                name, distribution = _FRAMEWORKS[package[2]]
                wanted[name] = distribution
        if library is not None and library[1] in _LIBRARIES:
            name, distribution = _LIBRARIES[library[1]]
            wanted[name] = distribution
            if library[2] and "." in library[2]:
                found[name] = library[2]
    if wanted:
        known = _installed(roots)
        found |= {name: known[package] for name, package in wanted.items() if package in known}
    return {name: text[:_MOST_CHARACTERS] for name, text in found.items()}


def _installed(roots: Iterable[str]) -> dict[str, str]:
    """Return the version of each installed distribution, those of the first roots first."""
    found: dict[str, str] = {}
    for root in roots:
        try:
            entries = sorted(entry.name for entry in Path(root).iterdir())
        except OSError:
            continue
        for entry in entries:
            said = _DISTRIBUTION.fullmatch(entry)
            if said is not None:
                found.setdefault(said["name"].lower(), said["version"])
    return found
