"""Chrome traces that are cut, damaged or made to hurt, in the native scan."""

from __future__ import annotations

import gzip
import random
import resource
import time
import zlib
from pathlib import Path

import pytest
from support.scans import arguments_of, events_of, texts_of

from warpline import native
from warpline.errors import CorruptTraceError, InputError
from warpline.readers.kineto import chunks, scan_native, scan_python
from warpline.readers.kineto.scan import LARGE, TEXT, Scan

pytestmark = pytest.mark.skipif(native.core() is None, reason="needs the native core")

MIB = 1 << 20
EVENT = b'{"ph":"X","name":"f","ts":1.5,"dur":2,"args":{"correlation":7}}'


def scanned(path: Path, raw: bytes, wanted: frozenset[str] | None = None) -> Scan:
    path.write_bytes(raw)
    found = scan_native.scan(path, wanted)
    assert found is not None
    return found


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "trace"


@pytest.fixture(scope="module")
def capture(data_dir: Path) -> bytes:
    return gzip.decompress((data_dir / "kineto" / "pageable_h2d.bad.json.gz").read_bytes())


def test_a_cut_capture_keeps_every_whole_event(path: Path, capture: bytes) -> None:
    whole = scanned(path, capture)
    expected, arguments = events_of(whole), arguments_of(whole)
    chance = random.Random(7)
    for length in sorted(chance.randrange(len(capture)) for _ in range(40)):
        found = scanned(path, capture[:length])
        count = len(found)
        assert events_of(found) == {name: values[:count] for name, values in expected.items()}
        assert arguments_of(found) == {
            name: kept
            for name, values in arguments.items()
            if (kept := [value for value in values if value[0] < count])
        }
        # What is lost is not even one event long.
        next_end = capture.find(b"\n  }", length)
        assert len(scanned(path, capture[: next_end + 4])) <= count + 1
        assert (
            found.lost[-1] == f"the file is truncated: it ends at byte {length:,}, inside the JSON"
        )


BROKEN = b'{"ph":"X","name":"a"b","args":{"name":"c"}}'


def test_damage_costs_the_event_that_it_is_in(path: Path) -> None:
    text = b'{"a":1,"traceEvents":[%b,\n%b,\n%b,%b],"b":2}' % (EVENT, BROKEN, EVENT, BROKEN)
    first, last = text.find(b'b",'), text.rfind(b'b",')
    found = scanned(path, text)
    assert events_of(found)["name"] == [b"f", b"f"]
    assert found.top == {"a": 1}
    assert len(found.lost) == 2
    assert found.lost[0].startswith(
        f"1 places in the file are not JSON, the first at byte {first}."
    )
    assert found.lost[1] == f"the text after byte {last} is not JSON and was not read"


def test_damage_before_the_events_costs_none_of_them(path: Path) -> None:
    found = scanned(
        path, b'{"deviceProperties":[{"id":0}},"x" 1,"traceEvents" : [\n%b],"b":2}' % EVENT
    )
    assert len(found) == 1
    assert found.top == {"b": 2}
    assert len(found.lost) == 1
    assert "the first at byte 29" in found.lost[0]


def test_blocks_of_a_long_text_are_joined_as_if_read_at_once(path: Path, capture: bytes) -> None:
    begin = capture.index(b"[", capture.index(b'"traceEvents"')) + 1
    events = capture[begin : capture.index(b"\n  ]", begin)]
    damaged = events.replace(b'"ph"', b'"ph" oops', 1)
    # Texts of their own in each part: their numbers must not be confused.
    parts = [events.replace(b"aten::", b"part %d::" % number) for number in range(20)]
    text = b'{"a":1,"traceEvents":[' + b",".join([*parts, damaged, *parts]) + b'],"b":2}'
    assert len(text) > 14 * MIB
    wanted = frozenset(("correlation", "External id", "stream", "grid"))
    found = scanned(path, text, wanted)
    assert found.top == {"a": 1, "b": 2}
    whole = scanned(path, b"[" + b",".join(parts) + b"]", wanted)
    assert events_of(whole) == events_of(scan_python.scan(path, wanted))
    assert len(found) == 2 * len(whole) + len(whole) // 20 - 1
    behind = {name: values[-len(whole) :] for name, values in events_of(found).items()}
    assert behind == events_of(whole)
    shift = len(found) - len(whole)
    assert {
        name: [(event - shift, *rest) for event, *rest in values if event >= shift]
        for name, values in arguments_of(found).items()
    } == arguments_of(whole)
    assert len(found.lost) == 1


