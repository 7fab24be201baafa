"""The wire format of Protocol Buffers: a message is a list of numbered fields.

Only what reports use. A message that contradicts the format, or a field of another wire type than
expected, raises WireError, so that damage is never read as a number.
"""

from __future__ import annotations

import struct
from typing import Any

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5
_VARINT_BITS = 64
_LARGEST = 1 << 63
_SIZES = {FIXED64: 8, FIXED32: 4}
_WIRE_NAMES = {VARINT: "an integer", FIXED64: "64 bits", BYTES: "bytes", FIXED32: "32 bits"}


class WireError(ValueError):
    """The bytes are not a message, or have another field than expected."""


def varint(data: bytes, at: int, end: int) -> tuple[int, int]:
    """Return an unsigned integer and the place after it."""
    value = shift = 0
    while at < end:
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            if value >> _VARINT_BITS:
                break
            return value, at
        shift += 7
        if shift >= _VARINT_BITS + 6:
            break
    raise WireError("an integer is cut off or longer than 64 bits")


def skip(data: bytes, at: int, end: int) -> tuple[int, int, int]:
    """Return the number and the wire type of a field, and the place after it."""
    key, at = varint(data, at, end)
    number, wire = key >> 3, key & 7
    if wire == VARINT:
        return number, wire, varint(data, at, end)[1]
    return number, wire, _extent(data, at, end, number, wire)[1]


def _extent(data: bytes, at: int, end: int, number: int, wire: int) -> tuple[int, int]:
    """Return where the content of a field begins and ends that is no varint."""
    if wire == BYTES:
        size, at = varint(data, at, end)
    elif wire in _SIZES:
        size = _SIZES[wire]
    else:
        raise WireError(f"field {number} has the unknown wire type {wire}")
    if size > end - at:
        raise WireError(f"field {number} is longer than its message")
    return at, at + size


def float_of(value: bytes) -> float:
    """Return the float or double of a fixed field."""
    return float(struct.unpack("<f" if len(value) == 4 else "<d", value)[0])


class Message:
    """The fields of one message, by number.

    Args:
        data: The bytes of the message, at most a few megabytes: fields are copies.

    Raises:
        WireError: The bytes are not a message.
    """

    __slots__ = ("_fields",)

    def __init__(self, data: bytes) -> None:
        self._fields: dict[int, tuple[int, list[Any]]] = {}
        at, end = 0, len(data)
        while at < end:
            key, at = varint(data, at, end)
            number, wire = key >> 3, key & 7
            value: int | bytes
            if wire == VARINT:
                value, at = varint(data, at, end)
            else:
                begin, at = _extent(data, at, end, number, wire)
                value = data[begin:at]
            if not number:
                raise WireError("a field has the number 0")
            known = self._fields.get(number)
            if known is None:
                self._fields[number] = wire, [value]
            elif known[0] == wire:
                known[1].append(value)
            else:
                raise WireError(f"field {number} has two wire types")

    def __contains__(self, number: int) -> bool:
        return number in self._fields

    def _of(self, number: int, *wires: int) -> list[Any]:
        found = self._fields.get(number)
        if found is None:
            return []
        if found[0] not in wires:
            wanted = _WIRE_NAMES[wires[0]]
            raise WireError(f"field {number} is {_WIRE_NAMES[found[0]]}, not {wanted}")
        return found[1]

    def count(self, number: int) -> int:
        """Return how often a field occurs."""
        found = self._fields.get(number)
        return 0 if found is None else len(found[1])

    def integer(self, number: int) -> int | None:
        """Return an unsigned integer; the last one, if there are several."""
        values = self._of(number, VARINT)
        return int(values[-1]) if values else None

    def integers(self, number: int) -> list[int]:
        """Return the unsigned integers of the fields of this number."""
        return self._of(number, VARINT)

    def number(self, number: int) -> int:
        """Return an integer below 2^63; 0, the default of the format, without one."""
        value = self.integer(number) or 0
        if value >= _LARGEST:
            raise WireError(f"field {number} is {value}, which is too large")
        return value

    def decimal(self, number: int) -> float | None:
        """Return a float or double."""
        values = self._of(number, FIXED64, FIXED32)
        return float_of(values[-1]) if values else None

    def raw(self, number: int) -> bytes | None:
        """Return the bytes of a field."""
        values = self._of(number, BYTES)
        return values[-1] if values else None

    def all_raw(self, number: int) -> list[bytes]:
        """Return the bytes of each field of this number."""
        return self._of(number, BYTES)

    def message(self, number: int) -> Message:
        """Return the message in a field; an empty one without it."""
        return Message(self.raw(number) or b"")

    def messages(self, number: int) -> list[Message]:
        """Return the messages in the fields of this number."""
        return [Message(data) for data in self.all_raw(number)]
