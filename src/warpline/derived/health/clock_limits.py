"""What limits the clock of a GPU, as the driver reports it."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from warpline.derived.health.readings import Readings
from warpline.ops.arrays import I8, BoolArray
from warpline.schema.health import CLOCK_LIMITS
from warpline.vocabulary import Vocabulary


class ClockLimit(Vocabulary):
    """The main limit of a clock; of several at once, the first of these that is not idle.

    A label has the words of nvidia-smi. The driver sets HW slowdown beside its own reasons (heat,
    power brake), so these come before it. A GPU at its power limit gains nothing from other
    settings, so these come after it.
    """

    HW_THERMAL = CLOCK_LIMITS[0x40], "the GPU is too hot"
    POWER_BRAKE = CLOCK_LIMITS[0x80], "the power supply asks for less power"
    HW_SLOWDOWN = CLOCK_LIMITS[0x8], "the GPU protects itself from heat or from too much power"
    SW_THERMAL = CLOCK_LIMITS[0x20], "the GPU or its memory is near its highest temperature"
    POWER_CAP = CLOCK_LIMITS[0x4], "the GPU is at its power limit"
    SYNC_BOOST = CLOCK_LIMITS[0x10], "GPUs of a group run at one clock"
    APPLICATION = CLOCK_LIMITS[0x2], "clocks are set lower than the highest"
    DISPLAY = CLOCK_LIMITS[0x100], "a display limits the clock"
    NONE = "none", "no limit is reported"
    UNKNOWN = "unknown", "limits are not reported"


_BITS: Mapping[int, ClockLimit] = {
    0x40: ClockLimit.HW_THERMAL,
    0x80: ClockLimit.POWER_BRAKE,
    0x8: ClockLimit.HW_SLOWDOWN,
    0x20: ClockLimit.SW_THERMAL,
    0x4: ClockLimit.POWER_CAP,
    0x10: ClockLimit.SYNC_BOOST,
    0x2: ClockLimit.APPLICATION,
    0x100: ClockLimit.DISPLAY,
}
_IDLE = 0x1


def main_limits(readings: Readings) -> I8:
    """Return the main limit at each reading, members of `ClockLimit`, shape (n,)."""
    column = readings.columns["clock_limits"]
    limit = np.full(len(readings), int(ClockLimit.NONE), np.int8)
    for bit, member in reversed([*_BITS.items()]):
        limit[(column.values & bit) != 0] = int(member)
    limit[~column.is_valid()] = int(ClockLimit.UNKNOWN)
    return limit


def is_idle(readings: Readings) -> BoolArray:
    """Return at which readings the GPU is idle, and its clock low for that, shape (n,)."""
    idle: BoolArray = (readings.columns["clock_limits"].values & _IDLE) != 0
    return idle


def limits_in_words(readings: Readings) -> str | None:
    """Return each limit with its share of the readings, the largest first; None if unknown."""
    column = readings.columns["clock_limits"]
    values = column.values[np.flatnonzero(column.is_valid())]
    if not len(values):
        return None
    shares = {words: float(((values & bit) != 0).mean()) for bit, words in CLOCK_LIMITS.items()}
    named = sorted((item for item in shares.items() if item[1]), key=lambda item: -item[1])
    return ", ".join(f"{words} {share:.0%}" for words, share in named) or "none"
