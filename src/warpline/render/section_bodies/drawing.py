"""Bars, tables and plots of characters."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from warpline.units import format_bytes, format_count, format_rate, format_ratio

_BAR_WIDTH = 40  # characters of 100%
_LEVELS, _ASCII_LEVELS = "▁▂▃▄▅▆▇█", "_.:-=+*#"
Number = float | int | None


class Drawing(NamedTuple):
    """How to draw.

    Attributes:
        unicode: Whether the stream accepts Unicode.
        is_scaled: Whether numbers take a prefix that fits; else they are in base units.
    """

    unicode: bool = True
    is_scaled: bool = True

    def bar(self, ratio: Number) -> str:
        """Return a bar of a share of 100%, which any share above fills."""
        count = round(min(max(ratio or 0, 0), 1) * _BAR_WIDTH)
        return ("█" if self.unicode else "#") * count

    def line(self, values: Sequence[float]) -> str:
        """Return a plot with a character for each value, from 0 to the largest."""
        levels = _LEVELS if self.unicode else _ASCII_LEVELS
        most = max(values, default=0)
        if most <= 0:
            return levels[0] * len(values)
        top = len(levels) - 1
        return "".join(levels[round(max(value, 0) / most * top)] for value in values)

    def number(self, value: Number, unit: str = "") -> str:
        """Return a number in its unit as JSON has it; a dash if it is not known."""
        if value is None:
            return "-"
        if not self.is_scaled:
            return str(value)
        if unit == "ratio":
            return format_ratio(value)
        if unit == "byte":
            return format_bytes(value)
        if unit == "byte/s":
            return format_rate(value)
        return format_count(value) if isinstance(value, int) else f"{value:,.2f}"


def table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Yield the lines of a table whose columns after the first are aligned to the right."""
    widths = [max(map(len, column)) for column in zip(headings, *rows, strict=True)]
    line = " ".join("-" * width for width in widths)
    yield line
    yield aligned(headings, widths)
    yield line
    for row in rows:
        yield aligned(row, widths)
    yield line


def aligned(cells: Sequence[str], widths: Sequence[int]) -> str:
    """Return cells in columns, the first of them aligned to the left."""
    first, *rest = zip(cells, widths, strict=True)
    return " ".join([first[0].ljust(first[1]), *(text.rjust(width) for text, width in rest)])


def bars(rows: Sequence[tuple[str, Sequence[str], Number]], drawing: Drawing) -> Iterator[str]:
    """Yield a line for each row: its label, its numbers, and the bar of its share.

    Args:
        rows: Label, texts of numbers, share of 100%.
        drawing: How to draw.
    """
    cells = [(label, *numbers) for label, numbers, _ in rows]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    for of_row, (_, _, ratio) in zip(cells, rows, strict=True):
        yield f"{aligned(of_row, widths)} {drawing.bar(ratio)}"
