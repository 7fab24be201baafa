"""Searching for a sequence of kernels, as numbers, within a longer one."""

from __future__ import annotations

import numpy as np

from warpline.ops.arrays import I32, I64

_LEAST_ALIKE = 3  # kernels in order, or all there are: fewer are alike by chance
_SEED = 0


def occurrences(wanted: I32, among: I32) -> int:
    """Return how often a sequence occurs, without overlaps.

    Args:
        wanted: Shape (n,), int32, not empty.
        among: Shape (m,), int32.
    """
    text, pattern, size = among.tobytes(), wanted.tobytes(), among.itemsize
    count, at = 0, text.find(pattern)
    while at >= 0:
        is_number = at % size == 0  # not the end of one number and the start of the next
        count += is_number
        at = text.find(pattern, at + (len(pattern) if is_number else 1))
    return count


def occurs_in_other_order(wanted: I32, among: I32) -> bool:
    """Return whether as many consecutive numbers are the same ones in any order."""
    count = len(wanted)
    if not count or count > len(among):
        return False
    most = int(max(wanted.max(), among.max())) + 1
    weights = np.random.default_rng(_SEED).integers(1, 2**62, most, dtype=np.uint64)
    sums = np.append(np.zeros(1, np.uint64), np.cumsum(weights[among], dtype=np.uint64))
    windows = sums[count:] - sums[:-count]  # modulo 2**64
    places: I64 = np.flatnonzero(windows == weights[wanted].sum(dtype=np.uint64))
    if not len(places):
        return False
    first = int(places[0])
    return bool(np.array_equal(np.sort(among[first : first + count]), np.sort(wanted)))


def first_difference(wanted: I32, among: I32) -> tuple[int, int]:
    """Return where a sequence first differs from the place that begins most like it.

    Returns:
        The place within `wanted`, and the number in its place, -1 if `among` ends there. (-1, -1)
        if nothing begins like it.
    """
    starts: I64 = np.flatnonzero(among == wanted[0]) if len(wanted) else np.zeros(0, np.int64)
    if not len(starts):
        return -1, -1
    last, alike = starts, 1
    while alike < len(wanted):
        at = last + alike
        inside = at < len(among)
        same = last[inside][among[at[inside]] == wanted[alike]]
        if not len(same):
            break
        last, alike = same, alike + 1
    if alike < min(_LEAST_ALIKE, len(wanted)):
        return -1, -1
    at_end = int(last[-1]) + alike
    return alike, int(among[at_end]) if at_end < len(among) else -1
