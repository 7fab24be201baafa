"""A damaged recording is refused, or what is printed of it is what is printed of the whole one."""

from __future__ import annotations

import lzma
import struct
import zipfile
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier, Lock

import pytest
from support import flips

import warpline
from warpline import checksum
from warpline.errors import CorruptTraceError
from warpline.readers.recording import RecordingSource
from warpline.schema import TABLES

FLIPS = 500
IN_FULL, PARTS = 6, 16


@pytest.fixture(scope="module")
def old(data_dir: Path) -> bytes:
    """A recording of a program on a GPU, made before directories had a seal."""
    return lzma.decompress((data_dir / "faults" / "casts.fixed.warpline.xz").read_bytes())


@pytest.fixture(scope="module")
def new(old: bytes, tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """The same, written today."""
    folder = tmp_path_factory.mktemp("new")
    (folder / "old.warpline").write_bytes(old)
    made = warpline.export(warpline.open(folder / "old.warpline"), folder / "run.warpline")
    return made.read_bytes()


@pytest.fixture(params=["core", "zlib"])
def either_way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "zlib":
        monkeypatch.setattr("warpline.native.core", lambda: None)


class Whole:
    """What a recording gives while it is whole, and what each damage leaves of it."""

    def __init__(self, content: bytes, folder: Path) -> None:
        self.content = content
        self.path = folder / "run.warpline"
        trace = self._open(content)
        self.inputs, self.outputs = flips.inputs(trace), flips.outputs(trace)
        assert flips.REFUSED not in self.outputs.values()
        self.seen: set[frozenset[str]] = set()

    def _open(self, content: bytes) -> warpline.Trace:
        self.path.unlink(missing_ok=True)  # what is mapped stays as it is
        self.path.write_bytes(content)
        return warpline.open(self.path)

    def outcome(self, content: bytes) -> str:
        """Return what becomes of changed content; AssertionError if it prints something else."""
        error, trace = None, None
        try:
            trace = self._open(content)
        except warpline.WarplineError as caught:
            error = caught.message
        if trace is None:
            assert error is not None
            assert str(self.path) in error
            assert "\n" not in error
            return "refused"
        found = flips.inputs(trace)
        assert found.keys() == self.inputs.keys()
        lost = frozenset(place for place in found if found[place] is None)
        wrong = [p for p in found.keys() - lost if found[p] != self.inputs[p]]
        assert not wrong
        # Outputs follow from the inputs. So one look at each set of those that are left will do,
        # after some sets at a part of the outputs, which takes turns.
        if lost not in self.seen:
            turn = len(self.seen)
            self.seen.add(lost)
            part = slice(None) if not lost or turn < IN_FULL else slice(turn % PARTS, None, PARTS)
            printed = flips.outputs(warpline.open(self.path), part)
            wrong = [p for p in printed if printed[p] not in {flips.REFUSED, self.outputs[p]}]
            assert not wrong
        return "marked" if lost else "same"


@pytest.mark.parametrize(("made", "seed"), [("old", 1), ("new", 2)])
def test_a_flipped_bit_changes_nothing_silently(
    made: str, seed: int, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    whole = Whole(request.getfixturevalue(made), tmp_path)
    drawn = flips.drawn(whole.content, FLIPS // 2, seed)
    outcomes = Counter((flip.kind, whole.outcome(flip.applied(whole.content))) for flip in drawn)
    assert {kind for kind, _ in outcomes} == {*flips.KINDS}
    of_values = {outcome for kind, outcome in outcomes if kind in {"values", "array header"}}
    assert of_values <= {"marked", "refused"}  # refused: of meta.json
    if made == "new":
        assert {outcome for kind, outcome in outcomes if kind == "directory"} == {"refused"}


def place_in(content: bytes, kind: str, member: str) -> int:
    """Return a byte in the middle of a part of the file."""
    for area_kind, area_member, begin, end in flips.areas(content):
        if (area_kind, area_member) == (kind, member):
            return (begin + end) // 2
    raise AssertionError(member)


def flipped(content: bytes, kind: str, member: str) -> bytes:
    return flips.Flip(kind, member, place_in(content, kind, member), 2).applied(content)


def all_columns(trace: warpline.Trace, table: str) -> None:
    trace.columns(table, *(column.name for column in TABLES[table].columns))


@pytest.mark.parametrize("made", ["old", "new"])
@pytest.mark.parametrize(
    ("kind", "member", "table"),
    [
        ("values", "kernel/end_ns.npy", "kernel"),
        ("values", "kernel/correlation_id.npy", "kernel"),
        ("values", "range/name_id.npy", "range"),
        ("array header", "kernel/grid_x.npy", "kernel"),
        ("values", "kernel/cluster_x.valid.npy", "kernel"),
        ("values", "string/offsets.npy", "kernel"),
        ("values", "string/blob.npy", "kernel"),
    ],
)
def test_a_damaged_column_is_named_and_the_others_are_read(
    request, tmp_path, either_way, made, kind, member, table
):
    content = request.getfixturevalue(made)
    path = tmp_path / "run.warpline"
    path.write_bytes(flipped(content, kind, member))
    trace = warpline.open(path)
    with pytest.raises(CorruptTraceError) as caught:
        all_columns(trace, table)
    place = member.removesuffix(".npy")
    assert caught.value.message == f"{path}: {place} is damaged: its checksum does not match"
    assert caught.value.hint is not None
    assert place in caught.value.hint
    all_columns(trace, "stream_wait")  # which has no names
    assert trace.columns("range", "start_ns")


def test_damaged_facts_are_refused(new, tmp_path, either_way):
    path = tmp_path / "run.warpline"
    path.write_bytes(flipped(new, "values", "meta.json"))
    with pytest.raises(CorruptTraceError, match=r"meta\.json is damaged"):
        warpline.open(path)


@pytest.mark.parametrize("made", ["old", "new"])
@pytest.mark.parametrize("at", ["first", "last"])
def test_a_name_of_the_directory_does_not_vanish(request, tmp_path, either_way, made, at):
    """The name of a column that may be null: without it all of it would be."""
    content = bytearray(request.getfixturevalue(made))
    find = content.rindex if at == "last" else content.index  # in the directory, in the header
    content[find(b"kernel/correlation_id.npy")] ^= 1
    path = tmp_path / "run.warpline"
    path.write_bytes(content)
    with pytest.raises(CorruptTraceError, match="directory"):
        warpline.open(path)


def test_an_entry_that_swallows_the_next_is_missed(old, tmp_path, either_way):
    """The length of an entry's comment, grown by all of the next entry."""
    content = bytearray(old)
    path = tmp_path / "run.warpline"
    at = next(begin for kind, _, begin, _ in flips.areas(old) if kind == "directory")
    entries = [at]
    while content[at : at + 4] == b"PK\x01\x02":
        at += 46 + sum(struct.unpack_from("<HHH", content, at + 28))
        entries.append(at)
    struct.pack_into("<H", content, entries[4] + 32, entries[6] - entries[5])
    path.write_bytes(content)
    with pytest.raises(CorruptTraceError, match="number of members"):
        warpline.open(path)


@pytest.mark.parametrize("cut", [1, 30, 33, 60, 5_000, 40_000])
def test_a_cut_file_is_refused(new, tmp_path, either_way, cut):
    path = tmp_path / "run.warpline"
    path.write_bytes(new[:-cut])
    with pytest.raises(CorruptTraceError, match="incomplete or damaged"):
        warpline.open(path)


def test_a_checksum_that_is_wrong_in_both_places_is_believed_in_neither(old, tmp_path, either_way):
    path = tmp_path / "run.warpline"
    path.write_bytes(old)
    with zipfile.ZipFile(path) as archive:
        info = archive.getinfo("kernel/end_ns.npy")
    stored = struct.pack("<L", info.CRC)
    assert old.count(stored) == 2
    path.unlink()
    path.write_bytes(old.replace(stored, struct.pack("<L", info.CRC ^ 1)))
    trace = warpline.open(path)
    with pytest.raises(CorruptTraceError, match="kernel/end_ns is damaged"):
        all_columns(trace, "kernel")


def test_threads_that_load_at_once_sum_each_member_once(new, tmp_path, monkeypatch):
    summed = 0
    lock, whole = Lock(), checksum.crc32

    def counted(data: memoryview) -> int:
        nonlocal summed
        with lock:
            summed += 1
        return whole(data)

    monkeypatch.setattr("warpline.container.crc32", counted)
    path = tmp_path / "run.warpline"
    path.write_bytes(new)
    source = RecordingSource(path)
    summed, begin = 0, Barrier(6)

    def load(number: int) -> list[bytes]:
        begin.wait()
        names = [column.name for column in TABLES["kernel"].columns]
        loaded = source.load("kernel", names[number:] + names[:number])
        return [loaded[name].values.tobytes() for name in sorted(loaded)]

    with ThreadPoolExecutor(6) as pool:
        found = list(pool.map(load, range(6)))
    assert all(one == found[0] for one in found)
    names = [name for name in source._container.members if name.startswith(("kernel/", "string/"))]
    assert summed == len(names)
