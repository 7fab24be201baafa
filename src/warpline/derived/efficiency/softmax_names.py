"""Softmax kernels, and the rows and columns that their names and grids give."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

from warpline.lazy import lazy_pattern

_LONGEST_NAME = 4096
_WARP = lazy_pattern(
    r"\b(scaled_(?:masked_|upper_triang_masked_|aligned_causal_masked_)?)?"
    r"softmax_warp_(forward|backward)<([^>]*)>"
)
_BLOCK = lazy_pattern(r"\bcunn_SoftMax(Forward|Backward)\w*<")
_INTEGER = lazy_pattern(r"^(?:\(int\))?(\d{1,2})$")
_TRUE = lazy_pattern(r"true|\(bool\)1")
_LONG_ROW = 7  # log2 of the columns from which on a warp has one row instead of two


class SoftmaxName(NamedTuple):
    """What the name of a softmax kernel says.

    Attributes:
        is_backward: Whether it computes gradients.
        log2_columns: Of the columns, rounded up to a power of two; 0 if the name does not say.
        rows_per_warp: Rows of each row of threads of a block; 0 where each block has one row.
        is_causal: Whether it masks the upper triangle.
    """

    is_backward: bool
    log2_columns: int
    rows_per_warp: int
    is_causal: bool


@lru_cache(maxsize=1 << 12)
def softmax_name(name: str) -> SoftmaxName | None:
    """Return what a kernel's name says; None unless it computes a softmax, not its logarithm."""
    text = name[:_LONGEST_NAME]
    if "softmax" not in text.lower() or "LogSoftMax" in text:
        return None
    block = _BLOCK.search(text)
    if block is not None:
        return SoftmaxName(block[1] == "Backward", 0, 0, is_causal=False)
    warp = _WARP.search(text)
    if warp is None:
        return None
    arguments = [part.strip() for part in warp[3].split(",")]
    numbers = [place for place, part in enumerate(arguments) if _INTEGER.match(part)]
    if not numbers:
        return None
    prefix = warp[1] or ""
    after = arguments[numbers[0] + 1 : numbers[0] + 2]
    if not prefix and after and _TRUE.fullmatch(after[0]):
        return None  # the logarithm, as for a loss
    found = _INTEGER.match(arguments[numbers[0]])
    log2 = int(found[1]) if found is not None else 0
    return SoftmaxName(
        is_backward=warp[2] == "backward",
        log2_columns=log2,
        rows_per_warp=2 if log2 <= _LONG_ROW else 1,
        is_causal="triang" in prefix or "causal" in prefix,
    )
