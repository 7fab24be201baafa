"""Sweeps whose values go on: memory that is predicted, points that are skipped, the border."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from warpline.errors import UsageError
from warpline.sweep import items, memory_model, predicting, running, state
from warpline.sweep.axes import axis, between, granularity
from warpline.sweep.failures import OUT_OF_MEMORY
from warpline.sweep.memory_model import Sample
from warpline.sweep.points import Parameter, Point, parameter, points
from warpline.sweep.running import Policy
from warpline.sweep.state import Attempt, Definition, State

GIB = 1 << 30
LIMIT = 80 * GIB
PLAIN = Policy()


class Program:
    """A program that takes `peak` bytes at a point, and runs out of memory above a limit."""

    def __init__(self, peak: Any, limit: int = LIMIT) -> None:
        self._peak, self._limit = peak, limit
        self.ran: list[str] = []
        self.told: list[str] = []
        self._last = 0

    def run(self, point: Point, name: str) -> Attempt:
        self._last = int(self._peak(**{of: float(value) for of, value in point.items()}))
        self.ran.append(" ".join(point.values()))
        fits = self._last <= self._limit
        return Attempt((name,), None, 1.0) if fits else Attempt((), OUT_OF_MEMORY, 1.0)

    def measure(self, _: Attempt) -> tuple[Mapping[str, Any], str]:
        return {predicting.PEAK: self._last, predicting.LIMIT: self._limit}, "measured"

    def sweep(self, folder: Path, *vary: str, policy: Policy = PLAIN) -> State:
        names = [word.partition("=")[0] for word in vary]
        command = ("./x", *(f"{{{name}}}" for name in names))
        found = State(Definition("program", command, tuple(map(parameter, vary))))
        assert running.run(found, folder, self.run, self.told.append, self.measure, policy)
        return found


def linear(batch: float) -> float:
    return 4.7 * GIB + 1.5 * GIB * batch


@pytest.mark.parametrize(
    ("word", "following"),
    [("N=1,2,4,...", "8"), ("N=8,16,24,...", "32"), ("N=1,3,9,27,...", "81"), ("N=0,1,2,...", "3"),
     ("N=0.5,1,1.5,...", "2"), ("N=8,4,2,...", "1"), ("N=1e3,1e4,1e5,...", "1000000")],
)  # fmt: skip
def test_values_go_on_as_they_began(word: str, following: str) -> None:
    found = parameter(word)
    assert found.is_open
    assert found.following(found.values[-1]) == following
    assert Parameter.of_words("N", found.words) == found
    assert found.word == word


def test_only_one_parameter_goes_on() -> None:
    one, other = parameter("N=1,2,4,..."), parameter("M=1,2,3,...")
    with pytest.raises(UsageError, match=r"cannot go on .* of N and M at once"):
        points([one, other], are_zipped=False)
    with pytest.raises(UsageError, match=r"cannot go on .* with --zip"):
        points([one, parameter("M=1,2,3")], are_zipped=True)


def test_a_model_has_no_error_where_memory_is_linear() -> None:
    found = memory_model.fit([Sample({"batch": b}, int(linear(b))) for b in (1, 2, 4)])
    assert found is not None
    assert found.bytes_at({"batch": 32}) == pytest.approx(linear(32))
    border = found.border({"batch": 1}, "batch", LIMIT)
    assert border is not None
    assert border[0] == pytest.approx(50.2)  # (80 - 4.7) / 1.5
    assert border[1] == pytest.approx(50.2, rel=0.001)


def test_small_points_whose_peak_is_elsewhere_are_left_out() -> None:
    """The optimizer step has the peak at first: the same memory at all small batches."""
    peaks = [int(max(20 * GIB, linear(b))) for b in (1, 2, 4, 16, 24, 32)]
    samples = [Sample({"b": b}, of) for b, of in zip((1, 2, 4, 16, 24, 32), peaks, strict=True)]
    found = memory_model.fit(samples)
    assert found is not None
    assert found.bytes_at({"b": 48}) == pytest.approx(linear(48), rel=1e-6)


def test_two_parameters_have_their_product_and_square() -> None:
    def peak(b: float, c: float) -> int:
        return int(2 * GIB + 5000 * b * c + 9 * b * c * c)

    samples = [Sample({"b": b, "c": c}, peak(b, c)) for b in (1, 2, 4) for c in (512, 1024, 2048)]
    found = memory_model.fit(samples)
    assert found is not None
    assert found.bytes_at({"b": 8, "c": 4096}) == pytest.approx(peak(8, 4096), rel=1e-6)


def test_the_stated_error_is_that_of_points_left_out() -> None:
    noisy = [Sample({"b": b}, int(linear(b) * (1 + e)))
             for b, e in ((4, 0.0), (8, 0.01), (12, -0.01), (16, 0.01))]  # fmt: skip
    found = memory_model.fit(noisy)
    assert found is not None
    assert 0.01 < found.error < 0.1
    border = found.border({"b": 4}, "b", LIMIT)
    assert border is not None
    assert border[1] < border[0] < border[2]


@pytest.mark.parametrize("samples", [
    [], [Sample({"b": 1.0}, 5)], [Sample({"b": 1.0}, 5), Sample({"b": 2.0}, 6)],
    [Sample({"b": 1.0}, of) for of in (5, 6, 7)], [Sample({}, of) for of in (5, 6, 7)],
])  # fmt: skip
def test_too_few_points_say_nothing(samples: list[Sample]) -> None:
    assert memory_model.fit(samples) is None


def test_memory_that_does_not_grow_has_no_border() -> None:
    found = memory_model.fit([Sample({"b": b}, GIB) for b in (1.0, 2.0, 4.0)])
    assert found is not None
    assert found.border({"b": 1.0}, "b", LIMIT) is None


@given(st.floats(0.1, 20), st.floats(0.01, 3), st.integers(1, 40))
def test_lines_are_found_exactly(constant: float, slope: float, first: int) -> None:
    samples = [
        Sample({"b": first * k}, int(GIB * (constant + slope * first * k))) for k in (1, 2, 3, 4)
    ]
    found = memory_model.fit(samples)
    assert found is not None
    wanted = GIB * (constant + slope * first * 10)
    assert found.bytes_at({"b": first * 10}) == pytest.approx(wanted, rel=1e-4)


def test_a_sweep_goes_on_until_memory_runs_out(tmp_path: Path) -> None:
    program = Program(linear)
    found = program.sweep(tmp_path, "batch=1,2,4,...")
    assert program.ran == ["1", "2", "4", "8", "16", "32", "64"]
    assert found.of_point(6)[0].failure == OUT_OF_MEMORY
    assert state.load(tmp_path) == found
    # What a point takes was written down before it was run: 4.7 + 1.5 * 64 GiB.
    assert found.predicted[6].bytes == pytest.approx(100.7 * GIB, rel=1e-6)
    assert not found.predicted[6].fits
    assert 2 not in found.predicted  # two points say nothing
    assert "predicted to fit: batch up to 50, in 80.0 GiB" in program.told[6]
    assert "run 7: batch=64 (predicted peak 101 GiB +/- 2.00 MiB of 80.0 GiB" in program.told[-2]
    assert program.told[-2].endswith(": does not fit)")


def test_expected_failures_are_skipped_and_end_the_sweep(tmp_path: Path) -> None:
    program = Program(linear)
    found = program.sweep(tmp_path, "batch=1,2,4,...", policy=Policy(skips=True))
    assert program.ran == ["1", "2", "4", "8", "16", "32"]
    (skipped,) = found.of_point(6)
    assert skipped.failure == "skipped: predicted peak 101 GiB +/- 2.00 MiB of 80.0 GiB"
    assert found.missing() == []


def test_values_go_on_after_an_interruption(tmp_path: Path) -> None:
    program = Program(linear)
    found = State(Definition("program", ("./x",), (parameter("batch=1,2,4,..."),)))

    def interrupted(point: Point, name: str) -> Attempt | None:
        return program.run(point, name) if point["batch"] != "16" else None

    assert not running.run(found, tmp_path, interrupted, program.told.append, program.measure)
    again = state.load(tmp_path)
    assert [point["batch"] for point in again.points] == ["1", "2", "4", "8", "16"]
    assert again.predicted[4].bytes == pytest.approx(linear(16))  # as it was before the run
    assert running.run(again, tmp_path, program.run, program.told.append, program.measure)
    assert program.ran == ["1", "2", "4", "8", "16", "32", "64"]
    assert not running.has_more(again, PLAIN)
    again.forget_failures()
    assert running.has_more(again, PLAIN)


def test_all_points_are_run_once_before_the_second_runs(tmp_path: Path) -> None:
    program = Program(lambda batch: 30 * GIB * batch)
    definition = Definition("program", ("./x",), (parameter("batch=1,2,3,..."),), repeats=2)
    found = State(definition)
    assert running.run(found, tmp_path, program.run, program.told.append, program.measure)
    assert program.ran == ["1", "2", "3", "1", "2"]


def test_points_larger_than_one_that_failed_are_skipped(tmp_path: Path) -> None:
    program = Program(lambda b, c: GIB * b * c)
    found = program.sweep(tmp_path, "b=1,100", "c=1,2", policy=Policy(skips=True))
    assert program.ran == ["1 1", "1 2", "100 1"]
    (last,) = found.of_point(3)
    assert last.failure == "skipped: a smaller point ran out of GPU memory"


def test_the_border_is_found_in_few_runs(tmp_path: Path) -> None:
    program = Program(linear)
    found = program.sweep(tmp_path, "batch=1,2,4,...", policy=Policy(finds_border=True))
    assert program.ran[:7] == ["1", "2", "4", "8", "16", "32", "64"]
    assert len(program.ran) <= 9
    fits = [int(p["batch"]) for i, p in enumerate(found.points) if not found.of_point(i)[0].failure]
    fails = [int(p["batch"]) for i, p in enumerate(found.points) if found.of_point(i)[0].failure]
    assert max(fits) <= 50 < min(fails)
    assert min(fails) - max(fits) <= max(1, 0.05 * max(fits))
    order = [int(found.points[place]["batch"]) for place in found.shown_order()]
    assert order == sorted(order)


def test_a_wrong_model_only_costs_runs(tmp_path: Path) -> None:
    """Memory that jumps: the border is between values all the same."""
    program = Program(lambda batch: linear(batch) + (50 * GIB if batch > 20 else 0))
    program.sweep(tmp_path, "batch=1,2,4,...", policy=Policy(finds_border=True))
    ran = sorted(map(int, program.ran))
    assert 20 in ran
    assert 21 in ran
    assert len(ran) < 14


def test_values_that_are_tried_are_multiples_of_those_given(tmp_path: Path) -> None:
    program = Program(linear)
    program.sweep(tmp_path, "batch=8,16,32,...", policy=Policy(finds_border=True))
    assert program.ran == ["8", "16", "32", "64", "48", "56"]


def test_each_line_of_a_grid_goes_on_by_itself(tmp_path: Path) -> None:
    program = Program(lambda batch, context: 2 * GIB + 0.01 * GIB * batch * context)
    found = program.sweep(tmp_path, "batch=1,2,4,...", "context=128,512")
    ran = [tuple(map(int, of.split())) for of in program.ran]
    assert ran == [
        *((batch, 128) for batch in (1, 2, 4, 8, 16, 32, 64)),
        *((batch, 512) for batch in (1, 2, 4, 8, 16)),
    ]
    borders = predicting.borders(found)
    assert [border.others for border in borders] == [{"context": "128"}, {"context": "512"}]
    assert borders[0].at == pytest.approx(78 / 1.28)
    # The other context is predicted from the first one only once it has been measured.
    place = found.points.index({"batch": "1", "context": "512"})
    assert place not in found.predicted
    assert found.predicted[found.points.index({"batch": "16", "context": "512"})].bytes


def test_words_have_models_of_their_own(tmp_path: Path) -> None:
    program = Program(lambda n: n)
    definition = Definition("program", ("./x",), (parameter("t=a,b"), parameter("n=1,2,4,8")))
    found = State(definition)
    for place, point in enumerate(found.points):
        size = float(point["n"]) * (1 if point["t"] == "a" else 3) * GIB
        results = {predicting.PEAK: int(size), predicting.LIMIT: LIMIT}
        found.attempts[place, 0] = Attempt(("x",), None, 1.0, (), results)
    assert [border.at for border in predicting.borders(found)] == [
        pytest.approx(80, rel=1e-6),
        pytest.approx(80 / 3, rel=1e-6),
    ]
    assert program.ran == []


def test_a_program_without_memory_is_not_predicted(tmp_path: Path) -> None:
    program = Program(linear, limit=20 * GIB)
    definition = Definition("program", ("./x",), (parameter("batch=1,2,4,8,16"),))
    found = State(definition)
    assert running.run(found, tmp_path, program.run, program.told.append)
    assert found.predicted == {}
    assert program.told == [
        *(f"run {k} of 5: batch={b}" for k, b in enumerate((1, 2, 4, 8, 16), 1)),
        "batch=16: out of GPU memory",
    ]


def test_steps_of_the_search() -> None:
    item = parameter("N=8,16,24")
    assert granularity(item) == 8
    assert granularity(parameter("N=1,1.5")) is None
    assert axis(Definition("x", (), (parameter("T=a"), item))) == item
    assert between(item, Decimal(8), Decimal(16), None) is None
    assert between(item, Decimal(8), Decimal(64), None) == 32
    assert between(item, Decimal(8), Decimal(64), 51.0) == 48
    fine = parameter("N=1,1.5")
    assert between(fine, Decimal(1), Decimal("1.04"), None) is None
    assert Decimal(1) < (between(fine, Decimal(1), Decimal(2), 1.21) or 0) < Decimal("1.22")


@pytest.mark.parametrize(("text", "count"), [
    ("{batch}*{context}", 4096), ("batch", 4), ("2*{batch}+1", 9), ("{batch}/0", None),
    ("({batch}-2)*0.5", 1),
])  # fmt: skip
def test_items_of_a_step(text: str, count: float | None) -> None:
    parameters = (parameter("batch=4"), parameter("context=1024"), parameter("t=a"))
    items.check(text, parameters)
    assert items.count(text, {"batch": "4", "context": "1024", "t": "a"}) == count


@pytest.mark.parametrize("text", [
    "{batch", "print(1)", "batch**9", "'a'*3", "t", "other", "batch.real", "True", "[1]", "1" * 300,
])  # fmt: skip
def test_what_is_no_number_of_items(text: str) -> None:
    with pytest.raises(UsageError, match="--items"):
        items.check(text, (parameter("batch=4"), parameter("t=a")))
