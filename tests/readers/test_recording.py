"""Recordings of our own: what is read back is what was written, and hostile files are one line."""

from __future__ import annotations

import json
import random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from support import captures
from support.any_trace import any_traces
from support.canonical_dump import dump

import warpline
from warpline.container import Container, ContainerWriter
from warpline.errors import CorruptTraceError, UnsupportedVersionError, WarplineError
from warpline.schema import TABLES
from warpline.trace import MemorySource, Trace
from warpline.trace.recording import write_recording

SMALL: dict[str, dict[str, list[Any]]] = {
    "kernel": {
        "start_ns": [10, 30],
        "end_ns": [20, 45],
        "correlation_id": [7, None],
        "name": ["a<int>", "Größe"],
        "short_name": ["a", "a"],
        "grid_x": [1, 2],
    },
    "memcpy": {"start_ns": [5], "end_ns": [6], "bytes": [64], "kind": [1]},
    "api_call": {"start_ns": [1, 25], "end_ns": [2, 29], "name": ["x", "y"]},
    "range": {"start_ns": [0, 2], "end_ns": [50, 3], "name": ["step", "in"], "source_id": [1, 2]},
    "range_payload": {"range_id": [1], "key": ["k"], "int_value": [3]},
    "memset": {},
}


def same_facts(trace):
    """Return the dump without the version of the file's own schema."""
    return [line for line in dump(trace).splitlines() if not line.startswith("format_version")]


@pytest.fixture
def path(tmp_path):
    return tmp_path / "small.warpline"


@pytest.fixture
def small(path):
    write_recording(Trace(MemorySource(SMALL)), path)
    return path


def rewrite(path, change=None, meta=None):
    """Write a recording again with other arrays, given by name, or without those that are None."""
    found = Container.open(path)
    facts = {**found.meta, **(meta or {})}
    contents = {name: bytes(found.member_bytes(name)) for name in found.members}
    with ContainerWriter(path) as writer:
        writer.add_json("meta.json", facts)
        for name, content in contents.items():
            if name.removesuffix(".npy") not in (change or {}):
                writer.add_bytes(name, [content], len(content))
        for name, values in (change or {}).items():
            if values is not None:
                array = np.ascontiguousarray(values)
                writer.add_array(name, array.dtype.str, len(array), [array.data])


def read_all(path):
    trace = warpline.open(path)
    for table in trace.tables:
        trace.columns(table, *(column.name for column in TABLES[table].columns))
    return trace


@pytest.mark.parametrize("name", captures.cases())
def test_a_capture_reads_back_the_same(capture, path, name):
    original = warpline.open(capture(name))
    write_recording(original, path)
    found = warpline.open(path)
    assert same_facts(found) == same_facts(original)
    assert (found.meta.format, found.meta.format_version) == ("warpline", "1.0")


@settings(max_examples=20)
@given(any_traces())
def test_any_trace_reads_back_the_same(tmp_path_factory, any_trace):
    path = tmp_path_factory.mktemp("any") / "any.warpline"
    trace = any_trace.trace()
    write_recording(trace, path)
    assert same_facts(warpline.open(path)) == same_facts(trace)


def test_columns_are_views_of_the_file(small):
    trace = warpline.open(small)
    for name in ("start_ns", "name_id", "correlation_id"):
        values = trace.columns("kernel", name)[name].values
        assert not values.flags.writeable
        assert not values.flags.owndata


def test_a_recording_too_large_for_memory_is_written_alike(small, tmp_path, monkeypatch):
    monkeypatch.setattr("warpline.trace.recording._MOST_IN_MEMORY", 1)
    folder = tmp_path / "other"
    folder.mkdir()
    write_recording(Trace(MemorySource(SMALL)), folder / small.name)
    assert (folder / small.name).read_bytes() == small.read_bytes()
    assert [*folder.iterdir()] == [folder / small.name]


def test_numpy_alone_reads_it(small):
    found = np.load(small)
    assert found["kernel/start_ns"].tolist() == [10, 30]
    assert found["kernel/correlation_id.valid"].tolist() == [True, False]
    offsets, blob = found["string/offsets"], found["string/blob"].tobytes()
    row = found["kernel/name_id"][1]
    assert blob[offsets[row] : offsets[row + 1]].decode() == "Größe"
    assert "kernel/graph_id" not in found  # null throughout


