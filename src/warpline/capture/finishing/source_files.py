"""Source files that code was made from, read while they are still there."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

from warpline.capture.finishing.told import Told
from warpline.units import format_bytes, plural

LARGEST_BYTES, LARGEST_SUM_BYTES = 2 << 20, 16 << 20

# A line table may name any file of the machine, also one that nobody wants in a recording.
_SUFFIXES = (
    *(".c", ".cc", ".cpp", ".cu", ".cuf", ".cuh", ".cxx", ".h", ".hh", ".hpp", ".hxx"),
    *(".inc", ".inl", ".ipp", ".jl", ".mojo", ".ptx", ".py"),
)


class SourceFiles:
    """The files with lines of sampled instructions.

    Args:
        directory: What relative paths start from.
    """

    def __init__(self, directory: str) -> None:
        self._directory = directory
        self._modules: dict[bytes, int] = {}

    def add(self, path: bytes, module: int) -> None:
        """Add a file that code of a module was made from."""
        self._modules.setdefault(path, module)

    def read(self, told: Told) -> Iterator[tuple[bytes, int, list[bytes]]]:
        """Yield path, module and lines of the files that are there, and are no larger than allowed.

        Args:
            told: Takes warnings about the others.
        """
        missing, large, left = [], [], LARGEST_SUM_BYTES
        for path, module in self._modules.items():
            text = read_file(Path(self._directory, os.fsdecode(path)), min(LARGEST_BYTES, left))
            if text is None:
                large.append(os.fsdecode(path))
            elif not text or not _is_source(path):
                missing.append(os.fsdecode(path))
            else:
                left -= len(text)
                yield path, module, text.splitlines()
        if missing:
            told.warnings.append(
                f"{plural(len(missing), 'source file')} of sampled kernels"
                f" {'was' if len(missing) == 1 else 'were'} not found, such as {missing[0]}"
            )
        if large:
            told.warnings.append(
                f"{plural(len(large), 'source file')} of sampled kernels, such as {large[0]},"
                f" are not in the recording: they are larger than {format_bytes(LARGEST_BYTES)},"
                f" or all of them than {format_bytes(LARGEST_SUM_BYTES)}"
            )


def _is_source(path: bytes) -> bool:
    return Path(os.fsdecode(path)).suffix.lower() in _SUFFIXES


def read_file(path: Path, most: int) -> bytes | None:
    """Return the content of a regular file; empty if it cannot be read, None if it is too large."""
    try:
        # Without O_NONBLOCK, opening a named pipe would block.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except (OSError, ValueError):
        return b""
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            return b""
        with os.fdopen(os.dup(descriptor), "rb") as file:
            content = file.read(most + 1)
    except OSError:
        return b""
    finally:
        os.close(descriptor)
    return content if len(content) <= most else None
