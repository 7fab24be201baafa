"""Benchmarks through CuPy."""

from __future__ import annotations

from collections.abc import Mapping
from ctypes import c_void_p
from functools import partial
from typing import Any

import cupy
import numpy as np

from warpline.bench import operands
from warpline.bench.driver import Driver
from warpline.bench.refusals import RefusedError
from warpline.bench.timing import Call

_DTYPES = {"fp64": "float64", "fp32": "float32", "tf32": "float32", "fp16": "float16"}


class Loaded:
    """The backend; see `Backend`."""

    launched = "one-element add"

    def __init__(self, driver: Driver) -> None:
        self._index = driver.index
        cupy.cuda.Device(driver.index).use()
        self._stream = cupy.cuda.Stream(non_blocking=True)
        self._stream.use()
        self.stream = c_void_p(self._stream.ptr)
        self.versions: Mapping[str, str] = {
            "cupy": str(cupy.__version__),
            "cuda": _version_name(cupy.cuda.runtime.runtimeGetVersion()),
        }

    def gemm(self, shape: tuple[int, int, int], dtype: str) -> Call:
        """Return a GEMM."""
        rows, columns, inner = shape
        if dtype not in _DTYPES:
            raise RefusedError(f"CuPy has no GEMM of {dtype.upper()}")
        if _DTYPES[dtype] == "float32":
            _set_tf32(is_on=dtype == "tf32")
        a, b = _random(rows, inner, dtype), _random(inner, columns, dtype)
        c = cupy.empty((rows, columns), _DTYPES[dtype])
        return partial(a.dot, b, c)

    def copy(self, kind: str, size: int, peer: int) -> Call:
        """Return a copy."""
        way, _, memory = kind.partition("-")
        runtime = cupy.cuda.runtime
        here = cupy.ones(size, np.uint8)
        if way == "p2p":
            with cupy.cuda.Device(peer):
                there = cupy.ones(size, np.uint8)
                cupy.cuda.get_current_stream().synchronize()
            self._enable_peer(peer)
            call = partial(
                runtime.memcpyPeerAsync, there.data.ptr, peer, here.data.ptr, self._index, size
            )
            return _keeping(partial(call, self._stream.ptr), here, there)
        if way == "d2d":
            other: Any = cupy.ones(size, np.uint8)
            addresses = other.data.ptr, here.data.ptr
            direction = runtime.memcpyDeviceToDevice
        else:
            other = cupy.cuda.alloc_pinned_memory(size) if memory == "pinned" else _touched(size)
            host = other.ptr if memory == "pinned" else other.ctypes.data
            is_to_gpu = way == "h2d"
            addresses = (here.data.ptr, host) if is_to_gpu else (host, here.data.ptr)
            direction = runtime.memcpyHostToDevice if is_to_gpu else runtime.memcpyDeviceToHost
        call = partial(runtime.memcpyAsync, *addresses, size, direction, self._stream.ptr)
        return _keeping(call, here, other)

    def launch(self) -> Call:
        """Return the launch of the smallest kernel."""
        one = cupy.zeros(1, np.float32)
        return partial(cupy.add, one, one, one)

    def graph(self, kernels: int) -> Call:
        """Return the launch of a CUDA graph."""
        call = self.launch()
        call()  # compiles the kernel, which a capture does not allow
        self._stream.synchronize()
        self._stream.begin_capture()
        for _ in range(kernels):
            call()
        graph = self._stream.end_capture()
        return _keeping(partial(graph.launch, self._stream), call)

    def free(self) -> None:
        """Free the memory that is no longer used."""
        self._stream.synchronize()
        cupy.get_default_memory_pool().free_all_blocks()
        cupy.get_default_pinned_memory_pool().free_all_blocks()

    def _enable_peer(self, peer: int) -> None:
        runtime = cupy.cuda.runtime
        if not runtime.deviceCanAccessPeer(self._index, peer):
            return
        try:
            runtime.deviceEnablePeerAccess(peer)
        except runtime.CUDARuntimeError as error:
            if "PeerAccessAlreadyEnabled" not in str(error):
                raise


def _random(rows: int, columns: int, dtype: str) -> Any:
    flat = cupy.empty(rows * columns, _DTYPES[dtype])
    numbers = cupy.asarray(operands.numbers(dtype))
    for place, length in operands.pieces(len(flat)):
        flat[place : place + length] = numbers[:length]
    return flat.reshape(rows, columns)


def _set_tf32(*, is_on: bool) -> None:
    """Let GEMMs of FP32 numbers use TF32, as CUPY_TF32=1 does; RefusedError if too old."""
    linear_algebra: Any = cupy._core._routines_linalg  # noqa: SLF001 - there is no public function
    name = "COMPUTE_TYPE_TF32" if is_on else "COMPUTE_TYPE_DEFAULT"
    kind = getattr(linear_algebra, name, None)
    if kind is not None:
        linear_algebra.set_compute_type(np.float32, kind)
    elif is_on:
        raise RefusedError(f"CuPy {cupy.__version__} has no GEMM of TF32")


def _keeping(call: Call, *kept: object) -> Call:
    """Return a call that keeps the memory of the objects whose addresses it has."""
    keeper = partial(call)
    keeper.kept = kept  # type: ignore[attr-defined] # partial objects have a dictionary
    return keeper


def _touched(size: int) -> Any:
    return np.ones(size, np.uint8)


def _version_name(number: int) -> str:
    return f"{number // 1000}.{number % 1000 // 10}"
