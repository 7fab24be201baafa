"""The processed format of the Firefox Profiler, for profiler.firefox.com.

It is written in version 60 of the format: the profiler upgrades what it loads. Times and weights
are in ms. NVTX ranges are markers of their threads.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np

import warpline
from warpline.derived.flame.profiles import LabelKind, Labels, Profile, profile
from warpline.derived.flame.threads import thread_name
from warpline.derived.flame.weighted import TITLES, Choice
from warpline.exporters import EXPORTERS, stack_exporter
from warpline.files import complete_file
from warpline.ops.arrays import I64
from warpline.ops.group import distinct_values
from warpline.trace import Trace

_VERSION = 60
_GECKO_VERSION = 31
_NS_PER_MS = 1e6
_MOST_MARKERS = 200_000
_LIBRARY = 1  # type of a resource
_NO_ADDRESS = _NO_RESOURCE = -1
_INTERVAL = 1  # phase of a marker
# The categories by `LabelKind`; the profiler requires a grey one.
_CATEGORIES = (
    ("Other", "grey"),
    ("Native", "blue"),
    ("Kernel", "orange"),
    ("Python", "yellow"),
    ("GPU", "green"),
    ("OS", "red"),
)
_NVTX = {
    "name": "NVTX",
    "display": ["marker-chart", "marker-table", "timeline-overview"],
    "fields": [],
}


def write(trace: Trace, path: Path, choice: Choice) -> None:
    """Write a thread for each thread with samples, the one with the most time first."""
    found = profile(trace, choice)
    texts = _Texts()
    document = {
        "meta": _meta(trace, choice, found),
        "libs": [],
        "threads": _threads(trace, found, texts),
        "pages": [],
        "shared": _shared(found, texts),
    }
    with complete_file(path) as unfinished, unfinished.open("w", encoding="utf-8") as out:
        for part in json.JSONEncoder(separators=(",", ":")).iterencode(document):
            out.write(part)


class _Texts:
    """The table of texts."""

    def __init__(self) -> None:
        self._places: dict[str, int] = {}

    @property
    def all(self) -> list[str]:
        return [*self._places]

    def place(self, text: str) -> int:
        return self._places.setdefault(text, len(self._places))


def _meta(trace: Trace, choice: Choice, found: Profile) -> dict[str, Any]:
    used = found.weight_ns[found.weight_ns > 0]
    return {
        "interval": float(np.median(used)) / _NS_PER_MS if len(used) else 1.0,
        "startTime": 0,
        "processType": 0,
        "product": trace.meta.paths[0].name if trace.meta.paths else "program",
        "importedFrom": f"warpline {warpline.__version__}: {TITLES[choice.of]}",
        "stackwalk": 1,
        "version": _GECKO_VERSION,
        "preprocessedProfileVersion": _VERSION,
        "symbolicated": True,
        "symbolicationNotSupported": True,
        "sourceCodeIsNotOnSearchfox": True,
        "keepProfileThreadOrder": True,
        "markerSchema": [_NVTX],
        "categories": [
            {"name": name, "color": color, "subcategories": ["Other"]}
            for name, color in _CATEGORIES
        ],
    }


def _threads(trace: Trace, found: Profile, texts: _Texts) -> list[dict[str, Any]]:
    order = np.lexsort((found.time_ns, found.thread))
    bounds = np.flatnonzero(np.diff(found.thread[order], prepend=-2, append=-2))
    parts = [order[first:last] for first, last in itertools.pairwise(bounds)]
    parts.sort(key=lambda rows: -int(found.weight_ns[rows].sum()))
    markers = _markers_by_thread(trace, texts)
    return [_thread(trace, found, rows, markers) for rows in parts]


def _thread(
    trace: Trace, found: Profile, rows: I64, markers: Callable[[int], dict[str, Any]]
) -> dict[str, Any]:
    row = int(found.thread[rows[0]])
    name = thread_name(trace, row)
    time = found.time_ns[rows]
    return {
        "processType": "default",
        "processStartupTime": 0,
        "processShutdownTime": None,
        "registerTime": float(time[0]) / _NS_PER_MS,
        "unregisterTime": None,
        "pausedRanges": [],
        "name": name.text,
        "isMainThread": name.pid == name.tid,
        "pid": str(name.pid),
        "tid": name.tid,
        "samples": {
            "stack": found.node[rows].tolist(),
            "time": (time / _NS_PER_MS).tolist(),
            "weight": (found.weight_ns[rows] / _NS_PER_MS).tolist(),
            "weightType": "tracing-ms",
            "length": len(rows),
        },
        "markers": markers(row),
    }


def _markers_by_thread(trace: Trace, texts: _Texts) -> Callable[[int], dict[str, Any]]:
    """Return a function that returns the NVTX ranges of a thread; none if there are too many."""
    none = np.zeros(0, np.int64)
    start = end = thread = name = none
    if trace.has("range") and trace.row_count("range") <= _MOST_MARKERS:
        columns = trace.columns("range", "start_ns", "end_ns", "thread_id", "name_id")
        start, end = columns["start_ns"].values, columns["end_ns"].values
        thread, name = (columns[each].filled(-1) for each in ("thread_id", "name_id"))
    names = distinct_values(name[name >= 0])
    places = np.array([texts.place(text) for text in trace.strings.texts(names.tolist())], np.int64)

    def markers(row: int) -> dict[str, Any]:
        own = np.flatnonzero((thread == row) & (name >= 0)) if row >= 0 else none
        return {
            "data": [{"type": "NVTX"}] * len(own),
            "name": places[np.searchsorted(names, name[own])].tolist() if len(own) else [],
            "startTime": (start[own] / _NS_PER_MS).tolist(),
            "endTime": (end[own] / _NS_PER_MS).tolist(),
            "phase": [_INTERVAL] * len(own),
            "category": [0] * len(own),
            "length": len(own),
        }

    return markers


def _shared(found: Profile, texts: _Texts) -> dict[str, Any]:
    """Return the tables of stacks and code. A label is a frame; labels of one function share it."""
    labels, stacks = found.labels, found.stacks
    functions = _functions(labels)
    number = {function: place for place, function in enumerate(functions)}
    modules = _distinct(
        labels.module[row] for row in functions.values() if _is_library(labels, row)
    )
    files = _distinct(labels.file[row] for row in functions.values() if _has_source(labels, row))
    count, of_functions = len(labels), [*functions.values()]
    tables: dict[str, dict[str, Any]] = {
        "stackTable": {
            "frame": stacks.frame.tolist(),
            "prefix": [
                parent if depth else None
                for parent, depth in zip(stacks.parent.tolist(), stacks.depth.tolist(), strict=True)
            ],
            "length": len(stacks),
        },
        "frameTable": {
            "address": [_NO_ADDRESS] * count,
            "inlineDepth": [0] * count,
            "category": [int(kind) for kind in labels.kind],
            "subcategory": [0] * count,
            "func": [number[key] for key in zip(labels.function, labels.file, strict=True)],
            "nativeSymbol": [None] * count,
            "innerWindowID": [None] * count,
            "line": [line or None for line in labels.line],
            "column": [None] * count,
            "length": count,
        },
        "funcTable": {
            "name": [texts.place(labels.name[row]) for row in of_functions],
            "isJS": [False] * len(functions),
            "relevantForJS": [False] * len(functions),
            "resource": [
                modules[labels.module[row]] if _is_library(labels, row) else _NO_RESOURCE
                for row in of_functions
            ],
            "source": [
                files[labels.file[row]] if _has_source(labels, row) else None
                for row in of_functions
            ],
            "lineNumber": [None] * len(functions),
            "columnNumber": [None] * len(functions),
            "length": len(functions),
        },
        "resourceTable": {
            "type": [_LIBRARY] * len(modules),
            "lib": [None] * len(modules),
            "name": [texts.place(module) for module in modules],
            "host": [None] * len(modules),
            "length": len(modules),
        },
        "nativeSymbols": {
            "libIndex": [],
            "address": [],
            "name": [],
            "functionSize": [],
            "length": 0,
        },
        "sources": {
            "uuid": [None] * len(files),
            "filename": [texts.place(file) for file in files],
            "length": len(files),
        },
    }
    return {**tables, "stringArray": texts.all}  # last: the tables add texts


def _functions(labels: Labels) -> dict[tuple[int, str], int]:
    """Return the first label of each function and file: code of other files may be inlined."""
    found: dict[tuple[int, str], int] = {}
    for place, function in enumerate(zip(labels.function, labels.file, strict=True)):
        found.setdefault(function, place)
    return found


def _is_library(labels: Labels, place: int) -> bool:
    return bool(labels.module[place]) and labels.kind[place] != LabelKind.PYTHON


def _has_source(labels: Labels, place: int) -> bool:
    """Return whether the file of a label is one of source code, not a library."""
    is_known = labels.file[place] != labels.module[place] or not _is_library(labels, place)
    return bool(labels.file[place]) and is_known


def _distinct(texts: Iterable[str]) -> dict[str, int]:
    return {text: place for place, text in enumerate(dict.fromkeys(texts))}


EXPORTERS.add(
    "firefox",
    stack_exporter(
        "firefox", "Stacks and NVTX ranges for the Firefox Profiler.", ".firefox.json", write
    ),
)
