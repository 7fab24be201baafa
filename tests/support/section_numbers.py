"""A second way to the numbers of sections: from the raw page that ncu printed, by their formulas.

Printed numbers are rounded, so each is an interval, and so is what follows from them.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

_SCALES = {"K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15}
_TIMES = {"ns": 1.0, "us": 1e3, "ms": 1e6, "s": 1e9}
_SCALED = re.compile(r"([KMGTP])(?:byte|hz).*|(%)(/Kbyte)?|(?:\w+/)?(ns|us|ms|s)")
_SUM = re.compile(r"(?:(\d+) \* )?\(?([^()]*)\)?")


class Interval(NamedTuple):
    """What a printed number may have been."""

    low: float
    high: float

    @property
    def middle(self) -> float:
        """The number as it was printed."""
        return (self.low + self.high) / 2

    def has(self, value: float) -> bool:
        """Return whether a number may be the one that was printed."""
        slack = 1e-9 * max(abs(self.low), abs(self.high))
        return self.low - slack <= value <= self.high + slack


class RawPage:
    """A launch on the page raw of ncu, in CSV: names of metrics -> text and unit."""

    def __init__(self, cells: Mapping[str, tuple[str, str]]) -> None:
        self.cells = cells

    def value(self, name: str) -> Interval:
        """Return a metric in base units; percentages as ratios."""
        text, unit = self.cells[name]
        decimals = len(text.partition(".")[2])
        scale = _scale_of(unit)
        number, error = float(text.replace(",", "")), 0.6 * 10.0**-decimals
        exact = not decimals and number == 0  # ncu prints 0 for what is 0
        error = 0.0 if exact else error
        return Interval((number - error) * scale, (number + error) * scale)

    def evaluate(self, formula: str) -> Interval:
        """Return the value of a formula: ``32 * (a + b) / (c + d)``."""
        first, *others = (self._sum(part) for part in formula.split(" / "))
        for of in others:
            low = first.low / of.high if of.high > 0 else 0.0
            first = Interval(low, first.high / of.low if of.low > 0 else float("inf"))
        return first

    def _sum(self, text: str) -> Interval:
        found = _SUM.fullmatch(text)
        assert found, text
        terms = [self.value(name) for name in found[2].split(" + ")]
        factor = float(found[1] or 1)
        return Interval(factor * sum(t.low for t in terms), factor * sum(t.high for t in terms))


def _scale_of(unit: str) -> float:
    found = _SCALED.fullmatch(unit)
    if not found:
        return 1.0
    if found[1]:
        return _SCALES[found[1]]
    if found[2]:
        return 0.01 / (1e3 if found[3] else 1)
    # Rates are per second in base units, and times in nanoseconds.
    return 1e9 / _TIMES[found[4]] if "/" in unit else _TIMES[found[4]]


def raw_pages(text: str) -> list[RawPage]:
    """Return the launches of a raw page in CSV."""
    names, units, *rows = csv.reader(io.StringIO(text))
    return [RawPage(dict(zip(names, zip(row, units, strict=True), strict=True))) for row in rows]


def numbers_of(sections: Mapping[str, Any]) -> Iterator[tuple[str, str, float]]:
    """Yield where each number with a metric or formula is, the formula, and the number."""
    for name in ("speed_of_light", "pipes", "scheduler", "launch", "warp_states"):
        for item in sections.get(name, ()):
            for key in ("ratio", "value", "cycles_per_instruction"):
                if item.get(key) is not None and not (name == "warp_states" and key == "ratio"):
                    yield f"{name}.{item['metric']}", item["metric"], item[key]
            for part in item.get("breakdown", ()):
                yield f"{name}.{part['label']}", part["metric"], part["ratio"]
    for item in sections.get("workload", ()):
        for rollup in ("min", "avg", "max", "sum"):
            yield f"workload.{item['unit']}", f"{item['metric']}.{rollup}", item[rollup]
    occupancy = sections.get("occupancy", {})
    for key in ("theoretical", "achieved"):
        if occupancy.get(f"{key}_ratio") is not None:
            yield f"occupancy.{key}", occupancy[f"{key}_metric"], occupancy[f"{key}_ratio"]
    for item in occupancy.get("limits", ()):
        yield f"occupancy.{item['limit']}", item["metric"], item["blocks"]
    yield from _of_memory(sections.get("memory", {}))


def _of_memory(memory: Mapping[str, Any]) -> Iterator[tuple[str, str, float]]:
    for node in memory.get("nodes", ()):
        if node["ratio"] is not None:
            yield f"memory.{node['id']}", node["metric"], node["ratio"]
    for edge in memory.get("edges", ()):
        for key, formula in edge["metrics"].items():
            if edge[key] is not None:
                yield f"memory.{edge['from']}-{edge['to']}.{key}", formula, edge[key]
    for table in memory.get("tables", ()):
        for row, formulas in zip(table["rows"], table["metrics"], strict=True):
            columns = zip(table["columns"], row[1:], formulas, strict=True)
            for column, value, formula in columns:
                if value is not None:
                    yield f"memory.{table['title']}.{row[0]}.{column['name']}", formula, value
