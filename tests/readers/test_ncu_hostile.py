"""Damaged and hostile reports of Nsight Compute: one line with a hint, never anything else."""

from __future__ import annotations

import importlib
import random
import struct
import sys
import zlib
from pathlib import Path
from typing import Any

import pytest
from support import ncu_captures
from support.ncu_files import MAGIC, block, launch, message, metric, report, sized, varint

import warpline
from warpline.cubins.elf import Cubin
from warpline.cubins.line_table import CubinError
from warpline.documents.kernel_filters import Choice
from warpline.documents.kernel_pages import listings
from warpline.errors import CorruptTraceError, InputError, WarplineError
from warpline.readers.ncu.report import open_report

compressed = importlib.import_module("warpline.readers.ncu.compressed")

MUTANTS = 200
DOUBLE = message((3, 1.0))


def small() -> bytes:
    """Return a report with something of everything."""
    texts = [b"metric%d" % i for i in range(8)]
    section = message((1, b"ID"), (2, b"Title"), (3, 5), (4, message((2, message((1, texts[1]))))))
    said = message((1, message((1, b"Text"), (2, 4))), (10, message((1, 2), (2, 12.5))))
    rule = message((1, b"Rule"), (3, message((1, said))), (4, b"ID"))
    instances = [message((1, message((5, 100 + i))), (2, DOUBLE)) for i in range(20)]
    metrics = [metric(i, message((5, i * 1000)), instances) for i in range(8)]
    kernel = launch((17, section), (19, rule), (22, 1), (23, 7), metrics=metrics)
    files = message((1, message((1, b"/a.cu"), (2, b"one\ntwo\n"))))
    module = message((1, 5), (8, files), (9, message((1, message((1, b"_Zwork"), (2, 100))))))
    device = message((1, 0), (2, b"GPU"), (3, message((1, b"attribute"), (2, message((5, 3))))))
    return report(
        block([("module", module)], texts[:4]),
        block([("kernel", kernel), ("kernel", kernel)], texts[4:]),
        block(session=message((6, device), (8, message((1, b"CUDA Version"), (2, b"13.0"))))),
        block(session=message((11, b"ncu ./program"))),
    )


def read_all(path: Path) -> None:
    """Read every table, and what the pages show."""
    trace = warpline.open(path)
    for table in trace.tables:
        trace[table]
    listings(trace, Choice())
    warpline.stats(trace, "profiled_kernels")


def write(folder: Path, content: bytes) -> Path:
    path = folder / "any.name"
    path.write_bytes(content)
    return path


def test_the_undamaged_report_is_read(tmp_path: Path) -> None:
    read_all(write(tmp_path, small()))


def test_mutants_are_read_or_refused(tmp_path: Path) -> None:
    chosen = random.Random(23)
    original = small()
    refusals: list[WarplineError] = []
    for _ in range(MUTANTS):
        data = bytearray(original)
        for _ in range(chosen.choice((1, 1, 2, 5))):
            place = chosen.randrange(len(MAGIC), len(data))
            match chosen.randrange(5):
                case 0:
                    data[place] = chosen.randrange(256)
                case 1:
                    data[place] ^= 1 << chosen.randrange(8)
                case 2:
                    del data[place : place + chosen.choice((1, 4, 40))]
                case 3:
                    data[place:place] = b"\xff" * chosen.choice((1, 10, 30))
                case _:
                    data[place : place + 4] = chosen.choice((b"\xff" * 4, b"\0" * 4, b"\x80" * 4))
        try:
            read_all(write(tmp_path, bytes(data)))
        except WarplineError as error:
            refusals.append(error)
    assert MUTANTS / 4 < len(refusals) < MUTANTS
    assert not any("\n" in error.message for error in refusals)
    assert all(error.hint for error in refusals)


def test_a_cut_report_is_refused_or_said_to_be_incomplete(tmp_path: Path) -> None:
    original = small()
    for size in range(len(MAGIC), len(original), 23):
        try:
            meta = warpline.open(write(tmp_path, original[:size])).meta
        except CorruptTraceError:
            continue
        assert any("may be missing" in warning for warning in meta.warnings), size


HUGE = b"\xff" * 9 + b"\x01"  # 2^64 - 1
TOO_LONG = b"\xff" * 10 + b"\x01"
DAMAGED = {
    "a kernel without a name": block([("kernel", message((8, 1)))]),
    "a name that is not there": block([("kernel", launch(metrics=[metric(9, DOUBLE)]))]),
    "a metric that is a number": block([("kernel", launch((13, 5)))]),
    "a value that is a number": block([("kernel", launch(metrics=[b"\x08\x00\x10\x05"]))], [b"m"]),
    "a value of the wrong type": block(
        [("kernel", launch(metrics=[metric(0, message((3, 5)))]))], [b"m"]
    ),
    "a cut instance": block([("kernel", launch(metrics=[b"\x08\x00\x1a\x05\x01"]))], [b"m"]),
    "an endless integer": block([("kernel", launch(metrics=[b"\x08" + TOO_LONG]))], [b"m"]),
    "a huge grid": block([("kernel", launch((10, message((1, 1 << 40), (2, 1 << 40), (3, 1)))))]),
    "a huge stream": block([("kernel", launch((23, (1 << 64) - 1)))]),
    "a huge address": block(
        [("module", message((9, message((1, message((1, b"_Zwork"), (2, (1 << 63) - 1)))))))]
    ),
    "a group, the unknown wire type": block([("kernel", launch() + b"\x0b")]),
    "the field 0": block([("kernel", launch() + b"\x00\x00")]),
    "an empty header": sized(b""),
    "a header that is longer than the file": struct.pack("<I", 1 << 31),
    "a payload that is longer than the file": sized(message((5, 1 << 40))),
    "entries without a payload": sized(message((2, 1 << 60), (5, 0))),
    "a payload without entries": sized(message((5, 4))) + b"1234",
    "a payload of 2^64 bytes": sized(b"\x28" + HUGE),
}


