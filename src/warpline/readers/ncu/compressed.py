"""Compressed reports (``.ncu-repz``): a report in one Zstandard stream.

Written from the description of the format, without a sample to test with.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any

from warpline.errors import CorruptTraceError, InputError

SUFFIX = ".ncu-repz"
_CHUNK = 1 << 12  # expands to 128 MiB at most
_LARGEST_BLOCK = 1 << 18  # a stream is decompressed by blocks, of 128 KiB at most
_LEAST_LIMIT, _MOST_RATIO = 256 << 20, 200  # reports shrink 10 to 60 times


def is_available() -> bool:
    """Return whether a module that decompresses is installed."""
    return _decompressor() is not None


def begins_with(path: Path, magic: bytes) -> bool:
    """Return whether the content of a compressed file begins with a magic."""
    found = _decompressor()
    if found is None:
        return False
    make, damage = found
    stream, content = make(), b""
    try:
        with path.open("rb") as file:
            while len(content) < len(magic) and file.tell() < _LARGEST_BLOCK:
                chunk = file.read(_CHUNK)
                if not chunk or stream.eof:
                    break
                content += stream.decompress(chunk)
    except (damage, OSError):
        return False
    return content.startswith(magic)


def decompressed(path: Path) -> bytes:
    """Return the content of a compressed report.

    Raises:
        InputError: No module that decompresses is installed, or the content is too large.
        CorruptTraceError: The stream is damaged or cut off.
    """
    found = _decompressor()
    if found is None:
        raise InputError(
            f"{path} is compressed with Zstandard, which is not installed",
            hint="pip install 'warpline[zstd]', or decompress it: zstd -d",
        )
    limit = max(_LEAST_LIMIT, path.stat().st_size * _MOST_RATIO)
    make, damage = found
    parts: list[bytes] = []
    stream, size = make(), 0
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK):
            try:
                parts.append(stream.decompress(chunk))
            except damage as error:
                raise _damaged(path, str(error)) from None
            size += len(parts[-1])
            if size > limit:
                raise InputError(
                    f"{path} expands to more than {limit:,} bytes",
                    hint="decompress it with zstd -d if it is to be trusted",
                )
    if not stream.eof:
        raise _damaged(path, "it is cut off")
    return b"".join(parts)


def _damaged(path: Path, why: str) -> CorruptTraceError:
    return CorruptTraceError(
        f"{path}: the Zstandard stream is damaged: {why}", hint="copy or record the report again"
    )


def _decompressor() -> tuple[Callable[[], Any], type[Exception]] | None:
    """Return what makes a decompressor, and its error; None if neither module is installed."""
    with suppress(ImportError):  # since Python 3.14
        zstd = import_module("compression.zstd")
        return zstd.ZstdDecompressor, zstd.ZstdError
    with suppress(ImportError):
        zstandard = import_module("zstandard")
        return lambda: zstandard.ZstdDecompressor().decompressobj(), zstandard.ZstdError
    return None
