"""The period of a sequence of calls, from the agent's own code: hand-made and random ones."""

from __future__ import annotations

import random
import subprocess
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

RUNTIME = 1 << 11
LAUNCH, COPY = RUNTIME | 13, RUNTIME | 20
DRIVER_LAUNCH, DRIVER_COPY = 5, 6
US = 1000


class Call(NamedTuple):
    """A call as the program is told of it."""

    number: int
    function: int = 0
    grid: int = 0
    takes_us: int = 10


class Period(NamedTuple):
    """What was found."""

    number: int
    function: int
    length_ns: int
    repetitions: int
    calls: int
    anchor_calls: int


class Finder:
    """The program that looks for periods."""

    def __init__(self, program: str) -> None:
        self._process = subprocess.Popen(
            [program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def __call__(self, calls: Sequence[Call]) -> Period | None:
        """Return the period of calls that follow one on another."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        now = 5_000_000_000
        for call in calls:
            self._process.stdin.write(f"{call.number} {call.function} {call.grid} {now}\n")
            now += call.takes_us * US
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline().split()
        assert answer, "the program has ended"
        return None if answer == ["none"] else Period(*map(int, answer))

    def close(self) -> None:
        """End the program, which must end well."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.stdout.close()
        assert self._process.wait(timeout=60) == 0


@pytest.fixture(scope="module")
def find(cuda) -> Iterator[Finder]:
    program = cuda.program.parent / "period_of"
    if not program.exists():
        pytest.skip("period_of is not built: cmake -DWARPLINE_TESTS=ON")
    finder = Finder(str(program))
    yield finder
    finder.close()


def kernels(*functions: int, takes_us: int = 100) -> list[Call]:
    return [Call(LAUNCH, function, takes_us=takes_us) for function in functions]


STEP = kernels(*range(1, 30), *range(3, 20), 1, 1, 1)


def test_the_plainest(find):
    found = find([*STEP * 10, *STEP[:5]])
    assert found is not None
    assert (found.calls, found.length_ns) == (len(STEP), len(STEP) * 100 * US)
    assert found.repetitions in (8, 9, 10)
    assert STEP.count(Call(LAUNCH, found.function, takes_us=100)) == 1


@pytest.mark.parametrize(("times", "is_found"), [(4, False), (6, False), (8, True)])
def test_how_often_it_must_repeat(find, times, is_found):
    assert (find(STEP * times) is not None) is is_found


def test_a_rare_call_is_the_anchor(find):
    step = [*STEP[:20], Call(COPY), *STEP[20:]]
    found = find(step * 10)
    assert (found.number, found.function, found.anchor_calls) == (COPY, 0, 1)
    assert found.calls == len(step)


def test_a_copy_of_the_drivers_is_none_as_it_may_come_from_within_another(find):
    step = [Call(DRIVER_COPY), *(Call(DRIVER_LAUNCH, n, takes_us=100) for n in range(1, 20))]
    found = find(step * 10)
    assert found.number == DRIVER_LAUNCH


def test_what_was_before_does_not_matter(find):
    other = kernels(*range(40, 60), takes_us=300)
    found = find([*kernels(70) * 500, *other * 30, *STEP * 10])
    assert found.calls == len(STEP)


def test_the_first_repetitions_may_run_ahead_of_the_device(find):
    step = range(1, 12)
    found = find([*kernels(*step, takes_us=10) * 45, *kernels(*step, takes_us=300) * 60])
    assert found.length_ns == 11 * 300 * US


def test_it_must_go_on_to_the_end(find):
    assert find([*STEP * 20, *kernels(*range(100, 160))]) is None
    assert find([*STEP * 20, *kernels(70) * (2 * len(STEP))]) is None


def test_what_is_shorter_than_a_millisecond_is_no_step(find):
    assert find(kernels(1, 2, 3, takes_us=100) * 50) is None
    assert find(kernels(1, 2, 3, takes_us=400) * 50).calls == 3
    assert find(kernels(1, takes_us=1000) * 50).calls == 1


def test_an_optimizer_makes_a_longer_pattern(find):
    # 8 times the same, and then 1/20 of that again.
    optimizer = kernels(*range(200, 220))
    found = find([*STEP * 8, *optimizer] * 8)
    assert found.calls == 8 * len(STEP) + 20


def test_also_if_nothing_in_it_occurs_just_once(find):
    # But what follows on what does: from the last part of a step to the optimizer.
    optimizer = kernels(200) * 20
    found = find([*STEP * 8, *optimizer] * 8)
    assert found.calls == 8 * len(STEP) + 20


def test_a_loss_that_is_printed_does_not(find):
    printed = [*STEP, Call(COPY), Call(RUNTIME | 22)]
    found = find([*STEP * 9, *printed] * 8)
    assert found.calls in (len(STEP), len(STEP) + 1)


def test_grids_tell_launches_apart(find):
    step = [Call(LAUNCH, 1, grid, 100) for grid in [1] * 20 + [2]]
    found = find(step * 10)
    assert (found.calls, found.function) == (21, 1)


def test_grids_that_change_do_not(find):
    choose = random.Random(1)
    calls = [Call(LAUNCH, one.function, choose.randrange(1000), 100) for one in STEP * 10]
    assert find(calls).calls == len(STEP)


def test_nothing_at_all(find):
    assert find([]) is None
    assert find(STEP[:1]) is None


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("functions", [2, 5, 50, 500])
def test_chance_is_no_pattern(find, seed, functions):
    choose = random.Random(seed)
    calls = [Call(LAUNCH, choose.randrange(functions) + 1, takes_us=300) for _ in range(3000)]
    found = find(calls)
    # Two kernels by turns may look like one for a moment, but never like a long one.
    assert found is None or (functions == 2 and found.calls <= 4)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    body=st.lists(st.integers(1, 12), min_size=12, max_size=200),
    times=st.integers(8, 20),
    start=st.integers(0, 199),
    warm_up=st.lists(st.integers(20, 30), max_size=300),
    more=st.lists(st.tuples(st.integers(0, 19), st.integers(0, 199)), max_size=3),
)
def test_a_step_with_an_anchor_is_found(find, body, times, start, warm_up, more):
    # Whatever a step consists of and wherever the look begins, with a call more now and then: as
    # long as one call occurs once in it, what is found is one step, or an equal part of it.
    steps = [kernels(99, *body) for _ in range(times)]
    for step, place in more:
        if step < times - 7:
            steps[step].insert(place % (len(body) + 1) + 1, Call(LAUNCH, 13, takes_us=100))
    calls = [call for step in steps for call in step]
    skipped = start % (len(body) + 1)
    found = find([*kernels(*warm_up), *calls[skipped:]])
    assert found is not None
    one = len(body) + 1
    assert found.calls <= one + 1
    # Between two calls of the kernel that occurs once lies a whole number of them, nearly.
    assert abs(round(one / found.calls) * found.calls - one) <= max(3, one / 16)
