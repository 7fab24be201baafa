"""Flipped bits of a recording, and the resulting tables, summary and diagnosis.

Positions are found with the standard library's `zipfile`, not with the tested reader.
"""

from __future__ import annotations

import io
import random
import struct
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import cycle, islice

from warpline import api, plugins
from warpline.errors import CorruptTraceError
from warpline.render import Options
from warpline.render import json as json_lines
from warpline.render.diagnosis import json as diagnosis_json
from warpline.result import ANALYSES
from warpline.schema import TABLES
from warpline.trace import Trace

REFUSED = "refused"
KINDS = ("values", "array header", "local header", "directory", "end record")
_LOCAL_HEADER_BYTES, _LOCAL_LENGTHS = 30, struct.Struct("<HH")
_END_MAGIC, _PLAIN = b"PK\x05\x06", Options()


@dataclass(frozen=True)
class Flip:
    """One bit of a file.

    Attributes:
        kind: The part of the file, one of `KINDS`.
        member: The member of the archive; empty for the directory and the end record.
        byte: Offset of its byte.
        bit: 0 to 7.
    """

    kind: str
    member: str
    byte: int
    bit: int

    def applied(self, content: bytes) -> bytes:
        """Return the content with this bit flipped."""
        changed = bytearray(content)
        changed[self.byte] ^= 1 << self.bit
        return bytes(changed)


Area = tuple[str, str, int, int]  # kind, member, begin, end


def areas(content: bytes) -> list[Area]:
    """Return the parts of the file; together they cover it."""
    found: list[Area] = []
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        for info in archive.infolist():
            lengths = _LOCAL_LENGTHS.unpack_from(content, info.header_offset + 26)
            begin = info.header_offset + _LOCAL_HEADER_BYTES + sum(lengths)
            found.append(("local header", info.filename, info.header_offset, begin))
            end, values = begin + info.file_size, begin
            if content[begin : begin + 6] == b"\x93NUMPY":
                values = begin + 10 + struct.unpack_from("<H", content, begin + 8)[0]
                found.append(("array header", info.filename, begin, values))
            if values < end:
                found.append(("values", info.filename, values, end))
        end_record = content.rindex(_END_MAGIC)
        found.append(("directory", "", archive.start_dir, end_record))
        found.append(("end record", "", end_record, len(content)))
    return found


def drawn(content: bytes, count: int, seed: int) -> list[Flip]:
    """Draw bits: half of them in values, the rest evenly by kind, each member in turn."""
    chance = random.Random(seed)
    found = areas(content)
    chance.shuffle(found)
    of_kind = {kind: cycle([area for area in found if area[0] == kind]) for kind in KINDS}
    kinds = cycle([kind for other in KINDS[1:] for kind in (KINDS[0], other)])
    flips = []
    for kind in islice(kinds, count):
        _, member, begin, end = next(of_kind[kind])
        flips.append(Flip(kind, member, chance.randrange(begin, end), chance.randrange(8)))
    return flips


def inputs(trace: Trace) -> dict[str, bytes | None]:
    """Return everything an output can depend on; None if the file is refused."""
    found: dict[str, bytes | None] = {"meta": repr(trace.meta).encode()}
    for table in trace.tables:
        for column in TABLES[table].columns:
            found[f"{table}/{column.name}"] = _content(trace, table, column.name)
    texts = [trace.strings.raw(row) for row in range(len(trace.strings))]
    found["texts"] = repr(texts).encode() if texts else None  # read with the first name
    try:
        foreign = {name: bytes(data) for name, data in trace.foreign.items()}
        found["foreign"] = repr(foreign).encode()
    except CorruptTraceError:
        found["foreign"] = None
    return found


def _content(trace: Trace, table: str, name: str) -> bytes | None:
    try:
        data = trace.columns(table, name)[name]
    except CorruptTraceError:
        return None
    return data.values.tobytes() + data.is_valid().tobytes()


def outputs(trace: Trace, part: slice = slice(None)) -> dict[str, str]:
    """Return the printed JSON, or REFUSED, by table or command, for `part` of them."""
    plugins.load("analyses")
    made: dict[str, Callable[[], str]] = {
        name: partial(_table, trace, name) for name in ANALYSES.names()
    }
    made |= {"summary": partial(_summary, trace), "analyze": partial(_analyze, trace)}
    chosen = [*made][part]
    return dict(_printed({name: made[name] for name in chosen}))


def _printed(made: dict[str, Callable[[], str]]) -> Iterator[tuple[str, str]]:
    for name, text in made.items():
        try:
            yield name, text()
        except CorruptTraceError:
            yield name, REFUSED


def _table(trace: Trace, name: str) -> str:
    out = io.StringIO()
    json_lines.render(api.document(trace, [name]), out, _PLAIN)
    return out.getvalue()


def _summary(trace: Trace) -> str:
    out = io.StringIO()
    json_lines.render(api.summary(trace), out, _PLAIN)
    return out.getvalue()


def _analyze(trace: Trace) -> str:
    out = io.StringIO()
    diagnosis_json.render(api.analyze(trace), out, _PLAIN)
    return out.getvalue()
