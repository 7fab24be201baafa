"""Ranges, marks, their payloads, and the collectives among them."""

from __future__ import annotations

import json
import struct
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.nsys_exports import OTHER_THREAD, THREAD, Row, event, global_id, strings

from warpline.readers.nsys.binary import Decoder, Entry, Enumeration
from warpline.readers.nsys.payload import parse_json

EVENTS = "NVTX_EVENTS"
CATEGORY, MARK, PUSH, POP, START, END = 33, 34, 35, 36, 37, 38
START_END, DOMAIN = 60, 75
SCHEMA, ENUM = 2**24 + 5, 2**24 + 20


def test_inline_and_registered_names(opened, rows_of):
    events = [
        event(1, 2, text="inline"),
        event(2, 3, textId=1),
        event(3, 4, textId=1, text="registered stands first"),
        event(4, 5),
        event(5, 6, text=""),
        event(6, 7, text="inline"),
    ]
    trace = opened({"StringIds": strings("zero", "registered"), EVENTS: events})
    names = [name for (name,) in rows_of(trace, "range", "name_id")]
    assert names == ["inline", "registered", "registered", None, "", "inline"]


def test_the_same_domain_id_in_two_processes(opened, rows_of):
    events = [
        event(0, kind=DOMAIN, text="NCCL", domainId=1),
        event(0, kind=DOMAIN, text="lib", domainId=1, globalTid=OTHER_THREAD),
        event(1, 2, text="a", domainId=1),
        event(2, 3, text="b", domainId=1, globalTid=OTHER_THREAD),
        event(3, 4, text="c", domainId=9),
        event(4, 5, text="d"),
        event(5, 6, text="e", domainId=None),
    ]
    trace = opened({"StringIds": strings("x"), EVENTS: events})
    assert rows_of(trace, "range", "name_id", "domain_id") == [
        ("a", "NCCL"),
        ("b", "lib"),
        ("c", "domain 9"),
        ("d", None),
        ("e", None),
    ]


def test_categories_by_process_and_domain(opened, rows_of):
    events = [
        event(0, kind=CATEGORY, text="data", category=7),
        event(0, kind=CATEGORY, text="other", category=7, domainId=1),
        event(1, 2, category=7),
        event(2, 3, category=7, domainId=1),
        event(3, 4, category=8),
        event(4, kind=MARK, category=7, text="m"),
        event(5, 6, category=0),
        event(6, 7, category=7, globalTid=OTHER_THREAD),
    ]
    trace = opened({"StringIds": strings("x"), EVENTS: events})
    categories = [category for (category,) in rows_of(trace, "range", "category_id")]
    assert categories == ["data", "other", "8", None, "7"]
    assert rows_of(trace, "mark", "time_ns", "category_id", "name_id") == [(4, "data", "m")]


def test_open_ranges_end_with_the_recording(opened, rows_of):
    events = [event(5, None, text="open"), event(900, None, text="late"), event(7, 9, text="shut")]
    details = [{"globalVid": 0, "duration": 500, "startTime": 100, "stopTime": 600}]
    trace = opened({"StringIds": strings("x"), EVENTS: events, "ANALYSIS_DETAILS": details})
    assert trace.meta.span_ns == (0, 500)
    assert rows_of(trace, "range", "name_id", "end_ns", "is_truncated") == [
        ("open", 500, True),
        ("shut", 9, False),
        ("late", 900, True),  # it began after the end that was told: it has no length
    ]


def test_open_ranges_without_a_known_end_last_as_long_as_the_others(opened, rows_of):
    events = [event(5, None), event(7, 90), event(8, None)]
    trace = opened({"StringIds": strings("x"), EVENTS: events})
    assert rows_of(trace, "range", "end_ns", "is_truncated") == [
        (90, True),
        (90, False),
        (90, True),
    ]


def test_ranges_that_only_open(opened, rows_of):
    trace = opened({"StringIds": strings("x"), EVENTS: [event(5, None), event(8, None)]})
    assert rows_of(trace, "range", "end_ns", "is_truncated") == [(8, True), (8, True)]


