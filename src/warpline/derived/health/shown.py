"""GPUs and their readings as findings show them."""

from __future__ import annotations

from collections.abc import Iterable

from warpline.derived.health.readings import Readings
from warpline.ops.arrays import I64
from warpline.result import Evidence
from warpline.trace import Trace
from warpline.units import plural

_SHOWN = 5


def gpus_in_words(trace: Trace, devices: Iterable[int]) -> str:
    """Return some GPUs by their index: ``GPU 0``, ``GPUs 0, 1, and 3``.

    Args:
        trace: The trace.
        devices: Rows of the device table, at least one.
    """
    index = trace.columns("device", "gpu_index")["gpu_index"].values
    numbers = [str(number) for number in sorted({int(index[device]) for device in devices})]
    if len(numbers) == 1:
        return f"GPU {numbers[0]}"
    *others, last = numbers
    return f"GPUs {', '.join(others)}{',' if len(others) > 1 else ''} and {last}"


def sentence(text: str) -> str:
    """Return a text with a capital letter."""
    return text[:1].upper() + text[1:]


def show_readings(readings: Readings, rows: I64, during: str = "") -> Evidence:
    """Return some readings of a GPU as evidence.

    Args:
        readings: Of that GPU.
        rows: Shape (n,), int64, places in `readings`.
        during: Text to append, such as ``" during copies"``.
    """
    first = rows[:_SHOWN]
    times = readings.start_ns[first].tolist(), readings.end_ns[first].tolist()
    return Evidence(
        f"{len(rows):,} of {plural(len(readings), 'reading')} of the GPU{during}",
        "gpu_health",
        tuple(readings.row[first].tolist()),
        len(rows),
        tuple(zip(*times, strict=True)),
    )
