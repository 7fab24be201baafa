"""Time and number of the events of each name in any stretch of a row, and where a name is next."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from warpline.ops.arrays import I64, BoolArray

CHUNK = 2**14


@dataclass(frozen=True)
class NameSums:
    """Running sums by name at every `CHUNK` events.

    Attributes:
        names: Those that the row has, ascending, shape (k,).
        ns: Time of the events before each chunk, shape (chunks + 1, k).
        count: Their number, likewise.
    """

    names: I64
    ns: I64
    count: I64

    def between(self, low: int, high: int) -> tuple[I64, I64]:
        """Return time and number of the events of the chunks ``[low, high)``, by name."""
        return self.ns[high] - self.ns[low], self.count[high] - self.count[low]

    def chunks_with(self, lit: BoolArray) -> BoolArray:
        """Return which chunks have an event of a name that is lit, shape (chunks,)."""
        found = self.count[:, lit[self.names]].sum(axis=1)
        has_any: BoolArray = np.diff(found) > 0
        return has_any


def name_sums(name: I64, start_ns: I64, end_ns: I64, names: int) -> NameSums | None:
    """Return the sums of a row; None where it has too many names for sums to be of use.

    Args:
        name: Shape (n,), places in the names.
        start_ns: Shape (n,).
        end_ns: Shape (n,).
        names: How many names there are.
    """
    present = np.zeros(names, np.bool_)
    present[name] = True
    used = np.flatnonzero(present)
    chunks = -(-len(name) // CHUNK)
    if chunks < 2 or (chunks + 1) * len(used) > len(name) // 8:
        return None
    code = np.zeros(names, np.int64)
    code[used] = np.arange(len(used))
    ns = np.zeros((chunks + 1, len(used)), np.int64)
    count = np.zeros_like(ns)
    for chunk in range(chunks):
        own = slice(chunk * CHUNK, (chunk + 1) * CHUNK)
        codes, length = code[name[own]], end_ns[own] - start_ns[own]
        count[chunk + 1] = np.bincount(codes, minlength=len(used))
        ns[chunk + 1] = np.rint(np.bincount(codes, length, len(used))).astype(np.int64)
    return NameSums(used, np.cumsum(ns, axis=0), np.cumsum(count, axis=0))
