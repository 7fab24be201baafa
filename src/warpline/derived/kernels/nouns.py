"""What sentences call GPU operations: ``8 FP32 GEMMs``, ``1 host-to-device copy``."""

from __future__ import annotations

import numpy as np

from warpline.derived.texts import number_texts
from warpline.derived.time_parts import TimePart
from warpline.derived.work.operations import operations
from warpline.lazy import lazy_pattern
from warpline.ops.arrays import I64
from warpline.trace import Trace
from warpline.units import plural

# Names that cuBLAS, cuDNN, and CUTLASS give FP32 kernels without Tensor Cores.
PLAIN_FP32 = lazy_pattern(
    r"simt_sgemm|f32f32_f32f32_f32(?!\w*tf32)|(?:^|_)(?:volta|ampere|maxwell)_sgemm|_ffma_"
)
_LONGEST_NAME = 4096
_NOUNS = {
    TimePart.GEMM: "GEMM",
    TimePart.ATTENTION: "attention kernel",
    TimePart.CONVOLUTION: "convolution",
    TimePart.NORMALIZATION: "normalization kernel",
    TimePart.ELEMENTWISE: "elementwise kernel",
    TimePart.REDUCTION: "reduction kernel",
    TimePart.EMBEDDING: "embedding kernel",
    TimePart.SORT_INDEX: "sort or index kernel",
    TimePart.OPTIMIZER: "optimizer kernel",
    TimePart.LAYOUT_COPY: "layout conversion",
    TimePart.CAST_COPY: "cast",
    TimePart.OTHER: "kernel",
    TimePart.COLLECTIVE: "collective",
    TimePart.GRAPH: "CUDA graph",
    TimePart.COPY_H2D: "host-to-device copy",
    TimePart.COPY_D2H: "device-to-host copy",
    TimePart.COPY_D2D: "device-to-device copy",
    TimePart.COPY_P2P: "peer-to-peer copy",
    TimePart.COPY_OTHER: "copy",
    TimePart.MEMSET: "memset",
}


def noun(category: TimePart, *, is_plain_fp32: bool = False) -> str:
    """Return the noun for operations of a category, singular.

    Args:
        category: A busy part.
        is_plain_fp32: Whether their names indicate FP32 without Tensor Cores.
    """
    fp32 = is_plain_fp32 and category in (TimePart.GEMM, TimePart.CONVOLUTION)
    return f"FP32 {_NOUNS[category]}" if fp32 else _NOUNS[category]


def counted(number: float, what: str) -> str:
    """Return a number of operations per step with their noun."""
    several = f"{what[:-1]}ies" if what.endswith("copy") else f"{what}s"
    return plural(max(round(number), 1), what, several)


def are_plain_fp32(trace: Trace, places: I64) -> bool:
    """Return whether all names of some kernels indicate FP32 without Tensor Cores.

    Args:
        trace: The trace.
        places: Shape (n,), places in `operations`.
    """
    work = operations(trace)
    if not len(places) or not np.isin(places, work.of_table("kernel")).all():
        return False
    names = trace.columns("kernel", "name_id")["name_id"].values[work.row[places]]
    _, distinct = number_texts(names, len(trace.strings))
    texts = trace.strings.texts(distinct.tolist())
    return all(PLAIN_FP32.search(text[:_LONGEST_NAME]) is not None for text in texts)
