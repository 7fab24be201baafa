"""Which runs of a program are made, one for each pass, and which of them count."""

from __future__ import annotations

import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from warpline.capture.flags.settings import CaptureSettings
from warpline.capture.launcher import passes
from warpline.capture.launcher.ending import Ending
from warpline.capture.launcher.launch import Outcome, Talk, UnfinishedError
from warpline.capture.launcher.passes import Passes, launch_passes
from warpline.capture.launcher.reasons import Reason

OUTPUT = Path("x.warpline")
Run = Callable[..., Passes]


def outcome(reason: str | None = None, **ending: object) -> Outcome:
    """Return what a run has recorded."""
    made = Ending()
    for name, value in ending.items():
        setattr(made, name, value)
    return Outcome(OUTPUT, {}, made, None if reason is None else Reason(reason, None), 1)


def unfinished() -> UnfinishedError:
    return UnfinishedError("the disk is full", hint=None, ending=Ending(status=1 << 8))


@pytest.fixture
def said() -> list[str]:
    """What the user was told."""
    return []


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, said: list[str]) -> Run:
    """Return a function that runs a program with these outcomes, or errors."""

    def runs(*outcomes: Outcome | UnfinishedError, goes_on: bool = False) -> Passes:
        left = list(outcomes)

        def launch(settings: CaptureSettings, talk: Talk) -> Outcome:
            talk.warn("low on space")
            found = left.pop(0)
            if isinstance(found, UnfinishedError):
                raise found
            return found

        monkeypatch.setattr(passes, "launch", launch)
        talk = Talk(said.append, said.append, lambda _: None)
        settings = [CaptureSettings() for _ in outcomes]
        return launch_passes(settings, talk, goes_on_after_failure=goes_on)

    return runs


def test_all_runs_count_and_each_warning_is_given_once(run: Run, said: list[str]) -> None:
    found = run(outcome(), outcome(), outcome())
    assert (len(found.outcomes), found.why_ended, found.error) == (3, None, None)
    counted = [text for text in said if "pipe" not in text]
    assert counted == ["pass 1 of 3", "low on space", "pass 2 of 3", "pass 3 of 3"]


@pytest.mark.parametrize(
    ("last", "why"),
    [
        (outcome(status=signal.SIGINT, interrupted=True), "pass 2 was interrupted"),
        (outcome(interrupted=True), "pass 2 was interrupted"),
        (outcome(status=signal.SIGSEGV), "pass 2 was ended by SIGSEGV"),
        (outcome("no kernel was launched"), "pass 2 counted no kernel: no kernel was launched"),
        (outcome(status=7 << 8), "pass 2 ended with exit status 7 (use --check-exit-code no"),
    ],
)
def test_a_run_that_fails_is_the_last_and_does_not_count(run: Run, last: Outcome, why: str) -> None:
    for further in ((), (outcome(),)):
        found = run(outcome(), last, *further)
        assert len(found.outcomes) == 1
        assert (found.why_ended or "").startswith(why)
        assert found.last is last.ending


def test_the_first_run_counts_even_if_it_fails(run: Run) -> None:
    failed = outcome(status=7 << 8)
    found = run(failed, outcome())
    assert found.outcomes == (failed,)
    assert (found.why_ended or "").startswith("pass 1 ended with exit status 7")


def test_an_exit_status_alone_may_be_ignored(run: Run) -> None:
    failed = outcome(status=7 << 8)
    assert len(run(failed, failed, failed, goes_on=True).outcomes) == 3
    died = outcome(status=signal.SIGKILL)
    assert len(run(failed, died, failed, goes_on=True).outcomes) == 1


def test_a_recording_that_cannot_be_written_ends_the_passes(run: Run) -> None:
    error = unfinished()
    found = run(outcome(), error, outcome())
    assert (len(found.outcomes), found.error) == (1, error)
    assert (found.why_ended, found.last) == ("pass 2 was not recorded", error.ending)
    with pytest.raises(UnfinishedError):
        run(unfinished(), outcome())
