"""What GPUs can do at most: one data file per model, with its sources.

Numbers are those of the makers, without sparsity, at the clocks they give. Bandwidths of links are
of one direction. A model that is not here is unknown: nothing is guessed. Each file says where the
maker tells its numbers (``sources``), which copies of these tables they were compared with
(``compared_with``), and which fields none of them holds (``not_confirmed``).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import NamedTuple


class Peaks(NamedTuple):
    """The peaks of a model; None where it lacks something.

    Attributes:
        fp32_flop_per_s: Without tensor cores.
        tf32_flop_per_s: float32 data on tensor cores.
        half_flop_per_s: bfloat16 or float16 on tensor cores, sums in float32.
        fp8_flop_per_s: FP8 on tensor cores.
        memory_bytes_per_s: Device memory.
        pcie_bytes_per_s: To the host, one direction.
        nvlink_bytes_per_s: To other GPUs, all links, one direction.
    """

    fp32_flop_per_s: int
    tf32_flop_per_s: int | None
    half_flop_per_s: int | None
    fp8_flop_per_s: int | None
    memory_bytes_per_s: int
    pcie_bytes_per_s: int | None
    nvlink_bytes_per_s: int | None


def peaks_of(name: str) -> Peaks | None:
    """Return the peaks of the GPU that CUDA calls by this name, None if it is not known."""
    return _by_name().get(name)


@cache
def _by_name() -> Mapping[str, Peaks]:
    found: dict[str, Peaks] = {}
    for file in files("warpline.hardware").iterdir():
        if file.name.endswith(".json"):
            facts = json.loads(file.read_text("utf-8"))
            peaks = Peaks(*(facts[field] for field in Peaks._fields))
            found.update(dict.fromkeys(facts["names"], peaks))
    return found
