"""Which command runs, and the errors and hints for wrong words."""

from __future__ import annotations

import pytest

import warpline
from warpline import api
from warpline.cli import main, parser

OVERVIEW = """\
usage: warpline RECORDING...
       warpline COMMAND [OPTIONS]

Profile CUDA and PyTorch programs, and analyze the recordings.

Without a command, Warpline prints the summary of the recordings. Commands:
"""

SUMMARY_HELP = """\
usage: warpline summary RECORDING... [OPTIONS]

Summarize on one screen: GPU utilization, top kernels, copies and ranges.

arguments:
  RECORDING                     recording to read, also HOST:PATH; several, such as one per rank,
                                are merged

options:
  -h, --help                    show this help
  --debug                       show a traceback on errors

filters:
  --filter-time START/END       keep events that overlap this time range, such as 1.5s/2s, 200ms/
                                or /3000 (ns)
  --filter-nvtx RANGE[@DOMAIN][/INDEX]
                                keep events that overlap this instance of an NVTX range (default
                                INDEX: 0); overrides --filter-time
"""

# words -> status, lines on stderr; BAD stands for a recording
MISTAKES = {
    "stat": (2, "unknown command 'stat'", "did you mean stats?"),
    "nonsense": (
        2,
        "unknown command 'nonsense'",
        (
            "name a recording or a command: analyze, attach, baseline, bench, cancel, compare,"
            " completion, demo, docs, doctor, dump, explain, export, finalize, flame, fleet, gate,"
            " graphcheck, import, kernels, launch, list, mcp, memory, merge, profile, query,"
            " recover, report, sessions, shutdown, start, stats, status, stop, summary, sweep, top,"
            " translate, trend, view"
        ),
    ),
    "--fromat csv": (
        2,
        "option '--fromat' without a command or an existing recording",
        "put the command first: warpline stats --fromat csv RECORDING",
    ),
    "-f csv stats BAD": (
        2,
        "option '-f' precedes the command",
        "put the command first: warpline stats -f csv ",
    ),
    "-z BAD": (2, "warpline summary has no option '-z'", "see warpline summary --help"),
    "stats BAD -Q": (2, "warpline stats has no option '-Q'", "did you mean -q?"),
    "help nonsense": (2, "unknown command 'nonsense'"),
    "import_ a.sqlite": (2, "unknown command 'import_'", "did you mean import?"),
    "import": (2, "missing RECORDING argument", "warpline import RECORDING"),
    "BAD --filter-time x": (2, "invalid time range 'x'"),
    "stats --fromat csv BAD": (
        2,
        "warpline stats has no option '--fromat'",
        "did you mean --format?",
    ),
    "stats --zzz=1 BAD": (2, "warpline stats has no option '--zzz'", "see warpline stats --help"),
    "list extra": (2, "unexpected argument 'extra'", "see warpline list --help"),
    "stats": (2, "missing RECORDING argument", "warpline stats RECORDING"),
    "stats BAD -r": (2, "option -r/--report: expected one argument", "see warpline stats --help"),
    "stats BAD --rows x": (2, "option --rows: invalid int value: 'x'", "see warpline stats --help"),
    "stats BAD --rows -3": (2, "--rows -3: must be 0 or more"),
    "stats BAD --form csv": (2, "warpline stats has no option '--form'", "did you mean --format?"),
    "stats BAD --format cvs": (2, "unknown format 'cvs'", "did you mean csv?"),
    "stats BAD --timeunit m": (2, "--timeunit: ambiguous unit 'm'", "use ns, us, ms or s"),
    "stats BAD --timeunit x": (2, "--timeunit: unknown unit 'x'", "use ns, us, ms or s"),
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
        "unknown argument 'base' of table 'nvtx_sum'",
        "arguments: none",
    ),
    "missing.sqlite": (1, "missing.sqlite does not exist"),
    "./stats": (1, "stats does not exist"),
    "stats .": (1, ". is a directory without recordings", "pass a recording file"),
    "explain kernl": (
        2,
        "unknown table, rule or term 'kernl'",
        "did you mean kernel or kernel_sum",
    ),
    "explain": (2, "missing NAME argument", "run warpline list for the names"),
    "list --format csv": (2, "unknown format 'csv'", "use text or json"),
    "completion ksh": (2, "unknown shell 'ksh'"),
    "completion": (2, "missing SHELL argument"),
}


@pytest.mark.parametrize("words", MISTAKES)
def test_a_mistake_is_named_and_the_next_step_too(run, bad, words, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done = run(*(bad if word == "BAD" else word for word in words.split()))
    status, *said = MISTAKES[words]
    lines = [f"{kind}: {text}" for kind, text in zip(("error", "hint"), said, strict=False)]
    assert done.status == status
    found = done.err.splitlines()
    assert [line[: len(start)] for line, start in zip(found, lines, strict=False)] == lines
    assert done.out == ""


@pytest.mark.parametrize(
    "name", ["start", "stop", "cancel", "status", "sessions", "shutdown", "finalize"]
)
def test_commands_for_sessions_say_that_there_is_none(run, name, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    done = run(name)
    assert "no session is running" in done.err
    assert done.status == (0 if name == "sessions" else 2)
    assert "warpline launch -- python train.py" in done.err


def test_help_is_a_command_too(run):
    assert run("help") == run("--help")
    assert run("help", "stats") == run("stats", "--help")


def test_options_may_precede_a_recording(run, bad):
    assert run("-q", bad) == run("summary", "-q", bad)
    assert run("-q", "-f", "csv", bad) == run(bad, "-q", "-f", "csv")


def test_an_unfinished_recording_names_recover(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my run.warpline.raw").mkdir()
    for words in ([], ["stats"], ["analyze"], ["report"], ["view"]):
        done = run(*words, "my run.warpline.raw")
        assert (done.status, done.out) == (1, "")
        assert done.err.splitlines() == [
            "error: my run.warpline.raw is an unfinished recording",
            "hint: run warpline recover 'my run.warpline.raw'",
        ]


def test_a_directory_of_traces_names_the_files_to_pass(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for rank in range(2):
        path = tmp_path / "tb" / f"rank{rank}.json.gz"
        path.parent.mkdir(exist_ok=True)
        path.touch()
    done = run("analyze", "tb")
    assert (done.status, done.out) == (1, "")
    assert done.err.splitlines() == [
        "error: tb is a directory with 2 .json.gz files, not a recording",
        "hint: pass the files: tb/*.json.gz",
    ]


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


def test_the_overview_lists_commands(run):
    done = run("--help")
    assert (done.status, done.err) == (0, "")
    assert done.out.startswith(OVERVIEW)


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
        "hint: please report it with the traceback of --debug",
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
