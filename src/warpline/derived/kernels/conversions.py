"""Kernels that copy a tensor to convert its layout, among all that only copy.

The category layout-copy has all kernels that move data without computing. Those that concatenate,
pad, shift, repeat, or store into a cache copy for another reason: no choice of layout makes them
superfluous.
"""

from __future__ import annotations

import re

from warpline.derived import derived
from warpline.derived.kernels.categories import operation_categories
from warpline.derived.kernels.named import kernels_named
from warpline.derived.time_parts import TimePart
from warpline.lazy import lazy_pattern
from warpline.ops.arrays import BoolArray
from warpline.trace import Trace

_MOVES = lazy_pattern(
    # PyTorch: cat, stack, split, roll, flip, pad, repeat_interleave, and copies of many tensors
    r"CatArrayBatchedCopy|chunk_cat|split_with_sizes_copy|\broll_cuda|\bflip_(?:cuda|kernel)"
    r"|_pad_|pad[123]d|at::native::compute_cuda_kernel|multi_tensor_apply"
    r"|triton_poi_fused_(?:cat|stack|constant_pad_nd|slice|copy_?)(?:_\d+)?$"
    # XLA: the same, and updates of a slice
    r"|wrapped_(?:concatenate|slice|pad|reverse|broadcast)"
    r"|(?:concatenate|dynamic_update_slice|pad|slice|broadcast)_fusion"
    # Inference: pages of a cache, and tokens
    r"|batched_memcpy|copy_page|reshape_and_cache|concat_and_cache|copy_blocks|swap_blocks"
    r"|set_kv_buffer|store_kvcache|append_paged_kv|dispatch_copy_epilogue|recat_copy"
    r"|concat|splitcopy|rocclr_copybuffer",
    re.IGNORECASE,
)
_CUPY_COPY = lazy_pattern(r"cupy_copy__(\w+?)_(\w+)$")


@derived
def layout_conversions(trace: Trace) -> BoolArray:
    """Return which operations convert a tensor's layout and nothing else; shape (operations,)."""
    copies: BoolArray = operation_categories(trace) == TimePart.LAYOUT_COPY
    return copies & ~kernels_named(trace, _is_other)


def is_cupy_copy(name: str) -> bool:
    """Return whether a kernel copies an array of CuPy, in the same type or another."""
    return name.startswith("cupy_copy")


def _is_other(name: str) -> bool:
    types = _CUPY_COPY.match(name)
    return bool(_MOVES.search(name)) or (types is not None and types[1] != types[2])