@pytest.mark.parametrize("damage", DAMAGED.values(), ids=DAMAGED.keys())
def test_damage_is_named_with_its_place(damage: bytes, tmp_path: Path) -> None:
    with pytest.raises(CorruptTraceError, match=r"at byte [0-9,]+ is damaged") as caught:
        read_all(write(tmp_path, report(damage)))
    assert "\n" not in caught.value.message
    assert caught.value.hint


def test_an_instance_of_another_type_is_refused(tmp_path: Path) -> None:
    instance = message((1, 5), (2, DOUBLE))
    kernel = launch(metrics=[metric(0, DOUBLE, [instance])])
    with pytest.raises(CorruptTraceError, match="field 1 is an integer, not bytes"):
        read_all(write(tmp_path, report(block([("kernel", kernel)], [b"m"]))))


def test_deep_nesting_is_not_followed(tmp_path: Path) -> None:
    data = b""
    for _ in range(5000):
        data = message((5, data)) if len(data) < 1 << 16 else data
    kernel = launch((17, data), (19, data), (25, data))
    read_all(write(tmp_path, report(block([("kernel", kernel)]))))


def test_damaged_code_is_refused(tmp_path: Path) -> None:
    report_of_ncu = open_report(ncu_captures.unpack("target", tmp_path))
    code = next(
        report_of_ncu.message(entry).raw(4)
        for entry in report_of_ncu.entries
        if entry.kind == "module"
    )
    assert code is not None
    assert Cubin(code).lines()
    chosen = random.Random(5)
    refused = 0
    for _ in range(200):
        data = bytearray(code)
        for _ in range(4):
            data[chosen.randrange(len(data))] = chosen.randrange(256)
        try:
            cubin = Cubin(bytes(data[: chosen.choice((len(data), chosen.randrange(len(data))))]))
            cubin.lines()
            list(cubin.ptx)
        except CubinError:
            refused += 1
    assert refused


class Zlib:
    """A decompressor with the interface of those of Zstandard."""

    def __init__(self) -> None:
        self._stream = zlib.decompressobj()

    @property
    def eof(self) -> bool:
        return self._stream.eof

    def decompress(self, data: bytes) -> bytes:
        return self._stream.decompress(data)


def test_a_compressed_report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compressed, "_decompressor", lambda: (Zlib, zlib.error))
    packed = zlib.compress(small())
    path = write(tmp_path, packed)
    assert compressed.decompressed(path) == small()
    with pytest.raises(CorruptTraceError, match="cut off"):
        compressed.decompressed(write(tmp_path, packed[:-9]))
    with pytest.raises(CorruptTraceError, match="damaged"):
        compressed.decompressed(write(tmp_path, b"no stream"))
    monkeypatch.setattr(compressed, "_LEAST_LIMIT", 1000)
    bomb = write(tmp_path, zlib.compress(bytes(1 << 22)))
    with pytest.raises(InputError, match="expands to more than"):
        compressed.decompressed(bomb)


def test_a_compressed_report_needs_a_decompressor(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compressed, "_decompressor", lambda: None)
    path = tmp_path / "run.ncu-repz"
    path.write_bytes(b"\x28\xb5\x2f\xfd" + varint(5))
    with pytest.raises(InputError, match="not installed") as caught:
        warpline.open(path)
    assert "warpline[zstd]" in (caught.value.hint or "")


def test_a_real_zstandard_stream(tmp_path: Path) -> None:
    content = ncu_captures.unpack("target", tmp_path).read_bytes()
    packed: bytes
    if sys.version_info >= (3, 14):
        zstd: Any = pytest.importorskip("compression.zstd")
        packed = zstd.compress(content)
    else:
        zstandard: Any = pytest.importorskip("zstandard")
        packed = zstandard.ZstdCompressor().compress(content)
    trace = warpline.open(write(tmp_path, packed))
    assert trace.row_count("profiled_kernel") == 5


PAGE = ncu_captures.printed("uncoalesced.fixed", "details.csv").splitlines()
DAMAGED_PAGES = {
    "a cut line": [*PAGE[:3], PAGE[3][:40]],
    "a number that is none": [*PAGE[:2], PAGE[2].replace('"0",', '"x",', 1)],
    "a huge grid": [PAGE[0], PAGE[1].replace('"(2048, 1, 1)"', '"(99999999999999999999, 1, 1)"')],
}


@pytest.mark.parametrize("lines", DAMAGED_PAGES.values(), ids=DAMAGED_PAGES.keys())
def test_a_damaged_page_is_refused(lines: list[str], tmp_path: Path) -> None:
    with pytest.raises(CorruptTraceError, match=r"line [0-9]+ is damaged"):
        read_all(write(tmp_path, "\n".join(lines).encode()))
