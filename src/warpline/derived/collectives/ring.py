"""What a ring moves over its links."""

from __future__ import annotations

from collections.abc import Mapping

# Times, and whether the message has the parts of all ranks.
_MOVED: Mapping[str, tuple[int, bool]] = {
    "AllReduce": (2, True),
    "AllGather": (1, False),
    "ReduceScatter": (1, False),
}


def ring_factor(operation: str, ranks: int) -> float:
    """Return the bytes over each link of a ring per byte of the message; 0 if not known.

    A message is what NCCL's call names: one rank's part for an all-gather and a reduce-scatter.

    Args:
        operation: Such as AllReduce.
        ranks: Number of ranks.
    """
    if operation not in _MOVED or ranks < 1:
        return 0.0
    times, is_divided = _MOVED[operation]
    return times * (ranks - 1) / (ranks if is_divided else 1)
