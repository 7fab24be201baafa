"""Fits a table to the width of a terminal."""

from __future__ import annotations

from collections.abc import Sequence

from warpline.frozen import frozen

GAP = "  "

_LEAST_TEXT_WIDTH = 20


@frozen
class Slot:
    """A column's properties for the layout.

    Attributes:
        name: The field's name.
        width: Terminal columns of its longest cell or heading.
        is_text: Whether it may be shortened.
        may_go: Whether it may be omitted.
    """

    name: str
    width: int
    is_text: bool
    may_go: bool


def fit(slots: Sequence[Slot], width: int) -> dict[str, int]:
    """Return the width of each shown column, in order.

    Texts are shortened to a third of the terminal. If that is not enough, columns are omitted from
    the right. Required columns stay, even if the terminal is too narrow.
    """
    least = max(_LEAST_TEXT_WIDTH, width // 3)
    kept = list(slots)
    while True:
        excess = sum(slot.width for slot in kept) + len(GAP) * (len(kept) - 1) - width
        spare = sum(max(0, slot.width - least) for slot in kept if slot.is_text)
        may_go = [slot for slot in kept if slot.may_go]
        if excess <= spare or not may_go:
            return _shorten_widest(kept, excess, least)
        kept.remove(may_go[-1])


def _shorten_widest(slots: Sequence[Slot], excess: int, least: int) -> dict[str, int]:
    widths = {slot.name: slot.width for slot in slots}
    texts = [slot for slot in slots if slot.is_text]
    for slot in sorted(texts, key=lambda slot: slot.width, reverse=True):
        cut = max(0, min(excess, slot.width - least))
        widths[slot.name] -= cut
        excess -= cut
    return widths
