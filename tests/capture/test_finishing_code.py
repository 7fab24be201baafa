"""Finishing the code of sampled kernels: instructions, source lines, and what is left out."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from capture.cuda_writer import CudaLog
from capture.finished import read, rows

import warpline
from warpline import native
from warpline.capture.finishing import code_tables, source_files
from warpline.capture.finishing.finish import Finished
from warpline.documents.kernel_code import kernel_code
from warpline.documents.kernel_filters import Choice
from warpline.trace import Trace

pytestmark = pytest.mark.skipif(native.core() is None, reason="needs the native core")

DATA = Path(__file__).parents[1] / "data" / "cubins"
SCALE, CHOOSE = "_Z5scalePfPKfPK6__halfi", "_Z6choosePfPKii"
CUDA, TRITON = 0x1234, -5  # checksums
CUDA_FILE, TRITON_FILE = "0000000000001234", "fffffffffffffffb"


def log(pid: int = 100) -> CudaLog:
    found = CudaLog(pid)
    found.device()
    found.context()
    found.pc_sampling()
    return found


def session(folder: Path, **modules: str) -> None:
    """Put modules and the source file into a session: names of files -> names of cubins."""
    cubins = folder / "x.warpline.raw" / "cubins"
    cubins.mkdir(parents=True)
    for name, cubin in modules.items():
        shutil.copy(DATA / f"{cubin}.cubin", cubins / f"{name.removeprefix('_')}.cubin")


def finished(folder: Path, *logs: CudaLog, **facts: Any) -> tuple[Trace, Finished]:
    return read(folder, *logs, collected=["pc samples"], directory=str(folder), **facts)


@pytest.fixture
def sources(monkeypatch: pytest.MonkeyPatch) -> dict[str, bytes]:
    """Make files of their paths as the compiler knew them, in place of those of the machine."""
    files = {
        "/tmp/src/kernels.cu": (DATA / "kernels.cu").read_bytes(),
        "/tmp/src/softmax.py": (DATA / "softmax.py.txt").read_bytes(),
    }

    def content(path: Path, most: int) -> bytes | None:
        if path.suffix == ".cubin":
            return path.read_bytes()
        found = files.get(str(path), b"")
        return found if len(found) <= most else None

    monkeypatch.setattr(code_tables, "read_file", content)
    monkeypatch.setattr(source_files, "read_file", content)
    return files


def test_sampled_functions_have_their_code_and_lines(
    tmp_path: Path, sources: dict[str, bytes]
) -> None:
    session(tmp_path, **{f"_{CUDA_FILE}": "kernels.sm_90", f"_{TRITON_FILE}": "softmax.sm_90"})
    one = log()
    one.pc_sample(CUDA, SCALE, 0x20, stall="long_scoreboard", samples=300, not_issued=200)
    one.pc_sample(CUDA, SCALE, 0x20, stall="selected", samples=100)
    one.pc_sample(TRITON, "softmax", 0x300, stall="barrier", samples=50)
    two = log(200)
    two.pc_sample(CUDA, SCALE, 0x20, stall="long_scoreboard", samples=40)
    trace, done = finished(tmp_path, one, two)
    assert not done.lost
    code = trace["kernel_instruction"]
    assert set(code["function"]) == {SCALE, "softmax"}, "but not those without samples"
    assert set(code["module_checksum"]) == {CUDA, TRITON}
    assert set(code["process_id"]) == {0}, "the code is there once"
    assert code["address"].null_count() == len(code)
    assert code.filter(code["function"] == SCALE)["offset_bytes"].to_list() == [
        16 * number for number in range(len(code.filter(code["function"] == SCALE)))
    ]
    kinds = set(rows(trace, "source_line", "kind", "file"))
    assert kinds == {("source", f"/tmp/src/{name}") for name in ("kernels.cu", "softmax.py")} | {
        ("ptx", None)
    }
    texts = dict(rows(trace, "source_line", "text", "line"))
    assert texts["    out[i] = scaled(in[i], by);"] == 16
    assert done.warnings[0].startswith("1 source file of sampled kernels was not found")
    assert ".../triton/language/standard.py".rpartition("/")[2] in done.warnings[0]


def test_the_pages_show_sampled_code(tmp_path: Path, sources: dict[str, bytes]) -> None:
    session(tmp_path, **{f"_{CUDA_FILE}": "kernels.sm_90", f"_{TRITON_FILE}": "softmax.sm_90"})
    one = log()
    one.pc_sample(CUDA, SCALE, 0, stall="wait", samples=500)
    one.pc_sample(TRITON, "softmax", 0x300, stall="barrier", samples=150, not_issued=20)
    one.pc_sample(TRITON, "softmax", 0x20, stall="wait", samples=30)
    trace, _ = finished(tmp_path, one)
    found = kernel_code(trace, Choice())
    assert found.places == ()
    scale, softmax = found.codes
    assert (scale.samples, scale.is_too_few, softmax.samples, softmax.is_too_few) == (
        *(500, False),
        *(180, True),
    )
    names = [metric.name for metric in softmax.metrics]
    assert names == ["samples", "samples_not_issued", "stall_barrier", "stall_wait"]
    assert list(softmax.totals) == [180, 20, 150, 30]
    of = next(of for of in softmax.instructions if of.offset == 0x300)
    assert list(of.values) == [150, 20, 150, 0]
    assert of.place is not None
    assert of.library is not None
    assert Path(of.library[0]).name == "standard.py"
    files = {Path(file.path).name: file for file in softmax.files}
    lines = {line.line: line for line in files["softmax.py"].lines}
    hot = lines[of.place.line]
    assert hot.text == "    v = v - tl.max(v, axis=0)"
    assert hot.values is not None
    assert hot.values[0] == 150
    assert files[""].kind == "PTX"
    result = warpline.stats(trace, "kernel_lines").to_polars()
    assert result["samples"].to_list()[0] == 500
    assert result["launch"].null_count() == len(result)
    assert sum(result["samples"]) == 680
    assert sum(result["share_ratio"]) == pytest.approx(2), "of each of the two kernels"
    chosen = kernel_code(trace, Choice(name="softmax"))
    assert [code.name for code in chosen.codes] == ["softmax"]


def test_source_files_are_left_out_on_request(tmp_path: Path, sources: dict[str, bytes]) -> None:
    session(tmp_path, **{f"_{CUDA_FILE}": "kernels.sm_90"})
    one = log()
    one.pc_sample(CUDA, CHOOSE, 0)
    trace, done = finished(tmp_path, one, options={"import_source": False})
    assert trace.row_count("kernel_instruction") > 0
    assert trace.row_count("source_line") == 0
    assert not done.warnings


def test_code_that_is_missing_or_damaged(tmp_path: Path) -> None:
    session(tmp_path, **{f"_{TRITON_FILE}": "softmax.sm_90"})
    damaged = tmp_path / "x.warpline.raw" / "cubins" / f"{CUDA_FILE}.cubin"
    damaged.write_bytes(b"\x7fELF\x02\x01" + bytes(100))
    one = log()
    one.pc_sample(CUDA, SCALE, 0, samples=10)
    one.pc_sample(7, "not_kept", 0x40, samples=20)
    one.pc_sample(TRITON, "not_there", 0)
    trace, done = finished(tmp_path, one)
    assert trace.row_count("kernel_instruction") == 0
    assert any(f"the code of module {CUDA_FILE} is damaged" in text for text in done.warnings)
    codes = kernel_code(trace, Choice()).codes
    assert [(code.function, code.samples) for code in codes] == [
        ("not_kept", 20),
        (SCALE, 10),
        ("not_there", 1),
    ]
    assert codes[0].note == "the machine code was not recorded"
    assert [of.offset for of in codes[0].instructions] == [0x40]


def test_large_files_are_left_out(
    tmp_path: Path, sources: dict[str, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    session(tmp_path, **{f"_{CUDA_FILE}": "kernels.sm_90"})
    monkeypatch.setattr(source_files, "LARGEST_BYTES", 100)
    one = log()
    one.pc_sample(CUDA, CHOOSE, 0)
    trace, done = finished(tmp_path, one)
    assert {kind for (kind,) in rows(trace, "source_line", "kind")} == {"ptx"}
    assert any("larger than 100 B" in text for text in done.warnings)


def test_only_regular_files_with_source_code_are_read(tmp_path: Path) -> None:
    for name in ("a.cu", "secret"):
        (tmp_path / name).write_text("line\n")
    (tmp_path / "folder.cu").mkdir()
    files = source_files.SourceFiles(str(tmp_path))
    for path in (b"a.cu", b"secret", b"folder.cu", b"/nowhere/b.py", b"x\0.cu"):
        files.add(path, 0)
    told: Any = type("Told", (), {"warnings": []})()
    assert list(files.read(told)) == [(b"a.cu", 0, [b"line"])]
    assert told.warnings == [
        "4 source files of sampled kernels were not found, such as secret",
    ]


def test_too_much_code_is_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    session(tmp_path, **{f"_{TRITON_FILE}": "softmax.sm_90"})
    monkeypatch.setattr(code_tables, "_MOST_INSTRUCTIONS", 10)
    one = log()
    one.pc_sample(TRITON, "softmax", 0)
    trace, done = finished(tmp_path, one)
    assert trace.row_count("kernel_instruction") == 0
    assert any("limited to 10 instructions" in text for text in done.warnings)
