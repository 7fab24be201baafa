"""Which command words ask for, and what is said when they ask for none."""

from __future__ import annotations

import pytest

import warpline
from warpline import api
from warpline.cli import main, parser

OVERVIEW = """\
usage: warpline RECORDING...
       warpline COMMAND [OPTIONS]

Performance profiles of CUDA and PyTorch programs, read, tabulated and explained.

A recording alone asks for its summary. Commands:
"""

SUMMARY_HELP = """\
usage: warpline summary RECORDING... [OPTIONS]

One screen: what was recorded, how busy each device was, what took the time.

positional arguments:
  RECORDING                     a recording; several, such as one per rank, are read as one

options:
  -h, --help                    show this help
  --debug                       show where in Warpline an error arose

choose a part:
  --filter-time START/END       what overlaps this time; such as 1.5s/2s, 200ms/ or /3000 (ns)
  --filter-nvtx RANGE[@DOMAIN][/INDEX]
                                what overlaps this instance of a range, the first one without an
                                index; takes precedence over --filter-time
"""

# words -> status, lines on stderr; BAD stands for a recording
MISTAKES = {
    "stat": (2, "unknown command 'stat'", "did you mean stats?"),
    "nonsense": (
        2,
        "unknown command 'nonsense'",
        (
            "name a recording or a command: analyze, completion, demo, doctor, explain, export,"
            " list, profile, query, recover, report, stats, summary, view"
        ),
    ),
    "--fromat csv": (
        2,
        "option '--fromat' stands before the command",
        "the command comes first: warpline stats --format csv RECORDING",
    ),
    "stats --fromat csv BAD": (
        2,
        "warpline stats has no option '--fromat'",
        "did you mean --format?",
    ),
    "stats --zzz=1 BAD": (2, "warpline stats has no option '--zzz'", "warpline stats --help"),
    "list extra": (2, "warpline list has no use for 'extra'", "warpline list --help"),
    "stats": (2, "no recording is named", "warpline stats RECORDING"),
    "stats BAD -r": (2, "option -r/--report: expected one argument", "warpline stats --help"),
    "stats BAD --rows x": (2, "option --rows: invalid int value: 'x'", "warpline stats --help"),
    "stats BAD --rows -3": (2, "--rows -3: a number of rows is not negative"),
    "stats BAD --form csv": (2, "warpline stats has no option '--form'", "did you mean --format?"),
    "stats BAD --format cvs": (2, "unknown format 'cvs'", "did you mean csv?"),
    "stats BAD --timeunit m": (2, "'m' may mean several units", "--timeunit ns, us, ms or s"),
    "stats BAD --timeunit x": (2, "'x' is not a unit of time", "--timeunit ns, us, ms or s"),
    "stats BAD cuda_gpu_kern_sum": (
        2,
        "'cuda_gpu_kern_sum' is a table, not a recording",
        "warpline stats -r cuda_gpu_kern_sum RECORDING",
    ),
    "BAD gpukernsum:base": (
        2,
        "'gpukernsum:base' is a table, not a recording",
        "warpline stats -r gpukernsum:base RECORDING",
    ),
    "stats BAD -r osrt_sun": (2, "unknown table 'osrt_sun'", "did you mean osrt_sum or osrtsum?"),
    "stats BAD -r nvtx_sum:base": (
        2,
        "table 'nvtx_sum' has no argument 'base'",
        "arguments: none",
    ),
    "missing.sqlite": (1, "missing.sqlite does not exist"),
    "./stats": (1, "stats does not exist"),
    "stats .": (1, ". is a directory", "name the file in it"),
    "explain kernl": (2, "unknown table or rule 'kernl'", "did you mean kernel or kernel_sum?"),
    "explain": (2, "no table or rule is named", "warpline list shows their names"),
    "list --format csv": (2, "unknown format 'csv'", "--format text or json"),
    "completion ksh": (2, "unknown shell 'ksh'"),
    "completion": (2, "no shell is named"),
}


