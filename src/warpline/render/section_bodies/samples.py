"""Samples within a kernel as small plots."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

from warpline.render.section_bodies.drawing import Drawing, aligned
from warpline.units import format_ns, plural

_WIDTH = 40  # characters of a plot


def samples(items: Sequence[Mapping[str, Any]], drawing: Drawing) -> Iterator[str]:
    """Yield a line for each metric: its mean, its largest value, and its course."""
    longest = max(items, key=lambda item: len(item["times_ns"]))
    count, span = len(longest["times_ns"]), longest["times_ns"][-1]
    yield f"{plural(count, 'sample')} in {format_ns(span)}"
    rows = [("Metric", "Average", "Maximum", "")]
    for item in items:
        values = item["values"]
        mean = sum(values) / len(values)
        numbers = (drawing.number(float(of), item["unit"]) for of in (mean, max(values)))
        rows.append((item["label"], *numbers, drawing.line(_buckets(values))))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    yield from (aligned(row, widths) for row in rows)


def _buckets(values: Sequence[float]) -> list[float]:
    """Return the means of as many parts as a plot has characters."""
    count = min(_WIDTH, len(values))
    edges = [place * len(values) // count for place in range(count + 1)]
    return [sum(values[start:end]) / (end - start) for start, end in pairwise(edges)]
