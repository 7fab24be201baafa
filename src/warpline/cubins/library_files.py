"""Which source files are those of a compiler or its libraries, and not of the program."""

from __future__ import annotations

import re
from functools import lru_cache

# Headers of CUDA, wherever they are installed, those of the system, and the functions of Triton.
_LIBRARY = re.compile(
    rb"/targets/[^/]+/include/|/cuda[^/]*/include/|/nvidia/[^/]+/include/"
    rb"|^/usr/(?:local/)?(?:include|lib)/|/triton/language/"
)


@lru_cache(maxsize=10_000)
def is_of_library(path: bytes) -> bool:
    """Return whether a file belongs to CUDA, the system or Triton."""
    return _LIBRARY.search(path) is not None
