"""What commands use, imported when they use it, so that each starts fast."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from typing import Any

from warpline import installation
from warpline.lazy import lazy as deferred

_BLAS_THREADS = "OPENBLAS_NUM_THREADS"


# Packages whose modules import numpy.
_OF_ARRAYS = {"api", "derived", "documents", "mcp", "render", "result", "trace", "viewer"}


def lazy(name: str) -> Any:
    """Return a module that is imported on first use, with a numpy that starts no threads.

    On import, the linear algebra of numpy starts one thread per CPU. Warpline does not use them,
    and starting them takes longer than many commands. The variable that prevents this is removed
    again, so that child processes do not inherit it.
    """
    needs_numpy = name.startswith("warpline.") and name.split(".")[1] in _OF_ARRAYS
    return deferred(name, _with_numpy if needs_numpy else contextlib.nullcontext)


@contextlib.contextmanager
def _with_numpy() -> Iterator[None]:
    """Import numpy first, as an import of the command and not of imports within imports.

    Python 3.11 allocates its stack in chunks. Where a loop calls across the end of one, each call
    maps and unmaps a chunk, and numpy's own imports are as deep as a chunk is long.

    Raises InstallationError where recordings cannot be read.
    """
    installation.require_reading()
    with _without_threads():
        import numpy as np  # noqa: F401, PLC0415 - here, for the reason above

        yield


@contextlib.contextmanager
def _without_threads() -> Iterator[None]:
    is_chosen = _BLAS_THREADS in os.environ
    os.environ.setdefault(_BLAS_THREADS, "1")
    try:
        yield
    finally:
        if not is_chosen:
            os.environ.pop(_BLAS_THREADS, None)
