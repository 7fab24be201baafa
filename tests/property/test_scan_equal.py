"""The native scan of a Chrome trace and the Python one agree on any trace."""

from __future__ import annotations

import codecs
import gzip
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support import kineto_files
from support.scans import arguments_of, events_of

from warpline import native
from warpline.readers.kineto import scan_native, scan_python
from warpline.readers.kineto.scan import Scan

pytestmark = pytest.mark.skipif(native.core() is None, reason="needs the native core")

KEYS = ("ph", "cat", "name", "pid", "tid", "ts", "dur", "id", "args", "s", "", "correlation")
ARGUMENTS = ("correlation", "External id", "Input Dims", "", "E\\u0078ternal id", "\\ud800", "é")
INTEGERS = ("0", "7", "-1", "16", "9223372036854775807", "-9223372036854775808",
            "9223372036854775808", "18446744073709551615",
            "123456789012345678901234567890")  # fmt: skip
REALS = ("1.5", "-0.0", "0.1", "1e3", "2E-3", "1e400", "-1e400", "1e-400", "5e-324", "2.5e+2",
         "9007199254740993.0", "0.30000000000000004", "123456789.123456789123456789")  # fmt: skip
TIMES = ("4361160766121.451", "2215.186", "1661203462598509", "0.0005", "0.0004999", "-0.0005",
         "1.0015", "4611686018427387.903", "4611686018427387.904", "4611686018427388", "0",
         "-4611686018427387.903", "1e10", "1.5e-3", "1e30", "12345678901234567890", "0.0",
         '"4361160766121.451"', '"12"', '""', '"x"', "1e-30", "null", "true", "[1]")  # fmt: skip
STRINGS = ('"X"', '""', '"kernel"', '"void f<float>(int)"', '"a\\"b\\\\\\/\\b\\f\\n\\r\\t"',
           '"\\u00e9\\u20ac"', '"\\ud83d\\ude00"', '"\\ud83d"', '"\\ude00\\ud83d"', '"é€😀"',
           '"tab\there"', '"line\nbreak"', '"stream 7"', '"\\u0000"', '"traceEvents"')  # fmt: skip
WORDS = ("null", "true", "false")
NOT_FINITE = ("NaN", "Infinity", "-Infinity")
SPACES = ("", "", "", " ", "\n    ", "\t\r\n ")

texts = st.one_of(
    st.sampled_from(STRINGS),
    st.text(max_size=40).map(lambda text: '"' + text.replace("\\", "").replace('"', "") + '"'),
)
spaces = st.sampled_from(SPACES)
scalars = st.one_of(
    st.sampled_from(INTEGERS),
    st.sampled_from(REALS),
    st.sampled_from(WORDS),
    st.sampled_from(NOT_FINITE),
    st.integers().map(str),
    st.floats(allow_nan=False, allow_infinity=False).map(repr),
    texts,
)


def joined(open_close: str, parts: list[str], space: str) -> str:
    return open_close[0] + space + f",{space}".join(parts) + space + open_close[1]


def objects(members: st.SearchStrategy[str], most: int) -> st.SearchStrategy[str]:
    return st.builds(joined, st.just("{}"), st.lists(members, max_size=most), spaces)


