"""Images of the timeline: SVG compared with plain SQL, and what `--select` names."""

from __future__ import annotations

import sqlite3
import xml.etree.ElementTree as ET
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from support.any_trace import any_traces
from support.machine import Machine

import warpline
from warpline.errors import UsageError
from warpline.trace import Run
from warpline.viewer.chosen import choose
from warpline.viewer.picture import picture

BAD = Path(warpline.__file__).parent / "data" / "pageable_h2d.bad.sqlite"
SVG = "{http://www.w3.org/2000/svg}"
LEFT, PLOT = 210, 982
OPERATIONS = """
    SELECT k.start, k.end, value FROM CUPTI_ACTIVITY_KIND_KERNEL AS k
    JOIN StringIds ON demangledName = id"""


@pytest.fixture(scope="module")
def trace():
    return warpline.open(BAD)


def drawn(trace, select):
    """Return the time range of an image, and its tree."""
    run = Run(trace)
    chosen = choose(run, select, lambda: warpline.analyze(trace))
    return chosen, ET.fromstring(picture(run, chosen))


def boxes(tree):
    """Return x, width and full name of each rectangle with a tooltip."""
    for shape in tree.iter(f"{SVG}rect"):
        title = shape.find(f"{SVG}title")
        if title is not None:
            name = (title.text or "").rpartition(": ")[0]
            yield float(shape.attrib["x"]), float(shape.attrib["width"]), name


@pytest.mark.parametrize("select", [None, "step:2", "28ms-30ms", "finding:1"])
def test_kernels_are_where_the_file_has_them(trace, select):
    chosen, tree = drawn(trace, select)
    scale = PLOT / (chosen.end_ns - chosen.start_ns)
    with closing(sqlite3.connect(BAD)) as database:
        kernels = database.execute(OPERATIONS).fetchall()
    expected = []
    for start, end, name in kernels:
        left = (max(start, chosen.start_ns) - chosen.start_ns) * scale
        right = (min(end, chosen.end_ns) - chosen.start_ns) * scale
        if right - left >= 3.1:
            expected.append((LEFT + left, right - left, name[:900]))
    names = {name for _, _, name in expected}
    found = [(x, width, name[:900]) for x, width, name in boxes(tree) if name[:900] in names]
    assert len(expected) > 3
    found = [each for each in found if each[1] >= 2.75]
    assert sorted(name for *_, name in found) == sorted(name for *_, name in expected)
    for (x, width, name), (left, length, wanted) in zip(
        sorted(found), sorted(expected), strict=True
    ):
        assert (x, width) == (pytest.approx(left, abs=0.11), pytest.approx(length, abs=0.45))
        assert name == wanted


def test_the_legend_has_the_time_of_each_category(trace):
    chosen, tree = drawn(trace, "step:2")
    texts = ["".join(text.itertext()) for text in tree.iter(f"{SVG}text")]
    with closing(sqlite3.connect(BAD)) as database:
        ((copied,),) = database.execute(
            "SELECT SUM(MIN(end, ?) - MAX(start, ?)) FROM CUPTI_ACTIVITY_KIND_MEMCPY"
            " WHERE copyKind = 1 AND end > ? AND start < ?",
            (chosen.end_ns, chosen.start_ns, chosen.start_ns, chosen.end_ns),
        ).fetchall()
    (said,) = (text for text in texts if text.startswith("copy-h2d "))
    assert said == f"copy-h2d {copied / 1e6:.1f} ms"
    assert "GPU 0 · NVIDIA H200" in texts
    assert "from start of step_2" in texts


def test_steps_findings_and_times_are_named(trace):
    run = Run(trace)

    def chosen(text):
        return choose(run, text, lambda: warpline.analyze(trace))

    with closing(sqlite3.connect(BAD)) as database:
        ((first, last),) = database.execute(
            "SELECT MIN(start), MAX(end) FROM (SELECT start, end FROM CUPTI_ACTIVITY_KIND_KERNEL"
            " UNION ALL SELECT start, end FROM CUPTI_ACTIVITY_KIND_MEMCPY"
            " UNION ALL SELECT start, end FROM CUPTI_ACTIVITY_KIND_MEMSET)"
        ).fetchall()
    assert chosen(None)[:2] == (first, last)
    assert chosen("50ms-60ms")[:2] == (50_000_000, 60_000_000)
    assert chosen("50ms-")[:2] == (50_000_000, trace.span()[1])
    assert chosen("step:2") == chosen("step:step_2")
    assert chosen("finding:1") == chosen("finding:F1")
    for text, said in (
        ("step:99", "there is no step '99'"),
        ("finding:99", "there is no finding '99'"),
        ("9s-10s", "nothing was recorded in 9s-10s"),
        ("60ms-50ms", "invalid time range '60ms-50ms'"),
        ("60ms-60ms", "time range '60ms-60ms' is empty"),
        ("all", "unknown 'all'"),
        ("1-2-3", "unknown '1-2-3'"),
        ("-", "invalid time range '-'"),
    ):
        with pytest.raises(UsageError, match=said) as caught:
            chosen(text)
        assert caught.value.hint


def test_hostile_names_stay_text():
    hostile = "<script>alert(1)</script>&\"'\x00\x1b\u202e\ufffe]]>-->"
    machine = Machine()
    for _ in range(12):
        machine.launch(300_000, hostile)
        machine.end_step()
    trace = machine.trace()
    tree = drawn(trace, None)[1]
    assert not list(tree.iter(f"{SVG}script"))
    said = {name for *_, name in boxes(tree)}
    shown = "<script>alert(1)</script>&\"'\\u0000\\u001b\\u202e\ufffd]]>-->"
    assert shown in said
    assert all(ord(letter) >= 32 for letter in "".join(tree.itertext()))


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(any_traces())
def test_any_trace_becomes_valid_xml(any_trace):
    tree = drawn(any_trace.trace(), None)[1]
    assert tree.tag == f"{SVG}svg"
    for shape in tree.iter(f"{SVG}rect"):
        assert float(shape.attrib["width"]) >= 0
        assert float(shape.attrib["height"]) >= 0
    assert {each.tag.removeprefix(SVG) for each in tree.iter()} <= {
        *("svg", "title", "style", "rect", "text", "line", "path")
    }
