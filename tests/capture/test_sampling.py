"""Step sampling: the options, the launcher's part, the recording's sentence."""

from __future__ import annotations

import re

import pytest
from support import launching

import warpline
from warpline.capture.flags import parsing
from warpline.capture.launcher.time_windows import TimeSampling
from warpline.capture.session.control import ControlFile, RangeMode, State
from warpline.capture.session.sampling import Sampling
from warpline.derived.ranks.clocks import aligned
from warpline.errors import UsageError
from warpline.trace import read

LOOP = """
import nvtx, time
for step in range({steps}):
    with nvtx.annotate(f"{name}{{step}}"):
        with nvtx.annotate("forward"):
            time.sleep({seconds})
"""


def _state(page: ControlFile) -> State:
    return page.state  # a call: what was seen once may have changed


def _steps(recording, name="step_"):
    found = (re.fullmatch(name + r"(\d+)", text) for text in launching.names(recording))
    return [int(match[1]) for match in found if match]


@pytest.mark.parametrize(
    ("line", "steps", "every", "duty"),
    [
        ("--steps 5 --every 100", 5, 100, 0.05),
        ("--steps=5 --duty 2%", 5, 250, 0.02),
        ("--duty=0.02", 0, 0, 0.02),
        ("--steps 3 --every 3", 3, 3, 1.0),
    ],
)
def test_what_is_asked_for(line, steps, every, duty):
    found = parsing.parse([*line.split(), "./a.out"])
    assert found.sampling == Sampling(steps, every, duty)
    assert found.mode is RangeMode.STEPS
    assert (found.windows_wanted, found.ends_program) == (0, False)


@pytest.mark.parametrize(
    ("flag", "name", "domain"),
    [("it_*", "it_*", "default"), ("it_*@train", "it_*", "train"), ("it_*@*", "it_*", "*")],
)
def test_the_range_that_begins_a_step(flag, name, domain):
    found = parsing.parse(["--steps", "1", "--every", "2", "--step-range", flag, "a"]).sampling
    assert found is not None
    assert (found.range_name, found.range_domain) == (name, domain)


def test_calls_that_begin_a_step():
    found = parsing.parse(["--duty", "1%", "-c", "cudaProfilerApi", "a"])
    assert found.sampling is not None
    assert found.sampling.by_calls
    assert found.mode is RangeMode.STEPS
    assert not found.warnings


@pytest.mark.parametrize(
    "line",
    [
        *("--steps 5", "--every 5", "--steps 6 --every 5", "--steps 0 --every 5", "--duty 0"),
        *("--duty 101%", "--duty much", "--every 9 --duty 1%", "--steps 1 --every 99999"),
        "--steps 1 --every 2 -c nvtx -p x",
    ],
)
def test_what_cannot_be_asked_for(line):
    with pytest.raises(UsageError):
        parsing.parse([*line.split(), "a"])


def test_a_range_alone_samples_nothing():
    found = parsing.parse(["--step-range", "x", "a"])
    assert found.sampling is None
    assert any("--step-range is ignored" in text for text in found.warnings)


class Clock:
    now = 100.0

    def __call__(self):
        return self.now


@pytest.fixture
def page(tmp_path):
    control = ControlFile.create(tmp_path, mode=RangeMode.STEPS)
    yield control
    control.close()


def _set(page, **counters):
    names = {"open": 12, "steps_begun": 0, "step_processes": 0}
    from warpline.capture.session import control

    for name, value in counters.items():
        if name == "open":
            page._put("<I", names[name], value)
        else:
            page._put("<Q", getattr(control.ControlPage, name).offset, value)


def test_time_windows_while_no_step_is_seen(page):
    clock = Clock()
    sampling = TimeSampling(page, Sampling(1, 20, 0.05), clock)  # 0.5 s of 10 s
    story = []
    for tenth in range(250):
        clock.now = 100 + tenth / 10 + 0.01
        if tenth == 30:
            _set(page, attached=1)  # the program's first call: 2 s later the first window begins
        sampling.look()
        story.append(page.state is State.TIME_WINDOW)
    assert [tenth for tenth, is_on in enumerate(story) if is_on] == [
        *range(50, 55),
        *range(150, 155),
    ]
    assert sampling.next() == pytest.approx(25.01 - 24.91)
    assert len(sampling.windows) == 2
    clock.now = 125.1
    sampling.look()
    assert _state(page) is State.TIME_WINDOW
    assert sampling.next() <= 0.1  # steps may begin meanwhile
    _set(page, step_processes=1, steps_begun=1)
    sampling.look()
    assert _state(page) is State.RECORDING  # from here on the processes see to it themselves
    assert len(sampling.facts()["time_windows"]) == 3


def test_counting_has_no_time_windows(page):
    clock = Clock()
    sampling = TimeSampling(page, Sampling(1, 20, 0.05), clock, is_steps_only=True)
    _set(page, attached=1)
    for tenth in range(100):
        clock.now = 100 + tenth / 10
        sampling.look()
        assert _state(page) is State.RECORDING
    assert (sampling.windows, sampling.facts()) == ([], {})


def test_no_time_window_before_the_program_uses_what_is_recorded(page):
    clock = Clock()
    sampling = TimeSampling(page, Sampling(1, 2, 0.5), clock)
    for second in range(100):
        clock.now = 100 + second
        sampling.look()
        assert page.state is State.RECORDING
    assert sampling.facts() == {}


def test_a_stopped_session_stays_so(page):
    clock = Clock()
    sampling = TimeSampling(page, Sampling(1, 1, 1.0), clock)
    page.state = State.STOPPED
    sampling.look()
    assert _state(page) is State.STOPPED
    assert sampling.facts() == {}


