"""Detection of Chrome traces, by their first bytes."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from warpline.lazy import lazy, lazy_pattern

if TYPE_CHECKING:
    import zlib
else:
    zlib = lazy("zlib")

FORMAT = "kineto"
GZIP_MAGIC = b"\x1f\x8b"

_LOOK_BYTES = 1 << 18
_STEP_BYTES = 1 << 9
_BOM = b"\xef\xbb\xbf"
_OBJECT = lazy_pattern(rb'[\s]*\{\s*"')
_ARRAY = lazy_pattern(rb'[\s]*\[\s*\{\s*"')
# Members at the beginning of files written by Kineto.
_MEMBERS = lazy_pattern(
    rb'"(?:traceEvents|schemaVersion|deviceProperties|distributedInfo|baseTimeNanoseconds|ph)"\s*:'
)


def is_trace(path: Path, head: bytes) -> bool:
    """Return whether a file looks like a Chrome trace, plain or gzip."""
    if not _starts_like_json(_unpacked(head)):
        return False
    text = _unpacked(_more(path)) or _unpacked(head)
    return bool(_MEMBERS.search(text))


def identify_json(path: Path, head: bytes) -> str | None:
    """Describe a JSON file that is not a trace."""
    if not _starts_like_json(_unpacked(head)):
        return None
    return "JSON without trace events at its beginning"


def _starts_like_json(text: bytes) -> bool:
    plain = text.removeprefix(_BOM)
    return bool(_OBJECT.match(plain) or _ARRAY.match(plain))


def _more(path: Path) -> bytes:
    with suppress(OSError), path.open("rb") as file:
        return file.read(_LOOK_BYTES)
    return b""


def _unpacked(head: bytes) -> bytes:
    """Return the beginning of a gzip file's content, or the bytes of another file."""
    if not head.startswith(GZIP_MAGIC):
        return head
    stream, text = zlib.decompressobj(31), b""
    with suppress(zlib.error):  # the content before any damage suffices
        for start in range(0, len(head), _STEP_BYTES):
            step = head[start : start + _STEP_BYTES]
            text += stream.decompress(step, _LOOK_BYTES)
            if len(text) >= _LOOK_BYTES or stream.eof or stream.unconsumed_tail:
                break
    return text
