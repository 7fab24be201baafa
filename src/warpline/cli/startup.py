"""Imports that commands make when they run, as cheap as they can be."""

from __future__ import annotations

import os
from types import ModuleType

_BLAS_THREADS = "OPENBLAS_NUM_THREADS"


def load_api() -> ModuleType:
    """Import and return `warpline.api`, with a numpy that starts no threads.

    numpy's linear algebra starts one per processor when it is imported; nothing here uses them,
    and they cost more than many a command. The variable that prevents it is taken back, so that
    programs started later do not inherit it.
    """
    is_chosen = _BLAS_THREADS in os.environ
    os.environ.setdefault(_BLAS_THREADS, "1")
    try:
        from warpline import api  # noqa: PLC0415 - start-up
    finally:
        if not is_chosen:
            del os.environ[_BLAS_THREADS]
    return api
