"""The meaning of each part of a GPU's time, in a few words."""

from __future__ import annotations

from collections.abc import Mapping

from warpline.derived.breakdown.segments import PARTS
from warpline.derived.idle.kinds import IDLE_MEANINGS

_BUSY_MEANINGS: Mapping[str, str] = {
    "gemm": "matrix multiplication",
    "attention": "fused attention",
    "convolution": "convolutions",
    "normalization": "normalization, softmax",
    "elementwise": "elementwise operations",
    "reduction": "sums, maxima, losses",
    "embedding": "embedding lookups and updates",
    "sort-index": "sort, gather, scatter, index",
    "optimizer": "parameter updates",
    "layout-copy": "layout conversion",
    "cast-copy": "casts",
    "other": "unclassified kernels",
    "collective": "communication and waiting for ranks",
    "graph": "CUDA graphs traced at graph level",
    "copy-h2d": "host-to-device copies",
    "copy-d2h": "device-to-host copies",
    "copy-d2d": "device-to-device copies",
    "copy-p2p": "peer-to-peer copies",
    "copy-other": "other copies",
    "memset": "memsets",
}

PART_MEANINGS: Mapping[str, str] = {
    part: _BUSY_MEANINGS.get(part) or IDLE_MEANINGS[part] for part in PARTS
}
