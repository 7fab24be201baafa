"""The guard on instruction counts names what became slower."""

import sys
from pathlib import Path
from unittest.mock import Mock

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

import callgrind
import instruction_counts
import make_nsys
from instruction_counts import (
    WARPLINE,
    Counts,
    Workload,
    compare,
    count,
    record,
    reference_of,
    references,
)

WORDS = ("stats", "-r", "cuda_gpu_kern_sum", "-f", "csv", "{inputs}/kernels.sqlite")
READ = "warpline/readers/nsys/sqlite_scan.py: Scanner.read"

SLOWED = """
from warpline.readers.nsys.sqlite_scan import Scanner

read = Scanner.read

def read_twice(*arguments, **named):
    read(*arguments, **named)
    return read(*arguments, **named)

Scanner.read = read_twice

from warpline.cli import main
"""

CALLGRIND = """\
events: Ir

ob=(1) /usr/lib/libpython3.11.so.1.0
fl=(1) ceval.c
fn=(1) eval
32 5
+1 10
cob=(2) /somewhere/libwarpline_core.so
cfi=(2) a.cpp
cfn=(2) warpline::scan(long)
calls=5 3788
* 700
* 1

ob=(2)
fn=(2)
100 600
cfn=(3) warpline::scan(long)'2
calls=1 100
+2 99

fn=(3)
100 99
"""


@pytest.fixture(autouse=True)
def modules_are_compiled_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PYTHONDONTWRITEBYTECODE", raising=False)


def test_costs_of_called_functions_are_theirs():
    assert callgrind.parse(CALLGRIND) == {
        "libpython3.11.so.1.0: eval": 16,
        "libwarpline_core.so: warpline::scan(long)": 699,
    }


@pytest.mark.slow
@pytest.mark.skipif(callgrind.missing() is not None, reason=f"no {callgrind.missing()}")
def test_a_slower_function_is_named(tmp_path, monkeypatch):
    make_nsys.make(10_000, tmp_path / "kernels.sqlite")
    before = count(Workload(WARPLINE, WORDS), tmp_path, with_native=True)
    (tmp_path / "slowed.py").write_text(SLOWED)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    after = count(Workload("slowed:main", WORDS), tmp_path, with_native=True)
    is_within, lines = compare("kernels", before, after)
    assert not is_within
    assert "FAILED" in lines[0]
    native, python = lines[2 : lines.index("    Python functions, bytecodes:")], lines[-5:]
    assert "warpline::SqliteTable::" in native[0]
    assert any(READ in line for line in python)


def counts(instructions: int | None, bytecodes: int, **functions: int) -> Counts:
    return Counts(instructions, bytecodes, functions, functions)


def test_five_percent_more_fails():
    before = counts(1_000_000, 1_000, sort=700_000, read=300_000)
    assert compare("x", before, counts(1_050_000, 2_000, sort=750_000, read=300_000))[0]
    is_within, lines = compare("x", before, counts(1_050_001, 1_000, sort=750_001, read=300_000))
    assert not is_within
    assert lines == [
        "  x: 1,050,001 instructions (+5.0%): FAILED, the limit is +5%",
        "    native functions, instructions:",
        "      +50,001 (+7.1%) sort",
        "    Python functions, bytecodes:",
        "      +50,001 (+7.1%) sort",
    ]


def test_fewer_instructions_ask_for_a_new_reference():
    is_within, lines = compare("x", counts(1_000, 1), counts(900, 1))
    assert is_within
    assert "--record" in lines[0]


def test_bytecodes_are_compared_where_instructions_are_not(tmp_path):
    path = tmp_path / "counts.json"
    python = "Python {}.{}.99".format(*sys.version_info[:2])
    record(f"x86_64, {python}, numpy 1", {"x": counts(1_000, 100, f=100)}, path)
    record("x86_64, Python 2.7.18, numpy 1", {"x": counts(1, 1)}, path)
    known, why = reference_of(references(path), f"x86_64, {python}, numpy 2")
    assert why == f"no reference for this environment: x86_64, {python}, numpy 2"
    is_within, lines = compare("x", known["x"], counts(9_000, 106, f=106))
    assert not is_within
    assert lines[1:] == ["    Python functions, bytecodes:", "      +6 (+6.0%) f"]
    assert compare("x", known["x"], counts(9_000, 105, f=105))[0]


def test_an_unknown_python_has_no_reference(tmp_path):
    known, why = reference_of(references(tmp_path / "none.json"), "riscv64, Python 3.99.1")
    assert known == {}
    assert why == "no reference for this environment, nor for its Python: riscv64, Python 3.99.1"


def test_the_same_environment_is_compared_in_full(tmp_path):
    path = tmp_path / "counts.json"
    record("here", {"x": counts(1_000, 100), "y": counts(5, 5)}, path)
    record("here", {"x": counts(2_000, 100)}, path)  # one workload recorded again
    known, why = reference_of(references(path), "here")
    assert why is None
    assert (known["x"].instructions, known["y"].instructions) == (2_000, 5)


@pytest.mark.parametrize(("opening", "status"), [(1_050, 0), (1_051, 1)])
def test_one_workload_that_grew_fails_the_check(monkeypatch, capsys, opening, status):
    before = {"opening": counts(1_000, 10), "kineto": counts(1_000, 10)}
    after = {"opening": counts(opening, 10), "kineto": counts(900, 10)}
    monkeypatch.setattr(callgrind, "missing", lambda: None)
    monkeypatch.setattr(instruction_counts, "native_core", lambda: Path("core"))
    monkeypatch.setattr(instruction_counts, "environment_key", lambda: "here")
    monkeypatch.setattr(instruction_counts, "references", lambda: {"here": before})
    monkeypatch.setattr(instruction_counts, "measure", Mock(return_value=after))
    monkeypatch.setattr(sys, "argv", ["instruction_counts.py", "opening", "kineto"])
    assert instruction_counts.main() == status
    assert ("FAILED" in capsys.readouterr().out) == bool(status)


def test_without_valgrind_the_check_says_so(monkeypatch, capsys):
    before = {"opening": counts(1_000, 100)}
    version = "Python {}.{}.9".format(*sys.version_info[:2])
    monkeypatch.setattr(callgrind, "missing", lambda: "valgrind")
    monkeypatch.setattr(instruction_counts, "native_core", lambda: Path("core"))
    monkeypatch.setattr(instruction_counts, "references", lambda: {version: before})
    found = {"opening": counts(None, 106)}
    monkeypatch.setattr(instruction_counts, "measure", Mock(return_value=found))
    monkeypatch.setattr(sys, "argv", ["instruction_counts.py", "opening"])
    assert instruction_counts.main() == 1
    told = capsys.readouterr().out
    assert told.startswith(
        "instructions: SKIPPED: valgrind is missing; only bytecodes are compared"
    )
    assert "106 bytecodes (+6.0%): FAILED" in told
