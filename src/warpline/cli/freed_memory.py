"""The process's memory allocator, set for large arrays."""

from __future__ import annotations

import ctypes

# Of <malloc.h>, where glibc has them.
_M_TRIM_THRESHOLD, _M_MMAP_MAX, _M_ARENA_MAX = -1, -4, -8
_MOST_KEPT_BYTES = 2**30


def reuse() -> None:
    """Keep freed memory of arrays for the next ones, instead of returning it to the system.

    By default, glibc returns each large array at once, and the system clears its pages again for
    the next one, which takes a third of the time of an analysis. Other C libraries stay as they
    are.
    """
    allocator = getattr(ctypes.CDLL(None), "mallopt", None)
    if allocator is not None:
        allocator(_M_MMAP_MAX, 0)
        allocator(_M_TRIM_THRESHOLD, _MOST_KEPT_BYTES)


def share() -> None:
    """Let all threads that begin from now on take memory that any of them has freed.

    What a thread of dask receives is freed by the thread that reads it. In arenas of their own, as
    glibc has them, the summaries of a job would be in memory twice.
    """
    allocator = getattr(ctypes.CDLL(None), "mallopt", None)
    if allocator is not None:
        allocator(_M_ARENA_MAX, 1)
