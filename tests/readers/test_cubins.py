"""Cubins: their line tables beside those that pyelftools reads, their SASS beside nvdisasm's."""

from __future__ import annotations

import io
import random
import re
import subprocess
from pathlib import Path

import pytest
from support import ncu_captures

from warpline.cubins import disassembly
from warpline.cubins.disassembly import disassemble
from warpline.cubins.elf import Cubin
from warpline.cubins.instructions import FunctionCode
from warpline.cubins.line_table import CubinError
from warpline.readers.ncu.report import open_report

elffile = pytest.importorskip("elftools.elf.elffile")

DATA = Path(__file__).parents[1] / "data" / "cubins"
CAPABILITIES = {
    "kernels.sm_90": (9, 0),
    "kernels.plain.sm_80": (8, 0),
    "kernels.plain.sm_120": (12, 0),
    "softmax.sm_90": (9, 0),
    "softmax.sm_80": (8, 0),
}
WITH_LINES = [name for name in CAPABILITIES if "plain" not in name]


def content(name: str) -> bytes:
    return (DATA / f"{name}.cubin").read_bytes()


def from_a_report(name: str, folder: Path) -> bytes:
    report = open_report(ncu_captures.unpack(name, folder))
    modules = (report.message(entry) for entry in report.entries if entry.kind == "module")
    return next(code for module in modules if (code := module.raw(4)))


def by_pyelftools(data: bytes) -> dict[bytes, list[tuple[int, bytes, int]]]:
    """Return function -> offset, name of the file and line, by offset, as pyelftools reads it."""
    elf = elffile.ELFFile(io.BytesIO(data))
    dwarf = elf.get_dwarf_info(relocate_dwarf_sections=False)
    kinds = ".rela.debug_line", ".rel.debug_line"
    [relocations] = filter(None, map(elf.get_section_by_name, kinds))
    symbols = elf.get_section(relocations["sh_link"])
    # Addresses are 0 before relocation: of each sequence, the function is its relocation's.
    functions = [
        symbols.get_symbol(of["r_info_sym"]).name.removeprefix(".text.").encode()
        for of in sorted(relocations.iter_relocations(), key=lambda of: of["r_offset"])
    ]
    found: dict[bytes, list[tuple[int, bytes, int]]] = {}
    program = dwarf._parse_line_program_at_offset(0, dwarf.structs)
    sequence = 0
    for entry in program.get_entries():
        state = entry.state
        if state is None:
            continue
        if state.end_sequence:
            sequence += 1
            continue
        file = program.header["file_entry"][state.file - 1].name
        found.setdefault(functions[sequence], []).append((state.address, file, state.line))
    return {name: sorted(rows, key=lambda row: row[0]) for name, rows in found.items()}


def ours(data: bytes) -> dict[bytes, list[tuple[int, bytes, int]]]:
    return {
        name: [(offset, file.rpartition(b"/")[2], line) for offset, (file, line), _ in rows]
        for name, rows in Cubin(data).lines().items()
    }


@pytest.mark.parametrize("name", WITH_LINES)
def test_lines_are_those_of_pyelftools(name: str) -> None:
    expected = by_pyelftools(content(name))
    assert sum(map(len, expected.values())) > 10
    assert ours(content(name)) == expected


@pytest.mark.parametrize("name", ["target", "uncoalesced.fixed"])
def test_lines_of_a_report_are_those_of_pyelftools(name: str, tmp_path: Path) -> None:
    data = from_a_report(name, tmp_path)
    assert ours(data) == by_pyelftools(data)


def places(name: str, function: bytes) -> dict[tuple[str, int], tuple[str, int] | None]:
    """Return file and line of instructions -> those of the call, if they were inlined."""
    return {
        (Path(of.place[0].decode()).name, of.place[1]): of.caller
        and (Path(of.caller[0].decode()).name, of.caller[1])
        for of in FunctionCode(Cubin(content(name))).of(function)
        if of.place is not None
    }


def line_with(file: str, text: str) -> int:
    path = DATA / f"{file}.txt" if file.endswith(".py") else DATA / file
    lines = path.read_text().splitlines()
    return next(number for number, line in enumerate(lines, 1) if text in line)


def test_inlined_code_has_the_line_that_calls_it() -> None:
    found = places("kernels.sm_90", b"_Z5scalePfPKfPK6__halfi")
    call, multiply = (line_with("kernels.cu", text) for text in ("= scaled(", "x * __half2float"))
    assert found["kernels.cu", call] is None
    assert found["kernels.cu", multiply] == ("kernels.cu", call)
    [header] = [place for place in found if place[0] == "cuda_fp16.hpp"]
    assert found[header] == ("kernels.cu", multiply), "the nearest line outside of CUDA's headers"


def test_code_of_triton_has_the_line_of_the_kernel() -> None:
    found = places("softmax.sm_90", b"softmax")
    lines = {line_with("softmax.py", f"tl.{name}(") for name in ("max", "sum")}
    callers = {caller for (file, _), caller in found.items() if file == "standard.py"}
    assert callers == {("softmax.py", line) for line in lines}
    assert all(caller is None for (file, _), caller in found.items() if file == "softmax.py")


