"""The severity of a finding, by its share of the step."""

from __future__ import annotations

from warpline.result import Severity

MEASURABLE_RATIO = 0.05  # smaller differences are within the variation between identical runs
_GRAVE_RATIO = 0.15


def severity_of(share: float) -> Severity:
    """Return the severity of a problem that takes a share of the step."""
    if share >= _GRAVE_RATIO:
        return "high"
    return "medium" if share >= MEASURABLE_RATIO else "low"
