"""Minimum, maximum and mean of metrics over groups of launches."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np

from warpline.ops.arrays import I64
from warpline.result.kernel_pages import LaunchTable, MetricColumn, MetricNumber, Spread

# Names of metrics, and the layouts of the launches that list them so; None for all launches.
_Sources = list[tuple[str, int | None]]


class Spreads:
    """The spread of each metric over groups of launches.

    Args:
        table: The launches.
        groups: Their places in the table, by group, ascending.
        is_raw: Whether to summarize all metrics; else those that sections list.
    """

    def __init__(
        self, table: LaunchTable, groups: Sequence[Sequence[int]], *, is_raw: bool
    ) -> None:
        self._table, self._is_raw = table, is_raw
        self._group_of = np.empty(len(table), np.int64)
        for number, places in enumerate(groups):
            self._group_of[np.array(places, np.int64)] = number
        self._codes = table.layout_codes.tolist()
        self._groups = groups
        self._grouped: dict[str, _GroupedColumn] = {}
        self._listed: dict[tuple[int, ...], dict[tuple[str, str], _Sources]] = {}

    def of(self, group: int) -> Iterator[Spread]:
        """Yield the spreads of a group in the order in which its launches list the metrics."""
        for (title, label), sources in self._lines(group).items():
            unit, values = self._values(group, sources)
            numbers = [value for value in values if isinstance(value, int | float)]
            if numbers:
                mean = math.fsum(numbers) / len(numbers)
                yield Spread(title, label, unit, min(numbers), max(numbers), mean)

    def _values(self, group: int, sources: _Sources) -> tuple[str, list[MetricNumber]]:
        """Return the unit of the first value, and the values in the order of launches."""
        ((name, code), *others) = sources
        if code is None and not others:
            return self._column(name).values(group)
        parts = [self._part(group, *source) for source in sources]
        listed = [value for part in parts for value in part.values.tolist()]
        places = np.concatenate([part.launches for part in parts])
        first = min(parts, key=lambda part: part.launches[0])
        unit = first.units.values[first.units.codes[0]]
        return unit, [listed[at] for at in np.argsort(places, kind="stable").tolist()]

    def _lines(self, group: int) -> dict[tuple[str, str], _Sources]:
        """Return title and label -> where the values are."""
        if self._is_raw:
            firsts = {name: self._column(name).first(group) for name in self._table.shown}
            names = [name for name, first in firsts.items() if first is not None]
            names.sort(key=lambda name: firsts[name] or 0)
            return {("", name): [(name, None)] for name in names}
        codes = tuple(dict.fromkeys(self._codes[place] for place in self._groups[group]))
        if codes not in self._listed:
            listed: dict[tuple[str, str], _Sources] = {}
            for code in codes:
                for section in self._table.layouts[code]:
                    for label, name in section.lines:
                        source = name, code if len(codes) > 1 else None
                        listed.setdefault((section.title, label), []).append(source)
            self._listed[codes] = listed
        return self._listed[codes]

    def _part(self, group: int, name: str, code: int | None) -> MetricColumn:
        """Return what the launches of a group have that list a metric."""
        part = self._column(name).of(group)
        if code is None:
            return part
        return part.take(np.flatnonzero(self._table.layout_codes[part.launches] == code))

    def _column(self, name: str) -> _GroupedColumn:
        if name not in self._grouped:
            column = self._table.columns[name]
            self._grouped[name] = _GroupedColumn(column, self._group_of, len(self._groups))
        return self._grouped[name]


class _GroupedColumn:
    """A metric of all launches, group by group."""

    def __init__(self, column: MetricColumn, group_of: I64, count: int) -> None:
        groups = group_of[column.launches]
        order = np.argsort(groups, kind="stable")
        self._starts = np.searchsorted(groups[order], np.arange(count + 1)).tolist()
        self._ordered = column.take(order)

    def first(self, group: int) -> int | None:
        """Return the place of the first launch of a group that has the metric; None if none has."""
        start, end = self._starts[group : group + 2]
        return int(self._ordered.launches[start]) if start < end else None

    def values(self, group: int) -> tuple[str, list[MetricNumber]]:
        """Return the unit of the first value of a group, which has one, and the values."""
        start, end = self._starts[group : group + 2]
        units = self._ordered.units
        return units.values[units.codes[start]], self._ordered.values[start:end].tolist()

    def of(self, group: int) -> MetricColumn:
        """Return what the launches of a group have."""
        return self._ordered.take(slice(*self._starts[group : group + 2]))
