"""The native core's loader, its declarations, and the kernels that numpy callers use."""

from __future__ import annotations

import ctypes
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from warpline import native
from warpline.ops import tree
from warpline.ops.interval import Intervals

I64 = npt.NDArray[np.int64]
I32 = npt.NDArray[np.int32]

STRUCTURES = {
    "wl_sqlite_column": native.SqliteColumn,
    "wl_launches": native.Launches,
    "wl_operation_rows": native.OperationRows,
    "wl_range_rows": native.RangeRows,
    "wl_call_rows": native.CallRows,
    "wl_call_work": native.CallWork,
    "wl_range_work": native.RangeWork,
    "wl_cells": native.Cells,
    "wl_spans": native.Spans,
    "wl_operations": native.Operations,
    "wl_sets": native.Sets,
    "wl_coverage": native.Coverage,
}
C_TYPES = {
    "void": None,
    "uint8_t": ctypes.c_uint8,
    "int32_t": ctypes.c_int32,
    "uint32_t": ctypes.c_uint32,
    "int64_t": ctypes.c_int64,
    "uint64_t": ctypes.c_uint64,
    "const char *": ctypes.c_char_p,
    "char *": ctypes.c_char_p,
    "int64_t * out": ctypes.POINTER(ctypes.c_int64),
    "wl_sqlite * *": ctypes.POINTER(ctypes.c_void_p),
    "wl_sqlite_table * *": ctypes.POINTER(ctypes.c_void_p),
    "wl_sqlite_column *": ctypes.POINTER(native.SqliteColumn),
    "wl_decompress": native.Decompress,
    **{f"const {name} *": ctypes.POINTER(kind) for name, kind in STRUCTURES.items()},
}


@pytest.fixture(scope="module")
def header(repository: Path) -> str:
    text = (repository / "native" / "core" / "include" / "warpline_core.h").read_text()
    return re.sub(r"/\*.*?\*/", " ", text, flags=re.DOTALL)


@pytest.fixture
def core() -> native.Core:
    loaded = native.core()
    if loaded is None:
        pytest.skip("needs the native core")
    return loaded


def c_type(declaration: str) -> object:
    """Give the ctypes type of a parameter, its name left out; pointers to data are c_void_p."""
    words = re.findall(r"\w+|\*", declaration)
    name = words.pop() if words[-1] != "*" and len(words) > 1 else ""
    spelled = " ".join(words)
    if spelled == "int64_t *" and name == "rows":
        spelled += " out"
    if spelled in C_TYPES:
        return C_TYPES[spelled]
    assert words[-1] == "*", f"unknown type {declaration}"
    return ctypes.c_void_p


def test_every_function_of_the_header_is_declared_alike(header: str) -> None:
    found = re.findall(r"WL_API\s+(\w+)\s+(\w+)\(([^)]*)\);", header)
    assert found
    declared = {
        name: (
            C_TYPES[result],
            tuple(c_type(parameter) for parameter in parameters.split(",") if parameter != "void"),
        )
        for result, name, parameters in found
    }
    assert declared == native.DECLARATIONS
    assert set(declared) == set(native.Core.__annotations__)


def test_the_structures_of_the_header_are_declared_alike(header: str) -> None:
    found = re.findall(r"typedef struct (\w+) \{(.*?)\}", header, flags=re.DOTALL)
    assert {name for name, _ in found} == set(STRUCTURES)
    for name, body in found:
        assert fields_of(body) == list(STRUCTURES[name]._fields_), name


def fields_of(body: str) -> list[tuple[str, object]]:
    fields: list[tuple[str, object]] = []
    for declaration in body.split(";")[:-1]:
        spelled, name = re.fullmatch(r"\s*(.*?)(\w+)\s*", declaration, flags=re.DOTALL).groups()  # type: ignore[union-attr]
        fields.append((name, ctypes.c_void_p if "*" in spelled else C_TYPES[spelled.strip()]))
    return fields


def test_the_constants_of_the_header_are_alike(header: str) -> None:
    constants = dict(re.findall(r"#define WL_(\w+) \(?(-?\d+)\)?", header))
    assert len(constants) == 23
    for name, value in constants.items():
        assert getattr(native, name) == int(value), name


def status_of(environment: dict[str, str]) -> str:
    code = "from warpline import native; s = native.status(); print(s.available, s.abi, s.reason)"
    run = subprocess.run(
        [sys.executable, "-c", code],
        env={"PYTHONPATH": str(Path(native.__file__).parents[1]), **environment},
        capture_output=True,
        text=True,
        check=True,
    )
    return run.stdout


def test_it_can_be_switched_off() -> None:
    assert status_of({"WARPLINE_NATIVE": "0"}) == "False None disabled by WARPLINE_NATIVE\n"


def test_an_absent_library_is_told(tmp_path: Path) -> None:
    told = status_of({"WARPLINE_CORE": str(tmp_path / "nowhere.so")})
    assert told.startswith("False None WARPLINE_CORE: no such file: ")


def test_a_file_that_is_no_library_is_told(tmp_path: Path) -> None:
    path = tmp_path / "rubbish.so"
    path.write_bytes(b"not a library")
    assert status_of({"WARPLINE_CORE": str(path)}).startswith("False None cannot be loaded: ")


def test_importing_the_loader_leaves_numpy_alone() -> None:
    code = "import sys; from warpline import native; sys.exit('numpy' in sys.modules)"
    environment = {"PYTHONPATH": str(Path(native.__file__).parents[1])}
    assert (
        subprocess.run([sys.executable, "-c", code], env=environment, check=False).returncode == 0
    )


