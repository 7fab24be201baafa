"""The summary of a rank: small, and the same after it was stored."""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.fleets import Meeting, simulate, summary

import warpline
from warpline.derived.breakdown.partition import step_partition
from warpline.errors import InputError
from warpline.fleet.collectives import CollectiveKind, Collectives, fewest_kinds, hidden_ns
from warpline.fleet.summarizing import summarize
from warpline.fleet.summary import VERSION, RankSummary, packed, unpacked
from warpline.trace import Run

HEAD_BYTES = 16_384
STEP_BYTES = 4_096


def made() -> RankSummary:
    meetings = [Meeting("c", (0, 1), (1_000_000, 2_000_000))] * 3
    return summary(0, simulate(2, [meetings] * 4)[0])


def test_a_stored_summary_is_the_same() -> None:
    one = made()
    (two,) = unpacked(packed([one]))
    assert two.identity == one.identity
    assert two.kinds == one.kinds
    for part in ("steps", "windows", "collectives"):
        for name in getattr(one, part)._fields:
            before, after = getattr(getattr(one, part), name), getattr(getattr(two, part), name)
            assert np.array_equal(before, after), (part, name)


def test_summaries_can_be_joined_as_bytes() -> None:
    one = made()
    assert len(unpacked(packed([one]) + packed([one, one]))) == 3
    assert unpacked(b"") == []


def with_collectives(**columns: Any) -> RankSummary:
    one = made()
    assert isinstance(one.collectives, Collectives)
    return replace(one, collectives=one.collectives._replace(**columns))


def test_long_collectives_keep_their_ends_within_a_microsecond() -> None:
    one = made()
    start = one.collectives.start_ns
    for length in (0, 2**31 - 1, 2**31, 3_600_000_000_000 // 2):
        stored = with_collectives(end_ns=start + length)
        (two,) = unpacked(packed([stored]))
        apart = np.abs(two.collectives.end_ns - start - length)
        assert apart.max() <= (0 if length < 2**31 else 1_024)


def test_call_numbers_with_jumps_are_kept() -> None:
    numbers = np.array([5, 6, 7, 8, 20, 21, 22, 23, 24, 25, 26, 27])
    (two,) = unpacked(packed([with_collectives(sequence=numbers)]))
    assert two.collectives.sequence.tolist() == numbers.tolist()


def test_call_numbers_in_another_order_than_kernels_are_dropped() -> None:
    (two,) = unpacked(packed([with_collectives(sequence=np.arange(12)[::-1])]))
    assert set(two.collectives.sequence.tolist()) == {-1}


def test_sizes_are_left_out_if_they_vary_too_much() -> None:
    kinds = [CollectiveKind("AllToAll", "c", "", True, size) for size in range(70_000)]
    few, code = fewest_kinds(kinds)
    assert few == (CollectiveKind("AllToAll", "c", "", True, -1),)
    assert set(code.tolist()) == {0}


@pytest.mark.parametrize("damage", ["cut", "flipped", "junk", "other version"])
def test_damaged_summaries_are_an_input_error(damage: str) -> None:
    content = packed([made()])
    hostile = {
        "cut": content[:-10],
        "flipped": content[:9] + b"\xff" + content[10:],
        "junk": struct.pack("<Q", 4) + b"junk",
        "other version": content.replace(f'"version": {VERSION}'.encode(), b'"version": 9'),
    }
    with pytest.raises(InputError):
        unpacked(hostile[damage])


def test_a_real_rank_is_small_and_exact(capture: Callable[[str], Path]) -> None:
    run = Run(warpline.open(capture("ddp_serial.bad.rank0")))
    (one,) = summarize(run)
    count = len(one.windows.step)
    assert len(packed([one])) <= HEAD_BYTES + STEP_BYTES * count + 16 * 894
    assert len(one.collectives.start_ns) == 894
    parts = step_partition(run)
    included = one.steps.included[one.windows.step] != 0
    assert np.array_equal(one.windows.parts_ns[included], parts.ns)
    length = one.windows.end_ns - one.windows.start_ns
    assert np.array_equal(one.windows.parts_ns.sum(axis=1), length)


def test_what_was_computed_meanwhile_is_known_by_quarters() -> None:
    rows = Collectives(
        np.array([0]),
        np.array([4000]),
        np.array([[255, 0, 51, 0]], np.uint8),
        np.zeros(1, np.uint16),
        np.array([-1]),
    )
    found = [
        float(hidden_ns(rows, np.array([until]))[0])
        for until in (0.0, 500.0, 1000.0, 2500.0, 4000.0, 9000.0)
    ]
    assert found == pytest.approx([0, 500, 1000, 1100, 1200, 1200])
