"""Samples of metrics in blocks: values, times, gaps, windows, clocks."""

from __future__ import annotations

import math
from array import array
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from warpline.capture.collectors.sample_blocks import BlockMaker, SampleClock, coded
from warpline.capture.session.readings import IsRecording
from warpline.capture.session.sample_file import Block
from warpline.schema.counters import BLOCK_SAMPLES

STEP = 100_000  # ns
YES, NO = IsRecording.YES, IsRecording.NO


def decoded(block: Block) -> list[float]:
    """Return the values of a block, as a reader computes them."""
    if not block.codes:
        return [block.scale] * block.samples
    return [code * block.scale for code in array("H", bytes(block.codes))]


def made(metrics: int = 1, longest_ns: int = 10**12) -> tuple[BlockMaker, list[list[Block]]]:
    written: list[list[Block]] = []
    return BlockMaker(metrics, STEP, longest_ns, written.append), written


def times(places: Sequence[int]) -> tuple[list[int], list[int]]:
    return [place * STEP for place in places], [(place + 1) * STEP for place in places]


@given(st.lists(st.floats(0, 1e300), min_size=1, max_size=50))
def test_a_value_differs_by_half_a_code_at_most(values: list[float]) -> None:
    starts, ends = times(range(len(values)))
    (block,) = coded(3, starts, ends[-1], values)
    assert (block.metric, block.samples, block.start_ns) == (3, len(values), 0)
    half = block.scale / 2 if block.codes else 2.3e-303
    for value, found in zip(values, decoded(block), strict=True):
        assert abs(found - value) <= half * (1 + 1e-9) + 1e-12 * value


