"""What each part of a device's time says, in half a sentence."""

from __future__ import annotations

from collections.abc import Mapping

from warpline.derived.breakdown.segments import PARTS
from warpline.derived.idle.kinds import IDLE_MEANINGS

_BUSY_MEANINGS: Mapping[str, str] = {
    "gemm": "multiplied matrices",
    "attention": "fused attention",
    "convolution": "convolutions, forward and backward",
    "normalization": "layer, batch and other norms, softmax",
    "elementwise": "one operation per element: sums, activations",
    "reduction": "sums, maxima, losses",
    "embedding": "looked up or updated embeddings",
    "sort-index": "sorted, gathered, scattered, indexed",
    "optimizer": "updated parameters",
    "layout-copy": "copied a tensor into another order or shape",
    "cast-copy": "copied a tensor into another type",
    "other": "kernels that no rule knows",
    "collective": "communicated, or waited for other ranks inside",
    "graph": "CUDA graphs that were recorded as wholes",
    "copy-h2d": "copied from the host",
    "copy-d2h": "copied to the host",
    "copy-d2d": "copied within the device",
    "copy-p2p": "copied between devices",
    "copy-other": "other copies",
    "memset": "set memory",
}

PART_MEANINGS: Mapping[str, str] = {
    part: _BUSY_MEANINGS.get(part) or IDLE_MEANINGS[part] for part in PARTS
}