def test_a_range_may_end_on_another_thread(opened, rows_of):
    second = global_id(4242, 4300)
    events = [
        event(1, 5, START_END, endGlobalTid=second),
        event(2, 6, START_END, endGlobalTid=THREAD),
        event(3, 7),
    ]
    trace = opened({"StringIds": strings("x"), EVENTS: events})
    assert rows_of(trace, "range", "style", "thread_id", "end_thread_id") == [
        ("StartEnd", 0, 1),
        ("StartEnd", 0, None),
        ("PushPop", 0, None),
    ]


def test_imported_ranges(opened, rows_of):
    events = [event(1, 5, 70, text="p"), event(2, 6, 71, text="s"), event(3, 4, 65, text="mark")]
    trace = opened({"StringIds": strings("x"), EVENTS: events})
    assert rows_of(trace, "range", "style", "name_id") == [("PushPop", "p"), ("StartEnd", "s")]
    assert trace.meta.unread == {"NVTX_EVENTS of type 65": 1}


def test_raw_halves_are_paired(opened, rows_of):
    events = [
        event(1, kind=PUSH, text="outer"),
        event(2, kind=PUSH, text="inner"),
        event(3, kind=POP),
        event(3, kind=PUSH, text="elsewhere", globalTid=OTHER_THREAD),
        event(4, kind=PUSH, text="domain", domainId=1),
        event(5, kind=POP),
        event(6, kind=START, text="job", rangeId=8),
        event(7, kind=END, rangeId=8, globalTid=global_id(4242, 4300)),
        event(8, kind=END, rangeId=9),
        event(9, kind=POP),
        event(10, 20, text="whole"),
    ]
    trace = opened({"StringIds": strings("x"), EVENTS: events})
    assert rows_of(trace, "range", "name_id", "start_ns", "end_ns", "is_truncated") == [
        ("outer", 1, 5, False),
        ("inner", 2, 3, False),
        ("elsewhere", 3, 20, True),
        ("domain", 4, 20, True),
        ("job", 6, 7, False),
        ("whole", 10, 20, False),
    ]
    assert trace.meta.unread == {"NVTX_EVENTS of type 36": 1, "NVTX_EVENTS of type 38": 1}


def test_colours_and_the_row_in_the_file(opened, rows_of):
    events = [event(0, kind=DOMAIN, text="d", domainId=1), event(1, 2, color=-16711936)]
    trace = opened({"StringIds": strings("x"), EVENTS: events})
    assert rows_of(trace, "range", "color", "source_id") == [(0xFF00FF00, 2)]


def test_payloads_of_every_plain_type(opened, rows_of):
    events = [
        event(1, 2, uint64Value=-1),
        event(2, 3, int64Value=-5),
        event(3, 4, doubleValue=0.5),
        event(4, 5, uint32Value=7),
        event(5, 6, int32Value=-7),
        event(6, 7, floatValue=1.25),
        event(7, kind=MARK, int64Value=3),
        event(0, kind=DOMAIN, text="d", int64Value=99),
    ]
    trace = opened({"StringIds": strings("x"), EVENTS: events})
    columns = ("range_id", "mark_id", "key_id", "int_value", "float_value", "text_id")
    assert sorted(rows_of(trace, "range_payload", *columns), key=str) == sorted(
        [
            (0, None, "payload", -1, None, None),
            (1, None, "payload", -5, None, None),
            (2, None, "payload", None, 0.5, None),
            (3, None, "payload", 7, None, None),
            (4, None, "payload", -7, None, None),
            (5, None, "payload", None, 1.25, None),
            (None, 0, "payload", 3, None, None),
        ],
        key=str,
    )


