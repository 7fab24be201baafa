"""``warpline query``: published SQL runs unchanged, on every format, and nothing is written."""

from __future__ import annotations

import csv
import io
import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import pytest

import warpline

TOP_KERNELS = """
SELECT s.value AS name, COUNT(*) AS calls, SUM(k.end - k.start) AS total
FROM CUPTI_ACTIVITY_KIND_KERNEL AS k JOIN StringIds AS s ON s.id = k.demangledName
GROUP BY name ORDER BY total DESC, name LIMIT 10
"""
PIDS = "SELECT DISTINCT globalTid / 0x1000000 % 0x1000000 AS pid FROM NVTX_EVENTS"
RECURSIVE = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT max(i) FROM n"


@pytest.fixture
def recording(bad, tmp_path):
    return str(warpline.export(warpline.open(bad), tmp_path / "run.warpline"))


def test_published_statements_run_on_every_format(run, bad, recording):
    base = sqlite3.connect(f"file:{bad}?mode=ro&immutable=1", uri=True)
    for statement in (TOP_KERNELS, PIDS):
        expected = [tuple(map(str, row)) for row in base.execute(statement)]
        for path in (bad, recording):
            done = run("query", path, statement, "-f", "csv", "-q")
            assert [tuple(row) for row in csv.reader(io.StringIO(done.out))][1:] == expected
    base.close()


def test_own_tables(run, bad):
    statement = "SELECT short_name, COUNT(*) AS n FROM kernel GROUP BY short_name ORDER BY n DESC"
    found = json.loads(run("query", bad, statement, "--format", "json").out)["tables"][0]["rows"]
    assert sum(row["n"] for row in found) == warpline.open(bad).row_count("kernel")


def test_a_part_answers_for_itself(run, bad):
    count = "SELECT COUNT(*) AS n FROM "
    words = ("--filter-time", "/78ms", "-f", "csv", "-q")
    ours = run("query", bad, f"{count}kernel", *words).out
    assert ours == run("query", bad, f"{count}CUPTI_ACTIVITY_KIND_KERNEL", *words).out
    assert 0 < int(ours.split()[1]) < warpline.open(bad).row_count("kernel")


def test_python_gives_a_frame(bad, recording):
    for path in (bad, recording):
        frame = warpline.query(warpline.open(path), TOP_KERNELS)
        assert frame.columns == ["name", "calls", "total"]
        assert frame["total"].is_sorted(descending=True)


def test_values_of_every_kind(run, bad):
    done = run("query", bad, "SELECT 1 a, 2.5 a, NULL, x'00ff', 'FROM kernel'", "-f", "csv", "-q")
    assert done.out == "a,a_2,NULL,x'00ff','FROM kernel'\n1,2.5,,00ff,FROM kernel\n"


def test_a_table_without_rows_is_there(run, recording):
    statement = "SELECT COUNT(*) AS n FROM CUPTI_ACTIVITY_KIND_GRAPH_TRACE"
    assert run("query", recording, statement, "-f", "csv", "-q").out == "n\n0\n"


def test_no_rows_still_have_columns(run, bad):
    done = run("query", bad, "SELECT start FROM NVTX_EVENTS WHERE start > 1e18", "-f", "csv", "-q")
    assert (done.status, done.out) == (0, "start\n")


@pytest.mark.parametrize(
    "statement",
    [
        "WITH kernel AS (SELECT 7 AS n FROM StringIds LIMIT 1) SELECT n FROM kernel",
        "SELECT 7 AS n -- FROM kernel\nFROM StringIds LIMIT 1",
        "SELECT 7 AS n FROM (SELECT 1 FROM StringIds LIMIT 1)",
    ],
)
def test_a_name_of_ours_that_means_something_else(run, bad, statement):
    assert run("query", bad, statement, "-f", "csv", "-q").out == "n\n7\n"


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        (
            "SELECT * FROM kernel, StringIds",
            "mixes Warpline and nsys tables: kernel and StringIds\nhint:",
        ),
        ("SELECT * FROM kernel k JOIN StringIds s ON 1", "mixes Warpline and nsys tables"),
        ("SELECT * FROM nope", "SQL: no such table: nope\nhint: tables here: CUPTI_"),
        ("SELECT nope FROM kernel", 'SQL: unable to find column "nope"'),
        ("SELEC 1", 'SQL: near "SELEC": syntax error'),
        ("SELECT 1; SELECT 2", "one statement at a time"),
        ("  ", "the SQL query is empty"),
        ("DROP TABLE StringIds", "not authorized\nhint: recordings are read-only"),
        ("ATTACH 'made.db' AS made", "not authorized"),
        ("PRAGMA writable_schema = 1", "not authorized"),
        ("CREATE TEMP TABLE a (b)", "not authorized"),
    ],
)
def test_a_mistake_is_told_in_the_engines_words(
    run, bad, tmp_path, monkeypatch, statement, message
):
    monkeypatch.chdir(tmp_path)
    done = run("query", bad, statement)
    assert (done.status, done.out) == (2, "")
    assert message in done.err
    assert not [*tmp_path.iterdir()]


def test_a_missing_table_is_not_listed(run, bad, recording):
    graphs = "CUPTI_ACTIVITY_KIND_GRAPH_TRACE"  # known, but not in this file
    for path, missing in ((bad, graphs), (bad, "counter"), (recording, "counter")):
        said = run("query", path, f"SELECT * FROM {missing}").err.splitlines()
        assert said[0] == f"error: SQL: no such table: {missing}"
        assert said[1].startswith(f"hint: {missing} was not recorded. Tables here: CUPTI_")
        assert missing not in said[1].partition("Tables here: ")[2].split(", ")


def test_a_mistyped_table_is_answered_with_the_nearest(run, bad):
    for missing, near in (("NVTX_EVENT", "NVTX_EVENTS"), ("kernls", "kernel")):
        done = run("query", bad, f"SELECT * FROM {missing}")
        assert done.err.splitlines()[1] == f"hint: did you mean {near}?"


def test_without_a_statement(run, bad):
    done = run("query", bad)
    assert done.status == 2
    assert done.err.startswith("error: missing RECORDING or SQL argument\nhint:")


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="reads /proc")
def test_ctrl_c_ends_an_endless_statement(bad):
    words = [sys.executable, "-m", "warpline", "query", bad, RECURSIVE]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as started:
        descriptors = Path(f"/proc/{started.pid}/fd")
        while not any(os.path.realpath(item) == bad for item in descriptors.iterdir()):
            assert started.poll() is None
            time.sleep(0.01)
        started.send_signal(signal.SIGINT)
        out, err = started.communicate(timeout=60)
    assert (started.returncode, out, err) == (130, b"", b"")
