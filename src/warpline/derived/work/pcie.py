"""The rate of PCIe links."""

from __future__ import annotations

# Bytes per second and lane, after line coding.
_LANE_BYTES_PER_S = {1: 0.25e9, 2: 0.5e9, 3: 0.985e9, 4: 1.969e9, 5: 3.938e9, 6: 7.563e9}


def pcie_bytes_per_s(generation: int, width: int) -> float:
    """Return the rate of a link in one direction; 0 for an unknown generation.

    Source: PCI Express Base Specification.
    """
    return _LANE_BYTES_PER_S.get(generation, 0.0) * width
