"""Detection of pickles, by their first bytes."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from warpline.lazy import lazy

if TYPE_CHECKING:
    import zlib
else:
    zlib = lazy("zlib")

FORMAT = "pytorch-snapshot"
GZIP_MAGIC = b"\x1f\x8b"

_PROTOCOLS = range(2, 6)
_LOOK_BYTES = 16
_ARCHIVE = b"PK\x03\x04"
_ARCHIVED_PICKLE = b"/data.pkl"  # the first member of what torch.save writes


def is_pickle(path: Path, head: bytes) -> bool:
    """Return whether a file is a pickle, plain or gzip."""
    start = _unpacked(head)
    return len(start) > 1 and start[0] == 0x80 and start[1] in _PROTOCOLS


def identify_archive(path: Path, head: bytes) -> str | None:
    """Describe what torch.save writes, which is no pickle but has one."""
    if head.startswith(_ARCHIVE) and _ARCHIVED_PICKLE in head:
        return (
            "an archive of torch.save, which may need code to be read; write snapshots with"
            " torch.cuda.memory._dump_snapshot"
        )
    return None


def _unpacked(head: bytes) -> bytes:
    """Return the beginning of a gzip file's content, or the bytes of another file."""
    if not head.startswith(GZIP_MAGIC):
        return head
    with suppress(zlib.error):
        return zlib.decompressobj(31).decompress(head, _LOOK_BYTES)
    return b""