def test_a_capture_with_bytes_missing_keeps_most_events(path: Path, capture: bytes) -> None:
    count = len(scanned(path, capture))
    chance = random.Random(3)
    for _ in range(20):
        damaged = bytearray(capture)
        at = chance.randrange(len(damaged))
        del damaged[at : at + 200]
        found = scanned(path, bytes(damaged))
        assert len(found) >= count - 4


@pytest.mark.parametrize(
    "part", [b'{"ph":[', b'{"ph":"', b'{"ph":{"ph":', b'{"name":"\\"', b'{"cat"']
)
def test_damage_again_and_again_takes_no_longer(path: Path, part: bytes) -> None:
    begin = time.process_time()
    found = scanned(path, b"[" + part * (3 * MIB) + b"}]")
    assert time.process_time() - begin < 5
    assert found.lost


@pytest.mark.parametrize("text", [b"", b"   ", b"12", b'"text"', b"\0\0", b"\xff", b"<html>"])
def test_what_is_no_trace_holds_nothing(path: Path, text: bytes) -> None:
    found = scanned(path, text)
    assert len(found) == 0
    assert len(found.lost) == 1


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-32-be"])
def test_wide_text_is_refused_with_what_to_do(path: Path, encoding: str) -> None:
    with pytest.raises(CorruptTraceError, match="UTF-16 or UTF-32") as caught:
        scanned(path, '{"traceEvents":[]}'.encode(encoding))
    assert "UTF-8" in (caught.value.hint or "")


def test_a_mark_of_utf_8_is_passed_over(path: Path) -> None:
    assert len(scanned(path, b"\xef\xbb\xbf[" + EVENT + b"]")) == 1


@pytest.mark.parametrize("tail", [b"", b"\n", b"\0" * 4096])
def test_space_behind_the_end_is_nothing(path: Path, tail: bytes) -> None:
    assert scanned(path, b"[" + EVENT + b"]" + tail).lost == ()


def test_text_behind_the_end_is_told(path: Path) -> None:
    found = scanned(path, b'{"traceEvents":[' + EVENT + b"]}\n{}")
    assert len(found) == 1
    assert found.lost == ("the text after byte 82 follows the end of the trace and was ignored",)


@pytest.mark.parametrize("opening", [b"[", b'{"a":', b'[{"a":'])
def test_nesting_a_million_deep_costs_nothing(path: Path, opening: bytes) -> None:
    levels = 1_000_000
    closing = bytes({91: 93, 123: 125}[byte] for byte in reversed(opening) if byte in b"[{")
    deep = opening * levels + b"1" + closing * levels
    text = b'{"deep":%b,"traceEvents":[%b,{"args":{"deep":%b,"k":1}},%b]}' % (
        deep,
        deep,
        deep,
        EVENT,
    )
    begin = time.process_time()
    found = scanned(path, text)
    assert time.process_time() - begin < 5
    # An element that is an object is an event, whatever is in it.
    first = 1 if opening.startswith(b"{") else 0
    assert len(found) == 2 + first
    assert b"k" in found.args
    assert b"deep" not in found.args
    assert any("nested too deeply" in told for told in found.lost)
    assert found.top == {}


def test_a_long_text_is_cut_and_told(path: Path) -> None:
    name = "é".encode() * (2 * MIB)
    found = scanned(path, b'[{"name":"a' + name + b'"},' + EVENT + b"]")
    texts = texts_of(found, found.name)
    assert texts[1] == b"f"
    assert texts[0] == b"a" + name[: MIB - 2]
    assert found.lost == ("1 texts longer than 1 MiB were truncated",)


def test_a_long_array_is_left_out_and_told(path: Path) -> None:
    found = scanned(path, b'[{"args":{"a":[' + b"1," * MIB + b'1],"b":[1]}}]')
    assert set(found.args) == {b"b"}
    assert found.lost == ("1 arrays or objects longer than 1 MiB were skipped",)


