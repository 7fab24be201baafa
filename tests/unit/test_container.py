"""The file that holds a recording: a valid .npz, and one line for a hostile one."""

from __future__ import annotations

import json
import struct
import subprocess
import sys
import zipfile

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from warpline.container import ALIGNMENT, Container, ContainerWriter, is_container
from warpline.errors import CorruptTraceError

META = {"name": "Größe", "bad": "\udcff"}


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "small.warpline"
    with ContainerWriter(path) as writer:
        writer.add_json("meta.json", META)
        writer.add_array("kernel/start_ns", "<i8", 3, [np.array([1, 2, 3]).data])
        writer.add_array("kernel/flag", "|b1", 2, [b"\x01", b"\x00"])
        writer.add_array("empty", "<i4", 0, [])
    return path


def test_numpy_reads_it(path):
    found = np.load(path)
    assert found["kernel/start_ns"].tolist() == [1, 2, 3]
    assert found["kernel/flag"].tolist() == [True, False]
    assert found["empty"].dtype == np.int32


def test_it_reads_back_aligned(path):
    found = Container.open(path)
    assert found.meta == META
    places = {name: member.array for name, member in found.members.items()}
    assert {name: (p.dtype, p.count) for name, p in places.items() if p} == {
        "kernel/start_ns.npy": ("<i8", 3),
        "kernel/flag.npy": ("|b1", 2),
        "empty.npy": ("<i4", 0),
    }
    assert all(p is not None and p.offset_bytes % ALIGNMENT == 0 for p in places.values())
    first = places["kernel/start_ns.npy"]
    assert first is not None
    assert struct.unpack_from("<3q", found.data, first.offset_bytes) == (1, 2, 3)
    assert found.data.readonly


def test_the_first_bytes_tell_it(path, tmp_path):
    assert is_container(path.read_bytes()[:64])
    other = tmp_path / "other.zip"
    with zipfile.ZipFile(other, "w") as archive:
        archive.writestr("a", "")
    assert not is_container(other.read_bytes()[:64])


def test_equal_content_gives_equal_files(path, tmp_path):
    again = tmp_path / "again.warpline"
    found = Container.open(path)
    with ContainerWriter(again) as writer:
        writer.add_json("meta.json", found.meta)
        for name in found.members:
            content = found.member_bytes(name)
            writer.add_bytes(name, [content], len(content))
    assert again.read_bytes() == path.read_bytes()


def test_members_beyond_two_gigabytes_stay_aligned(tmp_path, monkeypatch):
    monkeypatch.setattr("warpline.container._ZIP64_LIMIT", 100)
    path = tmp_path / "large.warpline"
    with ContainerWriter(path) as writer:
        writer.add_json("meta.json", {})
        writer.add_array("large", "<i8", 50, [np.arange(50).data])
        writer.add_array("next", "<i8", 1, [np.arange(1).data])
    places = [member.array for member in Container.open(path).members.values()]
    assert [p is not None and p.offset_bytes % ALIGNMENT for p in places] == [0, 0]
    assert np.load(path)["large"].tolist() == list(range(50))


def test_an_error_leaves_what_was_there(path):
    before = path.read_bytes()
    with pytest.raises(TypeError), ContainerWriter(path) as writer:
        writer.add_json("meta.json", {"unwritable": object()})
    assert path.read_bytes() == before
    assert [item.name for item in path.parent.iterdir()] == [path.name]


def test_writing_needs_no_library():
    code = "import sys, warpline.container; print('numpy' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


def test_compressed_members_are_refused(tmp_path):
    path = tmp_path / "packed.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("meta.json", json.dumps(META))
    with pytest.raises(CorruptTraceError, match=r"meta\.json is compressed"):
        Container.open(path)


@pytest.mark.parametrize(
    ("meta", "message"),
    [
        (b"[1]", "not an object"),
        (b"{", "Expecting"),
        (b"\xff", "codec"),
        (b"[" * 100_000, "nested"),
        (None, "is missing"),
    ],
)
def test_wrong_facts_are_refused(tmp_path, meta, message):
    path = tmp_path / "wrong.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("other" if meta is None else "meta.json", meta or b"")
    with pytest.raises(CorruptTraceError, match=message):
        Container.open(path)


@pytest.mark.parametrize(
    "header",
    [
        b"{'descr': '<i8', 'fortran_order': False, 'shape': (4,), }",  # longer than its place
        b"{'descr': '<i8', 'fortran_order': False, 'shape': (-1,), }",
        b"{'descr': '<i8', 'fortran_order': False, 'shape': (99999999999999999999,), }",
        b"{'descr': '|O8', 'fortran_order': True, 'shape': (3,), }",
        b"__import__('os').abort()",
    ],
)
def test_a_member_that_is_no_plain_array_is_bytes(tmp_path, header):
    path = tmp_path / "odd.zip"
    content = b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + bytes(24)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("meta.json", "{}")
        archive.writestr("odd.npy", content)
    found = Container.open(path)
    assert found.members["odd.npy"].array is None
    assert bytes(found.member_bytes("odd.npy")) == content


@pytest.mark.parametrize("kept", [0.1, 0.5, 0.9, 0.999])
def test_a_cut_file_is_refused(path, kept):
    content = path.read_bytes()
    path.write_bytes(content[: int(len(content) * kept)])
    with pytest.raises(CorruptTraceError, match="incomplete or damaged"):
        Container.open(path)


@given(changes=st.lists(st.tuples(st.integers(0), st.integers(0, 255)), min_size=1, max_size=4))
def test_a_changed_byte_leads_neither_astray_nor_to_other_content(tmp_path_factory, changes):
    path = tmp_path_factory.mktemp("changed") / "small.warpline"
    with ContainerWriter(path) as writer:
        writer.add_json("meta.json", {"a": 1})
        writer.add_array("x", "<i8", 2, [np.arange(2).data])
    member = Container.open(path).member_bytes("x.npy").tobytes()
    content = bytearray(path.read_bytes())
    for place, value in changes:
        content[place % len(content)] = value
    path.write_bytes(content)
    try:
        found = Container.open(path)
    except CorruptTraceError:
        return
    place = found.members["x.npy"]
    assert place.offset_bytes + place.size_bytes <= len(content)
    if found.is_whole("x.npy"):
        assert found.member_bytes("x.npy") == member
