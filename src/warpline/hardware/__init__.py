"""Peak rates of GPUs: one data file per model, with its sources.

Peaks are those of the vendor's data sheets, dense (without sparsity), at the clocks given there.
Link bandwidths are per direction. A model without a file has no peaks: nothing is estimated. Each
file lists the vendor's pages (``sources``), independent copies that the numbers were compared with
(``compared_with``), and fields found in none of these copies (``not_confirmed``).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import NamedTuple


class Peaks(NamedTuple):
    """The peak rates of a model; None for features that it lacks.

    Attributes:
        fp64_flop_per_s: FP64 without Tensor Cores.
        fp32_flop_per_s: FP32 without Tensor Cores.
        tf32_flop_per_s: TF32 on Tensor Cores.
        half_flop_per_s: BF16 or FP16 on Tensor Cores, with FP32 accumulation.
        fp8_flop_per_s: FP8 on Tensor Cores.
        memory_bytes_per_s: Memory bandwidth.
        pcie_bytes_per_s: PCIe bandwidth to the CPU, per direction.
        nvlink_bytes_per_s: NVLink bandwidth to other GPUs, all links, per direction.
    """

    fp64_flop_per_s: int
    fp32_flop_per_s: int
    tf32_flop_per_s: int | None
    half_flop_per_s: int | None
    fp8_flop_per_s: int | None
    memory_bytes_per_s: int
    pcie_bytes_per_s: int | None
    nvlink_bytes_per_s: int | None


def peaks_of(name: str) -> Peaks | None:
    """Return the peaks of the GPU with this CUDA device name; None if unknown."""
    return _by_name().get(name)


@cache
def _by_name() -> Mapping[str, Peaks]:
    by_name: dict[str, Peaks] = {}
    for file in files("warpline.hardware").iterdir():
        if file.name.endswith(".json"):
            facts = json.loads(file.read_text("utf-8"))
            peaks = Peaks(*(facts[field] for field in Peaks._fields))
            by_name.update(dict.fromkeys(facts["names"], peaks))
    return by_name
