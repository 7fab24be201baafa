"""How grave a finding is, by the share of the step that it is about."""

from __future__ import annotations

from warpline.result import Severity

MEASURABLE_RATIO = 0.05  # identical programs differ by more from run to run than less than this
_GRAVE_RATIO = 0.15


def severity_of(share: float) -> Severity:
    """Return how grave something is that costs a share of the step."""
    if share >= _GRAVE_RATIO:
        return "high"
    return "medium" if share >= MEASURABLE_RATIO else "low"
