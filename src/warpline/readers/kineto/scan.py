"""What a scan of a Chrome trace finds: all events as columns, requested arguments as triples.

`scan_native.scan` and `scan_python.scan` return the same. Both read the events before a truncation
or damage, and report the rest as lost.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from warpline.ops.arrays import I32, I64, BoolArray

U8 = npt.NDArray[np.uint8]
Signed = npt.NDArray[np.signedinteger[Any]]
"""Signed integers of any size: as few bytes each as the largest needs."""

NO_TEXT = -1

# Values of Argument.kind.
NULL, BOOL, INT, REAL, TEXT, JSON, LARGE = range(7)


@dataclass(frozen=True)
class Argument:
    """One argument of the events that have it, k of them.

    Attributes:
        event: Shape (k,), int32, the events, ascending; each once.
        kind: Shape (k,), uint8: null, a bool, a 64-bit integer, another number, a
            text, an array or object, or an integer that is too large.
        value: Shape (k,), signed: 0 for null, 0 or 1, the integer, the bits of the float64; of
            the others the number of their text, which is JSON for arrays and objects.
    """

    event: I32
    kind: U8
    value: Signed


@dataclass(frozen=True)
class Scan:
    """The events of a trace in the file's order, n of them, and the requested arguments.

    Attributes:
        phase: Shape (n,), uint8, the character of ``ph``; 0 if absent.
        name: Shape (n,), signed, numbers in `texts`; -1 if absent.
        category: Shape (n,), signed, likewise.
        pid: Shape (n,), signed, the text of the value, be it a number or a text.
        tid: Shape (n,), signed, likewise.
        id: Shape (n,), signed, the text of the flow's id; -1 if absent.
        ts_ns: Shape (n,), int64, microseconds as exact ns; parts of a ns are rounded.
        dur_ns: Shape (n,), signed, likewise.
        has_ts: Shape (n,), bool; where False `ts_ns` is 0.
        has_dur: Shape (n,), bool.
        args: Name of an argument -> its events and values, without arguments that no event has.
        texts: Distinct texts in UTF-8, with U+FFFD for invalid bytes.
        top: The members of the file other than its events, parsed.
        lost: The unreadable parts, one sentence each.
        n_bytes: Length of the JSON text.
    """

    phase: U8
    name: Signed
    category: Signed
    pid: Signed
    tid: Signed
    id: Signed
    ts_ns: I64
    dur_ns: Signed
    has_ts: BoolArray
    has_dur: BoolArray
    args: Mapping[bytes, Argument]
    texts: Sequence[bytes]
    top: Mapping[str, Any]
    lost: Sequence[str]
    n_bytes: int

    def __len__(self) -> int:
        return len(self.phase)
