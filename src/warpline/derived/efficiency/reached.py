"""The share of a GPU's peak that GEMMs and convolutions reach, with bounds.

From two recordings of one program in FP32 and in TF32 (H200), and from public recordings;
otherwise judgment, hence the wide bounds.
"""

from __future__ import annotations

from warpline.estimate import Estimate

HALF_GEMM = Estimate(0.50, 0.70, 0.80)
TF32_GEMM = Estimate(0.45, 0.65, 0.80)
FP32_GEMM = Estimate(0.55, 0.75, 0.95)
HALF_CONVOLUTION = Estimate(0.35, 0.60, 0.85)

# Tensor Cores with operands aligned to fewer elements than full speed needs, by that alignment.
# Hopper also loses its own matrix instructions.
MISALIGNED = {1: Estimate(0.10, 0.20, 0.40), 2: Estimate(0.12, 0.25, 0.45)}
MISALIGNED_FOUR = Estimate(0.25, 0.45, 0.62)
MISALIGNED_OLD = Estimate(0.10, 0.20, 0.35)  # with instructions of GPUs before the A100
MISALIGNED_BEFORE_HOPPER = Estimate(0.20, 0.40, 0.65)


def time_factor(now: Estimate, later: Estimate, ratio: float = 1.0) -> Estimate:
    """Return new time divided by old time, at most 1.

    Args:
        now: Share of the old peak that is reached.
        later: Share of the new peak that will be reached.
        ratio: The old peak divided by the new one.
    """
    low, central, high = (
        min(old * ratio / new, 1.0) for old, new in zip(now, reversed(later), strict=True)
    )
    return Estimate(low, central, high)
