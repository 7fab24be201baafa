"""The flags of ``warpline launch``, ``start`` and ``attach``."""

from __future__ import annotations

import pytest

from warpline.capture.flags import sessions
from warpline.capture.flags.settings import TargetProcesses
from warpline.capture.session.sampling import Sampling
from warpline.errors import UsageError


def test_flags_of_a_launch_hold_for_all_recordings_or_for_the_first(tmp_path):
    file = tmp_path / "flags"
    file.write_text("--cudabacktrace=all:5 -d 5  # a comment\n--session=s2")
    words = [
        *("--start", "-t", "cuda,nvtx", "-orun1", "--session=s1", "--steps=3", "-f"),
        *("--command-file", str(file), "-w", "false", "--", "python", "-o", "x"),
    ]
    of_all, of_first = sessions.flags_of_launch(words)
    assert of_all == (
        *("-t", "cuda,nvtx", "--session=s1", "--cudabacktrace=all:5", "--session=s2"),
        *("-w", "false"),
    )
    assert of_first == ("-orun1", "--steps=3", "-f", "-d", "5")
    launched = sessions.parse_launch(words)
    assert (launched.start, launched.session) == (True, "s2")
    assert (launched.command, launched.show_output) == (("python", "-o", "x"), False)
    assert (launched.output, launched.duration, launched.sampling) == (None, None, None)
    first = sessions.parse_start((*of_all, *of_first))
    assert (first.output, first.duration, first.force_overwrite) == ("run1", 5.0, True)
    assert first.cudabacktrace["kernel"] == 5


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("-o", "run1", "--", "a"), "-o is a flag of one recording"),
        (("--duration=5", "a"), "--duration is a flag of one recording"),
        (("--start", "--every", "5", "a"), "--every requires --steps"),
        (("--start", "--start=maybe", "a"), "takes no value"),
        (("--start",), "missing PROGRAM argument"),
    ],
)
def test_what_is_wrong_with_a_launch_is_said_before_it(words, message):
    with pytest.raises(UsageError, match=message):
        sessions.parse_launch(words)


def test_warnings_of_a_launch_are_said_once():
    launched = sessions.parse_launch(["--start", "-t", "nvtx,osrt", "-s", "cpu", "a"])
    assert len(launched.warnings) == 2


def test_steps_alone_are_one_sample_where_the_program_goes_on():
    once, rest = sessions.parse_attach(["--steps", "10", "--step-range", "it_*", "123"])
    assert rest == ["123"]
    assert once.sampling is not None
    assert (once.sampling.steps, once.sampling.is_once) == (10, True)
    assert ("sample_once", "1") in once.sampling.pairs()
    assert (once.windows_wanted, once.kill) == (0, None)
    repeated = sessions.parse_start(["--steps", "10", "--every", "50"])
    assert repeated.sampling == Sampling(10, 50, 0.2)
    with pytest.raises(UsageError, match="--every requires --steps"):
        sessions.parse_start(["--every", "10"])


def test_which_processes_are_attached_to():
    assert sessions.parse_attach(["1"])[0].target_processes is TargetProcesses.ALL
    words = ["--target-processes", "application-only", "1"]
    assert sessions.parse_attach(words)[0].target_processes is TargetProcesses.APPLICATION_ONLY
    with pytest.raises(UsageError, match="one of all, application-only"):
        sessions.parse_attach(["--target-processes=some", "1"])


def test_the_help_says_what_flags_mean_here():
    for grammar in (sessions.LAUNCH, sessions.START, sessions.ATTACH):
        helps = {flag.attribute: flag.help for flag in grammar.flags}
        assert helps["duration"] == "record for SECONDS"
        assert "shutdown" not in helps["capture_range_end"]
