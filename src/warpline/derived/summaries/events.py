"""Events of a trace as values in labelled groups: the input of every summary.

Groups are numbered in ascending order of their labels. In a summary, ties keep that order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from warpline.derived.summaries.kernel_names import kernel_name_column, kernel_name_ids
from warpline.derived.summaries.range_prefix import PREFIX, kernel_texts
from warpline.derived.texts import number_texts
from warpline.frozen import frozen
from warpline.lazy import lazy_pattern
from warpline.ops.arrays import I32, I64, Integers
from warpline.ops.group import factorize, factorize_rows
from warpline.result import Texts
from warpline.schema.labels import COPY_KINDS, RANGE_STYLES
from warpline.trace import ColumnData, Trace

Label = tuple[str | int | None, ...]

MEMSET_NAME = "[CUDA memset]"
_TIMES = ("start_ns", "end_ns")
_FOUR_DIGIT_VERSION = lazy_pattern(r"_v[0-9]{4}\Z")


@frozen
class Events:
    """Values and their groups.

    Attributes:
        values: Shape (n,), int64: durations in ns, or bytes.
        codes: Shape (n,), int32, the group of each value, in ``[0, len(labels))``.
        labels: One tuple of texts and numbers per group, ascending; None sorts first.
    """

    values: I64
    codes: I32
    labels: tuple[Label, ...]

    @staticmethod
    def grouped(values: I64, codes: Integers, labels: Sequence[Label]) -> Events:
        """Return events whose groups have distinct labels in ascending order.

        Args:
            values: Shape (n,).
            codes: Shape (n,), position in `labels` of each value's label.
            labels: In any order; groups with equal labels are merged.
        """
        ordered = sorted(set(labels), key=_sort_key)
        number = {label: place for place, label in enumerate(ordered)}
        renumber = np.array([number[label] for label in labels], np.int32)
        return Events(values, renumber[codes], tuple(ordered))

    @staticmethod
    def joined(parts: Sequence[Events]) -> Events:
        """Return the events of several parts; groups with equal labels are merged."""
        labels = [label for part in parts for label in part.labels]
        before = np.cumsum([0, *(len(part.labels) for part in parts)], dtype=np.int32)
        codes = [part.codes + first for part, first in zip(parts, before, strict=False)]
        values = np.concatenate([np.zeros(0, np.int64), *(part.values for part in parts)])
        return Events.grouped(values, np.concatenate([np.zeros(0, np.int32), *codes]), labels)

    def relabelled(self, label: Callable[[str], Label]) -> Events:
        """Return the same events with new labels, computed from the first part of each label."""
        return Events.grouped(self.values, self.codes, [label(str(old[0])) for old in self.labels])

    def texts(self, part: int) -> list[str | None]:
        """Return one part of the label of each group."""
        return [None if (text := label[part]) is None else str(text) for label in self.labels]


def _sort_key(label: Label) -> tuple[tuple[bool, str | int], ...]:
    return tuple((part is not None, 0 if part is None else part) for part in label)


def kernel_durations(trace: Trace, arguments: Sequence[str]) -> Events:
    """Return the durations of kernels in ns, labelled (name,).

    Args:
        trace: The trace.
        arguments: Table arguments that select the kernels' names.
    """
    names, is_ordered = _kernel_names(trace, arguments)
    labels = [(text,) for text in names.values]
    return Events.grouped(_durations_ns(trace, "kernel", ordered=is_ordered), names.codes, labels)


def kernel_durations_by_launch(trace: Trace, arguments: Sequence[str]) -> Events:
    """Return the durations of kernels in ns, labelled (name, grid x, y, z, block x, y, z)."""
    sizes = [f"{kind}_{axis}" for kind in ("grid", "block") for axis in "xyz"]
    trace.foresee({"kernel": sizes})
    names, is_ordered = _kernel_names(trace, arguments)
    columns = trace.columns("kernel", *sizes, ordered=is_ordered)
    groups = factorize_rows(names.codes, *(columns[size].values for size in sizes))
    numbers = (columns[size].values[groups.first].tolist() for size in sizes)
    texts = [names.values[code] for code in names.codes[groups.first].tolist()]
    labels = list(zip(texts, *numbers, strict=True))
    durations = _durations_ns(trace, "kernel", ordered=is_ordered)
    return Events.grouped(durations, groups.codes, labels)


def _kernel_names(trace: Trace, arguments: Sequence[str]) -> tuple[Texts, bool]:
    """Return the names of kernels, and whether rows are in the total order.

    Only names with a range prefix need the total order, which requires a sort.
    """
    if PREFIX in arguments:
        return kernel_texts(trace, arguments), True
    column = kernel_name_column(arguments)
    trace.foresee({"kernel": (column, *_TIMES)})
    codes, distinct = number_texts(kernel_name_ids(trace, column), len(trace.strings))
    return Texts(codes, trace.strings.texts(distinct.tolist())), False


def memory_operations(trace: Trace, value: str) -> Events:
    """Return copies and memsets, labelled (operation,).

    Args:
        trace: The trace.
        value: ``"duration_ns"`` or ``"bytes"``.
    """
    parts = []
    for table in _tables_with_rows(trace, "memcpy", "memset"):
        if value == "bytes":
            values = trace.columns(table, "bytes", ordered=False)["bytes"].values
        else:
            values = _durations_ns(trace, table)
        parts.append(_labelled_by_operation(trace, table, values))
    return Events.joined(parts)


def call_durations(trace: Trace, table: str) -> Events:
    """Return the durations of calls in ns, labelled (name as recorded,).

    Args:
        trace: The trace.
        table: ``"api_call"`` or ``"os_call"``.
    """
    trace.foresee({table: ("name_id", *_TIMES)})
    names = trace.columns(table, "name_id", ordered=False)["name_id"].values
    return _labelled_by_text(trace, table, names)


def device_durations(trace: Trace, arguments: Sequence[str]) -> Events:
    """Return the durations of kernels, copies and memsets in ns, labelled (name, category)."""
    parts = []
    if _tables_with_rows(trace, "kernel"):
        kernels = kernel_durations(trace, arguments)
        parts.append(kernels.relabelled(lambda name: (name, "CUDA_KERNEL")))
    memory = memory_operations(trace, "duration_ns")
    return Events.joined([*parts, memory.relabelled(lambda name: (name, "MEMORY_OPER"))])


def api_and_device_durations(trace: Trace, arguments: Sequence[str]) -> Events:
    """Return durations of CUDA API calls and GPU operations in ns, labelled (name, category)."""
    parts = [device_durations(trace, arguments)]
    if _tables_with_rows(trace, "api_call"):
        calls = call_durations(trace, "api_call")
        parts.append(calls.relabelled(lambda name: (without_version(name), "CUDA_API")))
    return Events.joined(parts)


def range_durations(trace: Trace, style: str | None = None) -> Events:
    """Return the durations of ranges in ns, labelled (domain:name, style).

    Args:
        trace: The trace.
        style: ``"PushPop"``, ``"StartEnd"``, or None for both.

    Ranges in the default domain have no domain prefix. Unnamed ranges have None.
    """
    names = ("domain_id", "name_id", "style")
    trace.foresee({"range": (*names, *_TIMES)})
    columns = trace.columns("range", *names, ordered=False)
    keys = [_id_or_minus_1(columns[name]) for name in names]
    groups = factorize_rows(*keys)
    domains, name_ids, styles = (key[groups.first].tolist() for key in keys)
    labels = [
        (_range_label(trace, domain, name), RANGE_STYLES.get(kind, str(kind)))
        for domain, name, kind in zip(domains, name_ids, styles, strict=True)
    ]
    durations = _durations_ns(trace, "range")
    if style is None:
        return Events.grouped(durations, groups.codes, labels)
    wanted = np.array([kind == style for _, kind in labels], np.bool_)
    rows = np.flatnonzero(wanted[groups.codes])
    number = np.cumsum(wanted) - 1
    chosen = [label for label in labels if label[1] == style]
    return Events.grouped(durations[rows], number[groups.codes[rows]], chosen)


def copy_name(kind: int) -> str:
    """Return nsys's name for copies of a kind: ``[CUDA memcpy Host-to-Device]``."""
    return f"[CUDA memcpy {COPY_KINDS.get(kind, f'kind {kind}')}]"


