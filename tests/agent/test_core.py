"""Arguments of NVTX's core functions, called from C, appear unchanged in the logs."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from support import raw_logs
from support.raw_logs import Event

from warpline.capture.session.agent_config import AgentConfig


@pytest.fixture
def core(record, compile_program):
    """Run a scenario of programs/core.c; return its session's folder."""
    program = compile_program("core.c")
    return lambda scenario, **options: record(program, scenario, **options)


def _only_log(folder: Path) -> raw_logs.Log:
    (log,) = raw_logs.decode(folder)
    return log


def _names(events: list[Event], kind: str) -> list[str | None]:
    return [event.name for event in events if event.kind == kind]


def test_every_form_of_every_function(core):
    log = _only_log(core("forms", prints="0 1 2 2 1 0"))
    assert _names(log.events, "mark") == ["mark a", "mark w é世\U0001f600", "mark ex"]
    assert log.ranges() == [("push a", 0), ("push w", 1), ("push ex", 2)]
    starts = {event.range_id: event.name for event in log.events if event.kind == "start"}
    stops = [event.range_id for event in log.events if event.kind == "stop"]
    assert [starts[stop] for stop in stops] == ["start a", "start ex", "start w"]
    assert 0 not in starts


def test_times_rise_and_are_the_sessions_clock(core):
    log = _only_log(core("forms"))
    times = [event.time_ns for event in log.events]
    assert times == sorted(times)
    assert log.incarnation < times[0] < log.incarnation + 60 * 10**9


def test_the_counter_of_events_counts_what_begins(core):
    log = _only_log(core("forms"))
    begun = [event for event in log.events if event.kind in ("push", "start", "mark")]
    assert log.counted == len(begun) == 9
    assert (log.dropped, log.cut) == (0, 0)


def test_domains_and_categories(core):
    log = _only_log(core("domains", prints="1 0 0 1 1 0 0"))
    assert log.categories == {
        ("one", 7): "seven of one",
        ("twö", 7): "sieben von twö",
        ("", 7): "seven of the default",
        ("", 8): "eight of the default",
    }
    marks = [(event.domain, event.category) for event in log.events if event.kind == "mark"]
    assert marks == [("one", 7), ("", 7), ("one", 7)]
    assert [(name, depth) for name, depth in log.ranges()] == [
        ("in a domain", d) for d in (0, 0, 1)
    ]


def test_registered_strings(core):
    events = _only_log(core("registered", prints="1")).events
    assert _names(events, "mark") == ["registered w ß"] * 3 + ["registered a"] * 2


def test_values_colours_and_categories(core):
    events = _only_log(core("attributes")).events
    assert [(event.name, event.value) for event in events] == [
        ("u64", 2**64 - 1),
        ("i64", -5),
        ("double", -0.1),
        ("u32", 0xFFFFFFFE),
        ("i32", -7),
        ("float", 1.5),
        ("of no known type", None),
    ]
    assert [event.color for event in events] == [0x80FF7F01, *[None] * 6]
    assert {event.category for event in events} == {5}


def test_odd_calls_do_no_harm(core):
    log = _only_log(core("odd", prints="-1 1 1 0 1"))
    marks = _names(log.events, "mark")
    assert marks == [None] * 6 + ["from a newer header", r"bytes \xff\xfe that are no UTF-8", ""]
    assert [event.category for event in log.events if event.category] == [3]
    assert log.ranges() == [("open at the end", 0), ("so is this", 1)]
    assert "pop" not in {event.kind for event in log.events}


def test_threads_and_resources_are_named(core):
    log = _only_log(core("names"))
    assert log.thread_names == {log.pid: "mäin", log.pid + 1: "another thread"}
    assert log.resources == {(0x10001, 0x1234): "a pool"}


def test_long_texts_are_cut_and_counted(core):
    log = _only_log(core("long_texts"))
    assert _names(log.events, "mark") == ["x" * 65535, "x" * 65535, "世" * 2000]
    assert log.cut == 1


def test_many_names(core):
    log = _only_log(core("many_names"))
    expected = [(f"step {i}", 0) for i in range(20000)]
    ranges = log.ranges()
    assert ranges[::2] == expected
    assert set(ranges[1::2]) == {("always the same", 1)}


def test_many_registered_strings(core):
    log = _only_log(core("many_strings"))
    assert _names(log.events, "mark") == [f"string {i % 35000}" for i in range(70000)]
    written = sum(record.kind == raw_logs.STRING for record in log.records)
    assert written == 35000


def test_more_open_domains_than_a_thread_keeps_count_of(core):
    log = _only_log(core("many_domains", prints=""))
    assert log.ranges() == [("range", 0)] * 200
    assert sum(event.kind == "pop" for event in log.events) == 200


def test_threads_have_logs_of_their_own(core):
    logs = raw_logs.decode(core("threads"))
    pushes = Counter(event.name for log in logs for event in log.events if event.kind == "push")
    assert pushes.total() == 16000
    assert pushes["inner"] == 8000
    for log in logs:
        assert log.ranges() == [*log.ranges()]
        by_thread: dict[int, list[Event]] = {}
        for event in log.events:
            by_thread.setdefault(event.tid, []).append(event)
        for events in by_thread.values():
            kinds = [event.kind for event in events if event.kind in ("push", "pop")]
            assert kinds == ["push", "push", "pop", "pop"] * (len(kinds) // 4)


def test_ranges_end_in_other_threads(core):
    events = raw_logs.events(core("threads"))
    starts = {event.range_id: event for event in events if event.kind == "start"}
    stops = {event.range_id: event for event in events if event.kind == "stop"}
    assert starts.keys() == stops.keys()
    assert len(starts) == 8
    assert all(starts[key].tid != stop.tid for key, stop in stops.items())
    assert all(starts[key].time_ns < stop.time_ns for key, stop in stops.items())


def test_a_fork_has_a_log_of_its_own_with_all_names(core):
    parent, child = sorted(raw_logs.decode(core("forks", prints="0")), key=lambda log: log.pid)
    assert child.forked_from == parent.pid
    assert parent.ranges() == [("registered before", 0), ("parent's", 0)]
    assert child.ranges() == [("child's", 0), ("registered before", 0)]
    assert [event.kind for event in child.events] == ["push", "pop"] * 2
    for log in (parent, child):
        assert log.categories == {("", 3): "named before the fork"}


@pytest.mark.parametrize(
    ("config", "wanted"),
    [
        (AgentConfig(domain_include=("one",)), {"one"}),
        (AgentConfig(domain_include=("one", "default")), {"one", ""}),
        (AgentConfig(domain_exclude=("one",)), {"", "twö"}),
        (AgentConfig(domain_exclude=("default", "twö")), {"one"}),
        (AgentConfig(nvtx=False), set()),
    ],
)
def test_domains_are_chosen(core, config, wanted):
    events = raw_logs.events(core("domains", config=config))
    assert {event.domain for event in events if event.domain is not None} == wanted


def test_threads_register_the_same_things_at_once(core):
    logs = raw_logs.decode(core("races", prints="1"))
    categories = {key: name for log in logs for key, name in log.categories.items()}
    assert categories == {("", i): f"raced for {i}" for i in range(2000)}
