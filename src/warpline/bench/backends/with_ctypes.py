"""Benchmarks through the CUDA driver and cuBLAS, without a framework."""

from __future__ import annotations

import os
from collections.abc import Mapping
from ctypes import byref, c_double, c_float, c_int, c_void_p
from typing import Any, NamedTuple

import numpy as np

from warpline.bench import libraries, operands
from warpline.bench.driver import Driver, prepared
from warpline.bench.refusals import OutOfMemoryError, RefusedError
from warpline.bench.timing import Call

_EMPTY_KERNEL = b""".version 6.0
.target sm_50
.address_size 64
.visible .entry empty() { ret; }
"""
_ALLOCATION_FAILED = 3  # CUBLAS_STATUS_ALLOC_FAILED
_NOT_TRANSPOSED, _DEFAULT_ALGORITHM = 0, -1


class _Kind(NamedTuple):
    """A type of matrices: its cudaDataType, bytes, cublasComputeType and type of factors."""

    data: int
    size: int
    compute: int
    factor: type


_KINDS = {
    "fp64": _Kind(1, 8, 70, c_double),
    "fp32": _Kind(0, 4, 68, c_float),
    "tf32": _Kind(0, 4, 77, c_float),
    "fp16": _Kind(2, 2, 68, c_float),
    "bf16": _Kind(14, 2, 68, c_float),
}
# The parameters of each function; all return a cublasStatus.
SIGNATURES: Mapping[str, tuple[type, ...]] = {
    "cublasCreate_v2": (c_void_p,),
    "cublasGetVersion_v2": (c_void_p, c_void_p),
    "cublasSetStream_v2": (c_void_p, c_void_p),
    "cublasGemmEx": (
        *(c_void_p, c_int, c_int, c_int, c_int, c_int, c_void_p),
        *(c_void_p, c_int, c_int),  # A, its type and leading dimension
        *(c_void_p, c_int, c_int),
        c_void_p,
        *(c_void_p, c_int, c_int),
        *(c_int, c_int),
    ),
}


