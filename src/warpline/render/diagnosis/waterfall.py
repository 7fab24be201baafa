"""Writes a waterfall as text: each difference as a bar that begins where the one above ends."""

from __future__ import annotations

from collections.abc import Iterator

from warpline.presentation import Waterfall, WaterfallRow
from warpline.render.diagnosis.lines import BOLD, DIM, GAP, Lines
from warpline.render.escaping import display_width, pad, shorten

_LABEL = 22
_LEAST_BAR, _MOST_BAR = 10, 40
_WHOLE = 1000  # thousandths
# Sum, more time, less time: with and without Unicode.
_SIGNS = {0: ("█", "#"), 1: ("▓", "+"), -1: ("░", "-")}
_COLORS = {0: "", 1: "\x1b[31m", -1: "\x1b[32m"}


def waterfall_lines(lines: Lines, block: Waterfall) -> Iterator[str]:
    """Yield the headings and the bars; narrow screens show the numbers only."""
    heads = ("before", "after", "difference")
    texts = [(row.before, row.after, row.delta) for row in block.rows]
    widths = [
        max(len(head), *map(len, column))
        for head, column in zip(heads, zip(*texts, strict=True), strict=True)
    ]
    label = min(_LABEL, max(display_width(lines.clean(row.label)) for row in block.rows))
    label = max(label, min(_LABEL, len(block.heading)))
    left = len(GAP) + label + sum(width + len(GAP) for width in widths)
    bar = min(lines.width - left - len(GAP), _MOST_BAR)
    columns = zip(heads, widths, strict=True)
    named = GAP.join(head.rjust(width) for head, width in columns)
    yield lines.styled(f"{GAP}{pad(block.heading, label)}{GAP}{named}", DIM)
    for row, cells in zip(block.rows, texts, strict=True):
        numbers = GAP.join(text.rjust(width) for text, width in zip(cells, widths, strict=True))
        name = pad(shorten(lines.clean(row.label), label, lines.ellipsis), label)
        line = f"{GAP}{name}{GAP}{numbers}"
        line = lines.styled(line, "" if row.direction else BOLD)
        drawn = f"{GAP}{_bar(lines, row, bar)}" if bar >= _LEAST_BAR else ""
        yield line + drawn


def _bar(lines: Lines, row: WaterfallRow, width: int) -> str:
    first = min(row.low * width // _WHOLE, width - 1)
    last = -(-row.high * width // _WHOLE)
    sign = _SIGNS[row.direction][0 if lines.unicode else 1]
    drawn = sign * max(last - first, 1)
    return " " * first + lines.styled(drawn, _COLORS[row.direction])
