"""The metrics and sections of profiled launches, in columns."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import starmap
from typing import Any

import numpy as np
from numpy.typing import NDArray

from warpline.counters.sets import LAUNCH_STATS
from warpline.derived.counters.formulas import added_metrics
from warpline.derived.counters.gpu_attributes import attribute_metrics
from warpline.derived.counters.launch_metrics import LaunchMetric
from warpline.derived.counters.sections import sections_of
from warpline.derived.counters.stored import is_own
from warpline.documents.table_rows import Rows
from warpline.ops.arrays import I64
from warpline.ops.group import factorize
from warpline.result import Texts
from warpline.result.kernel_pages import (
    Layout,
    MetricColumn,
    PageSection,
    RuleMessage,
    by_names,
)
from warpline.schema import TABLES
from warpline.trace import Trace

((_LAUNCH_STATS,),) = LAUNCH_STATS.requests()
_NO_VALUE, _NUMBER, _INTEGER, _TEXT = range(4)  # what a value is
_VALUES = ("value", "integer", "text_id")


def metric_columns(
    trace: Trace, rows: Sequence[int], is_asked_for: Callable[[str], bool]
) -> dict[str, MetricColumn]:
    """Return the metrics of launches, by name in alphabetical order.

    Attributes of the GPU are among them if they are asked for, and where the section LaunchStats
    was collected, as in the sets that ncu has, too.

    Args:
        trace: The trace.
        rows: Rows of the launches in `profiled_kernel`; places count in this order.
        is_asked_for: Whether an attribute of the GPU is asked for, by name.
    """
    places = np.full(trace.row_count("profiled_kernel"), -1, np.int64)
    places[rows] = np.arange(len(rows))
    found = _stored_columns(trace, places) if trace.has("kernel_metric") else {}
    for metric in added_metrics(trace):
        _add(found, metric, np.array(rows, np.int64))
    with_stats = np.zeros(places.shape, np.bool_)
    if _LAUNCH_STATS in found:
        with_stats[np.array(rows)[found[_LAUNCH_STATS].launches]] = True
    for attribute in attribute_metrics(trace):
        is_shown = attribute.is_known & (is_asked_for(attribute.name) | with_stats)
        _add(found, replace(attribute, is_known=is_shown), np.array(rows, np.int64))
    return dict(sorted(found.items()))


def _stored_columns(trace: Trace, places: I64) -> dict[str, MetricColumn]:
    names = [column.name for column in TABLES["kernel_metric"].columns]
    stored = trace.columns("kernel_metric", *names)
    launches = places[stored["profiled_kernel_id"].values]
    if (launches < 0).any():
        chosen = np.flatnonzero(launches >= 0)
        launches = launches[chosen]
        stored = {name: column.take(chosen) for name, column in stored.items()}
    by_name = factorize(stored["name_id"].values)
    kinds = np.full(len(launches), _NO_VALUE, np.int8)
    for kind, name in enumerate(_VALUES, _NUMBER):
        kinds[stored[name].is_valid()] = kind
    units = factorize(stored["unit_id"].filled(-1))
    unit_texts = ["" if row < 0 else trace.strings.text(row) for row in units.uniques.tolist()]
    # Few bits are sorted faster.
    codes = by_name.codes.astype(np.int16 if by_name.n_groups < 1 << 15 else np.int32)
    order = np.argsort(codes, kind="stable")
    ends = np.cumsum(np.bincount(codes, minlength=by_name.n_groups)).tolist()
    found = {}
    for name, first, end in zip(
        trace.strings.texts(by_name.uniques.tolist()), [0, *ends], ends, strict=False
    ):
        part = order[first:end]
        part = part[_last_of_each(launches[part])]
        numbers, integers, texts = (stored[name].values[part] for name in _VALUES)
        found[name] = MetricColumn(
            name,
            launches[part],
            Texts(units.codes[part], unit_texts),
            _values(kinds[part], numbers, integers, texts, trace.strings.text),
            stored["instances"].values[part],
        )
    return found


def _last_of_each(launches: I64) -> slice | I64:
    """Return the order of launches; of a launch that is there more than once, its last place."""
    if (launches[1:] > launches[:-1]).all():
        return slice(None)
    order = np.argsort(launches, kind="stable")
    ordered = launches[order]
    lasts: I64 = order[np.append(ordered[1:] != ordered[:-1], True)]
    return lasts


def _values(
    kinds: NDArray[np.int8],
    numbers: NDArray[Any],
    integers: NDArray[Any],
    texts: NDArray[Any],
    text_of: Callable[[int], str],
) -> NDArray[Any]:
    """Return values as one array: of numbers, if they are alike, else of objects."""
    if (kinds == _NUMBER).all():
        return numbers
    if (kinds == _INTEGER).all():
        return integers
    every = zip(kinds.tolist(), numbers.tolist(), integers.tolist(), texts.tolist(), strict=True)
    return _objects(
        number
        if kind == _NUMBER
        else integer
        if kind == _INTEGER
        else text_of(text)
        if kind == _TEXT
        else None
        for kind, number, integer, text in every
    )


def _objects(values: Iterable[object]) -> NDArray[Any]:
    listed = list(values)
    found = np.empty(len(listed), np.object_)
    found[:] = listed
    return found


def _add(columns: dict[str, MetricColumn], metric: LaunchMetric, rows: I64) -> None:
    """Add a metric of launches that lack it."""
    is_known = metric.is_known[rows]
    stored = columns.get(metric.name)
    if stored is not None:
        is_known[stored.launches] = False
    at = np.flatnonzero(is_known)
    if not len(at):
        return
    values = metric.values[rows[at]]
    added = MetricColumn(
        metric.name,
        at,
        Texts(np.zeros(len(at), np.int32), [metric.unit]),
        values,
        np.zeros(len(at), np.int64),
    )
    columns[metric.name] = added if stored is None else _joined(stored, added)


def _joined(one: MetricColumn, other: MetricColumn) -> MetricColumn:
    """Return the values that launches have in one of two columns."""
    launches = np.concatenate((one.launches, other.launches))
    units = (*one.units.values, *other.units.values)
    codes = (one.units.codes, other.units.codes + len(one.units.values))
    values = _objects([*one.values.tolist(), *other.values.tolist()])
    joined = MetricColumn(
        one.name,
        launches,
        Texts(np.concatenate(codes).astype(np.int32), units),
        values,
        np.concatenate((one.instances, other.instances)),
    )
    return joined.take(np.argsort(launches))


def layouts_of(
    trace: Trace,
    rows: Sequence[int],
    columns: Mapping[str, MetricColumn],
    is_taken: Callable[[str], bool],
) -> tuple[tuple[Layout, ...], I64]:
    """Return the different layouts of launches, and the layout of each, shape (launches,).

    Args:
        trace: The trace.
        rows: Rows of the launches in `profiled_kernel`.
        columns: Their metrics.
        is_taken: Whether sections with an identifier are shown.
    """
    codes = np.zeros(len(rows), np.int64)
    known: dict[Layout, int] = {}

    def code_of(layout: Iterable[PageSection]) -> int:
        taken = tuple(section for section in layout if is_taken(section.identifier))
        return known.setdefault(taken, len(known))

    stored = _stored_sections(trace, rows, columns)
    for place, sections in stored.items():
        codes[place] = code_of(sections)
    if len(stored) < len(rows):
        is_without = np.ones(len(rows), np.bool_)
        is_without[[*stored]] = False
        counted = is_own(trace)[rows]
        groups = by_names(columns, slice(0, len(rows)))
        for is_chosen, following in (
            (is_without & counted, _following(trace)),
            (is_without & ~counted, frozenset[str]()),
        ):
            for names, places in groups:
                if is_chosen[places].any():
                    codes[places[is_chosen[places]]] = code_of(
                        PageSection(section.identifier, section.title, section.lines, ())
                        for section in sections_of(frozenset(names), following)
                    )
    return tuple(known), codes


def _following(trace: Trace) -> frozenset[str]:
    """Return the names of metrics that were not collected, but follow from what was."""
    added = (*added_metrics(trace), *attribute_metrics(trace))
    return frozenset(metric.name for metric in added if metric.is_known.any())


def _stored_sections(
    trace: Trace, rows: Sequence[int], columns: Mapping[str, MetricColumn]
) -> dict[int, list[PageSection]]:
    """Return the sections that the trace has, by place of the launch, also those of rules only."""
    sections, lines, rules = (
        Rows(trace, name) for name in ("kernel_section", "section_metric", "kernel_rule")
    )
    places = {row: place for place, row in enumerate(rows)}
    named: dict[int, set[str]] = {
        places[row]: set() for row in {*sections["profiled_kernel_id"]} if row in places
    }
    if named:
        for name, column in columns.items():
            for place in column.launches.tolist():
                if place in named:
                    named[place].add(name)
    of_section: dict[int, list[tuple[str, str]]] = {}
    for section, label, name in zip(
        lines["kernel_section_id"], lines["label"], lines["name"], strict=True
    ):
        place = places.get(sections["profiled_kernel_id"][section], -1)
        if name in named.get(place, ()):
            of_section.setdefault(section, []).append((label, name))
    said: dict[tuple[int, str], list[RuleMessage]] = {}
    messages = zip(
        *(rules[name] for name in ("rule", "kind", "text", "speedup_kind", "speedup_percent")),
        strict=True,
    )
    owners = zip(rules["profiled_kernel_id"], rules["section"], strict=True)
    for (launch, section), message in zip(owners, starmap(RuleMessage, messages), strict=True):
        said.setdefault((launch, section or ""), []).append(message)
    found: dict[int, list[PageSection]] = {}
    for row, (launch, identifier, title) in enumerate(
        zip(sections["profiled_kernel_id"], sections["identifier"], sections["title"], strict=True)
    ):
        shown, of_rules = of_section.get(row, ()), said.pop((launch, identifier or ""), ())
        found.setdefault(launch, []).append(
            PageSection(identifier or "", title or "", tuple(shown), tuple(of_rules))
        )
    for (launch, identifier), of_rules in said.items():
        found.setdefault(launch, []).append(
            PageSection(identifier, identifier, (), tuple(of_rules))
        )
    return {places[launch]: found[launch] for launch in found if launch in places}