def without_version(name: str) -> str:
    """Return a CUDA function's name without its four-digit version suffix.

    ``cudaMalloc_v3020`` becomes ``cudaMalloc``. As in nsys, five-digit versions such as
    ``_v10000`` stay.
    """
    return _FOUR_DIGIT_VERSION.sub("", name)


def _labelled_by_text(trace: Trace, table: str, ids: I32) -> Events:
    codes, distinct = number_texts(ids, len(trace.strings))
    labels = [(text,) for text in trace.strings.texts(distinct.tolist())]
    return Events.grouped(_durations_ns(trace, table), codes, labels)


def _labelled_by_operation(trace: Trace, table: str, values: I64) -> Events:
    if table == "memset":
        return Events.grouped(values, np.zeros(len(values), np.int32), [(MEMSET_NAME,)])
    kinds = factorize(trace.columns("memcpy", "kind", ordered=False)["kind"].values)
    labels = [(copy_name(kind),) for kind in kinds.uniques.tolist()]
    return Events.grouped(values, kinds.codes, labels)


def _range_label(trace: Trace, domain: int, name: int) -> str | None:
    if name < 0:
        return None
    text = trace.strings.text(name)
    return text if domain < 0 else f"{trace.strings.text(domain)}:{text}"


def _id_or_minus_1(column: ColumnData) -> Integers:
    return column.filled(-1)


def _durations_ns(trace: Trace, table: str, *, ordered: bool = False) -> I64:
    """Return end minus start of each row, in total order or in the order of unordered columns."""
    columns = trace.columns(table, *_TIMES, ordered=ordered)
    durations: I64 = columns["end_ns"].values - columns["start_ns"].values
    return durations


def _tables_with_rows(trace: Trace, *tables: str) -> list[str]:
    return [table for table in tables if trace.has(table) and trace.row_count(table)]
