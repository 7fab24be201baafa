"""What the names of elementwise kernels of PyTorch and CuPy say: tensors, bytes, elements."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

from warpline.lazy import lazy_pattern
from warpline.vocabulary import Vocabulary

_LONGEST_NAME = 4096
_BYTES = {
    "bool": 1,
    "char": 1,
    "signed char": 1,
    "unsigned char": 1,
    "c10::Float8_e4m3fn": 1,
    "c10::Float8_e5m2": 1,
    "short": 2,
    "c10::Half": 2,
    "c10::BFloat16": 2,
    "int": 4,
    "float": 4,
    "long": 8,
    "double": 8,
}
# CuPy: cupy_add__float32_float_float32 adds a scalar to an array; the last type is the result's.
_CUPY = lazy_pattern(r"cupy_([a-z0-9_]+?)__([a-z0-9_]+)")
_CUPY_OTHERS = lazy_pattern(
    r"(?:nan)?(?:sum|prod|mean|var|std|cumsum|cumprod)|a?(?:max|min)(?!imum)|arg|all$|any$"
    r"|take|scatter|getitem|where|copy_?from"
)
_CUPY_ARRAY = lazy_pattern(r"(?:bool|u?int(?:8|16|32|64)|float(?:16|32|64)|complex(?:64|128))")
_CUPY_SCALARS = frozenset({"float", "double", "int", "long", "complex"})
_KERNEL = lazy_pattern(
    r"\b(?:(vectorized)_elementwise_kernel<(?:\(int\))?(\d{1,3})(?!\d)"
    r"|(unrolled)_elementwise_kernel<"
    r"|(elementwise)_kernel<(?:\(int\))?\d+, ?(?:\(int\))?(\d{1,3})(?!\d))"
)
# Pointers of the tensors, output first: std::array<char*, 3ul>, at::detail::Array<char *, (int)3>.
_POINTERS = lazy_pattern(
    r"[aA]rray<char ?\*, ?(?:\([a-z ]+\))?(\d{1,3})(?:ul)?>(?:, ?(?:\(int\))?(\d{1,3})(?!\d))?"
)
_FUNCTOR = lazy_pattern(
    r"(BinaryFunctor|AUnaryFunctor|BUnaryFunctor|CUDAFunctor_\w+|CUDAFunctorOnSelf_\w+"
    r"|CompareFunctor|FillFunctor)<([^<>]*)"
)
_LAMBDA = lazy_pattern(r"lambda ?\(([^()]+)\)")
_TRANSCENDENTAL = lazy_pattern(
    r"gelu|sigmoid|silu|tanh|softplus|mish|_?exp|log|pow_|sqrt|erf|sin_|cos_|atan", re.IGNORECASE
)
# Copies into 16-bit floats have kernels of their own, which compute in FP32.
_HALF_COPY = lazy_pattern(r"(?:bfloat16|float16)_copy_kernel")


class ElementwiseKind(Vocabulary):
    """How an elementwise kernel addresses its tensors."""

    VECTORIZED = "vectorized", "contiguous tensors of aligned vectors"
    UNROLLED = "unrolled", "contiguous tensors, possibly cast"
    STRIDED = "strided", "any strides, including broadcast and transposed tensors"


class ElementwiseName(NamedTuple):
    """What the name of an elementwise kernel says.

    Attributes:
        kind: How it addresses tensors.
        vector: Template argument of vectorized kernels: the longest vector; 0 for others.
        per_thread: Elements of a thread; 0 if the name does not say, as for vectorized kernels.
        inputs: Number of tensors read.
        input_bytes: Bytes per element of each tensor read; 0 if unknown.
        output_bytes: Bytes per element written; 0 if unknown.
        is_copy: Whether it only copies or casts.
        is_transcendental: Whether it computes functions that take many instructions.
    """

    kind: ElementwiseKind
    vector: int
    per_thread: int
    inputs: int
    input_bytes: int
    output_bytes: int
    is_copy: bool
    is_transcendental: bool

    @property
    def bytes_per_element(self) -> int:
        """Bytes read and written per element; 0 if unknown."""
        if not self.output_bytes or (self.inputs and not self.input_bytes):
            return 0
        return self.inputs * self.input_bytes + self.output_bytes


@lru_cache(maxsize=1 << 14)
def elementwise_name(name: str) -> ElementwiseName | None:
    """Return what a kernel's name says; None unless it is elementwise, of PyTorch or CuPy."""
    if name.startswith("cupy_"):
        return _of_cupy(name)
    if "elementwise_kernel<" not in name:
        return None
    text = name[:_LONGEST_NAME]
    kernel = _KERNEL.search(text)
    if kernel is None:
        return None
    kind = ElementwiseKind.of(kernel[1] or kernel[3] or "strided")
    pointers = _POINTERS.search(text) if kind is not ElementwiseKind.STRIDED else None
    inputs, input_bytes, output_bytes = _tensors(text[kernel.end() :])
    if pointers is not None:
        inputs = max(int(pointers[1]) - 1, 0)
    if kind is ElementwiseKind.VECTORIZED:
        per_thread = 0
    elif kind is ElementwiseKind.UNROLLED:
        per_thread = int(pointers[2]) if pointers is not None and pointers[2] else 4
    else:
        per_thread = int(kernel[5])
    is_copy = "copy_kernel" in text
    if is_copy and "LoadWithCast" in text:
        input_bytes //= 2  # a cast to a wider type; the name has only the type computed in
    return ElementwiseName(
        kind=kind,
        vector=int(kernel[2] or 0),
        per_thread=per_thread,
        inputs=inputs,
        input_bytes=input_bytes,
        output_bytes=output_bytes,
        is_copy=is_copy,
        is_transcendental=_TRANSCENDENTAL.search(text) is not None,
    )


