"""The files of metrics that nsys sampled with, which exports keep: what values are multiplied by.

They are YAML. Only what is needed is read, by the layout that nsys ships: a list of sets for chips,
each with a list of metrics. Since 2023, metrics have a list of units, `subMetrics`, and some of
these a `multiplier`. Before, they had one unit, which the names in exports lack.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import TypeGuard

from warpline.frozen import frozen
from warpline.lazy import lazy_pattern
from warpline.readers.nsys.export import Export, SourceTable
from warpline.readers.nsys.names import Names

_FILE = lazy_pattern(r"(?:Gpu|Soc)Metrics(?:/[^/]+)?\.config$")
_CHIPS = lazy_pattern(r"\s*(?:supportedC|c)hips:\s*\[(.*)\]\s*")
_NAME = lazy_pattern(r"(\s*)- name:\s*(.*\S)\s*")
_UNITS = lazy_pattern(r"(\s*)subMetrics:\s*")
_ID = lazy_pattern(r"\s*id:\s*(\S+)\s*")
_MULTIPLIER = lazy_pattern(r"\s*multiplier:\s*(\S+)\s*")

_OF_PEAK = ".pct_of_peak_sustained_elapsed"


@frozen
class MetricSet:
    """Metrics that can be sampled together.

    Attributes:
        chips: The GPUs that they are for, such as ``GH100``.
        multipliers: Of each metric, and of each with its unit: ``SYS Clock Frequency [MHz]``.
        shares: Whether a metric with one unit is a percentage of the peak.
    """

    chips: frozenset[str]
    multipliers: Mapping[str, float]
    shares: Mapping[str, bool]


def metric_sets(export: Export, names: Names) -> list[MetricSet]:
    """Return the sets in the files of metrics of an export."""
    return [found for content in _contents(export, names) for found in _parsed(content)]


def _contents(export: Export, names: Names) -> Iterator[str]:
    table = SourceTable.facts(export, "ANALYSIS_FILE", ["contentId"], ["filename", "content"])
    columns = (table.strings("filename"), table.strings("content"), table.numbers("contentId"))
    for name, content, number in zip(*columns, strict=True):
        if name and _FILE.search(name):
            if content is not None:
                yield content
            elif number is not None:
                yield names.text_of_id(number)


def _parsed(content: str) -> list[MetricSet]:
    sets: list[tuple[set[str], dict[str, float], dict[str, bool]]] = []
    metric, label, units_from = "", "", None
    for line in content.splitlines():
        if line.startswith("- "):
            sets.append((set(), {}, {}))
        if not sets:
            continue
        chips, multipliers, shares = sets[-1]
        if found := _NAME.fullmatch(line):
            indent, name = len(found[1]), found[2].strip("'\"")
            if units_from is None or indent < units_from:
                metric, label, units_from = name, name, None
            else:
                label = f"{metric} [{name}]"
            multipliers.setdefault(label, 1.0)
        elif found := _UNITS.fullmatch(line):
            units_from = len(found[1])
        elif found := _ID.fullmatch(line):
            shares[metric] = found[1].endswith(_OF_PEAK)
        elif found := _MULTIPLIER.fullmatch(line):
            number = _number(found[1])
            if _is_factor(number):
                multipliers[label] = number
        elif found := _CHIPS.fullmatch(line):
            chips.update(chip.strip(" '\"") for chip in found[1].split(","))
    return [MetricSet(frozenset(chips), multipliers, shares) for chips, multipliers, shares in sets]


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _is_factor(number: float | None) -> TypeGuard[float]:
    return number is not None and math.isfinite(number) and number > 0
