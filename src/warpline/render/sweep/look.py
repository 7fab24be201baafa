"""What bars and plots show of a kind of sweep."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from warpline.render.sweep.axes import Facts


class Bars(NamedTuple):
    """Bars of one number of each point.

    Attributes:
        heading: What it is.
        value: Returns it for a point; None if it is unknown.
        shown: Formats it.
        most: What a full bar is; None for the largest value. Without it, the scale may be
            logarithmic.
    """

    heading: str
    value: Callable[[Facts], float | None]
    shown: Callable[[float], str]
    most: float | None = None


class Column(NamedTuple):
    """A column of the page's table.

    Attributes:
        name: Key of the value in a row.
        header: Its header.
        shown: Formats a value.
        is_text: Whether it is aligned to the left.
    """

    name: str
    header: str
    shown: Callable[[Any], str]
    is_text: bool = False


@dataclass(frozen=True)
class Look:
    """What is shown of a kind of sweep.

    Attributes:
        bars: Bars on a terminal, in order.
        grids: Numbers for heat maps over two parameters; a terminal shows the first that is known.
        panels: Returns the panels of the plot, as SVG.
        columns: Returns the columns of the page's table.
        rows: Returns the rows of a point in it; empty if it was not measured.
    """

    bars: Sequence[Bars]
    grids: Sequence[Bars]
    panels: Callable[[Facts], list[str]]
    columns: Callable[[Facts], list[Column]]
    rows: Callable[[Facts], Sequence[Mapping[str, Any]]]
