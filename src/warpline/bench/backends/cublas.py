"""GEMMs of cuBLAS through ctypes."""

from __future__ import annotations

import os
from collections.abc import Mapping
from ctypes import byref, c_double, c_float, c_int, c_void_p
from typing import Any, NamedTuple

from warpline.bench import libraries
from warpline.bench.driver import prepared
from warpline.bench.refusals import OutOfMemoryError, RefusedError
from warpline.bench.timing import Call

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


class Functions:
    """The functions of a library whose status is one of cuBLAS.

    Args:
        library: The library.
        signatures: The parameters of each function.
    """

    def __init__(self, library: Any, signatures: Mapping[str, tuple[type, ...]]) -> None:
        self._library = library
        self._signatures = signatures

    def __getitem__(self, name: str) -> Any:
        """Return a function."""
        found = getattr(self._library, name)
        found.argtypes, found.restype = self._signatures[name], c_int
        return found

    def call(self, name: str, *arguments: Any) -> None:
        """Call a function; raises what `check` raises."""
        check(name, self[name](*arguments))


class Cublas:
    """The library, with a handle for a stream.

    Args:
        stream: The stream.
        newest: The highest version of CUDA that the driver supports.

    Attributes:
        version: Its version.

    Raises:
        RefusedError: It is not there or cannot be used.
    """

    def __init__(self, stream: c_void_p, newest: int) -> None:
        library = libraries.load_cublas("libcublas", os.environ, newest)
        self._functions = Functions(library, SIGNATURES)
        self._handle = c_void_p()
        self._functions.call("cublasCreate_v2", byref(self._handle))
        self._functions.call("cublasSetStream_v2", self._handle, stream)
        version = c_int()
        self._functions.call("cublasGetVersion_v2", self._handle, byref(version))
        self.version = version_name(version.value)

    def sizes(self, dtype: str) -> tuple[int, int]:
        """Return the bytes of an element of A and B, and of C."""
        return (_KINDS[dtype].size,) * 2

    def gemm(self, shape: tuple[int, int, int], dtype: str, matrices: tuple[int, int, int]) -> Call:
        """Return a GEMM of matrices stored by rows, at these addresses."""
        rows, columns, inner = shape
        kind = _KINDS[dtype]
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
        self._functions.call("cublasGemmEx", *arguments)
        return prepared(self._functions["cublasGemmEx"], *arguments)


def check(name: str, status: int) -> None:
    """Raise the error of the status of a function: OutOfMemoryError or RefusedError."""
    if status == _ALLOCATION_FAILED:
        raise OutOfMemoryError
    if status:
        raise RefusedError(f"{name} failed (cuBLAS status {status})")


def version_name(number: int) -> str:
    """Return ``12.8.4`` for 120804."""
    return f"{number // 10_000}.{number // 100 % 100}.{number % 100}"
