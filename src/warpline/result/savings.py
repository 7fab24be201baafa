"""The estimated saving of a finding as text: the same numbers wherever it appears."""

from __future__ import annotations

from warpline.result.diagnosis import Finding, Replay
from warpline.units import format_ns

# docs/findings.md has the measurements.
BOUNDS_TEXT = (
    "Bounds include variation of CPU speed. Fitted to 34 measured programs, they cover 29."
)

_LEAST_SAVING = 0.05  # of the step: smaller savings are within run-to-run variation
_SAME = 0.02  # times that differ by less are not shown both


def unprofiled_text(replay: Replay | None) -> str:
    """Return the step without profiling, if that differs: ``about 34.0 ms without profiling``."""
    unprofiled_ns = None if replay is None else replay.unprofiled_ns
    if replay is None or unprofiled_ns is None:
        return ""
    if replay.step_ns - unprofiled_ns <= _SAME * replay.step_ns:
        return ""
    return f"about {format_ns(unprofiled_ns)} without profiling"


def base_text(replay: Replay | None, step: str) -> str:
    """Return which step the savings are of; empty if profiling makes no difference.

    Args:
        replay: From the diagnosis.
        step: " per step", or empty without steps.
    """
    if replay is None or replay.unprofiled_ns is None or not unprofiled_text(replay):
        return ""
    bounds = format_bounds(replay.unprofiled_low_ns or 0, replay.unprofiled_high_ns or 0)
    what, time = "a step" if step else "the run", format_ns(replay.unprofiled_ns)
    recorded = format_ns(replay.step_ns)
    return (
        f"Savings are relative to {what} without profiling: about {time} ({bounds}), {recorded}"
        " recorded."
    )


def saving_text(item: Finding, step: str) -> str:
    """Return the estimated saving of a finding with its bounds; empty if none is predicted.

    Args:
        item: The finding.
        step: Text to append to times, such as " per step".
    """
    if item.saving_ns is None or item.saving_low_ns is None or item.saving_high_ns is None:
        return ""
    together = item.cumulative_saving_ns
    is_alone = together is None or abs(together - item.saving_ns) <= _SAME * together
    after = " after the fixes above" if item.is_generic and not is_alone else ""
    if not _is_measurable(item):
        return f"not measurable, at most {format_ns(item.saving_high_ns)}{step}{after}"
    bounds = f"bounds {format_bounds(item.saving_low_ns, item.saving_high_ns)}"
    text = f"{format_ns(item.saving_ns)}{step} ({_share(item)}; {bounds}){after}"
    if together is None or is_alone:
        return text
    return f"{text}; {format_ns(together)} with all fixes so far"


def short_saving_text(item: Finding, step: str) -> str:
    """Return the estimated saving of a finding in the words of `saving_text`, without bounds."""
    if item.saving_ns is None or not _is_measurable(item):
        return ""
    up_to = "up to " if item.is_conditional else ""
    return f"{up_to}{format_ns(item.saving_ns)}{step} ({_share(item)})"


def format_bounds(low_ns: int, high_ns: int) -> str:
    """Format two durations, the unit only once where it is the same: ``12.9 to 14.0 ms``."""
    low, high = format_ns(low_ns), format_ns(high_ns)
    number, unit = low.split(" ")
    is_same = unit == high.split(" ")[1] or not low_ns
    return f"{number if is_same else low} to {high}"


def _is_measurable(item: Finding) -> bool:
    return (item.share or 0.0) >= _LEAST_SAVING


def _share(item: Finding) -> str:
    """Format the share of a saving: a prediction does not justify decimals."""
    return f"{(item.share or 0.0) * 100:.0f}%"
