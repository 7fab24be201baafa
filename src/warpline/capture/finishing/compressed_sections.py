"""Compressed sections of ELF files, which the native core has expanded by the standard library."""

from __future__ import annotations

import ctypes
import zlib
from collections.abc import Callable
from contextlib import suppress
from importlib import import_module
from typing import Any

from warpline import native

ZLIB, ZSTD = 1, 2  # ELFCOMPRESS_*
_EXPANDED, _NOT_EXPANDED = 0, 1


def expanded(kind: int, content: bytes, size: int) -> bytes | None:
    """Return what a section expands to; None if it is damaged or of no known kind.

    Args:
        kind: ZLIB, or ZSTD, which needs Python 3.14.
        content: What follows the section's header.
        size: How many bytes that is said to expand to. No more are made.
    """
    made = _decompressor(kind)
    if made is None:
        return None
    stream, errors = made
    try:
        # One byte more than expected shows that there are more.
        data: bytes = stream.decompress(content, size + 1)
    except errors:
        return None
    return data if len(data) == size else None


def _decompressor(kind: int) -> tuple[Any, type[Exception]] | None:
    """Return what decompresses a kind of section, and its error; None if nothing does."""
    if kind == ZLIB:
        return zlib.decompressobj(), zlib.error
    if kind == ZSTD:
        with suppress(ImportError):  # since Python 3.14
            zstd = import_module("compression.zstd")
            return zstd.ZstdDecompressor(), zstd.ZstdError
    return None


def _expand(kind: int, content: int, size: int, out: int, out_size: int) -> int:
    try:
        data = expanded(kind, ctypes.string_at(content, size), out_size)
    except MemoryError:
        return _NOT_EXPANDED
    if data is None:
        return _NOT_EXPANDED
    ctypes.memmove(out, data, out_size)
    return _EXPANDED


EXPAND: Callable[..., int] = native.Decompress(_expand)
"""The function for the core, which lives as long as this module."""
