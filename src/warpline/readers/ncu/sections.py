"""Sections of a launch: which metrics they list under which labels."""

from __future__ import annotations

from warpline.frozen import frozen
from warpline.readers.ncu.wire import Message

_KERNEL = 1  # the workload that a filter calls so
_ANY_LOW, _ANY_HIGH = 0, 1 << 31


@frozen
class Line:
    """One line of a section.

    Attributes:
        name: Name of the metric.
        label: Label.
    """

    name: bytes
    label: bytes


@frozen
class Section:
    """One section, as it applies to one GPU.

    Attributes:
        identifier: Identifier, as for ``ncu --section``.
        title: Title.
        order: Sections are shown by this number, then by title.
        lines: Its metrics, by name.
    """

    identifier: bytes
    title: bytes
    order: int
    lines: tuple[Line, ...]


def section_of(data: bytes, chip: int) -> Section:
    """Return the section in a message.

    Args:
        data: The message.
        chip: Ten times the GPU's compute capability, such as 90. Metrics of other GPUs are left
            out or replaced, as the section says.

    Raises:
        WireError: It is damaged.
    """
    message = Message(data)
    lines = [
        line
        for header in message.messages(4)
        for item in header.messages(2)
        for line in (_line(item, chip),)
        if line is not None
    ]
    return Section(
        message.raw(1) or b"",
        message.raw(2) or b"",
        message.number(3),
        tuple(sorted(lines, key=lambda line: line.name)),
    )


def _line(item: Message, chip: int) -> Line | None:
    """Return the first alternative for the GPU, or the metric itself; None without either."""
    label = item.raw(2) or b""
    if not item.raw(1):
        return None
    for other in item.messages(7):
        if _applies(other.message(3), chip):
            return Line(other.raw(1) or b"", other.raw(2) or label)
    return Line(item.raw(1) or b"", label) if _applies(item.message(6), chip) else None


def _applies(chosen: Message, chip: int) -> bool:
    """Return whether a filter of chips and workloads accepts a kernel on the GPU."""
    ranges = [(chosen.integer(1), chosen.integer(2))] if 1 in chosen or 2 in chosen else []
    ranges += [(part.integer(1), part.integer(2)) for part in chosen.messages(3)]
    workloads = chosen.message(4)
    if 1 in workloads and _KERNEL not in workloads.integers(1):
        return False
    return not ranges or any(
        (_ANY_LOW if low is None else low) <= chip <= (_ANY_HIGH if high is None else high)
        for low, high in ranges
    )
