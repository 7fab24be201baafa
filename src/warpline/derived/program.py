"""What kind of program a trace shows: its framework, and how the program uses it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np

from warpline.derived import derived
from warpline.derived.ranges.names import range_names
from warpline.lazy import lazy_pattern
from warpline.ops.group import distinct_values
from warpline.schema.ranges import MODULE_DOMAIN
from warpline.trace import Trace

if TYPE_CHECKING:
    from warpline.result import Program

# An optimizer as a word, also in CamelCase: torch.compile calls every module OptimizedModule.
OPTIMIZER = lazy_pattern(
    r"(?:(?<![A-Za-z])(?:optim|OPTIM)|(?<![A-Z])Optim)(?:i[sz]ers?|I[SZ]ERS?)?(?![a-z])"
)
_BACKWARD = lazy_pattern(
    r"[Bb]ackward|autograd::engine|pt_autograd|_bwd|dgrad|wgrad|multi_tensor_apply"
)
# PyTorch's own kernels, also mangled ones, and those that its compiler writes.
_PYTORCH_KERNELS = lazy_pattern(
    r"\b(?:at|c10|at_cuda_detail)::|_ZNK?(?:2at|3c10)|^triton_[a-z]+_fused_"
)
_PYTORCH_RANGES = lazy_pattern(
    r"aten::|autograd::engine::|(?:torch:)?Optimizer\.(?:step|zero_grad)#|ProfilerStep#"
    rf"|{re.escape(MODULE_DOMAIN)}:"
    r"|Torch-Compiled Region|DistributedDataParallel\.|nccl:[a-z_]+$"
)
_PYTORCH_THREADS = lazy_pattern(r"pt_[a-z]+")
# What torch.compile makes: Inductor's kernels, and the ranges of its compiled functions.
_COMPILED_KERNELS = lazy_pattern(r"triton_(?:poi|red|per|tem|for|spl|unk)_|triton_(?:mm|bmm)")
_COMPILED_RANGES = ("Torch-Compiled Region", "CompiledFxGraph")
# XLA names its kernels after the kind of fusion, or after the one instruction that they wrap.
_JAX_KERNELS = lazy_pattern(
    r"(?:(?:loop|input)_(?:\w+_)?|gemm_)fusion(?:_|$)"
    r"|wrapped_(?:add|broadcast|concatenate|convert|copy|gather|multiply|pad|reduce|reverse|scatter"
    r"|slice|sort|transpose)(?:_\d+)?$"
)
_JAX_RANGES = lazy_pattern(r"TSL:|XlaModule\b|Thunk:|PjitFunction\b|PjRt|jit\(")
# CuPy's and Numba's.
_OTHER_PYTHON_KERNELS = lazy_pattern(r"cupy_|cudapy::|_ZN6cudapy")
_PYTHON = lazy_pattern(r"(?:.*/)?python[\d.]*$")
_JAX_THREADS = lazy_pattern(r"py_xla|tf_xla|jax|pjrt", re.IGNORECASE)
_LEAST_COMPILED = 0.05  # of the kernels
_LONGEST_NAME = 4096  # the start of a name identifies it; templates make names of many kB


@derived
def program_kind(trace: Trace) -> Program | None:
    """Return the framework of the program, "cuda" if it has none, or None if unknown.

    Kernels decide if they can, then ranges and operators, then names of threads. A trace whose
    kernels show no framework is a program in CUDA C++, Fortran, or the like. In Python a framework
    may only call libraries, so there it is CuPy or Numba, or unknown. One without kernels, for
    example of CUDA graphs traced at graph level, shows nothing by that.
    """
    kernels = _names(trace, "kernel")
    shown = (
        (kernels, _PYTORCH_KERNELS.search, _JAX_KERNELS.match),
        (_labels(trace), _PYTORCH_RANGES.match, _JAX_RANGES.match),
        (_names(trace, "thread"), _PYTORCH_THREADS.match, _JAX_THREADS.match),
    )
    for names, is_pytorch, is_jax in shown:
        if any(map(is_pytorch, names)):
            return "pytorch"
        if any(map(is_jax, names)):
            return "jax"
    if is_python(trace) and not any(map(_OTHER_PYTHON_KERNELS.match, kernels)):
        return None
    return "cuda" if kernels else None


@derived
def is_training(trace: Trace) -> bool:
    """Return whether the trace shows a backward pass or an optimizer."""
    names = (_labels(trace), _names(trace, "thread"), _names(trace, "kernel"))
    return any(
        _BACKWARD.search(name) or OPTIMIZER.search(name) for of_kind in names for name in of_kind
    )


@derived
def is_compiled(trace: Trace) -> bool:
    """Return whether torch.compile made much of the program.

    Eager programs compile a mask or two, so kernels decide where there are any, else ranges.
    """
    if not trace.has("kernel") or not trace.row_count("kernel"):
        return has_range(trace, *_COMPILED_RANGES)
    ids = trace.columns("kernel", "name_id")["name_id"].filled(-1)
    distinct, counts = np.unique(ids[ids >= 0], return_counts=True)
    names = (text[:_LONGEST_NAME] for text in trace.strings.texts(distinct.tolist()))
    compiled = np.fromiter((bool(_COMPILED_KERNELS.match(name)) for name in names), np.bool_)
    number = int(counts[compiled].sum())
    return number > 0 and number >= _LEAST_COMPILED * len(ids)


def has_range(trace: Trace, *texts: str) -> bool:
    """Return whether the name of a range or operator contains one of some texts."""
    return any(text in name for text in texts for name in _labels(trace))


@derived
def has_modules(trace: Trace) -> bool:
    """Return whether calls of PyTorch modules were recorded."""
    texts = range_names(trace).texts if trace.has("range") else ()
    return any(text.startswith(f"{MODULE_DOMAIN}:") for text in texts if text)


@derived
def is_python(trace: Trace) -> bool:
    """Return whether a process of the program is named like a Python interpreter."""
    return any(map(_PYTHON.match, _names(trace, "process")))


@derived
def calls_hip(trace: Trace) -> bool:
    """Return whether the API calls of the program are HIP's, on AMD GPUs."""
    return any(name.startswith("hip") for name in _names(trace, "api_call"))


@derived
def _labels(trace: Trace) -> tuple[str, ...]:
    """Return the names of ranges, ``domain:name``, and of operators."""
    ranges = range_names(trace).texts if trace.has("range") else ()
    return (*_names(trace, "op"), *(text[:_LONGEST_NAME] for text in ranges if text))


def _names(trace: Trace, table: str) -> list[str]:
    """Return the distinct names in a table, long ones truncated."""
    if not trace.has(table):
        return []
    ids = distinct_values(trace.columns(table, "name_id")["name_id"].filled(-1))
    return [text[:_LONGEST_NAME] for text in trace.strings.texts(ids[ids >= 0].tolist())]
