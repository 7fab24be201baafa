"""The libraries that do the work of benchmarks, one module each, with one interface."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from ctypes import c_void_p
from importlib import import_module
from typing import Protocol

from warpline.bench.driver import Driver
from warpline.bench.timing import Call

DTYPES = ("fp64", "fp32", "tf32", "fp16", "bf16", "fp8")
KINDS = ("h2d-pinned", "h2d-pageable", "d2h-pinned", "d2h-pageable", "d2d", "p2p")
_MODULES = {
    "torch": "warpline.bench.backends.with_torch",
    "cupy": "warpline.bench.backends.with_cupy",
    "ctypes": "warpline.bench.backends.with_ctypes",
}
NAMES: Sequence[str] = tuple(_MODULES)


class Backend(Protocol):
    """A library that puts work into a stream of a GPU.

    Functions raise RefusedError for what the library lacks, or an error of the library.

    Attributes:
        stream: The stream.
        launched: What `launch` launches: ``empty kernel``.
        versions: Versions of the library and of what it uses, by name.
    """

    stream: c_void_p
    launched: str
    versions: Mapping[str, str]

    def gemm(self, shape: tuple[int, int, int], dtype: str) -> Call:
        """Return a GEMM, C = A B, of random numbers.

        Args:
            shape: Rows of A, columns of B, columns of A.
            dtype: One of `DTYPES`.
        """
        ...

    def copy(self, kind: str, size: int, peer: int) -> Call:
        """Return a copy.

        Args:
            kind: One of `KINDS`.
            size: Bytes.
            peer: The GPU to copy to if the kind is ``p2p``.
        """
        ...

    def launch(self) -> Call:
        """Return the launch of the smallest kernel."""
        ...

    def graph(self, kernels: int) -> Call:
        """Return the launch of a CUDA graph of so many of these kernels in a row."""
        ...

    def free(self) -> None:
        """Free the memory of what was returned."""


def load(name: str, driver: Driver) -> Backend:
    """Return a backend.

    Args:
        name: One of `NAMES`.
        driver: The driver, with the GPU to use.

    Raises:
        RefusedError: It cannot be used.
        Exception: Whatever its library raises.
    """
    backend: Backend = import_module(_MODULES[name]).Loaded(driver)
    return backend