def test_instructions_have_their_line_of_ptx() -> None:
    cubin = Cubin(content("softmax.sm_90"))
    ptx = cubin.ptx
    [codes] = disassembled("softmax.sm_90")
    shuffles = 0
    for of, text in zip(FunctionCode(cubin).of(b"softmax"), codes, strict=True):
        if text.startswith("SHFL.BFLY"):
            assert of.ptx_line is not None
            assert b"shfl.sync.bfly" in ptx[of.ptx_line - 1]
            shuffles += 1
    assert shuffles > 5


def test_code_without_lines() -> None:
    found = list(FunctionCode(Cubin(content("kernels.plain.sm_80"))).of(b"_Z6choosePfPKii"))
    assert found
    assert {(of.place, of.caller, of.ptx_line) for of in found} == {(None, None, None)}
    assert not list(FunctionCode(Cubin(content("kernels.sm_90"))).of(b"nothing"))


def disassembled(name: str) -> list[tuple[str, ...]]:
    cubin = Cubin(content(name))
    codes = [cubin.code(function) or b"" for function in cubin.functions]
    made = disassemble(codes, CAPABILITIES[name])
    if made.texts is None and "not found" in (made.note or ""):
        pytest.skip("nvdisasm is not installed")
    assert made.texts is not None, made.note
    return list(made.texts)


@pytest.mark.parametrize("name", CAPABILITIES)
def test_sass_is_that_of_the_whole_cubin(name: str) -> None:
    texts = disassembled(name)
    tool = next(iter(disassembly.tools()))
    listing = subprocess.run(
        [tool, "--print-code", DATA / f"{name}.cubin"], capture_output=True, text=True, check=True
    ).stdout
    names = map(bytes.decode, Cubin(content(name)).functions)
    functions = dict(zip(names, texts, strict=True))
    whole, labels = listed(listing)
    assert whole.keys() == functions.keys()
    branches = 0
    for function, expected in whole.items():
        assert len(expected) == len(functions[function])
        for text, own in zip(expected, functions[function], strict=True):
            label = re.search(r"`\(([^)]+)\)", text)
            # Possible targets of indirect branches follow from the labels only.
            same = re.sub(r" \(\*\"BRANCH_TARGETS .*\"\*\)", "", text)
            if label is not None:
                branches += 1
                same = same.replace(label[0], hex(labels[function][label[1]]))
            assert own == same
    assert branches


def listed(listing: str) -> tuple[dict[str, list[str]], dict[str, dict[str, int]]]:
    """Return the instructions of each function, and its labels with their offsets."""
    whole: dict[str, list[str]] = {}
    labels: dict[str, dict[str, int]] = {}
    function = ""
    for line in listing.splitlines():
        if section := re.match(r'\s*\.section\s+"?\.text\.([^",]+)"?,', line):
            function = section[1]
        elif label := re.match(r"^([.$\w]+):", line):
            labels.setdefault(function, {})[label[1]] = 16 * len(whole.get(function, []))
        elif found := re.match(r"\s+/\*[0-9a-f]+\*/\s+(.*?)\s*;?\s*$", line):
            whole.setdefault(function, []).append(" ".join(found[1].split()))
    return whole, labels


def test_without_nvdisasm_a_line_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(disassembly, "tools", lambda: iter(()))
    made = disassemble([bytes(16)], (9, 1))
    assert made.texts is None
    assert made.note is not None
    assert "pip install nvidia-cuda-nvdisasm" in made.note


@pytest.mark.parametrize(
    ("script", "why"),
    [
        ("echo nvdisasm fatal: no >&2; exit 1", "nvdisasm fatal: no"),
        ("exec sleep 60", "took more than"),
        ("echo nothing", "printed no instruction"),
    ],
)
def test_a_failing_nvdisasm_is_named(
    script: str, why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tool = tmp_path / "nvdisasm"
    tool.write_text(f"#!/bin/sh\n{script}\n")
    tool.chmod(0o700)
    monkeypatch.setattr(disassembly, "tools", lambda: iter([str(tool)]))
    monkeypatch.setattr(disassembly, "LONGEST_S", 0.2)
    made = disassemble([script.encode().ljust(64)], (9, 0))
    assert made.texts is None
    assert why in (made.note or "")


def read_all(data: bytes) -> None:
    cubin = Cubin(data)
    code = FunctionCode(cubin)
    for function in cubin.functions:
        list(code.of(function))
    list(cubin.ptx)


@pytest.mark.parametrize("name", ["kernels.sm_90", "softmax.sm_80"])
def test_cut_cubins_are_refused(name: str) -> None:
    data = content(name)
    read_all(data)
    refused = 0
    for size in range(0, len(data), 100):
        try:
            read_all(data[:size])
        except CubinError:
            refused += 1
    assert refused > len(data) / 100 - 20, "only what follows the sections may be missing"


def test_damaged_cubins_are_read_or_refused() -> None:
    chosen, refused = random.Random(8), 0
    for _ in range(150):
        data = bytearray(content("softmax.sm_80"))
        for _ in range(chosen.choice((1, 4, 40))):
            data[chosen.randrange(len(data))] = chosen.randrange(256)
        try:
            read_all(bytes(data))
        except CubinError:
            refused += 1
    assert refused
    for _ in range(50):
        with pytest.raises(CubinError):
            read_all(b"\x7fELF\x02\x01" + chosen.randbytes(4000))
