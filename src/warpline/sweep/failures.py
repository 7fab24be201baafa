"""Why a run of a sweep failed, in words: from what its program printed and how it ended."""

from __future__ import annotations

import os
import re
from pathlib import Path

_END_BYTES = 1 << 16  # of the output: what a program says last
_LONGEST = 200
# How libraries say that GPU memory is exhausted.
_OUT_OF_MEMORY = re.compile(
    rb"CUDA out of memory|CUDA_ERROR_OUT_OF_MEMORY|cudaErrorMemoryAllocation"
    rb"|OutOfMemoryError: (?:Out of memory allocating|CUDA)|CUBLAS_STATUS_ALLOC_FAILED"
    rb"|RESOURCE_EXHAUSTED: Out of memory|OOM when allocating tensor"
    rb"|(?:CUDA|cuda|GPU|device)[^\n]{0,80}out of memory",
)
_HOST_MEMORY = re.compile(rb"^MemoryError\b|std::bad_alloc|Cannot allocate memory", re.MULTILINE)
_LAST_LINE = re.compile(r"^(?:[\w.]*(?:Error|Exception)\b.*|error: .*)", re.IGNORECASE)
OUT_OF_MEMORY = "out of GPU memory"
SKIPPED = "skipped: "  # begins the reason of a run that was not made
_VMSTAT = Path("/proc/vmstat")


def end_of(path: Path) -> bytes:
    """Return the end of what a program printed; empty if that cannot be read."""
    try:
        with path.open("rb") as file:
            file.seek(0, os.SEEK_END)
            file.seek(max(file.tell() - _END_BYTES, 0))
            return file.read()
    except OSError:
        return b""


def kernel_kills() -> int | None:
    """Return how many processes Linux has killed for lack of memory; None if it does not say."""
    try:
        lines = _VMSTAT.read_text(encoding="ascii").splitlines()
    except OSError:
        return None
    return next((int(line.split()[1]) for line in lines if line.startswith("oom_kill ")), None)


def why(how_it_ended: str, printed: bytes, *, is_killed_by_kernel: bool = False) -> str:
    """Return why a run failed.

    Args:
        how_it_ended: Such as ``exit status 1``.
        printed: The end of what the program printed.
        is_killed_by_kernel: Whether Linux killed a process for lack of memory meanwhile.
    """
    if _OUT_OF_MEMORY.search(printed):
        return OUT_OF_MEMORY
    if is_killed_by_kernel:
        return f"out of host memory ({how_it_ended} by Linux)"
    if _HOST_MEMORY.search(printed):
        return f"out of host memory ({how_it_ended})"
    line = _last_error(printed.decode("utf-8", "replace"))
    return f"{how_it_ended}: {line}" if line else how_it_ended


def _last_error(text: str) -> str:
    """Return the last line that looks like an error, or else the last line."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    errors = [line for line in lines if _LAST_LINE.match(line)]
    found = (errors or lines or [""])[-1]
    return found if len(found) <= _LONGEST else f"{found[:_LONGEST]}..."
