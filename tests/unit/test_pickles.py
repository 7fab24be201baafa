"""Pickles: plain data as pickle reads it, and hostile ones that are refused without running."""

from __future__ import annotations

import pickle
import random
import struct
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from warpline import pickles
from warpline.errors import CorruptTraceError, InputError

PROTOCOLS = range(2, 6)
HEAD = b"\x80\x04"
PLAIN = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False)
    | st.text(max_size=300),
    lambda inner: (
        st.lists(inner, max_size=5)
        | st.lists(inner, max_size=4).map(tuple)
        | st.dictionaries(st.text(max_size=5), inner, max_size=5)
    ),
    max_leaves=30,
)


def as_lists(value: Any) -> Any:
    """Return a value with lists in place of tuples: lists of known items are read as tuples."""
    if isinstance(value, dict):
        return {key: as_lists(item) for key, item in value.items()}
    return [as_lists(item) for item in value] if isinstance(value, (list, tuple)) else value


@given(PLAIN, st.sampled_from(PROTOCOLS))
def test_plain_data_is_what_pickle_reads(value: Any, protocol: int) -> None:
    read = pickles.load(pickle.dumps(value, protocol), "x")
    assert as_lists(read) == as_lists(value)


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("count", [1, 2, 300, 999, 1000, 1001, 2500])
def test_lists_of_known_items_are_complete_and_shared(count: int, protocol: int) -> None:
    frames = [{"line": number} for number in range(count)]
    value = {"frames": frames, "stacks": [list(frames), list(frames), frames[:1]]}
    read = pickles.load(pickle.dumps(value, protocol), "x")
    assert as_lists(read) == value
    first, second, _ = read["stacks"]
    assert first[0] is read["frames"][0]
    if 1 < count < 1000 and protocol >= 4:
        assert first is second


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_pickle_that_ends_early_is_damaged(protocol: int) -> None:
    entries = [{"action": "alloc", "size": 2**n, "time": 0.5, "pool": (0, 0)} for n in range(40)]
    content = pickle.dumps({"segments": entries * 2, "empty": []}, protocol)
    for size in range(2, len(content)):
        with pytest.raises(CorruptTraceError):
            pickles.load(content[:size], "x")


