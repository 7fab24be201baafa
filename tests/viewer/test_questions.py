"""Answers about a tiled recording compared with its container, event by event."""

from __future__ import annotations

import base64
import json
import math

import numpy as np
import pytest
from support import captures
from support.viewer_container import Decoded

import warpline
from warpline.trace import Run
from warpline.viewer.tiled import TiledPage

from .conftest import packed


class Both:
    """A recording's events from its container, and the answers of its tiled page."""

    def __init__(self, trace):
        container = packed(trace)[1]
        self.read = Decoded(container.head, [block.data for block in container.blocks])
        self.tiled = TiledPage(Run(trace))
        self.ids = list(self.read.rows)
        self.events = {row: self.read.events(row) for row in self.ids}
        self.start, self.end = container.head["start_ns"], container.head["end_ns"]
        self.texts = self.tiled_names()

    def tiled_names(self):
        container = self.tiled.container(None)
        found = Decoded(container.head, [block.data for block in container.blocks])
        assert [row["id"] for row in found.head["rows"]] == self.ids
        for row in found.head["rows"]:
            assert {**row, "parts": 0} == {**self.read.rows[row["id"]], "parts": 0}
        assert found.raw[0] == self.read.raw[0]  # the overview
        self.tables = found.head["tables"]
        return found.names

    def ask(self, name, **asked):
        answer = self.tiled.post(f"ask/{name}", json.dumps(asked).encode())
        assert answer is not None, (name, asked)
        return json.loads(answer.content)

    def check(self, found, row, place):
        """Compare one event."""
        event = self.events[self.ids[row]][place]
        assert (found["row"], found["event"]) == (row, place)
        assert (found["start"], found["end"]) == (event.start_ns, event.end_ns)
        assert self.texts["texts"][found["name"]] == event.name
        assert (found["table"], found["tableRow"]) == (
            (event.table, event.row) if event.row is not None else (None, None)
        )
        links = {name: end for name, end in event.links.items() if end is not None}
        if event.stack is not None and event.weight is not None:
            links |= {"stack": event.stack, "weight": event.weight}
        assert found["links"] == links

    @property
    def summed(self):
        """Indices of the rows with events, except counters."""
        return [
            place
            for place, row in enumerate(self.ids)
            if self.events[row] and self.read.rows[row]["kind"] != "counter"
        ]


