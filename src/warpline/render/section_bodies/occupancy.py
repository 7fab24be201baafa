"""Occupancy as text: its limits, and what it would be with other resources."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from warpline.render.section_bodies.drawing import Drawing, aligned

_LIMITS = {
    "blocks": "the SM",
    "registers": "registers",
    "shared_memory": "shared memory",
    "warps": "warps",
    "barriers": "barriers",
}
_CURVES = {
    "block_size": ("By Block Size", ""),
    "registers": ("By Registers per Thread", ""),
    "shared_bytes": ("By Shared Memory per Block", "byte"),
}
_BLOCK_SIZES = {32, 64, 128, 256, 512, 1024}
_MOST = 12  # columns
_NOW = "*"


def occupancy(of: Mapping[str, Any], drawing: Drawing) -> Iterator[str]:
    """Yield the blocks per SM by each limit, and a table for each resource."""
    theoretical, achieved = (
        drawing.number(of[f"{name}_ratio"], "ratio") for name in ("theoretical", "achieved")
    )
    yield f"Theoretical {theoretical}, achieved {achieved}"
    limits = [
        f"{drawing.number(limit['blocks'])} by {_LIMITS[limit['limit']]}"
        f"{' (limits)' if limit['is_limiting'] else ''}"
        for limit in of["limits"]
    ]
    if limits:
        yield f"Blocks per SM: {', '.join(limits)}"
    for curve in of["curves"]:
        points = _chosen(curve)
        title, unit = _CURVES[curve["by"]]
        amounts = [
            drawing.number(amount, unit) + (_NOW if amount == curve["current"] else "")
            for amount, _ in points
        ]
        shares = [drawing.number(share, "ratio") for _, share in points]
        widths = [max(map(len, pair)) for pair in zip(amounts, shares, strict=True)]
        widths.insert(0, max(len(title), len("Occupancy")))
        yield aligned((title, *amounts), widths)
        yield aligned(("Occupancy", *shares), widths)
    if of["curves"]:
        yield f"{_NOW} now"


def _chosen(curve: Mapping[str, Any]) -> Sequence[tuple[int, float]]:
    """Return the points that a curve needs: common sizes, or the last before each step."""
    points = [(amount, share) for amount, share in curve["points"]]
    current = curve["current"]
    if curve["by"] == "block_size":
        return [point for point in points if point[0] in _BLOCK_SIZES or point[0] == current]
    following = [*(share for _, share in points[1:]), None]
    steps = [
        point
        for point, after in zip(points, following, strict=True)
        if point[1] != after or point[0] == current
    ]
    return steps[:_MOST] if current <= steps[min(_MOST, len(steps)) - 1][0] else steps[-_MOST:]