@pytest.mark.parametrize("words", MISTAKES)
def test_a_mistake_is_named_and_the_next_step_too(run, bad, words, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done = run(*(bad if word == "BAD" else word for word in words.split()))
    status, *said = MISTAKES[words]
    lines = [f"{kind}: {text}" for kind, text in zip(("error", "hint"), said, strict=False)]
    assert done.status == status
    assert done.err.splitlines()[: len(lines)] == lines
    assert done.out == ""


def test_help_lists_every_command(run):
    done = run("--help")
    assert (done.status, done.err) == (0, "")
    assert done.out.startswith(OVERVIEW)
    for item in parser.commands():
        assert f"  {item.NAME:10}  {item.HELP}\n" in done.out
    assert run("-h") == done


def test_help_of_a_command_is_the_same_on_every_python(run):
    done = run("summary", "--help")
    assert (done.status, done.err) == (0, "")
    assert done.out.startswith(SUMMARY_HELP)


@pytest.mark.parametrize("item", parser.commands(), ids=lambda item: item.NAME)
def test_every_command_has_help_that_fits(run, item):
    done = run(item.NAME, "--nonsense", "--help")
    assert (done.status, done.err) == (0, "")
    assert max(map(len, done.out.splitlines())) <= 100
    assert len(item.HELP) <= 80
    assert item.HELP[0].islower()
    assert not item.HELP.endswith(".")


def test_no_words_is_a_mistake_that_shows_the_help(run):
    done = run()
    assert (done.status, done.out) == (2, "")
    assert done.err.startswith(OVERVIEW)


def test_version(run):
    for word in ("--version", "-V"):
        assert run(word) == (0, f"warpline {warpline.__version__}\n", "")


def test_a_recording_alone_asks_for_its_summary(run, bad, fixed):
    assert run(bad) == run("summary", bad)
    assert run(bad, fixed, "-f", "csv") == run("summary", "-f", "csv", bad, fixed)


def test_a_file_without_an_ending_is_a_recording(run, bad, tmp_path, monkeypatch):
    (tmp_path / "capture").symlink_to(bad)
    monkeypatch.chdir(tmp_path)
    assert run("capture").out.startswith("capture\n")


def test_a_file_with_the_name_of_a_command_needs_its_folder(run, bad, tmp_path, monkeypatch):
    (tmp_path / "doctor").symlink_to(bad)
    monkeypatch.chdir(tmp_path)
    assert "native core" in run("doctor").out
    assert run("./doctor").out.startswith("doctor\n")


def test_words_after_two_dashes_are_recordings(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done = run("stats", "-q", "--", "--help")
    assert (done.status, done.err) == (1, "error: --help does not exist\n")


def test_debug_shows_where_the_error_arose(run, bad):
    done = run("stats", bad, "-r", "zz", "--debug")
    assert done.status == 2
    assert done.err.startswith("Traceback")
    assert "error: unknown table 'zz'" in done.err
    assert run("--debug", "stats", bad, "-r", "zz").err.startswith("Traceback")


def test_a_defect_is_told_without_a_traceback(run, bad, monkeypatch):
    monkeypatch.setattr(api, "open", lambda *_paths: 1 // 0)
    done = run("stats", bad)
    assert done.status == 1
    assert done.err.splitlines() == [
        "error: internal error: ZeroDivisionError: integer division or modulo by zero",
        "hint: please report it; --debug shows where it happened",
    ]
    assert "Traceback" in run("stats", bad, "--debug").err


def test_an_interrupt_ends_quietly(run, bad, monkeypatch):
    def interrupt(*_paths):
        raise KeyboardInterrupt

    monkeypatch.setattr(api, "open", interrupt)
    assert run("stats", bad) == (130, "", "")


def test_control_characters_in_a_name_do_not_reach_the_terminal(run):
    done = run("stats", "evil\x1b[31m\n.sqlite")
    assert done.err == "error: evil\\x1b[31m\\n.sqlite does not exist\n"


def test_main_takes_its_words_from_the_process(monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["warpline", "--version"])
    assert main() == 0
    assert capsys.readouterr().out.startswith("warpline ")