def test_a_part_holds_only_its_rows_and_texts(path):
    part = Trace(MemorySource(SMALL)).window(0, 25)
    write_recording(part, path)
    found = warpline.open(path)
    assert found.row_count("kernel") == 1
    assert same_facts(found) == same_facts(part)
    assert b"Gr" not in np.load(path)["string/blob"].tobytes()


def test_tables_bring_what_they_refer_to(path):
    write_recording(Trace(MemorySource(SMALL)), path, ["range_payload", "memset"])
    found = warpline.open(path)
    assert {name for name in found.tables if TABLES[name].order} == {
        "memset",
        "range",
        "range_payload",
    }
    assert found.row_count("memset") == 0
    assert found["range_payload"]["range_id"].to_list() == [1]


def test_what_is_not_known_survives_a_rewrite(small, tmp_path):
    extra = {"kernel/energy_j": np.array([1.5, 2.5]), "spline/knots": np.arange(6)}
    rewrite(small, extra, {"version": "1.7"})
    again = tmp_path / "again.warpline"
    write_recording(warpline.open(small), again)
    found = np.load(again)
    assert found["kernel/energy_j"].tolist() == [1.5, 2.5]
    assert found["spline/knots"].tolist() == list(range(6))
    # Unknown columns may refer to texts: then all keep their places.
    assert found["string/blob"].tobytes() == np.load(small)["string/blob"].tobytes()
    assert same_facts(warpline.open(again)) == same_facts(warpline.open(small))
    part = tmp_path / "part.warpline"
    write_recording(warpline.open(small).window(0, 25), part)
    assert "spline/knots" not in np.load(part)


@pytest.mark.parametrize("version", ["2.0", "0.9"])
def test_another_major_version_is_refused_with_a_hint(small, version):
    rewrite(small, meta={"version": version})
    with pytest.raises(UnsupportedVersionError, match=version) as caught:
        warpline.open(small)
    assert caught.value.hint


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"kernel/start_ns": None}, "kernel/start_ns is missing"),
        ({"kernel/start_ns": np.arange(3)}, "kernel/start_ns has 3 rows, not 2"),
        ({"kernel/start_ns": np.zeros(2)}, "kernel/start_ns is not an array of <i8"),
        ({"kernel/start_ns.valid": np.ones(2, bool)}, "kernel/start_ns must not be null"),
        ({"kernel/correlation_id.valid": np.ones(1, bool)}, "has 1 rows, not 2"),
        ({"kernel/name_id": np.array([0, 99], np.int32)}, "refers to a string"),
        ({"kernel/name_id": np.array([0, -1], np.int32)}, "refers to a string"),
        ({"kernel/device_id": np.array([0, 1], np.int32)}, "refers to a device"),
        ({"range_payload/range_id": np.array([2], np.int32)}, "refers to a range"),
        ({"memcpy/src_device_id": np.array([5], np.int32)}, "refers to a device"),
        ({"string/offsets": np.array([0, 5, 3, 20])}, "string/offsets does not fit"),
        ({"string/blob": np.zeros(1, np.uint8)}, "does not fit string/blob"),
        ({"string/offsets": None}, "refers to a string"),
        ({"range/style": np.array([0, 9], np.int32)}, "an undefined number"),
    ],
)
def test_a_column_that_does_not_fit_is_named(small, change, message):
    rewrite(small, change)
    with pytest.raises(CorruptTraceError, match=message) as caught:
        read_all(small)
    assert caught.value.hint


def test_truth_values_are_only_two(small):
    rewrite(small, {"range/is_truncated": np.array([2, 0], np.uint8).view(np.bool_)})
    with pytest.raises(CorruptTraceError, match="values other than true and false"):
        read_all(small)


def test_a_label_that_is_new_is_unknown(small):
    rewrite(small, {"memcpy/kind": np.array([77], np.int32)})
    assert warpline.open(small)["memcpy"]["kind"].to_list() == ["Unknown"]


