r"""The blocks of a report: texts, sessions, and where its launches and modules are.

A report is ``NVR\0``, the size of a header and the header, and then blocks. A block is the size of
its header, the header, and as many entries as the header says, each after its size. Sizes are
32-bit. Headers and entries are messages of Protocol Buffers.
"""

from __future__ import annotations

import mmap
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from warpline.errors import CorruptTraceError, InputError
from warpline.frozen import frozen
from warpline.readers.ncu.wire import Message, WireError

MAGIC = b"NVR\0"
_SIZE = struct.Struct("<I")
_MOST_HEADER = 256 << 20  # a header has the texts of its block, some hundred kB
AGAIN = "copy or record the report again; it may be truncated"

# Kind of entries -> number of the field of a block's header that counts them, in file order.
_ENTRIES = {"module": 1, "kernel": 2, "range": 7, "command list": 8, "graph": 9}


@frozen
class Entry:
    """One entry of a block: a module or the result of a workload.

    Attributes:
        kind: A key of `_ENTRIES`.
        start: Place of its message in the file.
        size: Size of its message.
        process: Number of the process of the block; see `Report.processes`.
    """

    kind: str
    start: int
    size: int
    process: int


class Report:
    """The structure of a report. Entries are read on request.

    Args:
        path: The file, for messages.
        data: Its content.

    Attributes:
        version: Version of the format.
        texts: The texts that metrics refer to by number.
        entries: Modules and results, in file order.
        sessions: Messages about the session, in file order.

    Raises:
        CorruptTraceError: The file is truncated or damaged.
    """

    def __init__(self, path: Path, data: bytes | mmap.mmap) -> None:
        self.path = path
        self._data = data
        self.version = 0
        self.texts: list[bytes] = []
        self._processes: dict[tuple[int, bytes, bytes], int] = {}
        self.entries: list[Entry] = []
        self.sessions: list[Message] = []
        with self.damage("the header"):
            header, at = self._sized(len(MAGIC))
            self.version = Message(header).number(1)
        while at < len(data):
            with self.damage(f"the block at byte {at:,}"):
                at = self._read_block(at)

    @property
    def processes(self) -> list[tuple[int, bytes, bytes]]:
        """Process id, host and executable of each process."""
        return [*self._processes]

    def message(self, entry: Entry) -> Message:
        """Return the message of an entry. Raises CorruptTraceError if it is damaged."""
        with self.damage(f"the {entry.kind} at byte {entry.start:,}"):
            return Message(self.raw(entry))

    def raw(self, entry: Entry) -> bytes:
        """Return the bytes of an entry."""
        return self._data[entry.start : entry.start + entry.size]

    @contextmanager
    def damage(self, place: str) -> Iterator[None]:
        """Raise errors of the wire format within as CorruptTraceError that names the place."""
        try:
            yield
        except WireError as error:
            raise CorruptTraceError(
                f"{self.path}: {place} is damaged: {error}", hint=AGAIN
            ) from None

    def _sized(self, at: int) -> tuple[bytes, int]:
        """Return what follows a size, and the place after it."""
        if len(self._data) - at < _SIZE.size:
            raise WireError("it is cut off")
        (size,) = _SIZE.unpack_from(self._data, at)
        start = at + _SIZE.size
        if size > len(self._data) - start:
            raise WireError(f"{size:,} bytes are announced, {len(self._data) - start:,} follow")
        if size > _MOST_HEADER:
            raise WireError(f"a header of {size:,} bytes")
        return self._data[start : start + size], start + size

    def _read_block(self, at: int) -> int:
        content, start = self._sized(at)
        if not content:
            raise WireError("it has no header")
        header = Message(content)
        end = start + header.number(5)
        if end > len(self._data):
            raise WireError(f"it ends {end - len(self._data):,} bytes after the file")
        process = self._process(header.message(6))
        place = start
        for kind, number in _ENTRIES.items():
            for _ in range(header.number(number)):
                if end - place < _SIZE.size:
                    raise WireError("its entries are cut off")
                (size,) = _SIZE.unpack_from(self._data, place)
                place += _SIZE.size
                if size > end - place:
                    raise WireError("an entry is longer than its block")
                self.entries.append(Entry(kind, place, size, process))
                place += size
        if place != end:
            raise WireError(f"{end - place:,} bytes of it belong to no entry")
        self.texts += header.message(4).all_raw(1)
        if 3 in header:
            self.sessions.append(header.message(3))
        return end

    def _process(self, info: Message) -> int:
        facts = info.number(1), info.raw(2) or b"", info.raw(3) or b""
        return self._processes.setdefault(facts, len(self._processes))


def open_report(path: Path) -> Report:
    """Open a report. Raises InputError if it cannot be used."""
    try:
        with path.open("rb") as file:
            data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise InputError(f"{path} cannot be read: {reason}") from None
    return Report(path, data)
