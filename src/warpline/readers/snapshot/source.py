"""A memory snapshot in a file as tables."""

from __future__ import annotations

import gzip
import zlib
from pathlib import Path

from warpline import pickles
from warpline.errors import CorruptTraceError, InputError
from warpline.readers.snapshot.sniff import FORMAT, GZIP_MAGIC
from warpline.trace.allocator_snapshots import SnapshotTables, read_snapshot
from warpline.trace.meta import TraceMeta

_MOST_BYTES = 1 << 32  # it is read into memory
_HINT = "write snapshots with torch.cuda.memory._dump_snapshot"
_TORCH_SAVE = b"\x80\x02\x8a\x0al\xfc\x9cF\xf9 j\xa8P\x19."  # the magic number of older files


def read_file(path: Path) -> SnapshotTables:
    """Read a snapshot.

    Raises:
        InputError: It is too large, or needs code to be read.
        CorruptTraceError: It is damaged, or no snapshot.
    """
    content = _content(path)
    if content.startswith(_TORCH_SAVE):
        raise InputError(
            f"{path} was written by torch.save, which may need code to be read", hint=_HINT
        )
    value = pickles.load(content, str(path), hint=_HINT)
    del content
    try:
        return read_snapshot(value, TraceMeta((path,), FORMAT, producer="PyTorch"))
    except CorruptTraceError as error:
        raise CorruptTraceError(f"{path}: {error.message}", hint=error.hint) from None


def _content(path: Path) -> bytes:
    """Return the bytes of a file, unpacked."""
    try:
        with path.open("rb") as file:
            content = file.read(_MOST_BYTES + 1)
        if content.startswith(GZIP_MAGIC):
            with gzip.open(path) as unpacked:
                content = unpacked.read(_MOST_BYTES + 1)
    except (OSError, EOFError, zlib.error) as error:
        reason = getattr(error, "strerror", None) or error
        raise CorruptTraceError(f"{path} cannot be read: {reason}") from None
    if len(content) > _MOST_BYTES:
        raise InputError(
            f"{path} is too large: at most {_MOST_BYTES >> 30} GiB are read",
            hint="pass a smaller max_entries to torch.cuda.memory._record_memory_history",
        )
    return content