class Creates:
    """Creates a file when its pickle is loaded."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (self.path,)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_nothing_in_a_pickle_runs(protocol: int, tmp_path: Path) -> None:
    path = tmp_path / "created"
    content = pickle.dumps({"segments": [], "device_traces": [Creates(path)]}, protocol)
    with pytest.raises(InputError, match=r"opcode (STACK_)?GLOBAL at byte"):
        pickles.load(content, "x")
    assert not path.exists()
    pickle.loads(content)
    assert path.exists()


REFUSED = {
    "GLOBAL": b"cposix\nsystem\n",
    "STACK_GLOBAL": b"\x8c\x05posix\x8c\x06system\x93",
    "REDUCE": b"N)R",
    "BUILD": b"}}b",
    "INST": b"(iposix\nsystem\n",
    "OBJ": b"(No",
    "NEWOBJ": b"N)\x81",
    "NEWOBJ_EX": b"N)}\x92",
    "EXT1": b"\x82\x01",
    "EXT2": b"\x83\x01\x00",
    "EXT4": b"\x84\x01\x00\x00\x00",
    "PERSID": b"Pid\n",
    "BINPERSID": b"NQ",
    "NEXT_BUFFER": b"\x97",
    "READONLY_BUFFER": b"N\x98",
    "BYTEARRAY8": b"\x96" + struct.pack("<Q", 1) + b"a",
    "BINBYTES8": b"\x8e" + struct.pack("<Q", 1 << 40),
    "BINUNICODE8": b"\x8d" + struct.pack("<Q", 1 << 40),
    "BINSTRING": b"T\x01\x00\x00\x00a",
    "STRING": b"S'a'\n",
    "INT": b"I1\n",
    "LONG": b"L1L\n",
    "LONG4": b"\x8b\xff\xff\xff\x7f",
    "FROZENSET": b"(\x91",
    "EMPTY_SET": b"\x8f",
    "DUP": b"N2",
    "POP": b"N0",
    "PUT": b"Np0\n",
    "GET": b"g0\n",
    "0xff": b"\xff",
}


@pytest.mark.parametrize("name", REFUSED)
def test_opcodes_that_are_not_for_plain_data_are_named(name: str) -> None:
    with pytest.raises(InputError, match=f"has the opcode {name} at byte"):
        pickles.load(HEAD + REFUSED[name] + b".", "x")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"]" * 100_000 + b"a" * 99_999 + b".", "more lists, tuples and dicts"),
        (b"(" * 100_000, "nested more than 64 deep"),
        (b")\x85" + b"\x85" * 100_000 + b".", "more lists, tuples and dicts"),
        (b"\x8a\x10" + b"\x7f" * 16 + b".", "more than 64 bits"),
        (b"Nr\xff\xff\xff\xff.", "the memo's number 4294967295"),
        (b"Nq\x01.", "the memo's number 1"),
        (b"NN\x86}K\x01Ns.", "a key that is no text"),
        (b"})Ns.", "a key that is no text"),
        (b"}(\x8c\x01au.", "an item of what is no dict"),
        (b"NNa.", "an item of what is no list"),
        (b"N\x8c\x01aNs.", "an item of what is no dict"),
    ],
)
def test_what_would_take_too_much_is_refused(content: bytes, message: str) -> None:
    with pytest.raises(InputError, match=message):
        pickles.load(HEAD + content, "x")


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b".",
        b"NN.",
        b"(N.",
        b"h\x00.",
        b"j\x00\x00\x00\x80.",
        b"\x94.",
        b"\x86.",
        b"N\x86.",
        b"a.",
        b"u.",
        b"e.",
        b"s.",
        b"t.",
        b"X\xff\xff\xff\xffabc.",
        b"\x8c\x02\xff\xfe.",
        b"\x95\xff\xff\xff\xff\xff\xff\xff\xff.",
        b"]\x94(h\x05e.",
        b"]\x94(j\xff\xff\xff\xffe.",
    ],
)
def test_nonsense_is_damaged(content: bytes) -> None:
    with pytest.raises(CorruptTraceError):
        pickles.load(HEAD + content, "x")


def test_memory_follows_the_size_of_the_file() -> None:
    """Lists of lists of lists, each ten times the one before: few bytes stand for many items."""
    content = (
        HEAD + b"]\x94" + b"".join(b"](" + b"h%c" % n * 10 + b"e\x94" for n in range(60)) + b"."
    )
    with pytest.raises(CorruptTraceError):  # nine values too many are left, and not a terabyte
        pickles.load(content, "x")


def test_a_list_in_itself_is_read() -> None:
    value = pickles.load(HEAD + b"]\x94h\x00a.", "x")
    assert value[0] is value


@pytest.mark.parametrize(
    "content", [b"", b"\x80", b"\x80\x01.", b"\x80\x06.", b"N.", b"cos\nsystem\n."]
)
def test_other_protocols_are_no_pickles(content: bytes) -> None:
    with pytest.raises(InputError, match="not a pickle of protocol 2 to 5"):
        pickles.load(content, "x")


def test_random_bytes_never_end_in_another_error() -> None:
    plain = pickle.dumps({"a": [{"b": 1, "c": "text", "d": (1.5, None)} for _ in range(20)]}, 4)
    randomly = random.Random(7)
    for _ in range(2000):
        content = bytearray(plain)
        for _ in range(randomly.randrange(1, 4)):
            content[randomly.randrange(2, len(content))] = randomly.randrange(256)
        with suppress(InputError):
            pickles.load(bytes(content), "x")


def test_small_numbers_are_keys_on_request_only() -> None:
    content = pickle.dumps({0: [1], 65_535: [2]}, protocol=2)
    assert pickles.load(content, "x", has_number_keys=True) == {0: [1], 65_535: [2]}
    with pytest.raises(InputError, match="a key that is no text"):
        pickles.load(content, "x")
    for key in (65_536, -1):
        with pytest.raises(InputError, match="a large number as a key"):
            pickles.load(pickle.dumps({key: 0}, protocol=2), "x", has_number_keys=True)
    for other in (True, 1.5, (1,)):
        with pytest.raises(InputError, match="a key that is no text"):
            pickles.load(pickle.dumps({other: 0}, protocol=2), "x", has_number_keys=True)
