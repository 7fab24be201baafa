"""FP8 GEMMs of cuBLASLt through ctypes; cuBLAS has none."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Mapping
from ctypes import byref, c_float, c_int, c_int8, c_int64, c_size_t, c_uint64, c_void_p
from typing import Any

from warpline.bench import libraries, operands
from warpline.bench.backends.cublas import Functions, check, version_name
from warpline.bench.driver import prepared
from warpline.bench.refusals import RefusedError
from warpline.bench.timing import Call

_FP32, _BF16, _E4M3 = 0, 14, 28  # cudaDataType
_COMPUTE_FP32, _TRANSPOSED = 68, 1
_TRANSPOSE_A, _FAST_ACCUMULATION = 3, 25  # attributes of a GEMM
_WORKSPACE_LIMIT = 1  # attribute of a preference
_NOT_SUPPORTED = 15
_WORKSPACE_BYTES = 32 << 20  # as cuBLAS itself takes on Hopper

# The parameters of each function; all but cublasLtGetVersion return a cublasStatus.
SIGNATURES: Mapping[str, tuple[type, ...]] = {
    "cublasLtCreate": (c_void_p,),
    "cublasLtMatmulDescCreate": (c_void_p, c_int, c_int),
    "cublasLtMatmulDescSetAttribute": (c_void_p, c_int, c_void_p, c_size_t),
    "cublasLtMatrixLayoutCreate": (c_void_p, c_int, c_uint64, c_uint64, c_int64),
    "cublasLtMatmulPreferenceCreate": (c_void_p,),
    "cublasLtMatmulPreferenceSetAttribute": (c_void_p, c_int, c_void_p, c_size_t),
    "cublasLtMatmulAlgoGetHeuristic": (*[c_void_p] * 7, c_int, c_void_p, c_void_p),
    "cublasLtMatmul": (
        *(c_void_p, c_void_p, c_void_p),
        *(c_void_p, c_void_p),  # A and its layout
        *(c_void_p, c_void_p),
        c_void_p,
        *(c_void_p, c_void_p),
        *(c_void_p, c_void_p),
        *(c_void_p, c_void_p, c_size_t, c_void_p),
    ),
}


class Heuristic(ctypes.Structure):
    """``cublasLtMatmulHeuristicResult_t``: a way to compute a GEMM."""

    _fields_ = (
        ("algo", c_uint64 * 8),
        ("workspaceSize", c_size_t),
        ("state", c_int),
        ("wavesCount", c_float),
        ("reserved", c_int * 4),
    )


class CublasLt:
    """The library, with a handle and memory to work with.

    Args:
        stream: The stream.
        newest: The highest version of CUDA that the driver supports.
        allocate: Allocates memory of the GPU, which stays.

    Attributes:
        version: Its version.

    Raises:
        RefusedError: It is not there or cannot be used.
    """

    def __init__(self, stream: c_void_p, newest: int, allocate: Callable[[int], int]) -> None:
        library = libraries.load_cublas("libcublasLt", os.environ, newest)
        self._functions = Functions(library, SIGNATURES)
        self._stream = stream
        self._handle = self._created("cublasLtCreate")
        get_version = library.cublasLtGetVersion
        get_version.restype = c_size_t
        self.version = version_name(get_version())
        self._workspace = allocate(_WORKSPACE_BYTES)

    def sizes(self, dtype: str) -> tuple[int, int]:
        """Return the bytes of an element of A and B, and of C."""
        return 1, 2

    def gemm(self, shape: tuple[int, int, int], dtype: str, matrices: tuple[int, int, int]) -> Call:
        """Return a GEMM of E4M3 numbers with a BF16 result, with fast accumulation.

        A is stored by rows, B and C by columns: the one layout for FP8 on Hopper.
        """
        operands.check_fp8_shape(shape)
        rows, columns, inner = shape
        a, b, c = matrices
        layouts = [
            self._created("cublasLtMatrixLayoutCreate", kind, height, width, height)
            for kind, height, width in (
                (_E4M3, inner, rows),
                (_E4M3, inner, columns),
                (_BF16, rows, columns),
            )
        ]
        product = self._created("cublasLtMatmulDescCreate", _COMPUTE_FP32, _FP32)
        self._set("cublasLtMatmulDescSetAttribute", product, _TRANSPOSE_A, c_int(_TRANSPOSED))
        self._set("cublasLtMatmulDescSetAttribute", product, _FAST_ACCUMULATION, c_int8(1))
        best = self._heuristic(product, layouts)
        one, zero = c_float(1), c_float(0)
        arguments = (
            *(self._handle, product, byref(one)),
            *(a, layouts[0]),
            *(b, layouts[1]),
            byref(zero),
            *(c, layouts[2]),
            *(c, layouts[2]),
            *(byref(best), self._workspace, _WORKSPACE_BYTES, self._stream),
        )
        self._functions.call("cublasLtMatmul", *arguments)
        return prepared(self._functions["cublasLtMatmul"], *arguments)

    def _heuristic(self, product: c_void_p, layouts: list[c_void_p]) -> Heuristic:
        """Return the way that the library expects to be the fastest."""
        preference = self._created("cublasLtMatmulPreferenceCreate")
        limit = c_size_t(_WORKSPACE_BYTES)
        self._set("cublasLtMatmulPreferenceSetAttribute", preference, _WORKSPACE_LIMIT, limit)
        found, count = Heuristic(), c_int()
        name = "cublasLtMatmulAlgoGetHeuristic"
        status = self._functions[name](
            *(self._handle, product, *layouts, layouts[2], preference),
            *(1, byref(found), byref(count)),
        )
        if status == _NOT_SUPPORTED or (status == 0 and (count.value == 0 or found.state)):
            raise RefusedError("cuBLASLt has no FP8 GEMM for this GPU and size")
        check(name, status)
        return found

    def _created(self, name: str, *arguments: Any) -> c_void_p:
        made = c_void_p()
        self._functions.call(name, byref(made), *arguments)
        return made

    def _set(self, name: str, owner: c_void_p, attribute: int, value: Any) -> None:
        self._functions.call(name, owner, attribute, byref(value), ctypes.sizeof(value))
