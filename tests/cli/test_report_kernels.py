"""``warpline report`` and ``warpline view`` of counters per kernel."""

from __future__ import annotations

import json
import lzma
import re

import pytest

from warpline import api


@pytest.fixture
def counted(data_dir, tmp_path, monkeypatch):
    """The name of a report of ncu in the current directory."""
    monkeypatch.chdir(tmp_path)
    content = lzma.decompress((data_dir / "ncu" / "target.ncu-rep.xz").read_bytes())
    (tmp_path / "target.ncu-rep").write_bytes(content)
    return "target.ncu-rep"


def head_of(path):
    found = re.search(r'id="warpline-head">([^<]*)</script>', path.read_text(encoding="utf-8"))
    assert found
    return json.loads(found[1])


def test_a_report_of_counters_has_a_page_of_its_own(run, counted, tmp_path):
    done = run("report", counted)
    assert (done.status, done.out) == (0, "target.html\n")
    head = head_of(tmp_path / "target.html")
    assert (head["title"], head["launches"]) == (counted, 5)
    assert len(head["blocks"]) == 5 + len(head["code"]) + 1
    assert sum(one["total_ns"] for one in head["by_kernel"]) == head["total_ns"]


def test_beside_a_timeline_the_page_is_chosen(run, counted, bad, tmp_path):
    done = run("report", bad, counted, "-o", "a.html")
    assert done.status == 0
    assert "note: the recording also has profiled kernels: --page kernels shows them\n" in done.err
    assert "rows" in head_of(tmp_path / "a.html")
    assert run("report", bad, counted, "-o", "b.html", "--page", "kernels").status == 0
    assert head_of(tmp_path / "b.html")["launches"] == 5


def test_a_recording_without_counters_has_no_such_page(run, bad):
    done = run("report", bad, "-o", "-", "--page", "kernels")
    assert (done.status, done.out) == (2, "")
    assert done.err.startswith("error: the recording has no profiled kernels\nhint: profile with")


@pytest.mark.parametrize("more", [(), ("--page", "kernels")])
def test_images_show_timelines_only(run, counted, more):
    done = run("report", counted, "-o", "a.svg", *more)
    assert done.err == "error: images show the timeline only\nhint: use -o FILE.html\n"


def test_a_limit_leaves_out_sections_and_says_so(run, counted, tmp_path):
    run("report", counted, "-o", "whole.html", "-q")
    size = (tmp_path / "whole.html").stat().st_size
    done = run("report", counted, "-o", "small.html", "--max-size", f"{size - 1000}")
    assert "note: To fit the size limit, the sections of 1 launch were left out.\n" in done.err
    assert (tmp_path / "small.html").stat().st_size < size - 1000
    head = head_of(tmp_path / "small.html")
    assert head["notes"] == ["To fit the size limit, the sections of 1 launch were left out."]
    done = run("report", counted, "-o", "none.html", "--max-size", "50kB")
    assert done.err.startswith("error: the report needs at least ")


def test_view_serves_the_same_page(run, counted, tmp_path):
    assert run("report", counted, "-o", "a.html", "-q").status == 0
    server = api.serve(counted)
    try:
        host, path = server.url.removeprefix("http://").split("/", 1)
        answer = server.find(host, f"/{path}")
        assert answer is not None
        assert answer.content == (tmp_path / "a.html").read_bytes()
        assert "connect-src 'none'" in server.answer_headers["Content-Security-Policy"]
    finally:
        server.server_close()