def test_json_payloads_inline_and_by_id(opened, rows_of):
    texts = strings("x", '{"loss": 0.5, "tag": "warm"}')
    events = [
        event(2, 3, jsonText='{"step": 4, "ok": true, "none": null}'),
        event(1, 2, jsonTextId=1),
        event(3, 4, jsonText='{"nested": {"a": 1, "b": 2}}'),
        event(4, 5, jsonText="not json"),
    ]
    trace = opened({"StringIds": texts, EVENTS: events})
    columns = ("range_id", "key_id", "int_value", "float_value", "text_id")
    assert rows_of(trace, "range_payload", *columns) == [
        (0, "loss", None, 0.5, None),
        (0, "tag", None, None, "warm"),
        (1, "step", 4, None, None),
        (1, "ok", None, None, "true"),
        (1, "none", None, None, "null"),
        (2, "json", None, None, '{"nested": {"a": 1, "b": 2}}'),
        (3, "json", None, None, "not json"),
    ]


@given(st.binary() | st.text().map(str.encode) | st.from_type(dict).map(repr).map(str.encode))
def test_any_json_column_gives_pairs(content):
    assert all(isinstance(key, str) for key, _ in parse_json(content))


@given(st.recursive(st.none() | st.booleans() | st.integers() | st.floats() | st.text(), st.lists))
def test_values_of_json_are_numbers_or_texts(value):
    for _, found in parse_json(json.dumps({"k": value, "typed": {"Int": value}}).encode()):
        assert isinstance(found, int | float | str)
        assert not isinstance(found, int) or -(2**63) <= found < 2**64


def payload(body: bytes, schema: int = SCHEMA, count: int = 1) -> bytes:
    """Return one payload as the exporter writes it: its number, schema, size and place."""
    return struct.pack("<QQQQ", count, schema, len(body), 32) + body


def schema_tables(*entries: Row, schema: int = SCHEMA, **more: Any) -> dict[str, list[Row]]:
    """Return the tables that declare one schema; each entry gives type, name and what else."""
    key = {"domainId": 1, "schemaId": schema}
    rows = [{**key, "idx": number, **entry} for number, entry in enumerate(entries)]
    return {
        "NVTX_PAYLOAD_SCHEMAS": [{**key, "type": 1, "payloadSize": None, **more}],
        "NVTX_PAYLOAD_SCHEMA_ENTRIES": rows,
        "NVTX_PAYLOAD_ENUMS": [{"domainId": 1, "schemaId": ENUM, "size": 4}],
        "NVTX_PAYLOAD_ENUM_ENTRIES": [
            # NULL is how these tables write 0.
            {"domainId": 1, "schemaId": ENUM, "idx": 0, "name": "Sum", "value": None},
            {"domainId": 1, "schemaId": ENUM, "idx": 1, "name": "Max", "value": 2},
        ],
    }


def decoded(opened, rows_of, tables, *contents):
    events = [event(i, i + 1, domainId=1, binaryData=c) for i, c in enumerate(contents)]
    trace = opened({"StringIds": strings("x"), EVENTS: events, **tables})
    values = rows_of(trace, "range_payload", "key_id", "int_value", "float_value", "text_id")
    return [(key, *(v for v in rest if v is not None)) for key, *rest in values]


@pytest.mark.parametrize(
    ("kind", "form", "value"),
    [
        (1, "b", -3),
        (5, "i", -(2**31)),
        (8, "Q", 2**40),
        (12, "B", 255),
        (16, "I", 2**32 - 1),
        (17, "q", -(2**62)),
        (18, "Q", 2**62),
        (19, "f", 0.5),
        (20, "d", 1e300),
        (22, "Q", 4096),
        (42, "e", 1.5),
        (131, "Q", 12345),
    ],
)
def test_binary_numbers(opened, rows_of, kind, form, value):
    tables = schema_tables({"type": kind, "name": "n"})
    body = struct.pack(f"<{form}", value)
    assert decoded(opened, rows_of, tables, payload(body)) == [("n", value)]


def test_unsigned_numbers_beyond_63_bits_wrap(opened, rows_of):
    tables = schema_tables({"type": 18, "name": "n"})
    content = payload(struct.pack("<Q", 2**64 - 2))
    assert decoded(opened, rows_of, tables, content) == [("n", -2)]


