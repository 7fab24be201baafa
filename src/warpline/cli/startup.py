"""What commands use, imported when they use it, so that each starts fast."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from typing import Any

from warpline.lazy import lazy as deferred

_BLAS_THREADS = "OPENBLAS_NUM_THREADS"


def lazy(name: str) -> Any:
    """Return a module that is imported on first use, with a numpy that starts no threads.

    On import, the linear algebra of numpy starts one thread per CPU. Warpline does not use them,
    and starting them takes longer than many commands. The variable that prevents this is removed
    again, so that child processes do not inherit it.
    """
    return deferred(name, _without_threads)


@contextlib.contextmanager
def _without_threads() -> Iterator[None]:
    is_chosen = _BLAS_THREADS in os.environ
    os.environ.setdefault(_BLAS_THREADS, "1")
    try:
        yield
    finally:
        if not is_chosen:
            os.environ.pop(_BLAS_THREADS, None)
