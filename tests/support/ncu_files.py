"""Reports of Nsight Compute, taken apart and written: an encoder of the wire format."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence

Field = tuple[int, int | float | bytes]
"""Number and value of a field: an int is a varint, a float a double, bytes are bytes."""

MAGIC = b"NVR\0"
_COUNTERS = {"module": 1, "kernel": 2, "range": 7, "command list": 8, "graph": 9}


def varint(value: int) -> bytes:
    """Encode an unsigned integer."""
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


def message(*fields: Field) -> bytes:
    """Encode a message."""
    out = bytearray()
    for number, value in fields:
        if isinstance(value, bytes):
            out += varint(number << 3 | 2) + varint(len(value)) + value
        elif isinstance(value, float):
            out += varint(number << 3 | 1) + struct.pack("<d", value)
        else:
            out += varint(number << 3) + varint(value)
    return bytes(out)


def sized(data: bytes) -> bytes:
    """Return bytes after their size."""
    return struct.pack("<I", len(data)) + data


def block(
    entries: Sequence[tuple[str, bytes]] = (),
    texts: Iterable[bytes] = (),
    session: bytes | None = None,
    process: bytes = message((1, 7), (2, b"host"), (3, b"/bin/program")),
) -> bytes:
    """Encode a block of a report."""
    payload = b"".join(sized(data) for kind in _COUNTERS for of, data in entries if of == kind)
    counts = [(number, sum(of == kind for of, _ in entries)) for kind, number in _COUNTERS.items()]
    header: list[Field] = [
        *counts,
        (4, message(*((1, text) for text in texts))),
        (5, len(payload)),
        (6, process),
        *([] if session is None else [(3, session)]),
    ]
    return sized(message(*header)) + payload


def report(*blocks: bytes, version: int = 7) -> bytes:
    """Return a report of blocks."""
    return MAGIC + sized(message((1, version))) + b"".join(blocks)


def metric(name: int, value: bytes | None, instances: Iterable[bytes] = ()) -> bytes:
    """Encode a metric: number of its name, value and instances."""
    values: list[Field] = [] if value is None else [(2, value)]
    return message((1, name), *values, *((3, instance) for instance in instances), (4, 0))


def launch(*fields: Field, name: bytes = b"work", metrics: Iterable[bytes] = ()) -> bytes:
    """Encode the result of a launch with 2 x 1 x 1 blocks of 32 threads."""
    grid, block_size = message((1, 2), (2, 1), (3, 1)), message((1, 32), (2, 1), (3, 1))
    sizes: list[Field] = [(10, grid), (11, block_size)]
    found: list[Field] = [(13, data) for data in metrics]
    return message((5, b"_Z" + name), (6, name), (7, name + b"()"), *sizes, *found, *fields)