def test_a_value_under_a_mask_means_nothing(small):
    rewrite(
        small,
        {
            "memcpy/src_device_id": np.array([99], np.int32),
            "memcpy/src_device_id.valid": np.zeros(1, bool),
        },
    )
    assert read_all(small).columns("memcpy", "src_device_id")["src_device_id"].values[0] == 0


@pytest.mark.parametrize(
    "meta",
    [
        {"format": "other"},
        {"version": None},
        {"rows": None},
        {"rows": {"kernel": "2"}},
        {"rows": {"kernel": 10**30}},
        {"rows": {"kernel": True}},
        {"recording": None},
        {"recording": {"producer": 1}},
        {"recording": {"span_ns": [1]}},
        {"recording": {"ends": 5}},
        {"recording": {"ends": [5]}},
        {"recording": {"ends": [{}]}},
        {"recording": {"ends": [{"pid": 1, "cause": "killed", "ended_ns": 1.5}]}},
        {"recording": {"ends": [{"pid": 1, "cause": "killed", "ended_ns": 10**30}]}},
        {"recording": {"ends": [{"pid": 1, "cause": "killed", "ended_ns": 1, "path": [2]}]}},
        {"recording": {"ends": [{"pid": 1, "cause": "killed", "ended_ns": 1, "is_program": 1}]}},
        {"recording": {"span_ns": [0, 10**30]}},
        {"recording": {"lost": {"a": "b"}}},
        {"recording": {"warnings": [1]}},
    ],
)
def test_wrong_facts_are_one_line(small, meta):
    rewrite(small, meta=meta)
    with pytest.raises(CorruptTraceError):
        warpline.open(small)


def test_recordings_merge(small, tmp_path):
    other = tmp_path / "other.warpline"
    write_recording(Trace(MemorySource({**SMALL, "process": {"pid": [1001]}})), other)
    merged = warpline.open(small, other)
    assert merged.row_count("kernel") == 4
    assert merged["range_payload"]["range_id"].to_list() == [2, 3]  # in order of time


def mutated(content, chance):
    changed = bytearray(content)
    for _ in range(chance.randrange(1, 5)):
        changed[chance.randrange(len(changed))] = chance.randrange(256)
    return bytes(changed)


def damaged_copies(content, chance):
    """Yield a file damaged anywhere, and cut."""
    for _ in range(150):
        end = chance.choice((len(content), chance.randrange(len(content))))
        yield mutated(content, chance)[: end + 1]


def hostile_copies(path, chance):
    """Yield files with damaged arrays, written so that their checksums fit."""
    found = Container.open(path)
    arrays = {name.removesuffix(".npy"): values for name, values in np.load(path).items()}
    del arrays["meta.json"]
    filled = sorted(name for name, values in arrays.items() if len(values))
    for _ in range(100):
        with ContainerWriter(path) as writer:
            writer.add_json("meta.json", found.meta)
            chosen = chance.choice(filled)
            for name, values in arrays.items():
                content = values.tobytes()
                content = mutated(content, chance) if name == chosen else content
                writer.add_array(name, values.dtype.str, len(values), [content])
        yield path.read_bytes()


@pytest.mark.parametrize("kind", ["damaged", "hostile"])
def test_damage_anywhere_is_an_error_or_a_trace(small, kind):
    chance, before = random.Random(1), dump(read_all(small))
    content = small.read_bytes()
    is_hostile = kind == "hostile"
    copies = hostile_copies(small, chance) if is_hostile else damaged_copies(content, chance)
    outcomes, lines = set(), 0
    for copy in copies:
        small.write_bytes(copy)
        try:
            assert dump(read_all(small)) == before or is_hostile
            outcomes.add("trace")
        except WarplineError as error:
            outcomes.add(type(error).__name__)
            lines = max(lines, error.message.count("\n") + 1)
    assert ({"trace", "CorruptTraceError"} if is_hostile else {"CorruptTraceError"}) <= outcomes
    assert lines == 1


def test_facts_keep_no_folder(small):
    text = json.dumps(Container.open(small).meta)
    assert str(small.parent) not in text
