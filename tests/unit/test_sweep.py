"""The engine of sweeps: points, command lines, which runs are made, and why one failed."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from warpline.errors import InputError, UsageError
from warpline.sweep import failures, running, state
from warpline.sweep.points import (
    MOST_POINTS,
    Parameter,
    Point,
    check_places,
    filled,
    parameter,
    points,
)
from warpline.sweep.state import Attempt, Definition, State

TWO = (Parameter("N", ("1", "2")), Parameter("T", ("a", "b", "c")))


@pytest.mark.parametrize(
    ("word", "values"),
    [
        ("N=256,512", "256 512"),
        ("N=bf16, fp32", "bf16 fp32"),
        ("N=8", "8"),
        ("N=1:16:x2", "1 2 4 8 16"),
        ("N=1:20:x2", "1 2 4 8 16"),
        ("N=64:8:x0.5", "64 32 16 8"),
        ("N=-1:-8:x2", "-1 -2 -4 -8"),
        ("N=32:128:+32", "32 64 96 128"),
        ("N=10:-10:-10", "10 0 -10"),
        ("N=0:0.3:+0.1", "0 0.1 0.2 0.3"),  # exact, so 0.3 is there
        ("N=1e3:1e5:x10", "1000 10000 100000"),
        ("N=5:5:x2", "5"),
        ("N=a:b,c", "a:b c"),
        ("N=1,2,4", "1 2 4"),
    ],
)
def test_values_of_a_parameter(word: str, values: str) -> None:
    assert parameter(word) == Parameter("N", tuple(values.split()))


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("N", "expected NAME=VALUES"),
        ("N=", "expected NAME=VALUES"),
        ("2N=1", "'2N' is not a name"),
        ("=1", "'' is not a name"),
        ("N=1,,2", "a value is empty"),
        ("N=1,2,1", "1 is there twice"),
        ("N=1:8", "expected START:STOP:xFACTOR"),
        ("N=1:8:2", "expected START:STOP:xFACTOR"),
        ("N=1:8:x2:3", "expected START:STOP:xFACTOR"),
        ("N=1:b:x2", "'b' is not a number"),
        ("N=1:inf:x2", "'inf' is not a number"),
        ("N=1:8:x1", "never reaches 8"),
        ("N=0:8:x2", "never reaches 8"),
        ("N=1:8:x-2", "never reaches 8"),
        ("N=8:1:x2", "never reaches 1"),
        ("N=1:-8:x2", "never reaches -8"),
        ("N=1:8:+0", "never reaches 8"),
        ("N=1:8:-1", "never reaches 8"),
        ("N=1:1e9:+1", "more than 10,000 values"),
        ("N=1,2,...", "expected three numbers or more before ..."),
        ("N=a,b,c,...", "expected three numbers or more before ..."),
        ("N=1,2,...,4", "expected three numbers or more before ..."),
        ("N=1,2,5,...", "neither differences nor ratios are equal"),
        ("N=1,2,4,9,...", "neither differences nor ratios are equal"),
        ("N=0,1,3,...", "neither differences nor ratios are equal"),
    ],
)
def test_what_is_no_parameter(word: str, message: str) -> None:
    with pytest.raises(UsageError, match="--vary") as found:
        parameter(word)
    assert message in found.value.message
    assert found.value.hint


@given(
    st.decimals(-1000, 1000, places=3),
    st.decimals(-1000, 1000, places=3),
    st.decimals("0.5", 100, places=2),
)
def test_ranges_are_exact(start: object, stop: object, step: object) -> None:
    from decimal import Decimal

    low, high = Decimal(str(start)), Decimal(str(stop))
    if low > high:
        low, high = high, low
    values = [Decimal(of) for of in parameter(f"N={low}:{high}:+{step}").values]
    assert values[0] == low
    assert high - Decimal(str(step)) < values[-1] <= high
    assert {b - a for a, b in pairwise(values)} <= {Decimal(str(step))}


def test_points_are_all_combinations_or_go_together() -> None:
    found = points(TWO, are_zipped=False)
    assert [" ".join(point.values()) for point in found] == [
        "1 a",
        "1 b",
        "1 c",
        "2 a",
        "2 b",
        "2 c",
    ]
    pairs = (TWO[0], Parameter("T", ("a", "b")))
    assert points(pairs, are_zipped=True) == [{"N": "1", "T": "a"}, {"N": "2", "T": "b"}]
    with pytest.raises(UsageError, match="N has 2, T has 3"):
        points(TWO, are_zipped=True)
    with pytest.raises(UsageError, match="--vary N is given twice"):
        points((TWO[0], TWO[0]), are_zipped=False)
    many = Parameter("N", tuple(map(str, range(MOST_POINTS))))
    assert len(points((many,), are_zipped=False)) == MOST_POINTS
    with pytest.raises(UsageError, match="30,000 points"):
        points((many, TWO[1]), are_zipped=False)


def test_a_command_is_filled() -> None:
    command = ("./gemm", "{N}", "--shape={N}x{N}", "{{N}}", '{"a": 1}', "{}")
    check_places(command, ["N"])
    assert filled(command, {"N": "64"}) == (
        *("./gemm", "64", "--shape=64x64", "{N}", '{"a": 1}', "{}"),
    )
    assert filled(("{A}",), {"A": "{B}", "B": "no"}) == ("{B}",)  # values are not read again
    with pytest.raises(UsageError, match="M is not varied") as found:
        check_places(("./gemm", "{N}", "{M}"), ["N"])
    assert found.value.hint == "add --vary M=VALUES, or write {{M}} for the text {M}"
    with pytest.raises(UsageError, match=r"--vary N: \{N\} is not in the command") as found:
        check_places(("./gemm", "{{N}}"), ["N"])
    assert "env VARIABLE={N}" in (found.value.hint or "")


@pytest.mark.parametrize(
    ("printed", "why"),
    [
        (b"torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB", "out of GPU"),
        (b"RuntimeError: CUDA error: out of memory\nCompile with ...", "out of GPU"),
        (b"main.cu:12 error: cudaErrorMemoryAllocation out of memory\n", "out of GPU"),
        (b"cupy.cuda.memory.OutOfMemoryError: Out of memory allocating 9 bytes", "out of GPU"),
        (b"jaxlib.xla_extension.XlaRuntimeError: RESOURCE_EXHAUSTED: Out of memory", "out of GPU"),
        (b"CUBLAS_STATUS_ALLOC_FAILED", "out of GPU"),
        (b"Traceback\n  File\nMemoryError\n", "out of host memory (exit status 1)"),
        (b"terminate called after throwing an instance of 'std::bad_alloc'", "out of host"),
        (b"a\nValueError: bad N\nbye\n", "exit status 1: ValueError: bad N"),
        (b"loading out of memory.txt\nusage: gemm N\n", "exit status 1: usage: gemm N"),
        (b"\xff\xfe", "exit status 1: \ufffd\ufffd"),
        (b"", "exit status 1"),
        (b"x" * 1000, "exit status 1: " + "x" * 200 + "..."),
    ],
)
def test_why_a_run_failed(printed: bytes, why: str) -> None:
    assert failures.why("exit status 1", printed).startswith(why)


def test_the_end_of_an_output_is_read(tmp_path: Path) -> None:
    log = tmp_path / "log"
    assert failures.end_of(log) == b""
    log.write_bytes(b"a" * (1 << 20) + b"CUDA out of memory")
    assert failures.end_of(log).endswith(b"aCUDA out of memory")
    assert len(failures.end_of(log)) == 1 << 16


DEFINITION = Definition("kernels", ("./x", "{N}", "{T}"), TWO, repeats=2, options=("--set", "full"))


def test_a_sweep_is_saved_and_read(tmp_path: Path) -> None:
    made = State(DEFINITION, {(0, 0): Attempt(("point-1.warpline",), None, 1.5, ("note",))})
    made.attempts[1, 0] = Attempt((), "exit status 1", 0.5)
    made.save(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == [state.FILE]
    found = state.load(tmp_path)
    assert found == made
    # The first of all points, then the second of those that did not fail.
    assert found.missing() == [
        *((of, 0) for of in range(2, 6)),
        (0, 1),
        *((of, 1) for of in range(2, 6)),
    ]
    assert found.of_point(0) == [made.attempts[0, 0]]


RUN = {"point": 0, "run": 0, "files": [], "failure": None, "seconds": 1, "notes": []}
RUN |= {"results": None}


@pytest.mark.parametrize(
    "change",
    [
        {"format": "other"},
        {"vary": {}},
        {"vary": {"N": "12"}},
        {"vary": {"N": []}},
        {"command": "x"},
        {"runs": [{"point": 0}]},
        {"runs": None},
        {"runs": [RUN | {"point": 99}]},
        {"runs": [RUN | {"files": ["../../x"]}]},
        {"runs": [RUN | {"files": [""]}]},
        {"runs": [RUN | {"results": 3}]},
        {"points": [{"N": "1"}]},
        {"predicted": [{"point": 99, "bytes": 1, "error_bytes": 1, "limit_bytes": 1}]},
    ],
)
def test_a_damaged_sweep_is_refused(tmp_path: Path, change: dict[str, object]) -> None:
    State(DEFINITION).save(tmp_path)
    path = tmp_path / state.FILE
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    with pytest.raises(InputError, match="is damaged"):
        state.load(tmp_path)


def test_what_is_no_sweep(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="has no sweep"):
        state.load(tmp_path)
    path = tmp_path / state.FILE
    path.write_text("{")
    with pytest.raises(InputError, match="is damaged"):
        state.load(tmp_path)
    path.write_text('{"format": "warpline-sweep", "version": 9}')
    with pytest.raises(InputError, match="version 9 of sweeps is unknown"):
        state.load(tmp_path)


def test_only_files_of_a_sweep_are_removed(tmp_path: Path) -> None:
    names = ("point-1.log", "point-1-flop.warpline", "point-a.txt", "other.warpline")
    for name in names:
        (tmp_path / name).touch()
    state.remove(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {*names}  # there is no sweep
    State(DEFINITION).save(tmp_path)
    state.remove(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {*names[2:]}


def test_another_sweep_is_not_resumed() -> None:
    state.check_same(DEFINITION, DEFINITION)
    command = DEFINITION.command
    for other, message in (
        (Definition("kernels", ("./y", "{N}"), TWO), "the command differs: it was ./x"),
        (Definition("kernels", ("./x", "{N} {T}"), TWO), "now ./x '{N} {T}'"),
        (Definition("kernels", command, TWO[:1]), "--vary differs: it was N=1,2 T=a,b,c"),
        (Definition("kernels", command, TWO, repeats=3), "--repeat differs: it was 2, now 3"),
        (Definition("kernels", command, TWO, repeats=2), "--set full, now none"),
    ):
        with pytest.raises(UsageError) as found:
            state.check_same(DEFINITION, other)
        assert message in found.value.message


def test_runs_are_made_once_and_failures_are_results(tmp_path: Path) -> None:
    asked: list[str] = []
    told: list[str] = []

    def run_point(point: Point, name: str) -> Attempt | None:
        asked.append(name)
        if len(asked) == 4:
            raise KeyboardInterrupt
        if len(asked) == 5:
            return None
        is_bad = point == {"N": "1", "T": "b"}
        return Attempt((), "no", 1.0) if is_bad else Attempt((f"{name}.warpline",), None, 1.0)

    assert not running.run(State(DEFINITION), tmp_path, run_point, told.append)
    assert asked == ["point-1-run-1", "point-2-run-1", "point-3-run-1", "point-4-run-1"]
    assert told[:3] == ["run 1 of 12: N=1 T=a", "run 2 of 12: N=1 T=b", "N=1 T=b: no"]
    assert not running.run(state.load(tmp_path), tmp_path, run_point, told.append)
    assert running.run(state.load(tmp_path), tmp_path, run_point, told.append)
    assert asked[4:] == [
        "point-4-run-1",
        *(f"point-{of}-run-1" for of in (4, 5, 6)),
        *(f"point-{of}-run-2" for of in (1, 3, 4, 5, 6)),
    ]
    found = state.load(tmp_path)
    assert found.missing() == []
    assert len(found.attempts) == 11
    again = state.load(tmp_path)
    again.forget_failures()
    assert again.missing() == [(1, 0), (1, 1)]
    assert running.run(found, tmp_path, run_point, told.append)
    assert len(asked) == 13