def _of_cupy(name: str) -> ElementwiseName | None:
    """Return what the name of a kernel of CuPy says: a thread per element, any strides."""
    found = _CUPY.fullmatch(name[:_LONGEST_NAME])
    if found is None or _CUPY_OTHERS.match(found[1]):
        return None
    types = [each for each in found[2].split("_") if each not in _CUPY_SCALARS]
    if not types or not all(map(_CUPY_ARRAY.fullmatch, types)):
        return None
    sizes = [int(re.sub(r"\D", "", each) or 8) // 8 for each in types]  # a bool is a byte
    return ElementwiseName(
        kind=ElementwiseKind.STRIDED,
        vector=0,
        per_thread=1,
        inputs=len(types) - 1,
        input_bytes=max(sizes[:-1], default=0),
        output_bytes=sizes[-1],
        is_copy=found[1] == "copy",
        is_transcendental=_TRANSCENDENTAL.search(f"{found[1]}_") is not None,
    )


def _tensors(text: str) -> tuple[int, int, int]:
    """Return the number of inputs, and the bytes of an element read and written."""
    functor = _FUNCTOR.search(text)
    if functor is None:
        return _tensors_of_lambda(text)
    kind, types = functor[1], [part.strip() for part in functor[2].split(",")]
    first = _BYTES.get(types[0], 0)
    if kind == "FillFunctor":
        return 0, 0, first
    if kind == "CompareFunctor":
        return 2, first, 1
    if kind.startswith("CUDAFunctor"):
        return (1 if kind.startswith("CUDAFunctorOnSelf") else 2), first, first
    written = _BYTES.get(types[2], 0) if len(types) > 2 else first
    return (2 if kind == "BinaryFunctor" else 1), first, written


def _tensors_of_lambda(text: str) -> tuple[int, int, int]:
    """Return the same of a kernel whose functor is a lambda: its arguments are the inputs."""
    found = _LAMBDA.findall(text)
    # Strided kernels end in a lambda of their own, which takes an index.
    typed = [each for each in found if each.strip() != "int"] or found
    if not typed:
        return 1, 0, 0
    types = [part.strip() for part in typed[-1].split(",")]
    sizes = [_BYTES.get(part, 0) for part in types]
    if _HALF_COPY.search(text):
        return 1, sizes[0], 2
    # A condition or a mask is narrower than what is written.
    return len(types), max(sizes), max(sizes)
