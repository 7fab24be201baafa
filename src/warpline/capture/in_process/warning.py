"""Warnings about a profile, at the line of the program that uses it."""

from __future__ import annotations

import sys
import warnings
from pathlib import Path

_HERE = Path(__file__).parent


def warn(text: str) -> None:
    """Warn the program, which may turn warnings off or into errors."""
    warnings.warn(text, RuntimeWarning, stacklevel=_frames_of_ours())


def _frames_of_ours() -> int:
    """Return the stack level of the caller's code, for the location that a warning shows."""
    depth = 1
    frame = sys._getframe(1)  # noqa: SLF001 - what `warnings` itself does
    while frame.f_back is not None and Path(frame.f_code.co_filename).parent == _HERE:
        frame = frame.f_back
        depth += 1
    return depth
