"""Comparable forms of two scans of a Chrome trace."""

from __future__ import annotations

import json
import re
from typing import Any

import numpy as np

from warpline.ops.arrays import I32
from warpline.readers.kineto.scan import JSON, LARGE, REAL, TEXT, Argument, Scan

NUMBERS = ("phase", "ts_ns", "dur_ns", "has_ts", "has_dur")
LONE_SURROGATE = re.compile("[\ud800-\udfff]")  # JSON can name one; UTF-8 cannot hold it
TEXTS = ("name", "category", "pid", "tid", "id")


def events_of(scan: Scan) -> dict[str, list[Any]]:
    """Return the columns of events, with texts instead of their numbers."""
    columns: dict[str, list[Any]] = {name: getattr(scan, name).tolist() for name in NUMBERS}
    return columns | {name: texts_of(scan, getattr(scan, name)) for name in TEXTS}


def texts_of(scan: Scan, numbers: I32) -> list[bytes | None]:
    """Return texts by their numbers, None for -1."""
    known = {number: scan.texts[number] for number in np.unique(numbers).tolist() if number >= 0}
    return [known.get(number) for number in numbers.tolist()]


def arguments_of(scan: Scan) -> dict[bytes, list[tuple[int, int, Any]]]:
    """Return event, kind and value of each argument; JSON is normalized."""
    return {name: _values(scan, argument) for name, argument in scan.args.items()}


def _values(scan: Scan, argument: Argument) -> list[tuple[int, int, Any]]:
    values: list[Any] = argument.value.tolist()
    reals = argument.value.astype(np.int64).view(np.float64).tolist()
    for place, kind in enumerate(argument.kind.tolist()):
        if kind == REAL:
            values[place] = repr(reals[place])  # so that NaN equals itself
        elif kind in (TEXT, LARGE):
            values[place] = scan.texts[values[place]]
        elif kind == JSON:
            values[place] = _as_written_once(scan.texts[values[place]])
    return list(zip(argument.event.tolist(), argument.kind.tolist(), values, strict=True))


def _as_written_once(text: bytes) -> str:
    value = json.loads(text, strict=False)
    return LONE_SURROGATE.sub("\ufffd", json.dumps(value, ensure_ascii=False))
