"""Standard streams of a separate process: pipes, encodings, closed and full ones, start-up."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(os.name == "nt", reason="uses a POSIX shell")

# Without the progress bar, which would show on a slow machine.
MAIN = "from warpline.cli import bar, main; bar.DELAY_S = 3600; raise SystemExit(main())"
HEAVY = ("numpy", "polars", "rich", "sqlite3")


def test_a_reader_that_stops_ends_us_quietly(start, bad):
    shell = "{} | head -n 1; echo ${{PIPESTATUS[0]}}"
    done = start("stats", "-r", "cuda_api_trace,cuda_gpu_trace,cuda_api_trace", bad, shell=shell)
    title, status = done.stdout.decode().splitlines()
    assert title == "CUDA API trace (cuda_api_trace)"
    assert (status, done.stderr) == ("141", b"")


def test_a_full_disk_is_an_error(start, bad):
    if not Path("/dev/full").exists():
        pytest.skip("no /dev/full here")
    done = start("stats", bad, "-q", shell="{} > /dev/full")
    assert done.returncode == 1
    assert done.stderr == b"error: cannot write standard output: No space left on device\n"


@pytest.mark.parametrize("words", [["--help"], ["stats", "-q"], ["list"]])
def test_a_closed_output_is_an_error(start, bad, words):
    done = start(*words, *([bad] if "stats" in words else []), shell="{} >&-")
    assert done.returncode == 1
    assert done.stderr.startswith(b"error: standard output is closed\n")


def test_nobody_has_to_listen_to_the_talk(start, bad):
    done = start("stats", bad, "-r", "nvtx_sum", shell="{} 2>&-")
    assert done.returncode == 0
    assert start("stats", "missing.sqlite", shell="{} 2>&-").returncode == 1


def test_a_console_without_unicode_gets_escapes(start, bad, tmp_path):
    path = tmp_path / "größe.sqlite"
    path.symlink_to(bad)
    done = start("summary", str(path), PYTHONIOENCODING="ascii")
    assert done.returncode == 0
    assert done.stdout.startswith(b"gr\\xf6\\xdfe.sqlite\n")
    assert b"..." in done.stdout
    assert start("list", PYTHONIOENCODING="ascii").returncode == 0
    done = start("stats", "größe.missing", PYTHONIOENCODING="ascii", PYTHONUTF8="1")
    assert done.returncode == 1
    assert b"gr\\xf6\\xdfe.missing does not exist" in done.stderr


def on_a_terminal(*words, **environ):
    """Return what words write to a terminal of 90 columns."""
    import pty

    child, terminal = pty.fork()
    if not child:
        os.environ.update(COLUMNS="90", TERM="xterm", **environ)
        os.execv(sys.executable, [sys.executable, "-c", MAIN, *words])
    written = b""
    try:
        while block := os.read(terminal, 4096):
            written += block
    except OSError:  # how Linux says that the other side is closed
        pass
    os.close(terminal)
    assert os.waitpid(child, 0)[1] == 0
    return written.decode()


@pytest.mark.parametrize("words", [["stats", "-r", "cuda_api_trace"], ["summary"]])
def test_a_terminal_gets_colour_unless_told_not_to(bad, monkeypatch, words):
    monkeypatch.delenv("NO_COLOR", raising=False)
    colourful = on_a_terminal(*words, bad)
    plain = on_a_terminal(*words, bad, NO_COLOR="1")
    assert "\x1b[1m" in colourful
    assert "\x1b" not in plain
    assert re.sub(r"\x1b\[\d+m", "", colourful) == plain
    assert max(len(line) for line in plain.splitlines()[:20]) <= 90


def test_a_terminal_shows_40_rows(bad):
    text = on_a_terminal("stats", "-q", "-r", "cuda_api_trace", bad, NO_COLOR="1")
    assert "304 more rows" in text
    rows = [line for line in text.splitlines() if re.match(r"[0-9]", line)]
    assert len(rows) == 40


@pytest.mark.parametrize("name", ["FORCE_COLOR", "CLICOLOR_FORCE"])
def test_color_on_pipes_is_forced_by_a_variable(run, bad, monkeypatch, tmp_path, name):
    plain = {words: run(words, bad).out for words in ("stats", "summary", "analyze")}
    monkeypatch.setenv(name, "1")
    for words, text in plain.items():
        colored = run(words, bad).out
        assert "\x1b[1m" in colored
        assert re.sub(r"\x1b\[[0-9;]*m", "", colored) == text
    assert run("stats", bad, "-q", "-o", str(tmp_path / "a.txt")).status == 0
    assert (tmp_path / "a.txt").read_text() == plain["stats"]
    assert "\x1b" not in run("stats", bad, "-f", "csv").out
    monkeypatch.setenv("NO_COLOR", "1")
    assert run("summary", bad).out == plain["summary"]
    monkeypatch.delenv("NO_COLOR")
    monkeypatch.setenv(name, "0")
    assert run("summary", bad).out == plain["summary"]


def test_help_and_mistakes_load_nothing_slow(start):
    for words in (["--help"], ["stats", "--help"], ["--version"], ["nonsense"]):
        done = start(*words, PYTHONPROFILEIMPORTTIME="1")
        loaded = {line.split("|")[-1].strip() for line in done.stderr.decode().splitlines()}
        assert "warpline.cli" in loaded
        assert loaded.isdisjoint(HEAVY)


def test_stats_load_neither_polars_nor_rich(start, bad):
    done = start("stats", bad, "-f", "csv", PYTHONPROFILEIMPORTTIME="1")
    loaded = {line.split("|")[-1].strip() for line in done.stderr.decode().splitlines()}
    assert "numpy" in loaded
    assert loaded.isdisjoint({"polars", "rich", "pandas"})