def test_entries_without_an_offset_are_laid_out_as_in_c(opened, rows_of):
    tables = schema_tables(
        {"type": 12, "name": "a"},
        {"type": 18, "name": "b"},
        {"type": 5, "name": "c", "offset": 16},
        {"type": 14, "name": None},
    )
    body = struct.pack("<B7xQiH", 1, 2, 3, 4)
    expected = [("a", 1), ("b", 2), ("c", 3), ("3", 4)]
    assert decoded(opened, rows_of, tables, payload(body)) == expected


def test_enumerations_texts_arrays_and_nested_schemas(opened, rows_of):
    fixed, terminated, counted = 1 << 4, 2 << 4, 3 << 4
    inner = {"domainId": 1, "schemaId": SCHEMA + 1}
    tables = schema_tables(
        {"type": ENUM, "name": "op"},
        {"type": 5, "name": "count"},
        {"type": 75, "name": "fixed text", "arrayOrUnionDetail": 8},
        {"type": 15, "name": "fixed", "flags": fixed, "arrayOrUnionDetail": 2},
        {"type": 15, "name": "counted", "flags": counted, "arrayOrUnionDetail": 1},
        {"type": SCHEMA + 1, "name": "nested"},
        {"type": 76, "name": "text", "flags": terminated},
        {"type": 12, "name": "bytes", "flags": terminated},
    )
    tables["NVTX_PAYLOAD_SCHEMAS"].append({**inner, "type": 1})
    tables["NVTX_PAYLOAD_SCHEMA_ENTRIES"] += [
        {**inner, "idx": 0, "type": 15, "name": "x"},
        {**inner, "idx": 1, "type": 15, "name": "y"},
    ]
    body = struct.pack("<ii8s", 2, 3, b"abc") + struct.pack("<7i", 7, 8, 1, 2, 3, 20, 21)
    body += "grün\0".encode() + bytes([5, 6, 0])
    assert decoded(opened, rows_of, tables, payload(body)) == [
        ("op", "Max"),
        ("count", 3),
        ("fixed text", "abc"),
        ("fixed", "[7, 8]"),
        ("counted", "[1, 2, 3]"),
        ("nested.x", 20),
        ("nested.y", 21),
        ("text", "grün"),
        ("bytes", "[5, 6]"),
    ]


def test_what_cannot_be_decoded_is_hexadecimal(opened, rows_of):
    tables = schema_tables({"type": 5, "name": "n"}, {"type": 5, "name": "p", "flags": 2})
    contents = [
        b"\x01\x02",
        payload(b"\x07\0\0\0", schema=SCHEMA + 9),
        payload(b"\x07\0\0\0\xaa\xbb"),
        payload(b"\x07"),
        payload(b"\x07\0\0\0", count=2**61),
        payload(b"\x07\0\0\0")[:-1],
    ]
    found = decoded(opened, rows_of, tables, *contents)
    assert found == [
        ("payload", "0102"),
        ("payload", contents[1].hex()),
        ("n", 7),
        ("p", "aabb"),
        ("n", "07"),
        ("payload", contents[4].hex()),
        ("payload", contents[5].hex()),
    ]


def test_several_payloads_of_one_event_follow_each_other(opened, rows_of):
    tables = schema_tables({"type": 5, "name": "n"})
    parts = struct.pack("<QQQQQQQ", 2, SCHEMA, 4, 60, SCHEMA, 4, 56)
    content = parts + struct.pack("<ii", 8, 7)
    assert decoded(opened, rows_of, tables, content) == [("n", 7), ("n", 8)]


def test_equal_bytes_mean_what_their_domain_says(opened, rows_of):
    events = [event(i, i + 1, domainId=i, binaryData=payload(b"\x07\0\0\0")) for i in (1, 2)]
    one, two = schema_tables({"type": 5, "name": "n"}), schema_tables({"type": 5, "name": "m"})
    tables = {
        name: [*rows, *({**r, "domainId": 2} for r in two[name])] for name, rows in one.items()
    }
    trace = opened({"StringIds": strings("x"), EVENTS: events, **tables})
    assert rows_of(trace, "range_payload", "key_id", "int_value") == [("n", 7), ("m", 7)]


