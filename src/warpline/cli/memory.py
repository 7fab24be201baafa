"""The process's memory allocator, set for large arrays."""

from __future__ import annotations

import ctypes

# Of <malloc.h>, where glibc has them.
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
_MOST_KEPT_BYTES = 2**30
_LARGEST_REUSED_BYTES = 2**25  # glibc accepts no more


def reuse_freed_memory() -> None:
    """Keep freed memory of arrays for the next ones, instead of returning it to the system.

    By default, glibc returns each large array at once, and the system clears its pages again for
    the next one, which takes a third of the time of an analysis. Other C libraries stay as they
    are.
    """
    allocator = getattr(ctypes.CDLL(None), "mallopt", None)
    if allocator is not None:
        allocator(_M_MMAP_THRESHOLD, _LARGEST_REUSED_BYTES)
        allocator(_M_TRIM_THRESHOLD, _MOST_KEPT_BYTES)
