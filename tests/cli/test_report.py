"""``warpline report`` and ``warpline view``: what is written where, and what is refused."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import urllib.request
import zipfile

import pytest

import warpline
from warpline.cli import main
from warpline.cli.names import default_name


@pytest.fixture(autouse=True)
def _in_an_empty_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def head_of(path):
    text = path.read_text(encoding="utf-8")
    found = re.search(r'id="warpline-head">([^<]*)</script>', text)
    assert found
    return json.loads(found[1])


def test_it_writes_one_file_named_as_the_recording(run, bad, tmp_path):
    done = run("report", bad)
    assert (done.status, done.out) == (0, "pageable_h2d.bad.html\n")
    assert "Not all events of these kinds might have been collected" in done.err
    assert [item.name for item in tmp_path.iterdir()] == ["pageable_h2d.bad.html"]
    head = head_of(tmp_path / "pageable_h2d.bad.html")
    streams = [row for row in head["rows"] if row["kind"] == "stream"]
    trace = warpline.open(bad)
    tables = ("kernel", "memcpy", "memset")
    assert sum(row["count"] for row in streams) == sum(map(trace.row_count, tables))
    assert "cuda_gpu_kern_sum" in [item["name"] for item in head["results"]]
    assert head["results"][0]["command"].startswith("warpline stats -r ")


def test_nothing_is_replaced_unless_asked(run, bad):
    assert run("report", bad, "-o", "a.html", "-q") == (0, "a.html\n", "")
    done = run("report", bad, "-o", "a.html")
    assert (done.status, done.err) == (
        2,
        "error: a.html already exists\nhint: use --force-overwrite to replace it\n",
    )
    assert run("report", bad, "-o", "a.html", "-q", "--force-overwrite").status == 0


def test_it_says_how_large_the_file_is(run, bad, tmp_path):
    err = run("report", bad).err
    size = (tmp_path / "pageable_h2d.bad.html").stat().st_size
    assert f"note: wrote {size / 1024:.0f} KiB; the file opens in a browser, also offline\n" in err


@pytest.mark.parametrize(
    ("words", "name"),
    [
        (["a/run.warpline"], "run.html"),
        (["w0.pt.trace.json.gz"], "w0.html"),
        (["run.rank0.sqlite", "run.rank1.sqlite"], "run.html"),
        (["job-12.sqlite", "job-13.sqlite"], "job.html"),
        (["rank0.sqlite", "rank1.sqlite"], "rank.html"),
        (["bad.sqlite", "fixed.sqlite"], "bad.html"),
        (["traces/v1.2"], "v1.2.html"),
        (["."], "{here}.html"),
        (["/"], "report.html"),
    ],
)
def test_the_name_where_none_is_given(words, name, tmp_path):
    (tmp_path / "traces" / "v1.2").mkdir(parents=True)
    assert default_name(words, ".html") == name.format(here=tmp_path.name)


def test_a_page_in_an_archive(run, bad, tmp_path):
    assert run("report", bad, "-o", "a.html", "-q").status == 0
    assert run("report", bad, "-o", "a.zip", "-q") == (0, "a.zip\n", "")
    with zipfile.ZipFile(tmp_path / "a.zip") as archive:
        assert archive.namelist() == ["a.html"]
        assert archive.read("a.html") == (tmp_path / "a.html").read_bytes()
    page = (tmp_path / "a.html").stat().st_size
    assert (tmp_path / "a.zip").stat().st_size < 0.8 * page


def test_a_page_on_standard_output(start, bad, run, tmp_path):
    done = start("report", bad, "-o", "-", "-q", PYTHONIOENCODING="ascii")
    assert (done.returncode, done.stderr) == (0, b"")
    assert run("report", bad, "-o", "a.html", "-q").status == 0
    assert done.stdout == (tmp_path / "a.html").read_bytes()


def test_a_device_is_not_replaced(run, bad, tmp_path):
    os.mkfifo(tmp_path / "pipe")
    done = run("report", bad, "-o", "pipe", "--force-overwrite", "-q")
    assert (done.status, done.err) == (
        2,
        "error: pipe is a device or a pipe\nhint: name a regular file\n",
    )


def test_a_full_disk_leaves_no_file(start, bad, tmp_path):
    limited = "ulimit -f 100; trap '' XFSZ; exec {}"
    done = start("report", bad, "-o", "a.html", "-q", shell=limited)
    assert done.returncode == 1
    assert done.stderr == b"error: cannot write a.html: File too large\n"
    assert list(tmp_path.iterdir()) == []


def test_interrupted_while_writing(bad, tmp_path, monkeypatch):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("pathlib.Path.replace", interrupted)
    assert main(["report", bad, "-o", "a.html", "-q"]) == 130
    assert list(tmp_path.iterdir()) == []


def test_what_was_left_out_is_said(run, capture, tmp_path):
    bad = str(capture("host_sync.bad"))
    assert run("report", bad, "-o", "whole.html", "-q").status == 0
    allowed = (tmp_path / "whole.html").stat().st_size - 4_000
    err = run("report", bad, "-o", "small.html", "--max-size", str(allowed)).err
    assert head_of(tmp_path / "small.html")["thinned"]["text"] in err


def test_a_part(run, bad, tmp_path):
    assert run("report", bad, "--times", "/78ms", "-o", "part.html", "-q").status == 2
    assert run("report", bad, "--filter-time", "/78ms", "-o", "part.html", "-q").status == 0
    part = warpline.open(bad).window(None, 78_000_000)
    head = head_of(tmp_path / "part.html")
    streams = sum(row["count"] for row in head["rows"] if row["kind"] == "stream")
    assert streams == sum(map(part.row_count, ("kernel", "memcpy", "memset")))


def test_ranks_stand_in_one_timeline(run, bad, fixed, tmp_path):
    assert run("report", bad, fixed, "-o", "both.html", "-q").status == 0
    kinds = [row["id"] for row in head_of(tmp_path / "both.html")["rows"] if row["kind"] == "group"]
    assert {"process0", "process1"} <= set(kinds)


@pytest.mark.parametrize("less", [1, 4_000, 8_000, 12_000, 16_000])
def test_every_size_down_to_the_least_is_met(run, capture, tmp_path, less):
    bad = str(capture("host_sync.bad"))
    assert run("report", bad, "-o", "whole.html", "-q").status == 0
    allowed = (tmp_path / "whole.html").stat().st_size - less
    assert run("report", bad, "-o", "small.html", "-q", "--max-size", str(allowed)).status == 0
    assert (tmp_path / "small.html").stat().st_size <= allowed


def test_a_size_that_can_be_met_and_one_that_cannot(run, capture, tmp_path):
    bad = str(capture("host_sync.bad"))
    assert run("report", bad, "-o", "whole.html", "-q").status == 0
    whole = (tmp_path / "whole.html").stat().st_size
    assert head_of(tmp_path / "whole.html")["thinned"] is None
    allowed = whole - 4_000
    words = ("-o", "small.html", "-q", "--max-size")
    assert run("report", bad, *words, str(allowed)).status == 0
    assert (tmp_path / "small.html").stat().st_size <= allowed
    assert head_of(tmp_path / "small.html")["thinned"]["spans"]
    done = run("report", bad, "-o", "tiny.html", "-q", "--max-size", "50kB")
    assert done.status == 2
    assert "the limit is 48.8 KiB" in done.err
    assert not (tmp_path / "tiny.html").exists()


def test_a_size_beyond_all_numbers_is_allowed(run, bad):
    assert run("report", bad, "-q", "--max-size", f"{'9' * 400}GB").status == 0


@pytest.mark.parametrize("size", ["", "big", "-3MB", "3 parsecs"])
def test_what_is_no_size(run, bad, size):
    done = run("report", bad, f"--max-size={size}")
    assert (done.status, done.err) == (
        2,
        f"error: --max-size: invalid size {size!r}\nhint: use a size such as 20MB\n",
    )


def test_a_folder_that_is_not_there(run, bad):
    done = run("report", bad, "-o", "nowhere/a.html", "-q")
    assert done.status == 1
    assert "cannot write nowhere/a.html: there is no directory" in done.err


def test_view_serves_the_page_until_interrupted(bad):
    command = [sys.executable, "-m", "warpline", "view", "--no-browser", bad]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True) as server:
        try:
            assert server.stdout
            url = server.stdout.readline().strip()
            assert url.startswith("http://127.0.0.1:")
            with urllib.request.urlopen(url, timeout=30) as answer:
                text = answer.read().decode()
            assert "warpline-head" in text
            with urllib.request.urlopen(f"{url}blocks/0", timeout=30) as answer:
                assert answer.read(2) == b"\x1f\x8b"
        finally:
            server.send_signal(signal.SIGINT)
        _, err = server.communicate(timeout=30)
    assert server.returncode == 0
    assert "Ctrl+C" in err


def test_view_refuses_what_is_no_port(run, bad):
    done = run("view", "--no-browser", "--port", "70000", bad)
    assert (done.status, done.err) == (2, "error: --port 70000: must be 0 to 65535\n")


def test_an_image_of_a_step(run, bad, tmp_path):
    done = run("report", bad, "-o", "a.svg", "--select", "step:2")
    assert (done.status, done.out) == (0, "a.svg\n")
    text = (tmp_path / "a.svg").read_text(encoding="utf-8")
    assert text.startswith('<svg xmlns="http://www.w3.org/2000/svg" ')
    assert "pageable_h2d.bad.sqlite · step_2 on GPU 0" in text
    assert run("report", bad, "-o", "a.svg").err.startswith("error: a.svg already exists")
    assert run("report", bad, "-o", "a.svg", "-q", "-f") == (0, "a.svg\n", "")
    assert "all GPU work" in (tmp_path / "a.svg").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["-o", "a.svg", "--select", "step:9"], "error: --select: there is no step '9'"),
        (["-o", "a.svg", "--select", "noon"], "error: --select: unknown 'noon'"),
        (["-o", "a.svg", "--max-size", "1MB"], "error: --max-size is of HTML files"),
        (["--select", "step:1"], "error: --select is of images of the timeline"),
        (["--png", "a.png", "-o", "b.html"], "error: --png and -o name two outputs"),
        (["--png", "a.svg"], "error: --png: a.svg is no name of a PNG"),
        (["--png", "-"], "error: --png: - is no name of a PNG"),
    ],
)
def test_images_that_cannot_be_written(run, bad, tmp_path, words, said):
    done = run("report", bad, *words)
    first, hint = done.err.splitlines()
    assert (done.status, first) == (2, said)
    assert hint.startswith("hint: ")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("words", [["--png", "a.png"], ["-o", "a.PNG", "--select", "step:1"]])
def test_a_png_needs_playwright(run, bad, tmp_path, monkeypatch, words):
    monkeypatch.setitem(sys.modules, "playwright.sync_api", None)
    done = run("report", bad, *words)
    error, hint = done.err.splitlines()
    assert (done.status, error) == (1, "error: a PNG needs Playwright, which is not installed")
    assert hint == (
        "hint: pip install 'warpline[png]' and playwright install chromium, or write an SVG:"
        " -o FILE.svg"
    )
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--side-by-side", "BAD"], "two recordings are compared, 1 named"),
        (["--side-by-side"], "two recordings are compared, 0 named"),
        (["--before", "BAD"], "name both sides"),
        (["--side-by-side", "BAD", "BAD", "--filter-time", "1ms/"], "1ms/ cannot be used"),
        (["--side-by-side", "BAD", "missing.sqlite"], "no such file"),
        (["--side-by-side", "BAD", "BAD", "-o", "a.svg"], "no images of two sides"),
        (["--side-by-side", "BAD", "BAD", "--png", "a.png"], "no images of two sides"),
        (["--side-by-side", "BAD", "BAD", "--select", "step:1"], "no images of two sides"),
    ],
)
def test_sides_that_cannot_be_compared_are_refused(words, said, run, bad, tmp_path):
    done = run("report", *(str(bad) if word == "BAD" else word for word in words))
    assert done.status == 2
    assert said in done.err
    assert list(tmp_path.iterdir()) == []


def test_a_page_of_two_sides_is_named_after_both(run, bad, tmp_path):
    done = run("report", "--before", bad, "--after", str(bad).replace("bad", "fixed"))
    assert (done.status, done.out) == (0, "pageable_h2d.bad-pageable_h2d.fixed.html\n")
    assert [path.name for path in tmp_path.iterdir()] == [done.out.strip()]


def test_markdown_is_one_page_to_paste_into_an_issue(run, bad, tmp_path):
    done = run("report", bad, "-o", "a.md", "-q")
    assert (done.status, done.out) == (0, "a.md\n")
    text = (tmp_path / "a.md").read_text("utf-8")
    assert text.startswith("## pageable\\_h2d.bad.sqlite\n")
    headings = re.findall(r"^### (\S+)", text, re.MULTILINE)
    assert headings == [
        *("Environment", "GPU", "Overlap", "Phases", "Kernels", "F1", "F2", "Checklist", "Not"),
    ]
    assert "| GPU | NVIDIA H200, 140 GiB |" in text
    assert "**GPU busy 98.3% of a 17.4 ms step" in text
    assert "- GPU time by module: Profile with warpline profile --pytorch=all." in text
    assert run("report", bad, "-o", "a.md").status == 2, "nothing is replaced unless asked"


@pytest.mark.parametrize(
    "words", [("--max-size", "5MB"), ("--page", "kernels"), ("--side-by-side",)]
)
def test_options_of_html_are_refused_for_markdown(run, bad, words):
    recordings = [bad, bad] if words == ("--side-by-side",) else [bad]
    done = run("report", *recordings, "-o", "a.md", *words)
    assert done.status == 2
    assert "HTML" in done.err
