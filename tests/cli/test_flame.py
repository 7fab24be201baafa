"""``warpline flame``: its screen, formats, page and exports, on a program made by hand."""

from __future__ import annotations

import json

import pytest
from support import sampled_stacks

import warpline
from warpline.cli import main


@pytest.fixture(scope="module")
def recording(tmp_path_factory):
    path = tmp_path_factory.mktemp("flame") / "run.warpline"
    return str(warpline.export(sampled_stacks.trace(), path))


def lines(capsys):
    return [line.split() for line in capsys.readouterr().out.splitlines()]


def test_the_screen_has_the_sum_and_the_functions(recording, capsys):
    assert main(["flame", recording]) == 0
    out = capsys.readouterr().out
    assert "CPU time: 9.00 ms in 7 samples of 2 threads." in out
    rows = [line.split() for line in out.splitlines()]
    assert ["fib", "(fib.py)", *["4.00", "ms", "44.4%", "4.00", "ms", "44.4%", "2"]] in rows
    assert ["[libc.so.6]", *["2.00", "ms", "22.2%", "2.00", "ms", "22.2%", "2"]] in rows
    assert out.splitlines()[-1] == f"next: warpline flame -o flame.html {recording}"


def test_gpu_time_is_listed_by_kernel(recording, capsys):
    assert main(["flame", recording, "--of", "gpu"]) == 0
    out = capsys.readouterr().out
    assert "GPU time: 10.0 ms in 3 GPU operations of 1 thread." in out
    rows = [line.split() for line in out.splitlines()]
    assert ["gemm", *["6.00", "ms", "60.0%", "6.00", "ms", "60.0%", "1"]] in rows
    assert ["train", "(train.py)", *["0", "ns", "0.0%", "7.00", "ms", "70.0%", "0"]] in rows


def test_one_thread_and_python_only(recording, capsys):
    assert main(["flame", recording, "--thread", "worker", "--python-only", "-f", "csv"]) == 0
    found = capsys.readouterr().out
    assert "fib,Python,/app/fib.py,4000000,100.0,4000000,100.0,2" in found
    assert "train" not in found


def test_json_has_times_in_ns(recording, capsys):
    assert main(["flame", recording, "-f", "json"]) == 0
    tables = {table["name"]: table for table in json.loads(capsys.readouterr().out)["tables"]}
    assert tables["flame_sum"]["rows"][0]["total_ns"] == 9_000_000
    by_name = {row["function"]: row for row in tables["flame_functions"]["rows"]}
    assert by_name["train"]["total_ns"] == 4_000_000
    assert by_name["train"]["self_ns"] == 0


def test_markdown_has_the_same_table(recording, tmp_path):
    target = tmp_path / "flame.md"
    assert main(["flame", recording, "-o", str(target)]) == 0
    assert "| `fib (fib.py)` | 4.00 ms | 44.4% |" in target.read_text()


def test_a_page_is_written_by_its_suffix(recording, tmp_path, capsys):
    target = tmp_path / "flame.html"
    assert main(["flame", recording, "-o", str(target)]) == 0
    said = capsys.readouterr()
    assert said.out == f"{target}\n"
    assert "the file opens in a browser" in said.err
    text = target.read_text()
    assert "fib (fib.py)" in text  # without the script
    assert main(["flame", recording, "-o", str(target)]) == 2
    assert "--force-overwrite" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("ending", "kind"),
    [
        (".folded", "collapsed"),
        (".speedscope.json", "speedscope"),
        (".firefox.json", "firefox"),
        (".pb.gz", "pprof"),
    ],
)
def test_other_viewers_have_the_same_files_from_flame_and_export(recording, tmp_path, ending, kind):
    one, other = tmp_path / f"one{ending}", tmp_path / "other"
    chosen = ["--of", "gpu", "-q"]
    assert main(["flame", recording, "-o", str(one), *chosen]) == 0
    assert main(["export", recording, "-t", kind, "-o", str(other), *chosen]) == 0
    assert one.read_bytes() == other.read_bytes()
    named = tmp_path / f"three{ending}"  # without a type, the suffix names it
    assert main(["export", recording, "-o", str(named), *chosen]) == 0
    assert one.read_bytes() == named.read_bytes()


def test_mistakes_are_explained(recording, capsys):
    assert main(["flame", recording, "--of", "wall"]) == 2
    said = capsys.readouterr().err
    assert "unknown kind of flame graph 'wall'" in said
    assert "cpu, python, gpu, offcpu, os" in said
    assert main(["export", recording, "-t", "json", "--of", "cpu", "-o", "x.json"]) == 2
    assert "collapsed, firefox, pprof, speedscope" in capsys.readouterr().err
