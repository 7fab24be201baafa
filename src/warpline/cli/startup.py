"""Cheap imports for running commands."""

from __future__ import annotations

import os
from types import ModuleType

_BLAS_THREADS = "OPENBLAS_NUM_THREADS"


def load_api() -> ModuleType:
    """Import and return `warpline.api`, with a numpy that starts no threads.

    On import, the linear algebra of numpy starts one thread per CPU. Warpline does not use them,
    and starting them takes longer than many commands. The variable that prevents this is removed
    again, so that child processes do not inherit it.
    """
    is_chosen = _BLAS_THREADS in os.environ
    os.environ.setdefault(_BLAS_THREADS, "1")
    try:
        from warpline import api  # noqa: PLC0415 - start-up
    finally:
        if not is_chosen:
            del os.environ[_BLAS_THREADS]
    return api