class AnySchemas(Decoder):
    """A decoder whose schemas a test makes up."""

    def __init__(self, schemas, enumerations):
        self.schemas = schemas
        self.enumerations = enumerations


KINDS = st.integers(0, 130) | st.sampled_from([SCHEMA, SCHEMA + 1, ENUM])
ENTRIES = st.builds(
    Entry,
    name=st.text(max_size=3),
    type=KINDS,
    flags=st.sampled_from([0, 0, 16, 32, 48, 2, 4, 1 << 10]),
    detail=st.integers(0, 2**62) | st.integers(0, 3),
    offset=st.none() | st.integers(-8, 40),
)


@settings(max_examples=200)
@given(
    st.lists(ENTRIES, max_size=5),
    st.lists(ENTRIES, max_size=3),
    st.sampled_from([1, 2, 3, 4, 8]),
    st.binary(max_size=80),
    st.booleans(),
)
def test_no_schema_and_no_bytes_break_the_decoder(outer, inner, size, content, is_framed):
    schemas = {(1, SCHEMA): outer, (1, SCHEMA + 1): inner}
    decoder = AnySchemas(schemas, {(1, ENUM): Enumeration({0: "Sum"}, size)})
    for key, value in decoder.decode(payload(content) if is_framed else content, 1):
        assert isinstance(key, str)
        assert isinstance(value, int | float | str)


def test_schemas_that_contain_themselves_end():
    """Each level has three structures and an array of structures, at the same bytes."""
    part = Entry(name="x", type=SCHEMA, flags=0, detail=0, offset=0)
    many = Entry(name="y", type=SCHEMA, flags=16, detail=2**62, offset=0)
    back = Entry(name="z", type=1, flags=0, detail=0, offset=-4)
    number = Entry(name="n", type=1, flags=0, detail=0, offset=None)
    content = payload(bytes(range(80)))
    for entries in ([part, part, part, many, number], [many, number], [back, many]):
        decoder = AnySchemas({(1, SCHEMA): entries}, {})
        pairs = decoder.decode(content, 1)
        assert sum(len(str(value)) for _, value in pairs) < 200_000
    assert AnySchemas({(1, SCHEMA): [part] * 3}, {}).decode(content, 1) == [
        ("payload", content.hex())
    ]


COMMUNICATOR = 0xABCDEF0123456789
COLLECTIVE = schema_tables(
    {"type": 18, "name": "NCCL communicator ID"},
    {"type": 22, "name": "Message size [bytes]", "offset": 8},
    {"type": ENUM, "name": "Reduction operation", "offset": 16},
)


def nccl(start: int, name: str, body: bytes | None = None, schema: int = SCHEMA, **more):
    content = None if body is None else payload(body, schema)
    return event(start, start + 5, text=name, domainId=1, binaryData=content, **more)