class Loaded:
    """The backend; see `Backend`."""

    launched = "empty kernel"

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self.stream = driver.stream()
        self._cublas: _Cublas | None = None
        self._kernel: c_void_p | None = None
        self._peers: dict[int, tuple[c_void_p, bool]] = {}
        self._memory: list[int] = []
        self._pinned: list[int] = []
        self._graphs: list[c_void_p] = []
        self.versions: dict[str, str] = {}

    def gemm(self, shape: tuple[int, int, int], dtype: str) -> Call:
        """Return a GEMM."""
        rows, columns, inner = shape
        if dtype not in _KINDS:
            raise RefusedError(f"cublasGemmEx has no {dtype.upper()}; use --backend torch")
        if self._cublas is None:
            self._cublas = _Cublas(self.stream, self._driver.cuda_version() // 1000)
            self.versions["cublas"] = self._cublas.version
        kind = _KINDS[dtype]
        counts = (rows * inner, inner * columns, rows * columns)
        a, b, c = (self._allocate(count * kind.size) for count in counts)
        for address, count in ((a, counts[0]), (b, counts[1])):
            self._fill(address, count, dtype)
        return self._cublas.gemm(shape, kind, (a, b, c))

    def copy(self, kind: str, size: int, peer: int) -> Call:
        """Return a copy."""
        way, _, memory = kind.partition("-")
        here = self._allocate(size)
        if way == "p2p":
            there, context = self._allocate_on(peer, size), self._peer(peer)
            name = "cuMemcpyPeerAsync"
            arguments: tuple[Any, ...] = (there, context, here, self._driver.context)
        elif way == "d2d":
            name, arguments = "cuMemcpyDtoDAsync_v2", (self._allocate(size), here)
        else:
            host = self._allocate_pinned(size) if memory == "pinned" else np.ones(size, np.uint8)
            address = host if isinstance(host, int) else host.ctypes.data_as(c_void_p)
            is_to_gpu = way == "h2d"
            name = "cuMemcpyHtoDAsync_v2" if is_to_gpu else "cuMemcpyDtoHAsync_v2"
            arguments = (here, address) if is_to_gpu else (address, here)
        return self._checked(name, *arguments, size, self.stream)

    def launch(self) -> Call:
        """Return the launch of the smallest kernel."""
        if self._kernel is None:
            self._kernel = self._driver.kernel(_EMPTY_KERNEL, b"empty")
        grid_and_block = (1, 1, 1, 1, 1, 1)
        arguments = (self._kernel, *grid_and_block, 0, self.stream, None, None)
        return self._checked("cuLaunchKernel", *arguments)

    def graph(self, kernels: int) -> Call:
        """Return the launch of a CUDA graph."""
        call = self.launch()
        self._driver.begin_capture(self.stream)
        for _ in range(kernels):
            call()
        graph = self._driver.end_capture(self.stream)
        self._graphs.append(graph)
        return self._checked("cuGraphLaunch", graph, self.stream)

    def free(self) -> None:
        """Free the memory of what was returned."""
        self._driver.call("cuStreamSynchronize", self.stream)
        for addresses, name in (
            (self._memory, "cuMemFree_v2"),
            (self._pinned, "cuMemFreeHost"),
            (self._graphs, "cuGraphExecDestroy"),
        ):
            while addresses:
                self._driver.call(name, addresses.pop())

    def _checked(self, name: str, *arguments: Any) -> Call:
        """Return a call of the driver, which was made once to see whether it works."""
        self._driver.call(name, *arguments)
        return prepared(self._driver.function(name), *arguments)

    def _fill(self, address: int, count: int, dtype: str) -> None:
        numbers = operands.numbers(dtype)
        source, size = numbers.ctypes.data_as(c_void_p), numbers.itemsize
        for place, length in operands.pieces(count):
            at = address + place * size
            self._driver.call("cuMemcpyHtoDAsync_v2", at, source, length * size, self.stream)

    def _allocate(self, size: int) -> int:
        self._memory.append(self._driver.allocate(size))
        return self._memory[-1]

    def _allocate_pinned(self, size: int) -> int:
        self._pinned.append(self._driver.allocate_pinned(size))
        return self._pinned[-1]

    def _peer(self, peer: int) -> c_void_p:
        if peer not in self._peers:
            self._peers[peer] = self._driver.peer(peer)
        return self._peers[peer][0]

    def _allocate_on(self, peer: int, size: int) -> int:
        self._driver.call("cuCtxSetCurrent", self._peer(peer))
        try:
            return self._allocate(size)
        finally:
            self._driver.call("cuCtxSetCurrent", self._driver.context)


class _Cublas:
    """The cuBLAS library, with a handle for a stream."""

    def __init__(self, stream: c_void_p, newest: int) -> None:
        self._library = libraries.load_cublas(os.environ, newest)
        self._handle = c_void_p()
        self._call("cublasCreate_v2", byref(self._handle))
        self._call("cublasSetStream_v2", self._handle, stream)
        version = c_int()
        self._call("cublasGetVersion_v2", self._handle, byref(version))
        self.version = _version_name(version.value)

    def gemm(
        self, shape: tuple[int, int, int], kind: _Kind, matrices: tuple[int, int, int]
    ) -> Call:
        """Return a GEMM of matrices stored by rows, at these addresses."""
        rows, columns, inner = shape
        a, b, c = matrices
        one, zero = kind.factor(1), kind.factor(0)
        # cuBLAS stores matrices by columns: in its view this is C' = B' A'.
        arguments = (
            *(self._handle, _NOT_TRANSPOSED, _NOT_TRANSPOSED, columns, rows, inner, byref(one)),
            *(b, kind.data, columns),
            *(a, kind.data, inner),
            byref(zero),
            *(c, kind.data, columns),
            *(kind.compute, _DEFAULT_ALGORITHM),
        )
        self._call("cublasGemmEx", *arguments)
        return prepared(self._function("cublasGemmEx"), *arguments)

    def _call(self, name: str, *arguments: Any) -> None:
        status = self._function(name)(*arguments)
        if status == _ALLOCATION_FAILED:
            raise OutOfMemoryError
        if status:
            raise RefusedError(f"{name} failed (cuBLAS status {status})")

    def _function(self, name: str) -> Any:
        found = getattr(self._library, name)
        found.argtypes, found.restype = SIGNATURES[name], c_int
        return found


def _version_name(number: int) -> str:
    """Return ``12.8.4`` for 120804."""
    return f"{number // 10_000}.{number // 100 % 100}.{number % 100}"
