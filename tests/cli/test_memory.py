"""``warpline memory``: its screen, formats and comparison, on snapshots made by hand."""

from __future__ import annotations

import json

import pytest
from support import memory_histories

import warpline
from warpline.cli import main

MIB = memory_histories.MIB


@pytest.fixture
def snapshot(tmp_path):
    return str(memory_histories.training(tmp_path / "before.pickle"))


@pytest.fixture
def other(tmp_path):
    """The same program with a block that one step leaves."""
    history = memory_histories.History()
    history.allocate(10, [("/app/model.py", 5, "__init__")])
    history.allocate(6, [("/app/cache.py", 3, "keep")])
    first = history.allocate(8, [("/app/model.py", 20, "forward")])
    history.free(first)
    return str(history.write(tmp_path / "after.pickle"))


def test_the_screen_has_the_peak_and_its_holders(snapshot, capsys):
    assert main(["memory", snapshot]) == 0
    out = capsys.readouterr().out
    assert "Peak: 22.0 MiB allocated at 3.00 ms, at most 256 MiB reserved." in out
    assert "GPU 0: 10.0 MiB in use at the end." in out
    lines = [line.split() for line in out.splitlines()]
    assert ["model.py:5", "__init__", "10.0", "MiB", "45.5%", "1"] in lines
    assert ["model.py:20", "forward", "8.00", "MiB", "36.4%", "1"] in lines
    assert out.splitlines()[-1] == f"next: warpline memory -o memory.html {snapshot}"


def test_two_recordings_are_compared_by_line(snapshot, other, capsys):
    assert main(["memory", snapshot, other]) == 0
    out = capsys.readouterr().out
    assert "Peak of GPU 0: 22.0 MiB before, 24.0 MiB after (+2.00 MiB)." in out
    lines = [line.split() for line in out.splitlines()]
    assert ["cache.py:3", "keep", "-", "6.00", "MiB", "+6.00", "MiB"] in lines
    assert ["model.py:21", "forward", "4.00", "MiB", "-", "-4.00", "MiB"] in lines
    assert not any(line[:1] == ["model.py:5"] for line in lines)


def test_json_has_all_tables_in_bytes(snapshot, capsys):
    assert main(["memory", snapshot, "-f", "json"]) == 0
    tables = {table["name"]: table for table in json.loads(capsys.readouterr().out)["tables"]}
    (pool,) = tables["memory_sum"]["rows"]
    assert pool["peak_bytes"] == 22 * MIB
    assert pool["reserved_bytes"] == 256 * MIB
    sizes = {row["line"]: row["in_use_bytes"] // MIB for row in tables["memory_peak:line"]["rows"]}
    assert sizes == {"model.py:5 __init__": 10, "model.py:20 forward": 8, "model.py:21 forward": 4}


def test_holders_are_named_after_what_is_asked_for(snapshot, capsys):
    assert main(["memory", snapshot, "--by", "operator", "-f", "csv", "-q"]) == 0
    out = capsys.readouterr().out
    assert ",Operator\n" in out
    assert ",Line\n" not in out


def test_markdown_has_the_same_tables(snapshot, tmp_path):
    target = tmp_path / "memory.md"
    assert main(["memory", snapshot, "-o", str(target)]) == 0
    assert "| `model.py:5 __init__` | 10.0 MiB | 45.5% | 1 |" in target.read_text()


def test_a_page_is_written_by_its_suffix(snapshot, other, tmp_path, capsys):
    target = tmp_path / "memory.html"
    assert main(["memory", snapshot, other, "-o", str(target)]) == 0
    assert capsys.readouterr().out == f"{target}\n"
    text = target.read_text()
    assert "connect-src &#x27;none&#x27;" in text
    assert "cache.py:3 keep" in text  # without the script, too
    assert main(["memory", snapshot, "-o", str(target)]) != 0
    assert "exists" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--by", "colour"], "--by: unknown name 'colour'"),
        (["x.pickle", "y.pickle"], "at most two recordings are compared, 3 named"),
        (["--device", "7"], "7"),
    ],
)
def test_mistakes_are_named(snapshot, words, message, capsys):
    assert main(["memory", snapshot, *words]) == 2
    assert message in capsys.readouterr().err


def test_without_allocations_there_is_a_hint(tmp_path, capsys):
    path = tmp_path / "trace.json"
    path.write_text(
        '{"traceEvents": [{"ph": "X", "cat": "cpu_op", "name": "a", "ts": 1, "dur": 1}]}'
    )
    assert main(["memory", str(path)]) == 1
    err = capsys.readouterr().err
    assert "no allocations were recorded" in err
    assert "memory" in err.split("hint:")[1]


def test_the_numbers_are_those_of_the_tables(snapshot):
    trace = warpline.open(snapshot)
    (peak,) = (row[0] for row in warpline.stats(trace, "memory_sum").rows())
    assert sum(row[0] for row in warpline.stats(trace, "memory_peak:line").rows()) == peak
    assert sum(row[0] for row in warpline.stats(trace, "memory_peak").rows()) == peak
