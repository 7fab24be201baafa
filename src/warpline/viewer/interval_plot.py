"""A plot of how a mean changed, with its interval and the differences that count as the same."""

from __future__ import annotations

from warpline.units import format_change, format_ratio
from warpline.viewer.markup import Markup, element

_MARGIN = 0.06  # of the width, on both sides
_HEIGHT, _MIDDLE, _BASE = 44, 14, 28  # px


def interval_plot(what: str, ratio: float, low: float, high: float, tolerance: float) -> Markup:
    """Return the plot.

    Args:
        what: What changed.
        ratio: After divided by before.
        low: Lower end of its 95% interval.
        high: Upper end.
        tolerance: Relative difference that counts as the same.
    """
    change, ends = ratio - 1, (low - 1, high - 1)
    first, last = min(ends[0], -tolerance), max(ends[1], tolerance)

    def place(value: float) -> float:
        return 100 * (_MARGIN + (1 - 2 * _MARGIN) * (value - first) / (last - first))

    def line(value: float, to: float, ys: tuple[int, int], look: str) -> Markup:
        (x1, x2), (y1, y2) = (f"{place(value):.2f}%", f"{place(to):.2f}%"), map(str, ys)
        return element("line", x1=x1, x2=x2, y1=y1, y2=y2, class_=look)

    interval = " to ".join(map(format_change, ends))
    note = (
        f"{what}: {format_change(change)}, 95% interval {interval}. Gray: differences that count as"
        f" the same, up to {format_ratio(tolerance)}."
    )
    band = element(
        "rect",
        x=f"{place(-tolerance):.2f}%",
        width=f"{place(tolerance) - place(-tolerance):.2f}%",
        y="0",
        height=f"{_BASE}",
        class_="wl-band",
    )
    caps = (line(end, end, (_MIDDLE - 5, _MIDDLE + 5), "wl-ends") for end in ends)
    plot = element(
        "svg",
        element("title", note),
        band,
        line(0, 0, (0, _BASE), "wl-zero"),
        line(*ends, (_MIDDLE, _MIDDLE), "wl-ends"),
        caps,
        element("circle", cx=f"{place(change):.2f}%", cy=f"{_MIDDLE}", r="5", class_="wl-mean"),
        element("text", "0%", x=f"{place(0):.2f}%", y=f"{_HEIGHT - 2}", text_anchor="middle"),
        class_="wl-plot wl-interval",
        width="100%",
        height=f"{_HEIGHT}",
        role="img",
    )
    return element("figure", plot, element("figcaption", note))
