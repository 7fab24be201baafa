"""Repetitions in sequences of launches that are known to repeat, or not to."""

from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from warpline.derived.steps.periodicity import Repetitions, find_repetitions
from warpline.ops.arrays import I64

# Launches of a step: what stands before the layers, twelve layers forward and backward, what
# stands behind.
HEAD, FORWARD, LOSS = [90, 91], [1, 2, 3, 4, 2, 5], [92]
BACKWARD, OPTIMIZER = [6, 7, 8, 6, 9], [93, 93, 93, 94]
MODEL = [*HEAD, *FORWARD * 12, *LOSS, *BACKWARD * 12, *OPTIMIZER]
US = 1_000


def times(count: int, pauses: dict[int, int] | None = None, seed: int = 0) -> I64:
    """Return when each launch began: 8 to 12 us after the last one, or later after a pause."""
    rng = random.Random(seed)
    gaps = [rng.randrange(8 * US, 12 * US) for _ in range(count)]
    for place, extra in (pauses or {}).items():
        gaps[place] += extra
    return np.cumsum(gaps)


def find(tokens: list[int], time_ns: I64 | None = None) -> Repetitions | None:
    found = np.array(tokens, np.int64)
    return find_repetitions(found, times(len(found)) if time_ns is None else time_ns)


def bounds(tokens: list[int], time_ns: I64 | None = None) -> list[int]:
    found = find(tokens, time_ns)
    return [] if found is None else found.bounds.tolist()


@pytest.mark.parametrize("count", [2, 3, 6, 40])
def test_steps_of_layers(count: int):
    found = find(MODEL * count)
    assert found is not None
    assert found.bounds.tolist() == [place * len(MODEL) for place in range(count + 1)]
    assert found.is_whole


def test_one_launch_a_step():
    assert bounds([7] * 6) == [0, 1, 2, 3, 4, 5, 6]


def test_gradients_that_are_accumulated_are_one_step():
    micro = [*HEAD, *FORWARD * 3, *LOSS, *BACKWARD * 3]
    step = [*micro * 4, *OPTIMIZER]
    assert bounds(step * 5) == [place * len(step) for place in range(6)]


@pytest.mark.parametrize("count", [2, 3, 5])
def test_passes_of_layers_are_longer_than_their_layers(count: int):
    embedding, layer, head = [90, 91, 95], [1, 2, 3, 4, 2, 5, 6, 7], [92, 96]
    one = [*embedding, *layer * 24, *head]
    assert bounds(one * count) == [place * len(one) for place in range(count + 1)]


def test_a_pass_of_layers_between_an_embedding_and_a_head_does_not_repeat():
    assert find([90, 91, 95, *[1, 2, 3, 4, 2, 5, 6, 7] * 24, 92, 96, 97]) is None


def test_a_launch_more_every_tenth_step_makes_no_longer_step():
    tokens: list[int] = []
    starts = []
    for number in range(40):
        starts.append(len(tokens))
        tokens += MODEL if number % 10 else [*MODEL, 99]
    assert bounds(tokens)[:-1] == starts


def test_what_is_before_the_first_step_is_left_out():
    setup = [200 + place % 17 for place in range(60)]
    found = bounds(setup + MODEL * 5)
    assert found == [60 + place * len(MODEL) for place in range(6)]


def test_a_recording_that_ends_in_a_step():
    found = find(MODEL * 4 + MODEL[:70])
    assert found is not None
    assert found.bounds.tolist() == [*(place * len(MODEL) for place in range(5)), 4 * 139 + 70]
    assert not found.is_whole


def test_a_recording_that_begins_in_a_step_shows_the_pause_between_steps():
    tokens = MODEL[50:] + MODEL * 5 + MODEL[:40]
    first = len(MODEL) - 50
    starts = [first + place * len(MODEL) for place in range(6)]
    found = bounds(tokens, times(len(tokens), dict.fromkeys(starts, 200 * US)))
    assert found[:6] == starts


def test_layers_of_a_single_step_are_no_steps():
    assert find([*HEAD, *FORWARD * 30, *LOSS, 95, 96, 97]) is None
    assert find(MODEL) is None


def test_noise_has_no_steps():
    rng = random.Random(3)
    assert find([rng.randrange(40) for _ in range(3000)]) is None
    assert find([]) is None
    assert find([1, 2]) is None
    assert find(list(range(100))) is None


def test_pauses_tell_steps_of_which_nothing_else_does():
    tokens = [1, 2, 3, 4] * 16 * 6
    pauses = {place * 64: 20 * US for place in range(6)}
    assert bounds(tokens, times(len(tokens), pauses)) == [place * 64 for place in range(7)]
    # Pauses that come at any time tell nothing.
    uneven = dict.fromkeys((64, 100, 192, 204, 320), 20 * US)
    assert len(bounds(tokens, times(len(tokens), uneven))) == 97


@settings(max_examples=60)
@given(st.integers(4, 12), st.integers(0, 2**32), st.floats(0, 0.003), st.integers(0, 80))
def test_steps_are_found_though_single_launches_come_and_go(
    count: int, seed: int, rate: float, before: int
):
    rng = random.Random(seed)
    tokens = [rng.randrange(300, 330) for _ in range(before)]
    starts = []
    for _ in range(count):
        starts.append(len(tokens))
        for token in MODEL:
            tokens += [rng.randrange(400, 403)] if rng.random() < rate else []
            tokens += [token] if rng.random() > rate / 2 else []
    pauses = dict.fromkeys(starts, 100 * US)
    found = find(tokens, times(len(tokens), pauses, seed))
    assert found is not None
    assert len(found) == count
    assert np.abs(found.bounds[:-1] - starts).max() <= 4
