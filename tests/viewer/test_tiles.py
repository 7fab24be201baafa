"""Tiles compared with plain loops over all events."""

from __future__ import annotations

import itertools
import json
from collections import Counter

import numpy as np
import pytest
from support import captures
from support.viewer_container import decode

import warpline
from warpline.viewer.attributes import EVENT_TABLES
from warpline.viewer.device_rows import device_rows
from warpline.viewer.host_rows import host_rows
from warpline.viewer.names import CATEGORIES, Names
from warpline.viewer.rows import Events, Link, Row
from warpline.viewer.stored_rows import RowStore
from warpline.viewer.tiles import BINS, MOST_EVENTS, Grid, cut_out, tile

NAMES = 7
IDLE_NAME = 3
CATEGORY = np.array(
    [5, 1, 5, 1, 9, 2, 5]
)  # a busy name shares the idle one's category: they must stay separate


def random_events(rng, count, scale, *, is_state=False):
    """Return events in bursts, with very different durations; some are empty, some adjacent."""
    length = np.exp(rng.uniform(-2, np.log(scale), count)).astype(np.int64)
    gap = np.exp(rng.uniform(-3, np.log(scale), count)).astype(np.int64)
    gap[rng.random(count) < 0.4] = 0
    gap[rng.random(count) < 0.001] *= 1000
    if is_state:
        gap[1:] = 0
        length = np.maximum(length, 1)
    start = np.cumsum(gap + np.append(0, length[:-1]))
    name = rng.integers(0, NAMES, count)
    return start, start + length, name


def stored(rows, origin=0):
    store = RowStore()
    is_idle = np.arange(NAMES) == IDLE_NAME
    for row in rows:
        store.add(row, is_idle)
    return store.stored(CATEGORY, origin)


def made(seed, count, scale, kind):
    rng = np.random.default_rng(seed)
    start, end, name = random_events(rng, count, scale, is_state=kind == "state")
    value = None
    if kind == "counter":
        end = np.append(start[1:], start[-1:])
        value = np.round(rng.normal(0, 100, count), 2)
    return Row("r", None, "r", kind, events=Events(start, end, name, value=value))


def decoded(content):
    """Return the head of a tile and a function that reads its columns."""
    size = int.from_bytes(content[:4], "little")
    head, data = json.loads(content[4 : 4 + size]), content[4 + size :]

    def columns(described):
        offset, found = described["offset"], {}
        for column in described["columns"]:
            size = described["count"] * column["planes"]
            part = data[offset : offset + size]
            found[column["name"]] = decode(part, described["count"], column)
            offset += size
        return found

    return head, columns


def touching(events, low, high):
    start, end = events.start_ns, events.end_ns
    return np.flatnonzero((start < high) & ((end > low) | (start >= low)))


def busy_of(row, name):
    return ~((row.kind == "state") & (name == IDLE_NAME))


def check_bins(row, found, edges):
    events = row.events
    start, end, name = events.start_ns, events.end_ns, events.name
    idle = ~busy_of(row, name) & (end > start)
    for bin_, (low, high) in enumerate(itertools.pairwise(edges.tolist())):
        inside = touching(events, low, high)
        part = np.minimum(end[inside], high) - np.maximum(start[inside], low)
        assert found["busy"][bin_] == part[busy_of(row, name[inside])].sum()
        for column, chosen in (("top", ~idle[inside]), ("rest", idle[inside])):
            if not chosen.any():
                assert found[column][bin_] is None
                continue
            category = CATEGORY[name[inside][chosen]]
            sums = np.bincount(category, part[chosen])
            assert found[f"{column}_ns"][bin_] == sums.max()
            named = CATEGORY[found[column][bin_]]
            assert sums[named] == sums.max()
            own = chosen.nonzero()[0][category == named]
            longest = own[part[own] == part[own].max()]
            assert found[column][bin_] in name[inside][longest]


def check_tile(row, level, index, grid, content):
    head, columns = decoded(content)
    edges = grid.edges(level, index)
    low, high = int(edges[0]), int(edges[-1])
    (told,) = head["rows"]
    inside = touching(row.events, low, high)
    if len(inside) <= MOST_EVENTS:
        assert told["count"] == len(inside)
        if len(inside):
            assert told["first"] == inside[0]
            check_events(row, columns(told), told, inside)
        return "events"
    found = columns(head["bins"])
    check_bins(row, found, edges)
    wide = columns(head["wide"])
    assert told["wide"] == len(wide["start"])
    length = row.events.end_ns - row.events.start_ns
    expected = inside[length[inside] >= 1.5 * (1 << level)]
    assert wide["start"] == (row.events.start_ns[expected] - low).tolist()
    assert wide["duration"] == length[expected].tolist()
    assert wide["name"] == row.events.name[expected].tolist()
    return "bins"


