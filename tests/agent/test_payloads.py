"""Payloads and schemas are in the logs, including strings that payloads point to."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest
from support import raw_logs

from warpline.capture.session.agent_config import AgentConfig

OLDER = "-DNVTX_EXT_PAYLOAD_COMPATID=0x0103"
UNKNOWN = "-DNVTX_EXT_PAYLOAD_COMPATID=0x0999"
DOMAIN = "payloads"


@pytest.fixture
def payloads(record, compile_program):
    """Run a scenario of programs/payloads.c; return its log."""

    def run(scenario: str, *options: str, **keywords: object) -> raw_logs.Log:
        name = "payloads" + "".join(options).replace("=", "")
        program = compile_program("payloads.c", "-std=c11", *options, name=name)
        (log,) = raw_logs.decode(record(program, scenario, **keywords))
        return log

    return run


def _payload(log: raw_logs.Log, name: str) -> raw_logs.Payload:
    (payload,) = next(event.payloads for event in log.events if event.name == name)
    return payload


def _schema(log: raw_logs.Log, name: str) -> raw_logs.Schema:
    return next(schema for schema in log.schemas.values() if schema.name == name)


@pytest.mark.parametrize(("options", "compat_id"), [((), 0x0104), ((OLDER,), 0x0103)])
def test_structs_with_texts_handles_and_arrays(payloads, options, compat_id):
    log = payloads("structs", *options)
    schema = _schema(log, "plain")
    assert (schema.compat_id, schema.type, schema.static_bytes) == (compat_id, 1, 56)
    assert [(entry.name, entry.type, entry.bytes, entry.align) for entry in schema.entries] == [
        ("small", 11, 1, 1),
        ("real", 20, 8, 8),
        ("text", 75, 1, 8),
        ("triple", 14, 2, 2),
        ("none", 76, 1, 8),
        ("registered", 80, 8, 8),
        ("wide", 77, 2, 8),
    ]
    assert (schema.entries[0].description, schema.entries[3].detail) == ("a small number", 3)
    payload = _payload(log, "struct")
    assert log.schemas[DOMAIN, payload.schema_id] is schema
    assert struct.unpack_from("<b7xd8x3H", payload.data) == (-1, 0.5, 1, 2, 3)
    assert payload.targets == {
        16: b"gone later",
        40: b"a handle",
        48: "wï\U0001f600de".encode(),
    }


def test_structs_in_structs(payloads):
    log = payloads("structs")
    assert _schema(log, "pair").static_bytes == 8 + 2 * 56
    targets = _payload(log, "nested").targets
    assert targets[8 + 16] == targets[8 + 56 + 16] == b"inner"
    assert len(targets) == 6


def test_registered_strings_are_written_once(payloads):
    log = payloads("registered")
    assert log.cut == 0
    assert len(log.events) == 100
    for event in log.events:
        (payload,) = event.payloads
        assert payload.targets == {0: b"c" * 65330, 8: b"model.py:7"}
    assert log.strings == 3  # with the name of the events


def test_enums(payloads):
    log = payloads("enums", prints="1")
    paint = log.schemas[DOMAIN, _payload(log, "enum").schema_id].entries[0]
    colour = log.enums[DOMAIN, paint.type]
    assert (colour.name, colour.bytes) == ("colour", 4)
    assert colour.values == {"RED": 1, "GREEN": 2, "BOLD": 256}
    assert colour.flags == {"BOLD"}
    assert paint.bytes == 4


def test_schema_ids(payloads):
    log = payloads("ids", prints="1 1 1 1 1 1 1")
    payload = _payload(log, "static id")
    assert payload.schema_id == raw_logs.STATIC_SCHEMAS + 77
    assert log.schemas[DOMAIN, payload.schema_id].entries[0].name == "x"
    unknown = _payload(log, "unknown id")
    assert (DOMAIN, unknown.schema_id) not in log.schemas
    assert unknown.data == struct.pack("<i", -3)


def test_blobs_without_a_schema(payloads):
    log = payloads("plain_types")
    assert _payload(log, "array").data == struct.pack("<3d", 1, 2, 4)
    assert _payload(log, "characters").data == b"to the end"
    assert _payload(log, "raw").data == bytes(range(1, 10))
    assert _payload(log, "largest").data == bytes(65536)
    counts = {event.name: len(event.payloads) for event in log.events}
    assert counts["two"] == 2
    left_out = ("nothing", "no size", "no data", "too large", "a negative count", "no payloads")
    assert [counts[name] for name in left_out] == [0] * 6
    assert log.cut == 2  # "no size" and "too large"


def test_arrays_behind_pointers(payloads):
    log = payloads("pointers")
    assert _payload(log, "pointers").targets == {8: struct.pack("<3Q", 10, 20, 30), 24: b"only"}
    assert _payload(log, "half a struct").targets == {}
    assert _payload(log, "more than is copied").targets == {}
    assert log.cut == 1


def test_payloads_that_name_their_event(payloads):
    log = payloads("events", prints="0 0 1 1")
    shown = [(event.kind, event.name, event.category, event.color) for event in log.events]
    assert shown == [
        ("mark", "from a payload", 12, 0xFF00FF00),
        ("push", "wïde", 0, None),
        ("pop", None, 0, None),
        ("start", "started", 12, 0xFF00FF00),
        ("stop", None, 0, None),
    ]
    assert [event.payloads[0].targets.get(0) for event in log.events] == [
        b"from a payload",
        None,
        b"said at its end",
        b"started",
        None,
    ]


def test_programs_are_told_that_all_domains_are_enabled(payloads):
    # They ask once and keep the answer; a later session of the process may want the domain.
    log = payloads("events", config=AgentConfig(domain_exclude=("excluded",)), prints="0 0 1 1")
    assert len(log.events) == 5


def test_layouts_that_depend_on_the_payload(payloads):
    log = payloads("dynamic")
    good, bad = log.events
    assert good.name == "name"
    assert bad.name is None  # its length is larger than the payload
    schema = log.schemas[DOMAIN, good.payloads[0].schema_id]
    assert (schema.type, schema.static_bytes) == (2, 0)
    assert good.payloads[0].data[20:] == b"text\0name\0"


def test_unions_follow_the_member_that_is_selected(payloads):
    log = payloads("unions")
    assert _payload(log, "text").targets == {8: b"chosen"}
    assert _payload(log, "number").targets == {}


def test_what_is_not_recorded_is_told_once(payloads):
    log = payloads("deferred", prints="1 1 1")
    told = [text for kind, text in log.notes if kind == raw_logs.NOTE_UNKNOWN_CALL]
    assert told == ["nvtxEventSubmit", "nvtxEventBatchSubmit", "nvtxCounterRegister"]


def test_an_extension_of_an_unknown_version_is_told_and_does_no_harm(payloads):
    log = payloads("events", UNKNOWN, prints="-2 -2 1 1")
    assert log.events == []
    told = [text for kind, text in log.notes if kind == raw_logs.NOTE_PAYLOAD_UNKNOWN]
    assert told == ["NVTX extension 0x0002, compatibility 0x0999"]


def test_threads_register_schemas_at_once(record, compile_program):
    program = compile_program("payloads.c", "-std=c11", name="payloads")
    logs = raw_logs.decode(record(program, "races", prints=""))
    assert sum(len(log.events) for log in logs) == 8 * 500
    for log in logs:
        for event in log.events:
            (payload,) = event.payloads
            schema = log.schemas[DOMAIN, payload.schema_id]
            (value,) = struct.unpack("<q", payload.data)
            assert (schema.name, schema.entries[0].name) == ("given", f"entry {value}")


def test_declarations_are_nvidias(compile_program, repository: Path):
    native = repository / "native"
    options = (f"-I{native / 'agent' / 'src'}", f"-I{native / 'raw'}")
    assert compile_program("abi.cpp", "-std=c++20", "-c", *options, name="abi.o").exists()
