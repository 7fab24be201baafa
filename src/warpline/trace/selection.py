"""Parts of a trace by names, process ids and times, where `Trace.select` takes row numbers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from warpline.errors import MissingTableError, UsageError
from warpline.lazy import lazy
from warpline.ops.arrays import I64
from warpline.trace.filters import Excluded
from warpline.trace.recorder import table_hint
from warpline.trace.trace import Trace
from warpline.units import parse_ns, plural

if TYPE_CHECKING:
    import difflib
else:
    difflib = lazy("difflib")

Words = str | int | Sequence[str | int]

_LISTED = 12  # names in a hint
_COMPARED = 5000  # names that a misspelled one is compared with


def select(
    trace: Trace,
    *,
    filter_time: str | None = None,
    filter_nvtx: str | None = None,
    exclude: str | Sequence[str] = (),
    process: Words = (),
    device: Words = (),
    stream: Words = (),
) -> Trace:
    """Return the part of a trace that the arguments describe. It shares memory with the whole.

    Args:
        trace: A trace or a part of one.
        filter_time: Time range ``START/END``, such as ``1.5s/2s`` or ``200ms/``; see
            `warpline.units.parse_ns`. Keeps events that overlap it. Ignored if `filter_nvtx` is
            given.
        filter_nvtx: ``RANGE[@DOMAIN][/INDEX]``. Keeps events that overlap this instance of an NVTX
            range. Instances count from 0, in order of their starts.
        exclude: One or several ``RANGE[@DOMAIN]``. Drops every instance, and the GPU operations
            launched from it.
        process: Process ids or names, as numbers, as text, or as comma-separated text. A name is
            the path of the executable or its last component.
        device: GPU indices, or prefixes of UUIDs.
        stream: CUDA stream ids.

    Raises:
        UsageError: There is no range, process, device or stream of that name, or a time is invalid.
        MissingTableError: A range is given, but no ranges were recorded.
    """
    owners = _rows("process", process, lambda: _process_labels(trace))
    whole = trace if owners is None else trace.select(process=owners)
    part = whole.select(
        device=_rows("device", device, lambda: _device_labels(trace)),
        stream=_rows("stream", stream, lambda: _stream_labels(trace)),
    )
    names = [exclude] if isinstance(exclude, str) else exclude
    if names:
        part = part.filtered(_excluded(whole, names))
    if filter_nvtx is not None:
        return part.window(*_instance(whole, filter_nvtx))
    return part if filter_time is None else part.window(*parse_window(filter_time))


def parse_window(text: str) -> tuple[int | None, int | None]:
    """Parse ``START/END`` into ns; None for an omitted side. Raises UsageError if it is invalid."""
    sides = text.split("/")
    if len(sides) != 2 or not (sides[0].strip() or sides[1].strip()):
        raise UsageError(
            f"invalid time range {text!r}", hint="use START/END, such as 1.5s/2s or 200ms/"
        )
    try:
        start_ns, end_ns = (parse_ns(side) if side.strip() else None for side in sides)
    except ValueError as error:
        raise UsageError(f"invalid time range {text!r}: {error}") from None
    if start_ns is not None and end_ns is not None and start_ns > end_ns:
        raise UsageError(f"time range {text!r} ends before it starts")
    return start_ns, end_ns


def _instance(trace: Trace, text: str) -> tuple[int, int]:
    """Return start and end of the instance ``RANGE[@DOMAIN][/INDEX]``."""
    name, slash, number = text.rpartition("/")
    has_index = bool(slash) and number.isascii() and number.isdecimal()
    name, index = (name, int(number)) if has_index else (text, 0)
    rows = _instances(trace, name)
    if index >= len(rows):
        count = plural(len(rows), "instance")
        raise UsageError(
            f"there is no {text!r}: range {name!r} has {count}",
            hint=f"instances count from 0; the last is {name}/{len(rows) - 1}",
        )
    times = trace.columns("range", "start_ns", "end_ns")
    row = rows[index]
    return int(times["start_ns"].values[row]), int(times["end_ns"].values[row])


def _excluded(trace: Trace, names: Sequence[str]) -> Excluded:
    """Return the filter that drops all instances of the ranges."""
    rows = np.concatenate([_instances(trace, name) for name in names])
    columns = trace.columns("range", "start_ns", "end_ns", "process_id")
    return Excluded(
        columns["start_ns"].values[rows],
        columns["end_ns"].values[rows],
        columns["process_id"].values[rows],
    )


def _instances(trace: Trace, text: str) -> I64:
    """Return the rows of the ranges named ``RANGE[@DOMAIN]``, by start; at least one."""
    if not trace.has("range"):
        raise MissingTableError(
            f"there is no range {text!r}: no ranges were recorded",
            hint=table_hint(
                trace,
                ("range",),
                "add NVTX ranges to the program and profile it with --trace=cuda,nvtx",
            ),
        )
    name, at, domain = text.rpartition("@")
    rows = _rows_named(trace, name, domain) if at else np.zeros(0, np.int64)
    if not len(rows):
        rows = _rows_named(trace, text, None)
    if not len(rows):
        raise UsageError(f"no range is named {text!r}", hint=_near_ranges(trace, text))
    return rows


def _rows_named(trace: Trace, name: str, domain: str | None) -> I64:
    columns = trace.columns("range", "name_id", "domain_id")
    # After the columns are loaded, because the pool has only loaded texts.
    name_row = trace.strings.find(name)
    domain_row = -1 if domain is None else trace.strings.find(domain)
    if name_row is None or domain_row is None:
        return np.zeros(0, np.int64)
    is_named = columns["name_id"].filled(-1) == name_row
    return np.flatnonzero(is_named & (columns["domain_id"].filled(-1) == domain_row))


def _near_ranges(trace: Trace, text: str) -> str:
    """Suggest ranges, each with the number of its instances."""
    columns = trace.columns("range", "name_id", "domain_id")
    keys = zip(
        columns["name_id"].filled(-1).tolist(),
        columns["domain_id"].filled(-1).tolist(),
        strict=True,
    )
    counts = {
        _label(trace, name, domain): (count, name)
        for (name, domain), count in Counter(keys).most_common(_COMPARED)
        if name >= 0
    }
    if not counts:
        return "this part of the recording has no ranges"
    same = [label for label, (_, name) in counts.items() if trace.strings.text(name) == text]
    near = same or difflib.get_close_matches(text, counts, n=3, cutoff=0.6)
    shown = near[:3] or list(counts)[:_LISTED]
    names = ", ".join(f"{label} ({plural(counts[label][0], 'instance')})" for label in shown)
    rest = "" if near or len(counts) <= _LISTED else f" and {len(counts) - _LISTED:,} more"
    return f"did you mean {names}?" if near else f"ranges: {names}{rest}"


def _label(trace: Trace, name: int, domain: int) -> str:
    text = trace.strings.text(name)
    return text if domain < 0 else f"{text}@{trace.strings.text(domain)}"


Labels = list[tuple[str, Callable[[str], bool]]]


def _rows(kind: str, words: Words, labels_of: Callable[[], Labels]) -> list[int] | None:
    """Return the rows of a dimension that the words name, or None without words.

    Args:
        kind: Kind of the rows, for messages.
        words: The words of the user.
        labels_of: Returns, for each row, its label and a function that matches a word. Called only
            if there are words, because the names of processes may require reading every table.
    """
    wanted = list(_split(words))
    if not wanted:
        return None
    labels = labels_of()
    rows: set[int] = set()
    for word in wanted:
        meant = [row for row, (_, means) in enumerate(labels) if means(word)]
        if not meant:
            known = list(dict.fromkeys(label for label, _ in labels))
            listed = ", ".join(known[:_LISTED]) or "none"
            rest = f" and {len(known) - _LISTED:,} more" if len(known) > _LISTED else ""
            plural_kind = f"{kind}es" if kind.endswith("s") else f"{kind}s"
            raise UsageError(
                f"the recording has no {kind} {word!r}", hint=f"{plural_kind}: {listed}{rest}"
            )
        rows.update(meant)
    return sorted(rows)


def _split(words: Words) -> Iterable[str]:
    parts = [words] if isinstance(words, str | int) else words
    return (word.strip() for part in parts for word in str(part).split(",") if word.strip())


def _process_labels(trace: Trace) -> Labels:
    columns = trace.columns("process", "pid", "name_id") if trace.has("process") else None
    if columns is None:
        return []
    labels: Labels = []
    for pid, name_row in zip(columns["pid"].to_list(), columns["name_id"].to_list(), strict=True):
        name = "" if name_row is None else trace.strings.text(name_row)
        called = {str(pid), name, name.rpartition("/")[2]} - {""}
        labels.append((f"{pid} {name}".strip(), called.__contains__))
    return labels


def _device_labels(trace: Trace) -> Labels:
    columns = trace.columns("device", "gpu_index", "uuid_id") if trace.has("device") else None
    if columns is None:
        return []
    labels: Labels = []
    for index, uuid_row in zip(
        columns["gpu_index"].to_list(), columns["uuid_id"].to_list(), strict=True
    ):
        uuid = "" if uuid_row is None else trace.strings.text(uuid_row)
        labels.append((f"{index} {uuid}".strip(), _means_device(index, uuid)))
    return labels


def _means_device(index: int, uuid: str) -> Callable[[str], bool]:
    plain = _plain_uuid(uuid)

    def means(word: str) -> bool:
        if word.isascii() and word.isdecimal() and len(word) < 4:
            return int(word) == index
        prefix = _plain_uuid(word)
        return bool(prefix) and plain.startswith(prefix)

    return means


def _plain_uuid(text: str) -> str:
    return text.lower().removeprefix("gpu-").replace("-", "")


def _stream_labels(trace: Trace) -> Labels:
    if not trace.has("stream"):
        return []
    native_ids = trace.columns("stream", "native_id")["native_id"].to_list()
    return [(str(native_id), str(native_id).__eq__) for native_id in native_ids]
