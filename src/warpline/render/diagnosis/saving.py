"""What the fix of a finding saves, in words."""

from __future__ import annotations

from warpline.result import Finding
from warpline.units import format_ns

_LEAST_SAVING = 0.05  # of the step: less cannot be told from what runs differ by anyway
_SAME = 0.02  # savings that differ by less are told once


def saving_text(item: Finding, step: str) -> str:
    """Return what the fix of a finding saves, in words; nothing where that is not predicted.

    Args:
        item: The finding.
        step: What follows a time, such as " per step".
    """
    if item.saving_ns is None or item.saving_low_ns is None or item.saving_high_ns is None:
        return ""
    low, high = format_ns(item.saving_low_ns), format_ns(item.saving_high_ns)
    together = item.cumulative_saving_ns
    is_alone = together is None or abs(together - item.saving_ns) <= _SAME * together
    after = " after the findings above" if item.is_generic and not is_alone else ""
    if (item.share or 0.0) < _LEAST_SAVING:
        return f"nothing measurable{step}, {high} at most{after}"
    share = f"{(item.share or 0.0) * 100:.0f}%"
    text = f"{format_ns(item.saving_ns)}{step} ({share}; {low} to {high}){after}"
    if together is None or is_alone:
        return text
    return f"{text}; {format_ns(together)} together with those above"
