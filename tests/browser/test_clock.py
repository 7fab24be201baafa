"""One clock on the page: ruler, events, details, bookmarks, and tables agree, and it is named."""

from __future__ import annotations

import re

import pytest

pytestmark = pytest.mark.shows("bundled/pageable_h2d.bad")
UNITS = {"ns": 1, "us": 1e3, "ms": 1e6, "s": 1e9}


def nanoseconds(text):
    number, unit = text.split()[:2]
    return float(number) * UNITS[unit]


def starts_listed(viewer):
    """Return the heading and the texts of the column of starts in the list of events."""
    cells = viewer.find("[aria-label='Events in view'] [role=row]").evaluate_all(
        "rows => rows.map(row => [...row.children].map(cell => cell.textContent.trim()))"
    )
    heading, *lines = cells
    place = next(i for i, text in enumerate(heading) if text.startswith("Start"))
    return heading[place], [line[place] for line in lines if len(line) > place]


@pytest.mark.parametrize("is_from_step", [True, False])
def test_every_time_has_the_origin_that_the_ruler_names(opened, ask_file, is_from_step):
    ((first, start, end),) = ask_file(
        """SELECT (SELECT min(start) FROM CUPTI_ACTIVITY_KIND_KERNEL WHERE start > 62000000),
                  start, end FROM CUPTI_ACTIVITY_KIND_KERNEL WHERE start > 62000000
           ORDER BY start LIMIT 1"""
    )
    assert first == start
    opened.ask(f"model.show({{ start: {start - 400_000}, end: {end + 400_000} }})")
    if not is_from_step:
        opened.press("o")
    opened.settle()
    named = opened.find(".origin").inner_text()
    steps = opened.head["steps"][0]
    place = next(i for i, until in enumerate(steps["end_ns"]) if until > start)
    origin = steps["start_ns"][place] if is_from_step else 0
    assert named == (f"from {steps['text'][place]}" if is_from_step else "from start of recording")
    opened.click("gpu0/stream0", (start + end) / 2)
    details = opened.find("[aria-label='Selected event'] dt:text-is('Start') + dd").inner_text()
    assert nanoseconds(details) == pytest.approx(start - origin, abs=0.01)
    assert details.endswith(named)
    opened.ask("model.tab.value = 'events'")
    opened.settle()
    heading, texts = starts_listed(opened)
    assert heading == f"Start, {named}"
    assert min(abs(nanoseconds(text) - (start - origin)) for text in texts) < 10
    opened.press("b")
    assert named in opened.find(".note").inner_text()


def test_starts_in_one_millisecond_differ_in_the_list(opened):
    start = opened.head["steps"][0]["start_ns"][2]
    opened.ask(
        "model.hidden.value = new Set(model.recording.head.rows.map(row => row.id).filter("
        "id => id !== 'gpu0/stream0' && id !== 'gpu0'))"
    )
    opened.ask("model.tab.value = 'events'")
    for length in (16_500_000, 1_000_000):
        opened.ask(
            f"model.show({{ start: {start + 15_000_000}, end: {start + 15_000_000 + length} }})"
        )
        opened.settle()
        opened.find("[aria-label='Events in view'] .plain").first.wait_for()
        _, texts = starts_listed(opened)
        assert len(texts) > 5
        assert len(set(texts)) == len(texts)


def test_tables_have_the_same_clock_to_the_nanosecond_and_ids_without_separators(opened, ask_file):
    opened.ask("model.table.value = 'steps'")
    opened.press("3")
    opened.find(".tables-body .scroll").wait_for()
    lines = opened.find(".tables-body [role=row]").all_inner_texts()
    recorded = ask_file("SELECT start FROM NVTX_EVENTS WHERE text LIKE 'step_%' ORDER BY start")
    assert recorded
    for (start,) in recorded[:5]:
        assert any(f"{start / 1e6:.6f} ms" in line for line in lines)
    correlation = ask_file(
        "SELECT correlationId FROM CUPTI_ACTIVITY_KIND_KERNEL WHERE correlationId > 999"
    )
    assert correlation
    ((place,),) = ask_file(
        """SELECT count(*) FROM CUPTI_ACTIVITY_KIND_KERNEL WHERE (start, end) <
           (SELECT start, end FROM CUPTI_ACTIVITY_KIND_KERNEL WHERE correlationId = ?)""",
        correlation[0][0],
    )
    opened.press("2")
    opened.ask(f"model.selectId('kernel:{place}')")
    shown = opened.find("[aria-label='Selected event'] dt:text-is('correlation_id') + dd")
    shown.wait_for()
    assert re.fullmatch(r"\d{4,}", shown.inner_text())
    assert int(shown.inner_text()) == correlation[0][0]


def test_numbers_of_steps_are_those_of_the_command_line(opened, ask_file):
    opened.press("k")
    index = opened.ask("model.step.value")
    ((name,),) = ask_file(
        "SELECT text FROM NVTX_EVENTS WHERE text LIKE 'step_%' ORDER BY start LIMIT 1 OFFSET ?",
        index,
    )
    assert name == f"step_{index}"  # counted from 0
    assert f"{name} · " in opened.find(".steps").inner_text()
