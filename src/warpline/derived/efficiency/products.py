"""The arithmetic of GEMM and convolution kernels: types, Tensor Cores, and alignment, by name."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from warpline.derived import derived
from warpline.derived.kernels.categories import operation_categories
from warpline.derived.kernels.nouns import PLAIN_FP32
from warpline.derived.texts import number_texts
from warpline.derived.time_parts import TimePart
from warpline.derived.work.operations import operations
from warpline.lazy import lazy_pattern
from warpline.ops.arrays import I32, I64, repeated
from warpline.trace import Trace
from warpline.vocabulary import Vocabulary

_LONGEST_NAME = 4096
# Names that cuDNN gives FP32 convolutions without Tensor Cores.
_PLAIN_CONVOLUTION = lazy_pattern(
    r"_scudnn_|^scudnn_|(?:dgrad|wgrad_alg0|wgrad_alg1|dgrad2d|wgrad2d)\w*_engine<float"
    r"|implicit_convolve_sgemm<float|implicit_convolveNd_sgemm<float|explicit_convolve_sgemm<float"
)
# Convolutions that transform tensors, and multiply less than direct ones.
_TRANSFORM = lazy_pattern(r"fft[12]d_|cf32cf32|cgemm|winograd", re.IGNORECASE)
_TENSOR = lazy_pattern(
    r"nvjet|tensorop|wmma|wgmma|h884|s884|h1688|s1688|s16816|h16816|s161616|h161616|hmma|imma"
    r"|xmma_\w*(?:b?f16|tf32|e4m3|e5m2|[su]?i8)|gemm_\w*(?:e4m3|e5m2|fp8)|umma|_MxE[24]m"
)
_MISALIGNED = lazy_pattern(
    r"(?:cutlass|sm)_?(\d\d)\w{0,200}?(?:tensorop|wmma|xmma)\w{0,200}?_aligna?([124])(?!\d)"
)
_SIXTEEN_BITS = lazy_pattern(r"b?f16|h1688|h16816|s16816|h884|s884|161616")
_OLD_INSTRUCTIONS = lazy_pattern(r"(?:cutlass|sm)_?7\d|wmma")
_OLD_OF_SIXTEEN_BITS = lazy_pattern(r"s1688|h1688")  # TF32 has s1688 since the A100
_TF32 = lazy_pattern(r"tf32|tensorop_s1688gemm_\d|nvjet(?:_sm\d+)?_s(?!m\d)")
_TILE = lazy_pattern(r"(?:tilesize|_)(\d{2,3})x(\d{2,3})(?:x|_)")
# Kernels whose blocks compute several tiles each: their grids do not show the size of the work.
PERSISTENT = lazy_pattern(r"nvjet|segment_k|stream_?k|warpgroupsize|persist", re.IGNORECASE)
_SPLIT_SUM = lazy_pattern(r"splitk\w*reduce|split_k_reduce|reduce_?splitk", re.IGNORECASE)


class Arithmetic(Vocabulary):
    """What a GEMM or convolution kernel computes with."""

    UNKNOWN = "unknown", "the name does not say"
    TENSOR = "tensor", "Tensor Cores"
    PLAIN = "plain", "FP32 without Tensor Cores"
    TRANSFORM = "transform", "FP32 by FFT or Winograd's algorithm"


class ProductName(NamedTuple):
    """What the name of a GEMM or convolution kernel says.

    Attributes:
        arithmetic: What it computes with.
        alignment: Elements to which its operands are aligned, if fewer than Tensor Cores need for
            full speed; 0 otherwise.
        is_sixteen_bit: Whether its operands have 16 bits.
        is_tf32: Whether it uses TF32.
        is_old: Whether it uses instructions of GPUs before the A100.
        tile: Elements of the result that a block computes; 0 if unknown or if blocks compute more
            than one tile.
        is_convolution: Whether it is only used for convolutions.
        is_sum: Whether it only adds up parts of another kernel.
    """

    arithmetic: Arithmetic = Arithmetic.UNKNOWN
    alignment: int = 0
    is_sixteen_bit: bool = False
    is_tf32: bool = False
    is_old: bool = False
    tile: int = 0
    is_convolution: bool = False
    is_sum: bool = False


@lru_cache(maxsize=1 << 14)
def product_name(name: str) -> ProductName:
    """Return what the name of a GEMM or convolution kernel says."""
    text = name[:_LONGEST_NAME]
    is_sixteen_bit = _SIXTEEN_BITS.search(text) is not None
    return ProductName(
        arithmetic=_arithmetic(text),
        alignment=_alignment(text, is_sixteen_bit=is_sixteen_bit),
        is_sixteen_bit=is_sixteen_bit,
        is_tf32=_TF32.search(text) is not None,
        is_old=_is_old(text, is_sixteen_bit=is_sixteen_bit),
        tile=_tile(text),
        is_convolution=_PLAIN_CONVOLUTION.search(text) is not None,
        is_sum=_SPLIT_SUM.search(text) is not None,
    )


def _arithmetic(text: str) -> Arithmetic:
    if _TRANSFORM.search(text):
        return Arithmetic.TRANSFORM
    if PLAIN_FP32.search(text) or _PLAIN_CONVOLUTION.search(text):
        return Arithmetic.PLAIN
    return Arithmetic.TENSOR if _TENSOR.search(text) else Arithmetic.UNKNOWN


def _alignment(text: str, *, is_sixteen_bit: bool) -> int:
    found = _MISALIGNED.search(text)
    if found is None or (found[2] == "4" and not is_sixteen_bit):
        return 0
    return int(found[2])


def _is_old(text: str, *, is_sixteen_bit: bool) -> bool:
    is_old = _OLD_INSTRUCTIONS.search(text) is not None
    return is_old or (is_sixteen_bit and _OLD_OF_SIXTEEN_BITS.search(text) is not None)


def _tile(text: str) -> int:
    found = _TILE.search(text)
    if found is None or PERSISTENT.search(text):
        return 0
    return int(found[1]) * int(found[2])


class Products(NamedTuple):
    """The GEMM and convolution kernels among the GPU operations.

    Attributes:
        names: What the distinct names of kernels say; the last one stands for other operations.
        name: Shape (operations,), int64, places in `names`.
    """

    names: tuple[ProductName, ...]
    name: I32

    def fact(self, attribute: str) -> I64:
        """Return an attribute of each operation's name as a number, shape (operations,)."""
        values = np.array([int(getattr(each, attribute)) for each in self.names], np.int64)
        if not values.any():
            return repeated(values[:1], len(self.name))
        return values[self.name]


@derived
def products(trace: Trace) -> Products:
    """Return what the names of GEMM and convolution kernels say.

    Operations of other categories have a name that says nothing.
    """
    work = operations(trace)
    codes = [TimePart.GEMM, TimePart.CONVOLUTION]
    places = np.flatnonzero(np.isin(operation_categories(trace), codes))
    name = np.full(len(work), -1, np.int32)
    if not len(places):
        return Products((ProductName(),), name)
    ids = trace.columns("kernel", "name_id")["name_id"].values[work.row[places]]
    number, distinct = number_texts(ids, len(trace.strings))
    name[places] = number
    names = map(product_name, trace.strings.texts(distinct.tolist()))
    return Products((*names, ProductName()), name)
