"""Units of columns, and the only functions that format numbers as text."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from decimal import ROUND_HALF_UP, Context, Decimal
from enum import Enum
from typing import TYPE_CHECKING, Any

from warpline.lazy import lazy

if TYPE_CHECKING:
    import re

    import numpy as np
    import numpy.typing as npt
else:  # only whole columns and filters need them
    np = lazy("numpy")
    re = lazy("re")


class Unit(Enum):
    """Unit of a number. The value is the name suffix of columns with this unit, if any."""

    NONE = ""
    NS = "ns"
    BYTES = "bytes"
    BYTES_PER_S = "bytes_per_s"
    RATIO = "ratio"
    COUNT = "count"
    HZ = "hz"
    WATTS = "w"
    JOULES = "j"
    CELSIUS = "c"
    ID = "id"


_TIME_STEPS = ((1_000_000_000, "s"), (1_000_000, "ms"), (1_000, "us"), (1, "ns"))
_BYTE_STEPS = ((2**40, "TiB"), (2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB"), (1, "B"))

# Relative changes: above the first, no decimals; above the second, only that they are large.
_WHOLE_PERCENT, _MOST_PERCENT = 1000, 10_000


def format_ns(value: int | float) -> str:
    """Format a duration with three significant digits and a suitable unit: ``12.3 ms``."""
    return _scaled(value, _TIME_STEPS)


def format_bytes(value: int | float) -> str:
    """Format a size with three significant digits in binary units: ``1.50 GiB``."""
    return _scaled(value, _BYTE_STEPS)


def format_more_bytes(value: int) -> str:
    """Format a difference of sizes with its sign: ``+1.50 GiB``."""
    return f"+{format_bytes(value)}" if value > 0 else format_bytes(value)


def format_rate(value: int | float) -> str:
    """Format bytes per second in decimal units, as vendors quote bandwidth: ``3.35 TB/s``."""
    steps = ((10**12, "TB/s"), (10**9, "GB/s"), (10**6, "MB/s"), (10**3, "kB/s"), (1, "B/s"))
    return _scaled(value, steps)


def format_ratio(value: float) -> str:
    """Format a fraction as a percentage: ``0.123`` -> ``12.3%``."""
    return f"{value * 100:.1f}%"


def format_change(value: float) -> str:
    """Format a relative change with its sign: ``0.034`` -> ``+3.4%``, ``12.34`` -> ``+1,234%``."""
    percent = value * 100
    if percent >= _MOST_PERCENT:
        return f">+{_MOST_PERCENT - 1:,}%"
    if abs(percent) >= _WHOLE_PERCENT:
        return f"{percent:+,.0f}%"
    # A change that rounds to 0 has no direction.
    return f"{round(percent, 1) or 0.0:+.1f}%"


def format_mhz(value: int | float) -> str:
    """Format a clock, given in Hz: ``1,410 MHz``."""
    return f"{value / 1e6:,.0f} MHz"


def format_watts(value: float) -> str:
    """Format a power: ``700 W``."""
    return f"{value:,.0f} W"


def format_count(value: int) -> str:
    """Format a count with thousands separators: ``1,000,036``."""
    return f"{value:,}"


def format_value(value: Any, unit: Unit) -> str:
    """Format a value of a table with a readable unit; others are returned as they are."""
    return _FORMATS.get(unit, str)(value)


_FORMATS: Mapping[Unit, Callable[[Any], str]] = {
    Unit.NS: format_ns,
    Unit.BYTES: format_bytes,
    Unit.BYTES_PER_S: format_rate,
    Unit.RATIO: format_ratio,
    Unit.COUNT: format_count,
}


def plural(count: int, noun: str, plural_noun: str | None = None) -> str:
    """Format a count with its noun: ``1 kernel``, ``2 kernels``, ``1,000 copies``."""
    return f"{count:,} {noun if count == 1 else plural_noun or noun + 's'}"


def _scaled(value: int | float, steps: tuple[tuple[int, str], ...]) -> str:
    # Beyond these limits, rounding to three digits would give 1000, 100.0 or 10.00.
    size, name = next((step for step in steps if abs(value) / step[0] >= 0.9995), steps[-1])
    if size == 1 and float(value).is_integer():
        return f"{int(value)} {name}"
    scaled = value / size
    decimals = 2 if abs(scaled) < 9.995 else 1 if abs(scaled) < 99.95 else 0
    return f"{scaled:.{decimals}f} {name}"


# Enough digits for the integer part of the largest float64, and some decimals.
_EXACT = Context(prec=400, rounding=ROUND_HALF_UP)


def fixed(value: int | float | np.integer[Any], digits: int, scale: float = 1.0) -> str:
    """Format value times scale with `digits` decimals, halves away from zero, as nsys rounds.

    The shortest decimal that reads back as the same float is multiplied by the scale and rounded:
    2.05 gives ``2.1``, and 0.2895 at scale 100 gives ``29.0``. The binary values, 2.04999... and
    28.94999..., would give either result by chance. The value must be finite.
    """
    product = _EXACT.multiply(Decimal(str(value)), Decimal(str(float(scale))))
    rounded = product.quantize(Decimal(1).scaleb(-digits), context=_EXACT)
    return f"{abs(rounded) if rounded.is_zero() else rounded:f}"


def fixed_all(values: npt.NDArray[Any], digits: int, scale: float = 1.0) -> list[str]:
    """Format each number of an array as `fixed` does.

    Args:
        values: Shape (n,), int64 or finite float64.
        digits: Decimals, 0 to 15.
        scale: Factor.

    Whole arrays are rounded at once. The relative error of value * scale * 10**digits in float64 is
    less than four times 2**-53, compared with the decimal number that `fixed` rounds. Only numbers
    that close to a half, and numbers from 2**52, go through `fixed` one by one.
    """
    if scale == 1 and values.dtype.kind in "iu":
        zeros = "." + "0" * digits if digits else ""
        return [f"{value}{zeros}" for value in values.tolist()]
    with np.errstate(over="ignore"):
        shifted = values * (scale * 10.0**digits)
    is_huge = np.abs(shifted) >= 2.0**52
    shifted[is_huge] = 0.0
    magnitude = np.abs(shifted)
    whole = np.floor(magnitude)
    doubt = is_huge | (np.abs(magnitude - whole - 0.5) <= magnitude * 2.0**-50)
    rounded = np.copysign(whole + (magnitude - whole >= 0.5), shifted) + 0.0  # no minus zero
    texts = binary_fixed_all(rounded / 10.0**digits, digits)
    for row in np.flatnonzero(doubt).tolist():
        texts[row] = fixed(values[row].item(), digits, scale)
    return texts


def binary_fixed_all(values: npt.NDArray[np.float64], digits: int) -> list[str]:
    """Format an array with `digits` decimals, as C's printf does, for nsys's converted units.

    When nsys converts a number to another unit (bytes to MB, ns to ms), it rounds the binary value
    of the quotient, not the decimal value: 4500 B are ``0.004`` MB.
    """
    return list(map(f"%.{digits}f".__mod__, values.tolist()))


_NS_OF_UNIT = {
    **dict.fromkeys(("", "ns", "nsec"), 1),
    **dict.fromkeys(("us", "usec"), 10**3),
    **dict.fromkeys(("ms", "msec"), 10**6),
    **dict.fromkeys(("s", "sec"), 10**9),
    **dict.fromkeys(("m", "min"), 60 * 10**9),
    **dict.fromkeys(("h", "hour"), 3600 * 10**9),
}


def parse_ns(text: str) -> int:
    """Parse a duration such as ``1500``, ``1.5ms``, ``1s200ms`` or ``-3us`` into int ns.

    The syntax is that of nsys: a sum of numbers, each with a sign and a unit. A number without a
    unit is in ns. ``1s-2ms`` is 998 ms. Fractions of a ns are truncated.

    Raises:
        ValueError: The text is not a duration, or does not fit in 64 bits.
    """
    part = re.compile(r"\s*([+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]{1,3})?)([a-z]*)")
    position, total = 0, Decimal(0)
    written = text.strip()
    while position < len(written) or not written:
        found = part.match(written, position)
        if found is None or found[2] not in _NS_OF_UNIT:
            raise ValueError(f"{text!r} is not a time, such as 1.5s, 200ms or 1500 (ns)")
        total += Decimal(found[1]) * _NS_OF_UNIT[found[2]]
        position = found.end()
    if abs(total) >= 2**63:
        raise ValueError(f"{text!r} exceeds the longest supported time, 292 years")
    return int(total)
