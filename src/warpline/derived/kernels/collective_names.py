"""Operation, algorithm, protocol and type of a collective kernel, parsed from its name."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from warpline.derived.kernels.rules import kernel_class, parse_name
from warpline.lazy import lazy_pattern

# NCCL kernel names: ncclDevKernel_AllReduce_Sum_f32_RING_LL since 2.19, before that
# ncclKernel_AllReduce_RING_LL_Sum_float, and up to 2.7 ncclAllReduceRingLLKernel_sum_f32.
# ncclSymkDevKernel_AllReduce_RSxLD_AGxST_sum_f32 uses symmetric memory.
_NCCL = lazy_pattern(r"nccl(symk?|)(?:dev)?kernel(?:debug)?_", re.IGNORECASE)
_EARLY_NCCL = lazy_pattern(r"nccl([A-Za-z]+?)(Ring|Tree)(LL128|LL|)Kernel_?(\w*)")
_OPERATIONS = {
    "allreduce": "AllReduce",
    "allgather": "AllGather",
    "allgatherv": "AllGatherV",
    "reducescatter": "ReduceScatter",
    "reduce": "Reduce",
    "broadcast": "Broadcast",
    "bcast": "Broadcast",
    "sendrecv": "SendRecv",
    "alltoall": "AllToAll",
    "alltoallv": "AllToAll",
    "alltoallpivot": "AllToAll",
    "send": "Send",
    "recv": "Recv",
    "barrier": "Barrier",
    "gather": "Gather",
    "scatter": "Scatter",
}
_REDUCING = {"AllReduce", "ReduceScatter", "Reduce"}
_REDUCTIONS = {
    "sum": "Sum",
    "prod": "Prod",
    "min": "Min",
    "max": "Max",
    "minmax": "MinMax",
    "premulsum": "PreMulSum",
    "sumpostdiv": "SumPostDiv",
}
_PROTOCOLS = {"ll": "LL", "ll128": "LL128", "simple": "SIMPLE"}
_ALGORITHMS = {"ring", "tree", "nvls", "collnet", "pat", "direct", "chain"}
_TYPES = {
    "bf16": "bf16",
    "bfloat16": "bf16",
    "f16": "f16",
    "half": "f16",
    "float16": "f16",
    "f32": "f32",
    "float": "f32",
    "float32": "f32",
    "f64": "f64",
    "double": "f64",
    "float64": "f64",
    "f8e4m3": "f8e4m3",
    "float8e4m3": "f8e4m3",
    "f8e5m2": "f8e5m2",
    "float8e5m2": "f8e5m2",
    "i8": "i8",
    "int8": "i8",
    "u8": "u8",
    "uint8": "u8",
    "i32": "i32",
    "int32": "i32",
    "u32": "u32",
    "uint32": "u32",
    "i64": "i64",
    "int64": "i64",
    "u64": "u64",
    "uint64": "u64",
}
# PyTorch's names.
_FRAMEWORK_TYPES = {"int": "i32", "long": "i64", "char": "i8", "byte": "u8"}
_ELEMENT_TYPES = (
    ("bfloat16", "bf16"),
    ("__half", "f16"),
    ("c10::half", "f16"),
    ("half", "f16"),
    ("float8_e4m3", "f8e4m3"),
    ("float", "f32"),
    ("double", "f64"),
)


@dataclass(frozen=True)
class CollectiveKernel:
    """A collective kernel's details; None for those not in its name.

    Attributes:
        operation: "AllReduce", "AllGather", "ReduceScatter", "Broadcast", "SendRecv", "AllToAll",
            "Dispatch", "Combine", "Barrier" ...
        algorithm: "RING", "TREE", "NVLS", "NVLS_TREE", "COLLNET_DIRECT", "COLLNET_CHAIN", "PAT",
            "one-shot", "two-shot"; for NCCL's symmetric kernels, the scheme: "RSxLD_AGxST".
        protocol: "LL", "LL128", "SIMPLE", "MULTIMEM", "LAMPORT".
        dtype: Element type: "f32", "bf16" ...
        reduction: "Sum", "Prod", "MinMax" ...
        family: "nccl", "rccl", "nvshmem", "deepep", "custom-all-reduce", "symmetric-memory" ...
        is_representative: Whether the name represents several functions. NCCL compiles one
            kernel, named after LL, that also runs the other protocols. RING in its name
            represents all algorithms except TREE, and the reduction all reductions.
    """

    operation: str | None = None
    algorithm: str | None = None
    protocol: str | None = None
    dtype: str | None = None
    reduction: str | None = None
    family: str = "unknown"
    is_representative: bool = False


def collective_kernel(name: str) -> CollectiveKernel | None:
    """Return the details of a collective kernel from its name; None for other kernels.

    Raises:
        InputError: The file named by WARPLINE_KERNEL_RULES cannot be used.
    """
    kind = kernel_class(name)
    if kind.category != "collective":
        return None
    known = kind.collective
    family = known.get("family", "unknown")
    if family in {"nccl", "rccl"}:
        return _nccl(name, family)
    return CollectiveKernel(
        operation=known.get("operation"),
        algorithm=known.get("algorithm"),
        protocol=known.get("protocol"),
        dtype=_element_type(name),
        reduction=None,
        family=family,
    )


def _nccl(name: str, family: str) -> CollectiveKernel:
    base = _base_with_its_case(name)
    head = _NCCL.match(base)
    if head is None:
        return _early_nccl(base, family)
    first, _, rest = base[head.end() :].partition("_")
    operation = _OPERATIONS.get(first.lower())
    words = _words(rest)
    protocol = next((_PROTOCOLS[word] for word in words if word in _PROTOCOLS), None)
    algorithm = "_".join(word.upper() for word in words if word in _ALGORITHMS) or None
    if head.group(1):
        protocol, algorithm = "SYMMETRIC", _scheme(rest)
    dtype, reduction = _element(operation, words)
    is_representative = protocol == "LL"
    return CollectiveKernel(
        operation=operation,
        algorithm=algorithm,
        protocol=protocol,
        dtype=dtype,
        reduction=reduction,
        family=family,
        is_representative=is_representative,
    )


def _early_nccl(base: str, family: str) -> CollectiveKernel:
    parts = _EARLY_NCCL.match(base)
    if parts is None:
        return CollectiveKernel(family=family)
    operation = _OPERATIONS.get(parts.group(1).lower())
    words = _words(parts.group(4))
    protocol = parts.group(3) or "SIMPLE"
    algorithm = parts.group(2).upper()
    return CollectiveKernel(operation, algorithm, protocol, *_element(operation, words), family)


def _base_with_its_case(name: str) -> str:
    """Return the last part of a kernel's qualified name in original case; rules use lower case."""
    whole = parse_name(name)
    place = name[: len(whole.name) + 1].lower().find(whole.base)
    return name[place : place + len(whole.base)] if place >= 0 else whole.base


