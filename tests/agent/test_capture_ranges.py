"""NVTX ranges that open capture ranges: -c nvtx."""

from __future__ import annotations

import pytest
from support import raw_logs

from warpline.capture.session.agent_config import AgentConfig
from warpline.capture.session.control import RangeMode, State

DEFAULT_DOMAIN = AgentConfig(range_name="capture")
LIBRARY = AgentConfig(range_name="capture", range_domain="lib")
ANY_DOMAIN = AgentConfig(range_name="capture", range_domain="*")

FIRST = ["capture", "in 1", "within"]
SECOND = ["capture", "in 2"]
THIRD = ["capture", "in 3"]
FOURTH = ["capture", "capture", "still in 4"]


@pytest.fixture
def windows(record, compile_program):
    program = compile_program("core.c")

    def run(config, **options):
        folder = record(program, "windows", config=config, mode=RangeMode.NVTX, **options)
        return folder, raw_logs.decode(folder)

    return run


def _names(logs):
    return [event.name for log in logs for event in log.events if event.name is not None]


@pytest.mark.parametrize(
    ("config", "names"),
    [
        (DEFAULT_DOMAIN, FIRST + FOURTH),
        (LIBRARY, SECOND + THIRD),
        (ANY_DOMAIN, FIRST + SECOND + THIRD + FOURTH),
    ],
)
def test_plain_and_registered_names_open_capture_ranges(windows, config, names):
    _, logs = windows(config)
    assert _names(logs) == names


def test_the_capture_range_is_whole_in_the_recording(windows):
    _, (log,) = windows(ANY_DOMAIN)
    assert [event.kind for event in log.events] == [
        *("push", "mark", "push", "pop", "pop"),
        *("push", "mark", "pop"),
        *("start", "mark", "stop"),
        *("push", "push", "pop", "mark", "pop"),
    ]
    assert log.windows.count(0) == 4
    assert log.ranges()[0] == ("capture", 0)  # "outside" is not in the log, nor does it count


def test_the_session_stops_after_the_ranges_that_were_wanted(windows):
    _, logs = windows(ANY_DOMAIN, windows_wanted=2)
    assert _names(logs) == FIRST + SECOND


def test_no_range_of_that_name(windows):
    _, logs = windows(AgentConfig(range_name="no such"))
    assert _names(logs) == []


def test_nothing_opens_before_the_session_records(windows):
    _, logs = windows(DEFAULT_DOMAIN, state=State.WAITING)
    assert _names(logs) == []
