"""Reads plain data from pickles without running them.

A pickle is a program for a stack machine. Of its opcodes, only those are interpreted that build
dicts with texts (or, on request, small numbers) as keys, lists, tuples, texts, numbers, truth
values and None. Nothing is imported, called or looked up by name, so a hostile file can only be
refused.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable
from typing import Any, Final, NoReturn

from warpline import progress
from warpline.errors import CorruptTraceError, InputError

# Names of opcodes, as in pickletools, of those that are refused.
_REFUSED: Final = {
    ord("0"): "POP",
    ord("1"): "POP_MARK",
    ord("2"): "DUP",
    ord("B"): "BINBYTES",
    ord("C"): "SHORT_BINBYTES",
    ord("F"): "FLOAT",
    ord("I"): "INT",
    ord("L"): "LONG",
    ord("P"): "PERSID",
    ord("Q"): "BINPERSID",
    ord("R"): "REDUCE",
    ord("S"): "STRING",
    ord("T"): "BINSTRING",
    ord("U"): "SHORT_BINSTRING",
    ord("V"): "UNICODE",
    ord("b"): "BUILD",
    ord("c"): "GLOBAL",
    ord("d"): "DICT",
    ord("g"): "GET",
    ord("i"): "INST",
    ord("l"): "LIST",
    ord("o"): "OBJ",
    ord("p"): "PUT",
    0x81: "NEWOBJ",
    0x82: "EXT1",
    0x83: "EXT2",
    0x84: "EXT4",
    0x8B: "LONG4",
    0x8D: "BINUNICODE8",
    0x8E: "BINBYTES8",
    0x8F: "EMPTY_SET",
    0x90: "ADDITEMS",
    0x91: "FROZENSET",
    0x92: "NEWOBJ_EX",
    0x93: "STACK_GLOBAL",
    0x96: "BYTEARRAY8",
    0x97: "NEXT_BUFFER",
    0x98: "READONLY_BUFFER",
}

_CONSTANTS: Final = {ord("N"): None, ord(")"): (), 0x88: True, 0x89: False}
_FIXED: Final = {
    ord("M"): struct.Struct("<H"),
    ord("J"): struct.Struct("<i"),
    ord("G"): struct.Struct(">d"),
}
_TUPLES: Final = {0x85: 1, 0x86: 2, 0x87: 3}
_LENGTHS: Final = {0x8C: struct.Struct("B"), ord("X"): struct.Struct("<I")}  # of texts
_PUTS: Final = {ord("q"): struct.Struct("B"), ord("r"): struct.Struct("<I")}

_PROTOCOLS = range(2, 6)
_MOST_DEPTH = 64  # of containers whose items are under way
_MOST_INTEGER_BYTES = 9  # 64 bits without a sign
_MOST_KEY = (1 << 16) - 1
_BYTES_PER_CONTAINER = 6  # real files have more: each item of a container has a key or a value
_FREE_CONTAINERS = 1 << 12
_BYTES_PER_REPORT = 1 << 20

# The rest of a list of which all items are known already, such as a stack of frames that were met
# before. Python writes longer lists in several parts.
_KNOWN_ITEMS = re.compile(rb"\x94\(((?:h.|j.{4}){1,999}+)e", re.DOTALL)
_KNOWN_ITEM = re.compile(rb"h(.)|j(.{4})", re.DOTALL)


def load(
    content: bytes, name: str, *, hint: str | None = None, has_number_keys: bool = False
) -> Any:
    """Return the value that a pickle of protocol 2 to 5 stands for.

    Args:
        content: The pickle. What follows its end is ignored, as pickle does.
        name: What errors call it.
        hint: What to do if it needs more than plain data.
        has_number_keys: Whether keys of dicts may also be integers from 0 to 65,535. They are
            too few for many to collide.

    Returns:
        The value. Lists of which all items occurred before are tuples, and equal ones are the same
        object. The value may contain one object many times, and a container may contain itself.

    Raises:
        InputError: The pickle needs something else than plain data, or is too deep or too large.
        CorruptTraceError: The pickle is truncated or damaged.
    """
    if len(content) < 2 or content[0] != 0x80 or content[1] not in _PROTOCOLS:
        raise InputError(f"{name} is not a pickle of protocol 2 to 5")
    try:
        with progress.task("Reading", len(content)) as advance:
            return _Pickle(content, name, hint, advance, has_number_keys).value()
    except (IndexError, struct.error):  # of the content, the stack or the memo
        raise CorruptTraceError(f"{name} is truncated or damaged", hint="write it again") from None
    except UnicodeDecodeError:
        raise CorruptTraceError(f"{name} is damaged: a text is not UTF-8") from None


class _Pickle:
    """The stack machine."""

    def __init__(
        self,
        content: bytes,
        name: str,
        hint: str | None,
        advance: Callable[[int], None],
        has_number_keys: bool,  # noqa: FBT001 - of `load`
    ) -> None:
        self._content = content
        self._name = name
        self._hint = hint
        self._has_number_keys = has_number_keys
        self._advance = advance
        self._reported = 0  # bytes
        self._memo: list[Any] = []
        self._known: dict[bytes, tuple[Any, ...]] = {}  # lists by their items, as written
        self._containers = 0
        self._most_containers = _FREE_CONTAINERS + len(content) // _BYTES_PER_CONTAINER
        # The values since the last mark, and below them those since the mark before, and so on.
        self._stack: list[Any] = []
        self._below: list[list[Any]] = []
        self._others: dict[int, Callable[[int], int]] = {
            ord("]"): self._begin_list,
            ord("}"): self._begin_dict,
            ord("s"): self._set_item,
            ord("e"): self._append_items,
            ord("a"): self._append_item,
            ord("t"): self._end_tuple,
            0x95: self._skip_frame,
        }

    def value(self) -> Any:
        """Run the pickle and return the value that it leaves."""
        content, memo, stack, place = self._content, self._memo, self._stack, 2
        while True:
            opcode = content[place]
            place += 1
            if opcode == 0x68:  # BINGET
                stack.append(memo[content[place]])
                place += 1
            elif opcode == 0x6A:  # LONG_BINGET
                stack.append(memo[int.from_bytes(content[place : place + 4], "little")])
                place += 4
            elif opcode == 0x4B:  # BININT1
                stack.append(content[place])
                place += 1
            elif opcode == 0x94:  # MEMOIZE
                memo.append(stack[-1])
            elif opcode == 0x8A:  # LONG1
                size = content[place]
                if size > _MOST_INTEGER_BYTES:
                    self._refuse(place, "an integer of more than 64 bits")
                place += size + 1
                written = content[place - size : place]
                stack.append(int.from_bytes(written, "little", signed=True))
            elif opcode == 0x28:  # MARK
                self._mark(place)
                stack = self._stack
            elif opcode == 0x75:  # SETITEMS
                self._set(self._since_mark(), place)
                stack = self._stack
            elif opcode == 0x2E:  # STOP
                return self._last()
            else:
                place = self._rarer(opcode, place)
                stack = self._stack

    def _rarer(self, opcode: int, place: int) -> int:
        """Interpret an opcode whose argument is at `place`; return the place of the next one."""
        content, stack = self._content, self._stack
        if opcode in _CONSTANTS:
            stack.append(_CONSTANTS[opcode])
        elif opcode in _FIXED:
            form = _FIXED[opcode]
            stack.append(form.unpack_from(content, place)[0])
            return place + form.size
        elif opcode in _TUPLES:
            self._tuple(_TUPLES[opcode], place)
        elif opcode in _LENGTHS:
            form = _LENGTHS[opcode]
            return self._text(form.unpack_from(content, place)[0], place + form.size)
        elif opcode in _PUTS:
            form = _PUTS[opcode]
            self._put(form.unpack_from(content, place)[0], place)
            return place + form.size
        elif opcode in self._others:
            return self._others[opcode](place)
        else:
            self._refuse(place, f"the opcode {_REFUSED.get(opcode, hex(opcode))}")
        return place

    def _push(self, container: Any, place: int) -> None:
        self._stack.append(container)
        self._containers += 1
        if self._containers > self._most_containers:
            self._refuse(place, "more lists, tuples and dicts than a file of its size has")

    def _begin_list(self, place: int) -> int:
        """Push a list, with its items if these are known; return the place of the next opcode."""
        found = _KNOWN_ITEMS.match(self._content, place)
        if found is None:
            self._push([], place)
            return place
        written = found[1]
        items = self._known.get(written)
        if items is None:
            places = _KNOWN_ITEM.findall(written)
            numbers = (int.from_bytes(short or long, "little") for short, long in places)
            items = self._known[written] = tuple([self._memo[number] for number in numbers])
            self._push(items, place)
        else:
            self._stack.append(items)
        self._memo.append(items)
        return found.end()

    def _begin_dict(self, place: int) -> int:
        self._push({}, place)
        return place

    def _set_item(self, place: int) -> int:
        value, key = self._stack.pop(), self._stack.pop()
        self._set([key, value], place)
        return place

    def _append_items(self, place: int) -> int:
        self._extend(self._since_mark(), place)
        return place

    def _append_item(self, place: int) -> int:
        self._extend([self._stack.pop()], place)
        return place

    def _end_tuple(self, place: int) -> int:
        self._push(tuple(self._since_mark()), place)
        return place

    @staticmethod
    def _skip_frame(place: int) -> int:
        return place + 8  # how much may be read ahead

    def _mark(self, place: int) -> None:
        if place - self._reported > _BYTES_PER_REPORT:
            self._advance(place - self._reported)
            self._reported = place
        if len(self._below) == _MOST_DEPTH:
            self._refuse(place, f"data nested more than {_MOST_DEPTH} deep")
        self._below.append(self._stack)
        self._stack = []

    def _since_mark(self) -> list[Any]:
        """Remove the values since the last mark, and the mark."""
        values, self._stack = self._stack, self._below.pop()
        return values

    def _set(self, keys_and_values: list[Any], place: int) -> None:
        target, keys = self._stack[-1], keys_and_values[::2]
        if type(target) is not dict or len(keys_and_values) % 2:
            self._refuse(place, "an item of what is no dict")
        kinds = {*map(type, keys)}
        if not kinds <= {str}:  # numbers could be chosen such that all collide
            if not self._has_number_keys or not kinds <= {str, int}:
                self._refuse(place, "a key that is no text")
            if any(type(key) is int and not 0 <= key <= _MOST_KEY for key in keys):
                self._refuse(place, "a large number as a key")
        target.update(zip(keys, keys_and_values[1::2], strict=True))

    def _extend(self, items: list[Any], place: int) -> None:
        target = self._stack[-1]
        if type(target) is not list:
            self._refuse(place, "an item of what is no list")
        target.extend(items)

    def _tuple(self, size: int, place: int) -> None:
        if len(self._stack) < size:
            raise IndexError
        items = tuple(self._stack[-size:])
        del self._stack[-size:]
        self._push(items, place)

    def _text(self, size: int, place: int) -> int:
        """Push a text; return its end."""
        text = self._content[place : place + size].decode("utf-8", "surrogatepass")
        self._stack.append(text)
        return place + size

    def _put(self, number: int, place: int) -> None:
        """Remember the last value. Numbers are given out in their order, and none twice."""
        if number != len(self._memo):
            self._refuse(place, f"the memo's number {number} after {len(self._memo) - 1}")
        self._memo.append(self._stack[-1])

    def _last(self) -> Any:
        if len(self._stack) != 1 or self._below:
            raise IndexError
        return self._stack[0]

    def _refuse(self, place: int, what: str) -> NoReturn:
        raise InputError(
            f"{self._name}: the pickle has {what} at byte {place - 1}; only plain data is read",
            hint=self._hint,
        )