def _words(text: str) -> list[str]:
    """Return the words between underscores in lower case; int8_t and nv_bfloat16 are types."""
    plain = text.lower().replace("int8_t", "int8").replace("int32_t", "int32")
    return plain.replace("int64_t", "int64").split("_")


def _element(operation: str | None, words: Sequence[str]) -> tuple[str | None, str | None]:
    """Return element type and reduction.

    Operations that only move bytes are compiled for a single type, which is not that of the data.
    """
    if operation not in _REDUCING:
        return None, None
    dtype = next((_TYPES[word] for word in words if word in _TYPES), None)
    return dtype, next((_REDUCTIONS[word] for word in words if word in _REDUCTIONS), None)


def _scheme(rest: str) -> str | None:
    """Return the scheme of a symmetric-memory kernel, as spelled by NCCL."""
    kept = [
        word for word in rest.split("_") if word.lower() not in _REDUCTIONS and word not in _TYPES
    ]
    return "_".join(kept) or None


def _element_type(name: str) -> str | None:
    """Return the element type from the first template argument."""
    arguments = name.lower().partition("<")[2][:80]
    first = arguments.split(",")[0]
    return next((short for long, short in _ELEMENT_TYPES if long in first), None)


def operation_name(recorded: str | None) -> str | None:
    """Return the normalized name of an operation: ncclAllReduce is AllReduce.

    Names of other forms are returned unchanged.
    """
    if recorded is None:
        return None
    plain = recorded.lower().removeprefix("p").removeprefix("nccl").strip("_").replace("_", "")
    plain = plain.removesuffix("coalesced").removesuffix("base").removesuffix("inplace")
    return _OPERATIONS.get(plain, recorded)


def element_type(recorded: str | None) -> str | None:
    """Return the normalized name of an element type: BFloat16 is bf16."""
    if recorded is None:
        return None
    plain = recorded.lower().removeprefix("nccl").removesuffix("_t")
    return _TYPES.get(_FRAMEWORK_TYPES.get(plain, plain), recorded)