def check_events(row, found, told, inside):
    events = row.events
    end = told["first_ns"]
    for place, event in enumerate(inside.tolist()):
        start = end + found["gap"][place]
        assert start == events.start_ns[event]
        if events.value is not None:
            value = found["value"][place]
            expected = pytest.approx(events.value[event], rel=1e-6, nan_ok=True)
            assert (np.nan if value is None else value) == expected
            end = start
            continue
        end = start + found["duration"][place]
        assert end == events.end_ns[event]
        assert found["name"][place] == events.name[event]


@pytest.mark.parametrize("kind", ["stream", "state"])
@pytest.mark.parametrize(
    ("seed", "count", "scale"), [(1, 9000, 50), (2, 20000, 3000), (3, 3000, 4)]
)
def test_tiles_of_random_rows_equal_sums_over_all_events_at_every_level(kind, seed, count, scale):
    row = made(seed, count, scale, kind)
    rows = stored([row])
    grid = Grid(0, int(row.events.end_ns[-1]) + 1, 0)
    rng = np.random.default_rng(seed)
    seen: Counter[str] = Counter()
    for level in range(grid.levels):
        tiles = -(-grid.end_ns // (BINS << level))
        chosen = {0, tiles - 1, *rng.integers(0, tiles, 3).tolist()}
        # Events are in bursts: also test tiles around some of them.
        events = rng.integers(0, count, 3)
        chosen |= set((row.events.start_ns[events] // (BINS << level)).tolist())
        for index in chosen:
            seen[check_tile(row, level, index, grid, tile(rows, grid, level, index, [0]))] += 1
    assert set(seen) == {"events", "bins"}


@pytest.mark.parametrize(("seed", "missing"), [(4, 0.0), (5, 0.0), (6, 0.1), (7, 0.9)])
def test_a_counter_keeps_its_mean_and_its_extremes(seed, missing):
    row = made(seed, 5000, 300, "counter")
    assert row.events.value is not None
    row.events.value[np.random.default_rng(seed).random(5000) < missing] = np.nan
    rows = stored([row])
    start, value = row.events.start_ns, row.events.value
    grid = Grid(0, int(start[-1]) + 5000, 0)
    bins = 0
    for level in range(grid.levels):
        tiles = -(-grid.end_ns // (BINS << level))
        for index in {*range(min(tiles, 4)), tiles - 1}:
            head, columns = decoded(tile(rows, grid, level, index, [0]))
            if "counters" not in head:
                low, high = grid.edges(level, index)[[0, -1]].tolist()
                first, last = np.searchsorted(start, [low, high]).tolist()
                inside = np.arange(max(first - 1, 0), last)
                assert len(inside) == head["rows"][0]["count"]
                if len(inside):
                    check_events(row, columns(head["rows"][0]), head["rows"][0], inside)
                continue
            found = columns(head["counters"])
            edges = grid.edges(level, index).tolist()
            for bin_, (low, high) in enumerate(itertools.pairwise(edges)):
                samples = list(range(*np.searchsorted(start, [low, high]).tolist()))
                if low not in start and start[0] < low:
                    samples.insert(0, int(np.searchsorted(start, low)) - 1)
                begins = [max(low, int(start[each])) for each in samples]
                time = np.diff([*begins, high]) if samples else np.zeros(0)
                own, is_known = value[samples], ~np.isnan(value[samples])
                if not is_known.any():
                    assert np.isnan([found[name][bin_] for name in ("mean", "least", "most")]).all()
                    continue
                if time[is_known].sum() > 0:
                    mean = (time * own)[is_known].sum() / time[is_known].sum()
                    assert found["mean"][bin_] == pytest.approx(mean, rel=1e-9, abs=1e-6)
                assert found["most"][bin_] == own[is_known].max()
                assert found["least"][bin_] == own[is_known].min()
                bins += 1
    assert bins > 1000


@pytest.mark.parametrize("name", captures.cases())
def test_tiles_of_a_capture_equal_sums_over_all_events(capture, name, monkeypatch):
    monkeypatch.setattr("warpline.viewer.tiles.MOST_EVENTS", 20)
    monkeypatch.setitem(globals(), "MOST_EVENTS", 20)
    trace = warpline.open(capture(name))
    names = Names(trace.strings)
    every = (*device_rows(trace, names), *host_rows(trace, names))
    made_rows = [row for row in every if row.kind != "counter"]
    idle_places = [place for place, each in enumerate(CATEGORIES) if each.kind == "idle"]
    is_idle = np.isin(names.categories(), idle_places)
    low = min((int(row.events.start_ns[0]) for row in made_rows if len(row.events)), default=0)
    high = max((int(row.events.end_ns[-1]) for row in made_rows if len(row.events)), default=1)
    store = RowStore()
    for row in made_rows:
        store.add(row, is_idle)
    rows = store.stored(names.categories(), low)
    monkeypatch.setitem(globals(), "CATEGORY", names.categories())
    grid = Grid(low, high + 1, 0)
    monkeypatch.setitem(globals(), "busy_of", lambda _, name: ~is_idle[name])
    for level in range(grid.levels - 1, max(grid.levels - 9, -1), -4):
        for place, row in enumerate(made_rows):
            if len(row.events):
                index = int(row.events.start_ns[len(row.events) // 2] - low) // (BINS << level)
                check_tile(row, level, index, grid, tile(rows, grid, level, index, [place]))


def test_a_recording_is_one_tile_of_the_last_level():
    for length in (1, 2, 511, 512, 513, 1024, 10**9, 2**52 + 1):
        grid = Grid(-5, -5 + length, -5)
        assert grid.has(grid.levels - 1, 0)
        assert not grid.has(grid.levels - 1, 1)
        assert not grid.has(grid.levels, 0)
        assert grid.levels == 1 or grid.has(grid.levels - 2, 1)
        assert not grid.has(0, -1)
        assert not grid.has(-1, 0)


def test_events_can_be_cut_out_unless_they_are_too_many():
    row = made(7, 500, 100, "stream")
    rows = stored([row])
    grid = Grid(0, int(row.events.end_ns[-1]) + 1, 0)
    span = (int(row.events.start_ns[100]), int(row.events.start_ns[200]))
    inside = touching(row.events, *span)
    content = cut_out(rows, grid, [0], span, len(inside))
    head, columns = decoded(content)
    check_events(row, columns(head["rows"][0]), head["rows"][0], inside)
    assert cut_out(rows, grid, [0], span, len(inside) - 1) is None


def test_what_is_cut_out_has_ids_and_links():
    rng = np.random.default_rng(9)
    start, end, name = random_events(rng, 300, 100)
    number, call, valid = rng.permutation(300), rng.integers(0, 50, 300), rng.random(300) < 0.7
    events = Events(start, end, name, number, None, {"launch": Link(call, valid)})
    rows = stored([Row("r", None, "r", "stream", "kernel", events=events)])
    head, columns = decoded(cut_out(rows, Grid(0, int(end[-1]) + 1, 0), [0], (0, 1 << 40), 300))
    found = columns(head["rows"][0])
    assert list(found["row"]) == number.tolist()
    known = zip(call.tolist(), valid.tolist(), strict=True)
    expected = [row if is_known else None for row, is_known in known]
    assert [None if one is None or one < 0 else one for one in found["launch"]] == expected


def test_an_event_is_found_by_its_row_and_by_what_its_link_leads_to():
    rng = np.random.default_rng(8)
    start, end, name = random_events(rng, 900, 100)
    number, table = rng.permutation(900), rng.integers(0, 3, 900)
    call, valid = rng.integers(0, 50, 900), rng.random(900) < 0.7
    events = Events(start, end, name, number, table, {"launch": Link(call, valid)})
    (row,) = stored([Row("r", None, "r", "stream", events=events)])
    for event in range(900):
        own, other = EVENT_TABLES[table[event]], EVENT_TABLES[(table[event] + 1) % 3]
        assert row.find(own, int(number[event])) == event
        assert row.find(other, int(number[event])) is None
    for wanted in range(51):
        expected = np.flatnonzero(valid & (call == wanted)).tolist()
        assert row.pointing_at("launch", wanted, 10_000) == expected
        assert row.pointing_at("launch", wanted, 2) == expected[:2]
    assert row.pointing_at("blame", 1, 10) == []