def member(names: st.SearchStrategy[str], values: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.builds('"{}"{}:{}{}'.format, names, spaces, spaces, values)


values = st.recursive(
    scalars,
    lambda inner: st.one_of(
        st.builds(joined, st.just("[]"), st.lists(inner, max_size=4), spaces),
        objects(member(st.sampled_from(ARGUMENTS), inner), 4),
    ),
    max_leaves=8,
)
arguments = objects(member(st.sampled_from(ARGUMENTS), values), 5)
# Fields with a text or a number's literal: the Python scan writes -0 differently.
short = st.one_of(
    st.sampled_from(INTEGERS),
    st.sampled_from(REALS),
    st.sampled_from(WORDS),
    st.sampled_from(NOT_FINITE),
    texts,
    arguments,
)
fields = st.one_of(
    member(st.sampled_from(("ph", "cat", "name", "pid", "tid", "id")), short),
    member(st.sampled_from(("ts", "dur")), st.sampled_from(TIMES)),
    member(st.sampled_from(("ts", "dur")), st.decimals(allow_nan=False, places=3).map(str)),
    member(st.just("args"), arguments),
    member(st.just("args"), values),
    member(st.sampled_from(("s", "bp", "cname")), values),
)
events = st.lists(st.one_of(objects(fields, 9), objects(fields, 9), values), max_size=8)


@st.composite
def traces(draw: st.DrawFn) -> bytes:
    """Return the text of a trace, optionally with a byte order mark or without its end."""
    space = draw(spaces)
    text = joined("[]", draw(events), space)
    if draw(st.booleans()):
        names = st.sampled_from(("schemaVersion", "deviceProperties", "displayTimeUnit"))
        members = draw(st.lists(member(names, values), max_size=3))
        members.insert(draw(st.integers(0, len(members))), f'"traceEvents":{space}{text}')
        text = joined("{}", members, space)
    raw = text.encode("utf-8", "surrogatepass")
    return (codecs.BOM_UTF8 if draw(st.booleans()) else b"") + raw


def both(raw: bytes, wanted: frozenset[str] | None) -> tuple[Scan, Scan]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trace"
        path.write_bytes(raw)
        native_scan = scan_native.scan(path, wanted)
        assert native_scan is not None
        return scan_python.scan(path, wanted), native_scan


def check_events(expected: Scan, found: Scan) -> None:
    assert events_of(found) == events_of(expected)
    assert arguments_of(found) == arguments_of(expected)


SETTINGS = settings(max_examples=100, suppress_health_check=[HealthCheck.too_slow], deadline=None)


@SETTINGS
@given(raw=traces(), wanted=st.none() | st.frozensets(st.sampled_from(("correlation", "é", ""))))
def test_any_trace_gives_the_same(raw: bytes, wanted: frozenset[str] | None) -> None:
    expected, found = both(raw, wanted)
    check_events(expected, found)
    assert repr(found.top) == repr(expected.top)
    assert found.n_bytes == expected.n_bytes
    assert bool(found.lost) == bool(expected.lost)


@SETTINGS
@given(raw=traces(), data=st.data())
def test_a_cut_trace_keeps_the_same_events(raw: bytes, data: st.DataObject) -> None:
    expected, found = both(raw[: data.draw(st.integers(0, len(raw) - 1))], None)
    check_events(expected, found)
    assert found.lost


@settings(SETTINGS, max_examples=10)
@given(raw=traces())
def test_gzip_changes_nothing(raw: bytes) -> None:
    expected, found = both(gzip.compress(raw), None)
    check_events(expected, found)


@pytest.mark.parametrize("name", kineto_files.names())
def test_captures_give_the_same(name: str, tmp_path: Path) -> None:
    path = kineto_files.unpack(name, tmp_path)
    found = scan_native.scan(path, None)
    assert found is not None
    expected = scan_python.scan(path, None)
    check_events(expected, found)
    assert found.top == expected.top
    assert found.lost == expected.lost == ()


@pytest.mark.parametrize(
    "extreme", [b"\xff", b"\xc3(", b"\xe2\x82", b"\xf0\x9f\x98", b"\xed\xa0\x80"]
)
def test_what_is_no_utf_8_is_replaced_alike(extreme: bytes) -> None:
    raw = b'[{"name":"a' + extreme + b'b","args":{"k' + extreme + b'":["' + extreme + b'"]}}]'
    expected, found = both(raw, None)
    check_events(expected, found)
    assert "\ufffd" in found.texts[int(found.name[0])].decode()


@pytest.mark.parametrize(
    "raw",
    [
        b'{"traceEvents":[{},{}],"a":1,"traceEvents":[{"name":"x"}],"a":2}',
        b'{"traceEvents":[{},{}],"traceEvents":null}',
        b'[{"name":"x","name":"y","args":{"k":1},"args":{"k":2,"k":"3","l":1,"l":null}}]',
    ],
)
def test_of_two_keys_both_keep_the_last(raw: bytes) -> None:
    expected, found = both(raw, None)
    check_events(expected, found)
    assert found.top == expected.top


@pytest.mark.parametrize("digits", [19, 4300, 100_000])
def test_an_integer_of_any_length_is_kept_as_written(digits: int) -> None:
    number = b"9" * digits
    expected, found = both(b'[{"ts":%b,"pid":%b,"args":{"k":-%b}},{}]' % ((number,) * 3), None)
    check_events(expected, found)
    assert len(found) == 2
    assert found.texts[int(found.pid[0])] == number


@pytest.mark.parametrize("levels", [255, 600, 100_000])
def test_what_is_nested_too_deeply_is_skipped_and_told(levels: int) -> None:
    deep = b"[" * levels + b"]" * levels
    raw = b'{"a":%b,"traceEvents":[{"args":{"deep":%b}},{"name":"x"}],"b":1}' % (deep, deep)
    expected, found = both(raw, None)
    is_kept = levels < 256
    assert (b"deep" in expected.args) == is_kept
    assert any("nested too deeply" in told for told in expected.lost) != is_kept
    assert events_of(expected)["name"][-1] == b"x"
    assert expected.top["b"] == found.top["b"] == 1
