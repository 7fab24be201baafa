"""Benchmarks through the CUDA driver and cuBLAS, without a framework."""

from __future__ import annotations

from ctypes import c_void_p
from typing import Any

import numpy as np

from warpline.bench import operands
from warpline.bench.backends.cublas import Cublas
from warpline.bench.backends.cublas_lt import CublasLt
from warpline.bench.driver import Driver, prepared
from warpline.bench.timing import Call

_EMPTY_KERNEL = b""".version 6.0
.target sm_50
.address_size 64
.visible .entry empty() { ret; }
"""


class Loaded:
    """The backend; see `Backend`."""

    launched = "empty kernel"

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self.stream = driver.stream()
        self._cublas: Cublas | None = None
        self._cublas_lt: CublasLt | None = None
        self._kernel: c_void_p | None = None
        self._peers: dict[int, tuple[c_void_p, bool]] = {}
        self._memory: list[int] = []
        self._pinned: list[int] = []
        self._graphs: list[c_void_p] = []
        self.versions: dict[str, str] = {}

    def gemm(self, shape: tuple[int, int, int], dtype: str) -> Call:
        """Return a GEMM."""
        rows, columns, inner = shape
        library = self._library(dtype)
        item, result_item = library.sizes(dtype)
        a = self._allocate(rows * inner * item)
        b = self._allocate(inner * columns * item)
        c = self._allocate(rows * columns * result_item)
        self._fill(a, rows * inner, dtype)
        self._fill(b, inner * columns, dtype)
        return library.gemm(shape, dtype, (a, b, c))

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

    def _library(self, dtype: str) -> Cublas | CublasLt:
        """Return the library that has GEMMs of a type: FP8 is in cuBLASLt only."""
        newest = self._driver.cuda_version() // 1000
        if dtype == "fp8":
            if self._cublas_lt is None:
                self._cublas_lt = CublasLt(self.stream, newest, self._driver.allocate)
                self.versions["cublaslt"] = self._cublas_lt.version
            return self._cublas_lt
        if self._cublas is None:
            self._cublas = Cublas(self.stream, newest)
            self.versions["cublas"] = self._cublas.version
        return self._cublas

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