def test_a_sample_without_an_end_rests_until_the_next_step(page):
    clock = Clock()
    sampling = TimeSampling(page, Sampling(1, 20, 0.05), clock)
    _set(page, step_processes=1, steps_begun=7, open=1)
    sampling.look()
    clock.now += 59
    sampling.look()
    assert _state(page) is State.RECORDING
    clock.now += 2
    sampling.look()
    assert _state(page) is State.WAITING
    _set(page, steps_begun=8)
    sampling.look()
    assert _state(page) is State.RECORDING


@pytest.mark.parametrize(("processes", "ends_at"), [(2, 103.0), (3, 106.0)])
def test_the_only_sample_is_over_when_all_processes_have_had_it(page, processes, ends_at):
    clock = Clock()
    once = Sampling.of(5, None, None, step_range=None, by_calls=False)
    sampling = TimeSampling(page, once, clock, processes=processes)
    page.resume(State.RECORDING)
    ended_at = None
    for tenth in range(100):
        clock.now = 100 + tenth / 10
        if tenth == 10:
            _set(page, attached=2, step_processes=1, steps_begun=1, open=1)
        if tenth == 20:  # the first process has all its steps, the other has begun
            _set(page, step_processes=2, windows_done=1, open=1)
        if tenth == 30:
            _set(page, windows_done=2, open=0)
        sampling.look()
        assert page.state is State.RECORDING  # no time windows
        if sampling.is_over():
            ended_at = ended_at or clock.now
    # A third process, which has no step yet, is waited for as long as it took until now.
    assert ended_at == pytest.approx(ends_at)
    assert sampling.facts() == {}


def test_a_sampling_that_goes_on_is_never_over(page):
    sampling = TimeSampling(page, Sampling(1, 20, 0.05), Clock())
    _set(page, step_processes=1, steps_begun=100, windows_done=5)
    assert not sampling.is_over()


def test_a_python_program_with_many_steps(tmp_path):
    launching.needs_agent()
    code = LOOP.format(steps=300, name="step_", seconds=0)
    words = ("-t", "nvtx", "--steps", "3", "--every", "50", "-o", "run")
    done = launching.profile(tmp_path, *words, *launching.python(tmp_path, code))
    assert done.status == 0, done.err
    recording = tmp_path / "run.warpline"
    assert _steps(recording) == [n for n in range(300) if n % 50 < 3]
    assert "3 of every 50 steps were recorded: 6 windows in a run of 300 steps" in done.err
    trace = warpline.open(recording)
    windows = trace.meta.windows_ns
    assert windows is not None
    assert len(windows) == 6
    assert trace.recorded_ns() == sum(end - start for start, end in windows)
    ranges = trace.columns("range", "start_ns", "end_ns")
    for start, end in zip(ranges["start_ns"].values, ranges["end_ns"].values, strict=True):
        assert any(first <= start and end <= last for first, last in windows)
    assert " of " in done.err.split(" recorded")[0].splitlines()[-1]


def test_windows_are_kept_in_other_recordings(tmp_path):
    launching.needs_agent()
    code = LOOP.format(steps=20, name="step_", seconds=0)
    words = ("-t", "nvtx", "--steps", "1", "--every", "10", "--no-summary", "-o", "run")
    done = launching.profile(tmp_path, *words, *launching.python(tmp_path, code))
    assert done.status == 0, done.err
    trace = warpline.open(tmp_path / "run.warpline")
    copy = warpline.export(trace, tmp_path / "copy.warpline")
    assert warpline.open(copy).meta.windows_ns == trace.meta.windows_ns
    both = aligned([read(tmp_path / "run.warpline"), read(copy)])
    assert both.meta.windows_ns == trace.meta.windows_ns
    assert trace.meta.windows_ns is not None
    first = trace.meta.windows_ns[0]
    part = warpline.open(tmp_path / "run.warpline").window(0, first[1])
    assert part.recorded_ns() == first[1] - first[0]


def test_a_program_without_steps_is_recorded_by_time(tmp_path):
    launching.needs_agent()
    code = LOOP.format(steps=300, name="", seconds=0.005)
    words = ("-t", "nvtx", "--duty", "50%", "-o", "run")
    done = launching.profile(tmp_path, *words, *launching.python(tmp_path, code))
    assert done.status == 0, done.err
    assert "no step boundaries were found" in done.err
    trace = warpline.open(tmp_path / "run.warpline")
    assert trace.meta.windows_ns
    assert 0 < len(launching.names(tmp_path / "run.warpline")) < 600


def test_a_program_of_some_seconds_without_steps_is_never_recorded_in_vain(tmp_path):
    launching.needs_agent()
    code = LOOP.format(steps=300, name="", seconds=0.01)  # 3 s
    words = ("-t", "nvtx", "--steps", "1", "--every", "100", "-o", "run")
    done = launching.profile(tmp_path, *words, *launching.python(tmp_path, code))
    assert done.status == 0, done.err
    assert "1 time window of 0.5 s, one every 50 s, was recorded instead" in done.err
    assert 0 < len(launching.names(tmp_path / "run.warpline")) < 200


def test_a_program_without_steps_that_ends_early(tmp_path):
    launching.needs_agent()
    code = LOOP.format(steps=3, name="", seconds=0)
    words = ("-t", "nvtx", "--steps", "1", "--every", "100", "-o", "run")
    done = launching.profile(tmp_path, *words, *launching.python(tmp_path, code))
    assert done.status == 0
    assert "nothing was recorded: no range that starts a step was found" in done.err
    assert warpline.open(tmp_path / "run.warpline").recorded_ns() == 0
