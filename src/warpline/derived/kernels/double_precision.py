"""Kernels that compute in double precision, by their names."""

from __future__ import annotations

from warpline.derived import derived
from warpline.derived.kernels.categories import operation_categories
from warpline.derived.kernels.named import kernels_named
from warpline.derived.time_parts import TimePart
from warpline.lazy import lazy_pattern
from warpline.ops.arrays import BoolArray
from warpline.trace import Trace

# Names that libraries give kernels in FP64, real or complex: CuPy's and XLA's types, cuBLAS and
# CUTLASS (dgemm, z884gemm, f64f64_f64f64_f64), cuFFT (dpRadix).
_OF_LIBRARIES = lazy_pattern(
    r"complex128|float64|f64f64"
    r"|(?<![a-z])[dz](?:gemm|gemv|symm|hemm|syrk|herk|trsm|trmm|ger|dot|axpy|scal|nrm2|getrf|potrf)"
    r"|_[dz]\d*884\d*gemm|tensorop_[dz]\d|(?<![a-z])dp(?:Radix|Vector|Real|Bluestein)"
)
_DOUBLE = lazy_pattern(r"(?<!\w)(?:double[1-4]?|cuDoubleComplex)(?!\w)")
# Kernels in other types also have scalars in FP64, such as the learning rate of an optimizer.
_OTHER = lazy_pattern(
    r"(?<!\w)(?:float[1-4]?|(?:__)?half2?|cuFloatComplex|Half|BFloat16|__nv_bfloat16\w*)(?!\w)"
    r"|f16|f32"
)
# The type that a template is for is the first of its arguments.
_TEMPLATE_OF_DOUBLE = lazy_pattern(r"(?:void )?(?:[\w:]|<unnamed>)+<double[,>]")


@derived
def double_kernels(trace: Trace) -> BoolArray:
    """Return which operations are kernels in FP64, by name, except collectives.

    Shape (operations,). A kernel whose name has other floating-point types, too, does not count,
    unless a library has named it after its type, or the other types are only its parameters' and
    its template is for FP64.
    """
    found = kernels_named(trace, is_double)
    found &= operation_categories(trace) != TimePart.COLLECTIVE
    return found


def is_double(name: str) -> bool:
    """Return whether the name of a kernel indicates FP64."""
    if _OF_LIBRARIES.search(name):
        return True
    if _TEMPLATE_OF_DOUBLE.match(name):
        name = name[: name.rfind(">(") + 1] or name
    return bool(_DOUBLE.search(name)) and not _OTHER.search(name)