@pytest.mark.parametrize("filling", [b" ", b"\\", b"x", b"[", b"]", b"{"])
def test_an_event_too_long_to_hold_is_left_out(path: Path, filling: bytes) -> None:
    body = b'"' + filling * (70 * MIB) + b'"'
    found = scanned(path, b"[" + EVENT + b',{"a":' + body + b"}," + EVENT + b"]")
    assert len(found) == 2
    assert found.lost == ("1 events longer than 64 MiB were skipped",)


def test_a_member_too_long_to_hold_is_left_out(path: Path) -> None:
    text = b'{"x":[' + b'"]}",' * (14 * MIB) + b'1],"y":1,"traceEvents":[' + EVENT + b'],"z":2}'
    found = scanned(path, text)
    assert len(found) == 1
    assert found.top == {"y": 1, "z": 2}
    assert len(found.lost) == 1


def test_the_last_of_two_keys_counts(path: Path) -> None:
    found = scanned(
        path,
        b'{"traceEvents":[{},{}],"a":1,"traceEvents":['
        b'{"name":"x","name":"y","args":{"k":1},"args":{"k":2,"k":"3","l":1,"l":null}}],"a":2}',
    )
    assert events_of(found)["name"] == [b"y"]
    assert arguments_of(found) == {b"k": [(0, TEXT, b"3")], b"l": [(0, 0, 0)]}
    assert found.top == {"a": 2}


def test_numbers_out_of_range(path: Path) -> None:
    found = scanned(
        path,
        b'[{"ts":1e400,"dur":-1e400,"pid":12345678901234567890123,'
        b'"args":{"a":1e400,"b":-1e400,"c":123456789012345678901,"d":1e-999}}]',
    )
    assert events_of(found)["has_ts"] == [False]
    assert events_of(found)["pid"] == [b"12345678901234567890123"]
    assert arguments_of(found) == {
        b"a": [(0, 3, "inf")],
        b"b": [(0, 3, "-inf")],
        b"c": [(0, LARGE, b"123456789012345678901")],
        b"d": [(0, 3, "0.0")],
    }
    assert len(found.lost) == 2


def test_a_number_of_a_million_digits(path: Path) -> None:
    digits = b"9" * MIB
    found = scanned(path, b'[{"ts":' + digits + b',"args":{"a":0.' + digits + b"}}]")
    assert arguments_of(found) == {b"a": [(0, 3, "1.0")]}


def test_words_that_programs_write_for_what_is_no_number(path: Path) -> None:
    found = scanned(path, b'[{"args":{"a":nan,"b":-nan,"c":inf,"d":-inf,"e":NaN,"f":-Infinity}}]')
    assert [values[0][2] for values in arguments_of(found).values()] == [
        "nan", "nan", "inf", "-inf", "nan", "-inf",
    ]  # fmt: skip
    assert found.lost == ()


def test_escapes_that_do_not_exist_stay(path: Path) -> None:
    found = scanned(path, b'[{"name":"C:\\q\\\\x\\u12","cat":"\\ud83d\\u0041"}]')
    assert events_of(found)["name"] == [b"C:\\q\\x\\u12"]
    assert events_of(found)["category"] == ["\ufffdA".encode()]


def test_elements_that_are_no_events(path: Path) -> None:
    found = scanned(path, b'[1,"two",null,[{}],' + EVENT + b",,]")
    assert len(found) == 1
    assert found.lost == ("4 events are not JSON objects",)


def test_more_argument_names_than_any_trace_has(path: Path) -> None:
    text = b"[" + b",".join(b'{"args":{"k%d":1}}' % number for number in range(5000)) + b"]"
    found = scanned(path, text)
    assert len(found) == 5000
    assert len(found.args) == 4096
    assert found.lost == ("904 arguments beyond 4,096 different names were skipped",)
    assert set(scanned(path, text, frozenset({"k4999"})).args) == {b"k4999"}


def test_a_file_that_needs_more_memory_than_it_may(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scan_native, "_memory_bytes", lambda _: 32 * MIB)
    found = scanned(path, b"[" + b"{}," * (8 * MIB) + b"{}]")
    assert MIB // 2 < len(found) < 4 * MIB
    assert len(found.lost) == 1
    assert "memory" in found.lost[0]


