"""Writes the bar of a GPU's time with its legend, as text."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from warpline.presentation import Bar
from warpline.render.diagnosis.lines import GAP, Lines
from warpline.result import Part
from warpline.result.shares import GROUPS, Group, apportion, group_of, group_sums, tenths


class _Look(NamedTuple):
    """How the bar shows a group of parts."""

    sign: str
    ascii_sign: str
    color: str


_LOOKS = {
    Group.COMPUTE: _Look("█", "#", "\x1b[32m"),
    Group.COMMUNICATION: _Look("▓", "=", "\x1b[35m"),
    Group.COPIES: _Look("▒", "-", "\x1b[36m"),
    Group.IDLE: _Look("░", ".", "\x1b[33m"),
}
_ALWAYS = (Group.COMPUTE, Group.IDLE)  # in the legend


def color_of(part: Part) -> str:
    """Return the color of a part's group."""
    return _LOOKS[group_of(part)].color


def bar_lines(lines: Lines, bar: Bar) -> Iterator[str]:
    """Yield the bar of the groups of parts, and its legend."""
    sums = group_sums([piece.part for piece in bar.pieces])
    cells = apportion(sums, sum(sums), lines.width - 2 * len(GAP))
    drawn = (
        lines.styled(_sign(lines, group) * count, _LOOKS[group].color)
        for group, count in zip(GROUPS, cells, strict=True)
        if count
    )
    yield GAP + "".join(drawn)
    yield from _legend(lines, bar)


def _legend(lines: Lines, bar: Bar) -> Iterator[str]:
    """Yield the legend of the bar, in as many lines as the screen needs."""
    used, texts = 0, list[str]()
    for group in GROUPS:
        share = sum(piece.share for piece in bar.pieces if group_of(piece.part) == group)
        if not share and group not in _ALWAYS:
            continue
        label = f" {group} {tenths(share)}"
        size = len(GAP * 2) + 1 + len(label)
        if texts and used + size > lines.width + len(GAP):
            yield GAP + (GAP * 2).join(texts)
            used, texts = 0, []
        texts.append(lines.styled(_sign(lines, group), _LOOKS[group].color) + label)
        used += size
    yield GAP + (GAP * 2).join(texts)


def _sign(lines: Lines, group: Group) -> str:
    look = _LOOKS[group]
    return look.sign if lines.unicode else look.ascii_sign