@pytest.fixture(scope="module", params=captures.cases())
def both(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("captures")
    return Both(warpline.open(captures.unpack(request.param, folder)))


def some(both, count, seed=1):
    """Return some events as row and index."""
    rng = np.random.default_rng(seed)
    rows = both.summed
    return [
        (row, int(rng.integers(len(both.events[both.ids[row]]))))
        for row in (rng.choice(rows, count).tolist() if rows else ())
    ]


def touches(event, start, end):
    return event.start_ns < end and (event.end_ns > start or event.start_ns >= start)


def spans(both, seed=2):
    rng = np.random.default_rng(seed)
    whole = both.end - both.start
    lengths = (whole * 10.0 ** rng.uniform(-4, 0, 8)).tolist()
    starts = [both.start + float(rng.random()) * (whole - length) for length in lengths]
    ends = [start + length for start, length in zip(starts, lengths, strict=True)]
    return [(both.start, both.end), *zip(starts, ends, strict=True)]


def test_events_are_found_by_place_and_by_id(both):
    for row, place in some(both, 60):
        found = both.ask("event", row=row, event=place)
        both.check(found, row, place)
        again = both.ask("find", id=found["id"])
        assert again["id"] == found["id"]
        if found["table"] is None or both.read.rows[both.ids[row]]["kind"] != "phase":
            assert (again["start"], again["end"]) == (found["start"], found["end"])
    for row in both.summed:
        count = len(both.events[both.ids[row]])
        assert both.ask("event", row=row, event=count) is None
        assert both.ask("event", row=row, event=-1) is None
        lines = both.ask("stretch", row=row, first=count - 3, last=count + 9)
        assert [line["event"] for line in lines] == list(range(max(count - 3, 0), count))


def test_what_is_at_a_time_and_what_began_last(both):
    for row, place in some(both, 40):
        events = both.events[both.ids[row]]
        for time in (
            events[place].start_ns,
            events[place].end_ns + 3,
            events[place].start_ns - 2.5,
        ):
            found = both.ask("at", row=row, time=time, reach=5)
            over = [at for at, each in enumerate(events) if each.start_ns <= time < each.end_ns]
            gaps = [max(each.start_ns - time, time - each.end_ns, 0) for each in events]
            if over:
                both.check(found, row, over[0])
            elif min(gaps) > 5:
                assert found is None
            else:
                chosen = events[found["event"]]
                assert max(chosen.start_ns - time, time - chosen.end_ns, 0) == min(gaps)
            (latest,) = both.ask("latest", rows=[row], time=time)
            begun = [at for at, each in enumerate(events) if each.start_ns <= time]
            assert (latest and latest["event"]) == (begun[-1] if begun else None)


def test_the_longest_event_of_some_names(both):
    rng = np.random.default_rng(7)
    names = list(zip(both.texts["texts"], both.texts["categories"], strict=True))
    categories = [each["name"] for each in both.read.head["categories"]]
    for start, end in spans(both):
        lit = rng.random(len(names)) < 0.2
        wanted = {
            (text, categories[kind]) for (text, kind), one in zip(names, lit, strict=True) if one
        }
        inside = [
            (each.start_ns - each.end_ns, each.start_ns, row, at)
            for row in both.summed
            for at, each in enumerate(both.events[both.ids[row]])
            if touches(each, start, end) and (each.name, each.category) in wanted
        ]
        bits = base64.b64encode(np.packbits(lit, bitorder="little").tobytes()).decode()
        found = both.ask("longest", rows=both.summed, start=start, end=end, lit=bits)
        if inside:
            both.check(found, *min(inside)[2:])
        else:
            assert found is None


def test_sums_and_names_equal_plain_sums(both):
    idle = {each["name"] for each in both.read.head["categories"] if each["kind"] == "idle"}
    for start, end in spans(both):
        sums = both.ask("sums", rows=both.summed, start=start, end=end)
        assert [one["row"] for one in sums] == both.summed
        for one in sums:
            row = both.ids[one["row"]]
            is_state = both.read.rows[row]["kind"] == "state"
            inside = [at for at, each in enumerate(both.events[row]) if touches(each, start, end)]
            assert one["last"] - one["first"] == len(inside)
            if inside:
                assert one["first"] == inside[0]
            busy = sum(
                min(each.end_ns, end) - max(each.start_ns, start)
                for each in (both.events[row][at] for at in inside)
                if not (is_state and each.category in idle)
            )
            assert one["busy_ns"] == pytest.approx(busy, abs=0.01)
        check_names(both, start, end)


def check_names(both, start, end):
    expected: dict[tuple[str, str], tuple[int, float]] = {}
    for row in both.summed:
        for each in both.events[both.ids[row]]:
            if touches(each, start, end):
                count, ns = expected.get((each.name, each.category), (0, 0))
                part = min(each.end_ns, end) - max(each.start_ns, start)
                expected[each.name, each.category] = (count + 1, ns + part)
    found = both.ask("names", rows=both.summed, start=start, end=end)
    categories = both.read.head["categories"]
    assert len(found) == len(expected)
    for one in found:
        category = categories[both.texts["categories"][one["name"]]]["name"]
        count, ns = expected[both.texts["texts"][one["name"]], category]
        assert one["count"] == count
        assert one["ns"] == pytest.approx(ns, abs=0.01)
    order = [(-one["ns"], -one["count"], one["name"]) for one in found]
    assert order == sorted(order)


def mean_of(events, start, end):
    """Return mean, lowest and highest value of a counter, sample by sample; None without values."""
    total = covered = 0.0
    seen = []
    for place, each in enumerate(events):
        until = events[place + 1].start_ns if place + 1 < len(events) else max(end, each.start_ns)
        inside = min(until, end) - max(each.start_ns, start)
        if each.value is not None and not math.isnan(each.value) and inside > 0:
            total += each.value * inside
            covered += inside
            seen.append(each.value)
    return (total / covered, min(seen), max(seen)) if seen else None


def test_means_of_counters(both):
    rows = list(range(len(both.ids)))
    for start, end in spans(both, 5):
        found = {one["row"]: one for one in both.ask("means", rows=rows, start=start, end=end)}
        for row in rows:
            if both.read.rows[both.ids[row]]["kind"] != "counter":
                assert row not in found
                continue
            expected = mean_of(both.events[both.ids[row]], start, end)
            if expected is None:
                assert row not in found
                continue
            mean, least, most = expected
            assert found[row]["low"] == found[row]["high"] == pytest.approx(mean, rel=1e-5)
            assert found[row]["least"] <= least * (1 + 1e-6)
            assert found[row]["most"] >= most * (1 - 1e-6)


def test_links_lead_both_ways(both):
    ends: dict[tuple[str, int], list[tuple[int, int]]] = {}
    for row in both.ids:
        for place, each in enumerate(both.events[row]):
            for link, end in each.links.items():
                if end is not None:
                    ends.setdefault((link, end), []).append((both.ids.index(row), place))
    table_of = {each["name"]: each["table"] for each in both.read.head["links"]}
    chosen = [list(ends.items())[:40], [each for each in ends.items() if "forward" in each[0][0]]]
    for (link, end), effects in (*chosen[0], *chosen[1][:40]):
        row, place = effects[0]
        linked = both.ask("links", row=row, event=place)
        causes = [each["event"] for each in linked if each["isCause"] and each["link"] == link]
        assert [cause["id"] for cause in causes] == [f"{table_of[link]}:{end}"]
        back = both.ask("links", row=causes[0]["row"], event=causes[0]["event"])
        found = [
            (each["event"]["row"], each["event"]["event"])
            for each in back
            if not each["isCause"] and each["link"] == link
        ]
        assert found == effects
    assert both.ask("links", row=0, event=10**9) == []


@pytest.mark.parametrize("direction", [1, -1])
def test_a_walk_visits_every_event_of_the_names_that_are_lit(both, direction):
    rng = np.random.default_rng(3)
    names = sorted(
        {
            each["name"]
            for each in both.ask("names", rows=both.summed, start=both.start, end=both.end)
        }
    )
    lit = set(rng.choice(names, min(3, len(names)), replace=False).tolist()) if names else set()
    bits = np.zeros(len(both.texts["texts"]), np.uint8)
    bits[list(lit)] = 1
    text = base64.b64encode(np.packbits(bits, bitorder="little").tobytes()).decode()
    wanted = {(both.texts["texts"][name], both.texts["categories"][name]) for name in lit}
    place_of = {each["name"]: at for at, each in enumerate(both.read.head["categories"])}
    expected = sorted(
        (each.start_ns, row, at)
        for row in both.summed
        for at, each in enumerate(both.events[both.ids[row]])
        if (each.name, place_of[each.category]) in wanted
    )[::direction]
    now = {"time": both.start - 1 if direction > 0 else both.end + 1, "row": -1, "event": -1}
    for time, row, place in expected[:50]:
        found = both.ask("match", lit=text, rows=both.summed, direction=direction, **{"from": now})
        assert (found["start"], found["row"], found["event"]) == (time, row, place)
        now = {"time": time, "row": row, "event": place}
    if len(expected) <= 50:
        asked = {"lit": text, "rows": both.summed, "direction": direction, "from": now}
        assert both.ask("match", **asked) is None


def lit_text(both, lit):
    bits = np.zeros(len(both.texts["texts"]), np.uint8)
    bits[list(lit)] = 1
    return base64.b64encode(np.packbits(bits, bitorder="little").tobytes()).decode()


@pytest.mark.parametrize("seed", [4, 5])
def test_highlighted_events_are_counted_and_summed_by_bin(both, seed):
    rng = np.random.default_rng(seed)
    texts, categories = both.texts["texts"], both.texts["categories"]
    lit = set(rng.choice(len(texts), len(texts) // 3, replace=False).tolist())
    number = {name: at for at, name in enumerate(zip(texts, categories, strict=True))}
    place_of = {each["name"]: at for at, each in enumerate(both.read.head["categories"])}
    hits = sorted(
        (each.start_ns, row, at, each.end_ns - each.start_ns, name)
        for row in both.summed
        for at, each in enumerate(both.events[both.ids[row]])
        if (name := number[each.name, place_of[each.category]]) in lit
    )
    asked = {"lit": lit_text(both, lit), "rows": both.summed}
    for place in {0, len(hits) // 2, len(hits) - 1} if hits else ():
        time, row, event, *_ = hits[place]
        start = {"time": time, "row": row, "event": event}
        found = both.ask("tally", **asked, **{"from": start})
        assert found == {"before": place, "total": len(hits)}
    bins = 64
    for start, end in spans(both):
        bin_ns = (end - start) / bins
        expected: dict[tuple[int, int], list[tuple[int, int]]] = {}
        for time, row, _, length, name in hits:
            if start <= time < end and length < 1.5 * bin_ns:
                expected.setdefault((row, int((time - start) // bin_ns)), []).append((length, name))
        shown = {}
        for one in both.ask("hits", **asked, start=start, end=end, bins=bins):
            for place, ns, name in zip(one["bin"], one["ns"], one["name"], strict=True):
                shown[one["row"], place] = (ns, name)
        assert shown.keys() == expected.keys()
        for key, (ns, name) in shown.items():
            assert ns == pytest.approx(min(bin_ns, sum(length for length, _ in expected[key])))
            assert name == expected[key][0][1]


def test_details_are_those_of_the_container(both):
    for described in both.read.head["attributes"]:
        table, count = described["table"], described["count"]
        whole = both.read.attributes(table)
        for row in {0, count // 2, count - 1}:
            found = both.ask("attributes", table=table, row=row)
            assert [one["name"] for one in found] == list(whole)
            for one, column in zip(found, described["columns"], strict=True):
                value = whole[one["name"]][row]
                if isinstance(value, float) and np.isnan(value):
                    value = None
                labels = column.get("labels", {})
                assert one["value"] == labels.get(str(value), value)


HOSTILE = [
    ("event", b"{}"),
    ("event", b"[]"),
    ("event", b"null"),
    ("event", b"\xff"),
    ("event", b'{"row":' + b"[" * 100_000),
    ("event", b'{"row":1e400,"event":0}'),
    ("event", b'{"row":true,"event":0}'),
    ("event", b'{"row":' + b"9" * 40 + b',"event":0}'),
    ("stretch", b'{"row":-1,"first":0,"last":1}'),
    ("at", b'{"row":999999,"time":0,"reach":1}'),
    ("at", b'{"row":0,"time":"x","reach":1}'),
    ("sums", b'{"rows":[0,-1],"start":0,"end":1}'),
    ("hits", b'{"rows":[0],"start":0,"end":1,"lit":"","bins":4}'),
    ("hits", b'{"rows":[0],"start":0,"end":1,"bins":99999999999}'),
    ("tally", b'{"rows":[0],"lit":"","from":3}'),
    ("sums", b'{"rows":"0","start":0,"end":1}'),
    ("sums", b'{"rows":[' + b"0," * 100_000 + b'0],"start":0,"end":1}'),
    ("sums", b'{"rows":[0],"start":NaN,"end":1}'),
    ("names", b'{"rows":[0.5],"start":0,"end":1}'),
    ("match", b'{"lit":"%%%","rows":[],"direction":1,"from":{}}'),
    ("match", b'{"lit":"AA==","rows":[],"direction":1,"from":{"time":0,"row":0,"event":0}}'),
    ("events", b'{"rows":[0],"start":0,"end":1}'),
    ("attributes", b'{"table":"string","row":0}'),
    ("attributes", b'{"table":"kernel","row":-1}'),
    ("attributes", b'{"table":["kernel"],"row":0}'),
    ("__class__", b"{}"),
    ("", b"{}"),
]


@pytest.mark.parametrize(("name", "body"), HOSTILE)
def test_a_question_that_makes_no_sense_has_no_answer(tiled, name, body):
    assert tiled.post(f"ask/{name}", body) is None


@pytest.mark.parametrize(
    ("name", "query"),
    [
        ("tiles/0/0", ""),
        ("tiles/0/0", "rows="),
        ("tiles/0/0", "rows=0,"),
        ("tiles/0/0", "rows=999999"),
        ("tiles/0/0", "rows=0-999999"),
        ("tiles/0/0", "rows=3-1"),
        ("tiles/0/0", "rows=-1"),
        ("tiles/0/0", "rows=" + "0," * 50_000 + "0"),
        ("tiles/0/0", "rows=" + ",".join(["0-5"] * 3000)),
        ("tiles/99/0", "rows=0"),
        ("tiles/-1/0", "rows=0"),
        ("tiles/0/" + "9" * 16, "rows=0"),
        ("tiles/0/" + "9" * 400, "rows=0"),
        ("tiles/0/0/0", "rows=0"),
        ("tiles/٣/0", "rows=0"),
        ("tiles", "rows=0"),
    ],
)
def test_a_tile_that_does_not_exist_is_not_served(tiled, name, query):
    assert tiled.get(name, query) is None


@pytest.fixture(scope="module")
def tiled(tmp_path_factory):
    path = captures.unpack(captures.names()[0], tmp_path_factory.mktemp("one"))
    return TiledPage(Run(warpline.open(path)))


def test_times_and_events_that_no_recording_has_are_answered(tiled):
    far = 2**62 - 1
    for start, end in ((-far, far), (far, -far), (0.5, 0.25)):
        asked = {"rows": [0, 1], "start": start, "end": end}
        for name in ("sums", "names"):
            assert tiled.post(f"ask/{name}", json.dumps(asked).encode()) is not None
    asked = {"rows": [0, 1], "start": -far, "end": far, "most": far}
    assert tiled.post("ask/events", json.dumps(asked).encode()) is not None
    assert tiled.post("ask/find", b'{"id":"kernel:999999999999999999"}').content == b"null"
    assert tiled.post("ask/find", b'{"id":"no such row#1"}').content == b"null"