@given(
    st.lists(
        st.sampled_from([1.0, 2.0, -1.0, math.nan, math.inf, -math.inf]), min_size=1, max_size=30
    )
)
def test_values_that_no_counter_has_are_left_out(values: list[float]) -> None:
    starts, ends = times(range(len(values)))
    found = {}
    for block in coded(0, starts, ends[-1], values):
        assert block.end_ns - block.start_ns == block.samples * STEP
        for place, value in enumerate(decoded(block)):
            found[block.start_ns // STEP + place] = round(value, 3)
    good = {place: value for place, value in enumerate(values) if value in {1, 2}}
    assert found == good


def test_equal_values_have_no_codes() -> None:
    (block,) = coded(0, [0, 1, 2], 3, [0.0, 0.0, 0.0])
    assert (block.scale, block.codes) == (0.0, b"")
    (block,) = coded(0, [0], 1, [12.5])
    assert (block.scale, block.codes) == (12.5, b"")


@given(
    st.lists(st.integers(1, 3000), min_size=1, max_size=6),
    st.sets(st.integers(0, 9000), max_size=6),
    st.integers(1, 3),
)
def test_all_samples_are_in_blocks(parts: list[int], missing: set[int], metrics: int) -> None:
    places = [place for place in range(sum(parts)) if place not in missing]
    maker, written = made(metrics)
    for part in parts:
        now, places = places[:part], places[part:]
        values = [[float(place * (metric + 1)) for place in now] for metric in range(metrics)]
        maker.add(*times(now), values, YES)
    maker.add(*times(places), [[float(p * (m + 1)) for p in places] for m in range(metrics)], YES)
    maker.flush()
    seen: list[int] = []
    for blocks in written:
        assert [block.metric for block in blocks] == [*range(metrics)]
        assert len({(b.start_ns, b.end_ns, b.samples) for b in blocks}) == 1
        first = blocks[0]
        assert first.samples <= BLOCK_SAMPLES
        assert first.end_ns - first.start_ns == first.samples * STEP
        seen += range(first.start_ns // STEP, first.end_ns // STEP)
    known = [place for place in range(sum(parts)) if place not in missing]
    assert seen == known
    assert maker.samples == len(known)
    inner = {place for place in missing if known and known[0] < place < known[-1]}
    assert maker.missing_ns == len(inner) * STEP


def test_samples_that_were_there_before_are_left_out() -> None:
    maker, written = made()
    maker.add(*times([0, 1, 2]), [[1.0, 2.0, 3.0]], YES)
    maker.add(*times([1, 2, 3]), [[9.0, 9.0, 4.0]], YES)
    maker.flush()
    ((block,),) = written
    assert decoded(block) == pytest.approx([1, 2, 3, 4], abs=1e-4)
    assert maker.gaps == 0


def test_samples_of_uneven_length_are_split_where_they_would_be_wrong() -> None:
    maker, written = made()
    starts = [0]
    for place in range(1, 1000):  # the clock that they are taken by changes slowly
        starts.append(starts[-1] + STEP + place * 20)
    maker.add(starts, [*starts[1:], starts[-1] + STEP], [[float(n) for n in range(1000)]], YES)
    maker.flush()
    place = 0
    for block in written[0]:
        step = (block.end_ns - block.start_ns) / block.samples
        for number in range(block.samples):
            assert abs(block.start_ns + number * step - starts[place]) <= STEP / 2
            place += 1
    assert place == 1000
    assert 1 < len(written[0]) < 100


def test_a_block_is_written_after_some_time() -> None:
    maker, written = made(longest_ns=3 * STEP)
    for place in range(7):
        maker.add(*times([place]), [[1.0]], YES)
    assert [blocks[0].samples for blocks in written] == [3, 3]


def test_of_the_time_without_recording_one_block_is_kept_on_each_side() -> None:
    maker, written = made(longest_ns=STEP)
    for place, state in enumerate([NO, NO, NO, YES, YES, NO, NO, NO, IsRecording.WAS, NO, NO]):
        maker.add(*times([place]), [[float(place)]], state)
    maker.flush()
    kept = [block.start_ns // STEP for blocks in written for block in blocks]
    assert kept == [2, 3, 4, 5, 7, 8, 9]


class Clocks:
    """Clocks that a test sets."""

    def __init__(self) -> None:
        self.monotonic, self.wall = 1_000, 500_000_000_000

    def __call__(self) -> tuple[int, int]:
        return self.monotonic, self.wall

    def on(self, ns: int, *, set_by: int = 0) -> None:
        self.monotonic += ns
        self.wall += ns + set_by


SECOND = 1_000_000_000


def test_times_follow_a_wall_clock_that_is_corrected() -> None:
    clocks = Clocks()
    clock = SampleClock(clocks)
    for _ in range(100):
        clocks.on(SECOND, set_by=500_000)
        starts, ends = clock.convert([clocks.wall - STEP], [clocks.wall])
        assert (starts[0], ends[0]) == (clocks.monotonic - STEP, clocks.monotonic)
    assert clock.steps == 0
    assert clock.lags_ns == (0, 0)


@pytest.mark.parametrize("follows", [True, False])
@pytest.mark.parametrize("set_by", [3600 * SECOND, -3600 * SECOND, 2_000_000, -2_000_000])
def test_a_wall_clock_that_is_set(set_by: int, *, follows: bool) -> None:
    clocks = Clocks()
    clock = SampleClock(clocks)
    ahead = 0
    for round_ in range(6):
        is_set = round_ == 2
        clocks.on(SECOND, set_by=set_by if is_set else 0)
        ahead += set_by if is_set and not follows else 0
        newest = clocks.wall - ahead - 50
        starts, ends = clock.convert([newest - SECOND], [newest])
        assert ends == [clocks.monotonic - 50]
        assert starts == [clocks.monotonic - 50 - SECOND]
    assert clock.steps == 1


def test_drift_shows_in_the_lags() -> None:
    clocks = Clocks()
    clock = SampleClock(clocks)
    for round_ in range(1000):
        clocks.on(SECOND)
        clock.convert([clocks.wall - STEP], [clocks.wall - 1000 * round_])
    assert clock.lags_ns is not None
    first, last = clock.lags_ns
    assert first == 0
    assert last == pytest.approx(936_000)