def test_status_agrees_with_the_library(core: native.Core) -> None:
    status = native.status()
    assert status.available
    assert status.path is not None
    assert status.abi == core.wl_abi_version() == native.ABI_VERSION


def factorize(core: native.Core, keys: I64, room: int) -> tuple[int, I32, I64]:
    codes, uniques = np.empty(keys.size, np.int32), np.empty(room, np.int64)
    found = core.wl_factorize_i64(
        keys.ctypes.data, keys.size, codes.ctypes.data, uniques.ctypes.data, room
    )
    return found, codes, uniques


EXTREMES = np.array([2**63 - 1, -(2**63), 0, -1, 1, 0], np.int64)


@pytest.mark.parametrize("distinct", [1, 3, 1000, 70_000])
def test_factorize_agrees_with_numpy(core: native.Core, distinct: int) -> None:
    random = np.random.default_rng(distinct)
    pool = random.integers(-(2**63), 2**63 - 1, distinct, np.int64)
    keys = np.concatenate([EXTREMES, random.choice(pool, 100_000)])
    uniques, codes = np.unique(keys, return_inverse=True)
    found, found_codes, found_uniques = factorize(core, keys, keys.size)
    assert found == uniques.size
    assert np.array_equal(found_uniques[:found], uniques)
    assert np.array_equal(found_codes, codes)


def test_factorize_of_nothing_is_nothing(core: native.Core) -> None:
    assert factorize(core, np.empty(0, np.int64), 0)[0] == 0


def test_factorize_says_when_there_are_too_many(core: native.Core) -> None:
    keys = np.arange(100, dtype=np.int64)
    assert factorize(core, keys, 99)[0] == -native.TOO_MANY
    assert factorize(core, keys, 100)[0] == 100


def test_factorize_gives_up_on_keys_chosen_to_collide(core: native.Core) -> None:
    # The slot is the top of key * m: keys i / m (modulo 2**64) share it while i < 2**32.
    inverse = pow(0x9E3779B97F4A7C15, -1, 2**64)
    mixed = np.array([i * inverse % 2**64 for i in range(50_000)], np.uint64)
    keys = (mixed ^ (mixed >> np.uint64(32))).view(np.int64)  # undo the mixing
    assert factorize(core, keys, keys.size)[0] == -native.TOO_MANY


def group_order(core: native.Core, codes: I32, values: I64, groups: int) -> tuple[int, I64, I64]:
    starts, out = np.empty(groups + 1, np.int64), np.empty(values.size, np.int64)
    status = core.wl_group_order_i64(
        codes.ctypes.data,
        values.ctypes.data,
        values.size,
        groups,
        starts.ctypes.data,
        out.ctypes.data,
    )
    return status, starts, out


@pytest.mark.parametrize(("n", "groups"), [(0, 0), (0, 3), (1, 1), (1000, 7), (300_000, 5)])
def test_group_order_agrees_with_numpy(core: native.Core, n: int, groups: int) -> None:
    random = np.random.default_rng(n)
    codes = random.integers(0, max(groups - 1, 1), n).astype(np.int32)  # the last group is empty
    values = random.integers(-(2**40), 2**40, n, np.int64)
    values[:3] = [2**63 - 1, -(2**63), 0][: values[:3].size]
    status, starts, ordered = group_order(core, codes, values, groups)
    assert status == native.OK
    assert np.array_equal(starts, np.searchsorted(np.sort(codes), np.arange(groups + 1)))
    assert np.array_equal(ordered, values[np.lexsort((values, codes))])


@pytest.mark.parametrize("code", [-1, 2])
def test_group_order_refuses_a_code_out_of_range(core: native.Core, code: int) -> None:
    codes, values = np.array([0, code, 1], np.int32), np.array([1, 2, 3], np.int64)
    assert group_order(core, codes, values, 2)[0] == native.BAD_ARGUMENT


@pytest.mark.parametrize("groups", [1, 5])
@pytest.mark.parametrize(
    "n", [0, 1, 700, 70_000, 300_000]
)  # sorts by comparing, by digits; threads
@pytest.mark.parametrize("runs", ["shuffled", "two runs"])
def test_nesting_agrees_with_the_sweep_in_python(
    core: native.Core, n: int, groups: int, runs: str
) -> None:
    random = np.random.default_rng(n)
    start = random.integers(-n, n, n, np.int64)
    if runs == "two runs":
        start = np.concatenate([np.sort(start[: n // 2]), np.sort(start[n // 2 :])])
    end = start + random.integers(0, 9, n)
    codes = random.integers(0, groups, n).astype(np.int32)
    parent, depth = np.empty(n, np.int64), np.empty(n, np.int32)
    crosses = np.zeros(1, np.int32)
    status = core.wl_nest_i64(
        start.ctypes.data,
        end.ctypes.data,
        codes.ctypes.data,
        n,
        groups,
        parent.ctypes.data,
        depth.ctypes.data,
        crosses.ctypes.data,
    )
    assert status == native.OK
    expected = tree._sweep(Intervals(start, end), codes.astype(np.int64))
    assert np.array_equal(parent, expected[0])
    assert np.array_equal(depth, expected[1])
    assert bool(crosses[0]) == expected[2]


@pytest.mark.parametrize("code", [-1, 2])
def test_nesting_refuses_a_code_out_of_range(core: native.Core, code: int) -> None:
    time, codes = np.zeros(1, np.int64), np.array([code], np.int32)
    at, parent, depth = time.ctypes.data, np.empty(1, np.int64), np.empty(1, np.int32)
    status = core.wl_nest_i64(
        at, at, codes.ctypes.data, 1, 2, parent.ctypes.data, depth.ctypes.data, 0
    )
    assert status == native.BAD_ARGUMENT
