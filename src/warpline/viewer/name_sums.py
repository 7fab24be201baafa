"""Time and number of events per name in any run of a row's events, and the search for names."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from warpline.ops.arrays import I64, BoolArray

CHUNK = 2**14


@dataclass(frozen=True)
class NameSums:
    """Running sums by name, every `CHUNK` events.

    Attributes:
        names: Names in the row, ascending, shape (k,).
        ns: Time of the events before each chunk, shape (chunks + 1, k).
        count: Number of the events before each chunk, shape (chunks + 1, k).
    """

    names: I64
    ns: I64
    count: I64

    def between(self, low: int, high: int) -> tuple[I64, I64]:
        """Return time and number of the events of the chunks ``[low, high)``, by name."""
        return self.ns[high] - self.ns[low], self.count[high] - self.count[low]

    def chunks_with(self, lit: BoolArray) -> BoolArray:
        """Return which chunks have an event with a highlighted name, shape (chunks,)."""
        lit_count = self.count[:, lit[self.names]].sum(axis=1)
        has_any: BoolArray = np.diff(lit_count) > 0
        return has_any


def name_sums(name: I64, start_ns: I64, end_ns: I64, names: int) -> NameSums | None:
    """Return the sums of a row; None if it has too many names for sums to be useful.

    Args:
        name: Shape (n,), indices of names.
        start_ns: Shape (n,).
        end_ns: Shape (n,).
        names: Number of names.
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
