"""The nvtx package, which may have found no profiler before there was one, and does not look again.

Other libraries are no concern: the agent binds their NVTX wherever it is. But this package, from
version 0.2.12 on, asks an extension of NVTX whether there is a profiler. The answer is that of the
first time, and domains that were made without a profiler do nothing.
"""

from __future__ import annotations

import contextlib
import importlib
import sys
from typing import Any


def find_silent() -> list[str]:
    """Return the loaded packages whose NVTX ranges are not recorded.

    Those that have not looked for a profiler yet do so now.
    """
    return ["nvtx"] if type(_default_domain()).__name__ == "DummyDomain" else []


def introduce_others() -> None:
    """Let what was loaded since, or never called NVTX, find the agent."""
    _default_domain()


def _default_domain() -> Any:
    """Return the domain without a name; None if the package is not loaded, or switched off."""
    if "nvtx" not in sys.modules:
        return None
    with contextlib.suppress(ImportError):  # waits for a concurrent import
        nvtx = importlib.import_module("nvtx")
        if nvtx.enabled():
            return nvtx.get_domain()
    return None