def test_collectives_with_payloads(opened, rows_of):
    init = {"domainId": 1, "schemaId": SCHEMA + 1}
    names = ("NCCL communicator ID", "No. of ranks", "Rank")
    tables = {
        **COLLECTIVE,
        "NVTX_PAYLOAD_SCHEMAS": [*COLLECTIVE["NVTX_PAYLOAD_SCHEMAS"], {**init, "type": 1}],
        "NVTX_PAYLOAD_SCHEMA_ENTRIES": [
            *COLLECTIVE["NVTX_PAYLOAD_SCHEMA_ENTRIES"],
            *(
                {**init, "idx": i, "type": 18 if i == 0 else 5, "name": n}
                for i, n in enumerate(names)
            ),
        ],
    }
    other = COMMUNICATOR - 1
    events = [
        event(0, kind=DOMAIN, text="NCCL", domainId=1),
        nccl(1, "ncclCommInitRank", struct.pack("<Qii", COMMUNICATOR, 8, 3), SCHEMA + 1),
        nccl(30, "ncclAllReduce", struct.pack("<QQi", COMMUNICATOR, 2048, 2)),
        nccl(20, "ncclAllReduce", struct.pack("<QQi", COMMUNICATOR, 1024, 0)),
        nccl(40, "ncclAllGather", struct.pack("<QQi", other, 16, 0)),
        nccl(50, "ncclGroupStart"),
        event(60, 70, text="ncclAllReduce"),
    ]
    trace = opened({"StringIds": strings("x"), EVENTS: events, **tables})
    columns = ("start_ns", "operation_id", "bytes", "reduction_id", "communicator_id")
    assert rows_of(trace, "collective", *columns) == [
        (20, "ncclAllReduce", 1024, "Sum", f"{COMMUNICATOR:#018x}"),
        (30, "ncclAllReduce", 2048, "Max", f"{COMMUNICATOR:#018x}"),
        (40, "ncclAllGather", 16, "Sum", f"{other:#018x}"),
    ]
    assert rows_of(trace, "collective", "rank", "rank_count", "sequence") == [
        (3, 8, 0),
        (3, 8, 1),
        (None, None, 0),
    ]
    ranges = rows_of(trace, "range", "name_id", "start_ns")
    referred = [ranges[row] for (row,) in rows_of(trace, "collective", "range_id")]
    assert [start for _, start in referred] == [20, 30, 40]


def test_collectives_with_json_payloads(opened, rows_of):
    text = {"NCCL communicator ID": "1,000", "Message size [bytes]": {"Size": 64}, "Root": "3"}
    events = [
        event(0, kind=DOMAIN, text="NCCL", domainId=1),
        {**nccl(1, "ncclBroadcast"), "jsonText": json.dumps(text)},
    ]
    trace = opened({"StringIds": strings("x"), EVENTS: events})
    columns = ("communicator_id", "bytes", "peer", "reduction_id")
    assert rows_of(trace, "collective", *columns) == [("0x00000000000003e8", 64, 3, None)]


def test_two_ranks_of_a_communicator_in_one_process_leave_the_rank_open(opened, rows_of):
    body = {"NCCL communicator ID": 5, "No. of ranks": 2}
    events = [event(0, kind=DOMAIN, text="NCCL", domainId=1)]
    events += [
        {**nccl(rank, "ncclCommInitRank"), "jsonText": json.dumps({**body, "Rank": rank})}
        for rank in (0, 1)
    ]
    events.append({**nccl(9, "ncclReduce"), "jsonText": '{"NCCL communicator ID": 5}'})
    trace = opened({"StringIds": strings("x"), EVENTS: events})
    assert rows_of(trace, "collective", "rank", "rank_count") == [(None, 2)]


def test_collectives_without_payloads_and_without_a_named_domain(opened, rows_of):
    events = [nccl(1, "ncclSend"), nccl(2, "ncclSend", globalTid=OTHER_THREAD), nccl(3, "ncclRecv")]
    trace = opened({"StringIds": strings("x"), EVENTS: events})
    columns = ("operation_id", "bytes", "communicator_id", "sequence", "process_id")
    assert rows_of(trace, "collective", *columns) == [
        ("ncclSend", None, None, 0, 0),
        ("ncclSend", None, None, 0, 1),
        ("ncclRecv", None, None, 1, 0),
    ]


def test_ranges_of_another_library_are_no_collectives(opened):
    events = [event(0, kind=DOMAIN, text="mine", domainId=1), nccl(1, "ncclAllReduce")]
    trace = opened({"StringIds": strings("x"), EVENTS: events})
    assert trace.row_count("collective") == 0


@pytest.mark.parametrize("is_exported", [False, True])
def test_payloads_that_were_left_out_are_told(opened, is_exported):
    body = struct.pack("<QQi", 1, 2, 0) if is_exported else None
    trace = opened({"StringIds": strings("x"), EVENTS: [nccl(1, "ncclSend", body)], **COLLECTIVE})
    assert any("--include-blobs" in text for text in trace.meta.warnings) != is_exported
