"""Whether the memory of a GPU is nearly used up."""

from __future__ import annotations

from warpline.derived.memory.blocks import replayed
from warpline.derived.memory.fragmentation import failures
from warpline.derived.memory.timelines import device_bytes
from warpline.result import Severity
from warpline.trace import Trace

_FULL = 0.8  # of the GPU's memory: other processes, libraries and the driver need some, too


def is_tight(trace: Trace, number: int) -> bool:
    """Return whether an allocation failed, or most of the GPU's memory was reserved.

    Args:
        trace: The trace.
        number: Place in `Replayed.timelines`.
    """
    reserved = replayed(trace).timelines[number].reserved_bytes
    size = device_bytes(trace, number)
    is_full = reserved is not None and size > 0 and int(reserved.max()) >= _FULL * size
    return is_full or bool(failures(trace, number))


def severity_of_memory(trace: Trace, number: int) -> Severity:
    """Return the severity of memory that could be saved: nothing is wrong while there is enough."""
    return "medium" if is_tight(trace, number) else "info"