def test_a_missing_file_and_a_folder(tmp_path: Path) -> None:
    for missing in (tmp_path / "nothing", tmp_path):
        with pytest.raises(InputError, match="cannot be read"):
            scan_native.scan(missing, None)


# --- gzip


@pytest.fixture(params=["zlib", "zlib_ng"])
def _inflater(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Decompress with each library that may be installed."""
    module = pytest.importorskip(f"{request.param}.zlib_ng" if "_" in request.param else "zlib")
    monkeypatch.setattr(chunks, "inflater", lambda: module)


def text_of(path: Path, raw: bytes) -> tuple[bytes, list[str]]:
    path.write_bytes(raw)
    lost: list[str] = []
    return b"".join(chunks.chunks(path, lost)), lost


@pytest.mark.usefixtures("_inflater")
def test_gzip_in_several_members(path: Path) -> None:
    assert text_of(path, gzip.compress(b"one ") + gzip.compress(b"") + gzip.compress(b"two")) == (
        b"one two",
        [],
    )


@pytest.mark.usefixtures("_inflater")
def test_zeros_behind_gzip_are_padding(path: Path) -> None:
    assert text_of(path, gzip.compress(b"one") + bytes(1000)) == (b"one", [])


@pytest.mark.usefixtures("_inflater")
def test_other_data_behind_gzip_is_told(path: Path) -> None:
    text, lost = text_of(path, gzip.compress(b"one") + b"garbage")
    assert text == b"one"
    assert len(lost) == 1
    assert "trailing data" in lost[0]
    assert "3 bytes were decompressed before that" in lost[0]


@pytest.mark.usefixtures("_inflater")
@pytest.mark.parametrize("kept", [0.1, 0.5, 0.99])
def test_cut_gzip_gives_all_that_is_there(path: Path, capture: bytes, kept: float) -> None:
    packed = gzip.compress(capture)
    packed = packed[: int(len(packed) * kept)]
    text, lost = text_of(path, packed)
    assert text == zlib.decompressobj(31).decompress(packed)
    assert capture.startswith(text)
    assert lost == [
        f"the gzip file is truncated. {len(text):,} bytes were decompressed before that"
    ]


@pytest.mark.usefixtures("_inflater")
def test_damaged_gzip_gives_all_before_the_damage(path: Path, capture: bytes) -> None:
    packed = bytearray(gzip.compress(capture, compresslevel=1))
    middle = len(packed) // 2
    packed[middle : middle + 64] = b"\xff" * 64
    text, lost = text_of(path, bytes(packed))
    before = zlib.decompressobj(31).decompress(bytes(packed[: middle - 1]))
    assert text.startswith(before)
    assert len(before) > MIB // 8
    assert len(lost) == 1
    assert "is damaged" in lost[0]
    found = scanned(path, bytes(packed))
    assert len(found) > 100
    assert len(found.lost) == 2


@pytest.mark.usefixtures("_inflater")
def test_gzip_whose_checksum_is_wrong_keeps_its_text(path: Path, capture: bytes) -> None:
    packed = bytearray(gzip.compress(capture))
    packed[-8] ^= 1
    text, lost = text_of(path, bytes(packed))
    assert text == capture
    assert len(lost) == 1


@pytest.mark.usefixtures("_inflater")
def test_gzip_that_claims_another_length_keeps_its_text(path: Path, capture: bytes) -> None:
    text, lost = text_of(path, gzip.compress(capture)[:-4] + b"\xff\xff\xff\xff")
    assert text == capture
    assert len(lost) == 1


@pytest.mark.usefixtures("_inflater")
def test_a_gzip_bomb_ends_early_and_is_told(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chunks, "FREE_BYTES", 8 * MIB)
    packer = zlib.compressobj(9, zlib.DEFLATED, 31)
    packed = packer.compress(b"[") + b"".join(packer.compress(b" " * MIB) for _ in range(256))
    packed += packer.flush()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    found = scanned(path, packed)
    assert found.n_bytes < 200 * len(packed) + 2 * MIB
    assert any("200 times its size" in told for told in found.lost)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 32 * 1024
