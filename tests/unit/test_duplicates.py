"""The same run given twice is an error; different recordings still merge."""

from __future__ import annotations

import gzip
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

import warpline
from warpline.errors import CorruptTraceError
from warpline.trace import MemorySource, TraceMeta
from warpline.trace.duplicates import refuse_same_runs

KINETO = Path(__file__).parents[1] / "data" / "kineto"


def run_of(name, *, pid=7, start_ns=10, origin_utc_ns=1_000, kernel="gemm", **tables):
    events = {"start_ns": [start_ns, start_ns + 10], "end_ns": [start_ns + 5, start_ns + 15]}
    source = MemorySource(
        {
            "process": {"pid": [pid]},
            "kernel": {**events, "correlation_id": [1, None], "name": [kernel, "shared"]},
            "api_call": {**events, "correlation_id": [1, 2], "name": ["cudaLaunchKernel"] * 2},
            **tables,
        },
        TraceMeta((Path(name),), "memory", origin_utc_ns=origin_utc_ns),
    )
    source.strings.intern_text(name)  # so that the numbers of texts differ
    return source


class Damaged:
    """A source in which one table cannot be read."""

    def __init__(self, source, table):
        self._source, self._table = source, table

    def __getattr__(self, name):
        return getattr(self._source, name)

    def load(self, table, columns):
        if table == self._table:
            raise CorruptTraceError(f"{table} is damaged")
        return self._source.load(table, columns)


@pytest.fixture
def rank(capture):
    return lambda number: capture(f"ddp_serial.bad.rank{number}")


@pytest.mark.parametrize("kind", ["warpline", "sqlite"])
def test_a_run_and_its_export_are_the_same_run(rank, tmp_path, kind):
    exported = warpline.export(rank(0), tmp_path / f"export.{kind}", kind)
    with pytest.raises(warpline.UsageError, match="are the same run") as caught:
        warpline.open(rank(0), rank(1), exported)
    for path in (rank(0), exported):
        assert str(path) in caught.value.message
        assert str(path) in str(caught.value.hint)
    assert "once" in str(caught.value.hint)
    assert len(set(warpline.open(exported, rank(1)).meta.file_of_process)) == 2


def test_a_copy_is_the_same_run(tmp_path):
    packed = KINETO / "pageable_h2d.bad.json.gz"
    copy, plain = tmp_path / "copy.json.gz", tmp_path / "plain.json"
    shutil.copyfile(packed, copy)
    plain.write_bytes(gzip.decompress(packed.read_bytes()))
    for second in (copy, plain):
        with pytest.raises(warpline.UsageError, match="are the same run"):
            warpline.open(packed, second)


def test_a_file_is_given_twice(rank, tmp_path):
    with pytest.raises(warpline.UsageError, match="is given twice"):
        warpline.open(rank(0), rank(0))
    link = tmp_path / "link.sqlite"
    link.symlink_to(rank(0))
    with pytest.raises(warpline.UsageError, match="are the same run"):
        warpline.open([rank(0), link])


def test_a_directory_and_a_file_in_it(tmp_path):
    path = tmp_path / "rank0.pt.trace.json.gz"
    shutil.copyfile(KINETO / "pageable_h2d.bad.json.gz", path)
    with pytest.raises(warpline.UsageError, match="is given twice"):
        warpline.open(tmp_path, path)


def test_recordings_of_different_tools_are_different_runs(capture):
    trace = warpline.open(capture("pageable_h2d.fixed"), KINETO / "pageable_h2d.bad.json.gz")
    assert trace.row_count("process") == 2


@pytest.mark.parametrize(
    "other",
    [
        run_of("b"),
        run_of("b", start_ns=4, origin_utc_ns=1_006),  # an export may have another origin
        run_of("b", origin_utc_ns=None),
        run_of("b", mark={"time_ns": [1], "name": ["only here"]}),
        Damaged(run_of("b"), "kernel"),
    ],
)
def test_the_same_events_are_the_same_run(other):
    with pytest.raises(warpline.UsageError, match="a and b are the same run"):
        refuse_same_runs([run_of("x", pid=8), run_of("a"), other])


@pytest.mark.parametrize(
    "other",
    [
        run_of("b", pid=8),  # another rank in lockstep
        run_of("b", origin_utc_ns=1_001),  # the same program, later
        run_of("b", start_ns=11),
        run_of("b", kernel="other"),
        run_of("b", api_call={"start_ns": [1], "end_ns": [2], "name": ["cudaMalloc"]}),
    ],
)
def test_other_events_are_another_run(other):
    refuse_same_runs([run_of("a"), other])


def test_empty_recordings_merge():
    empty = MemorySource({"kernel": {}, "api_call": {}})
    refuse_same_runs([empty, MemorySource({"kernel": {}}), MemorySource({})])


class Counting:
    """A source that notes which columns are loaded."""

    def __init__(self, source):
        self._source = source
        self.loaded = []

    def __getattr__(self, name):
        return getattr(self._source, name)

    def load(self, table, columns):
        self.loaded += [(table, name) for name in columns]
        return self._source.load(table, columns)


def test_ranks_are_told_apart_without_loading_events():
    ranks = [Counting(run_of(f"rank{pid}", pid=pid)) for pid in (1, 2, 3)]
    refuse_same_runs(ranks)
    assert [rank.loaded for rank in ranks] == [[("process", "pid")]] * 3


def test_containers_of_one_pid_cost_one_column_of_the_smallest_table():
    small = {"start_ns": [1], "end_ns": [2]}
    ranks = [Counting(run_of("a", memset=small)), Counting(run_of("b", memset=small))]
    ranks[1]._source.meta = replace(ranks[1].meta, origin_utc_ns=2_000)
    refuse_same_runs(ranks)
    assert ranks[0].loaded == [("process", "pid"), ("memset", "start_ns")]


def test_the_command_line_says_so(capture, capsys):
    from warpline.cli import main

    path = str(capture("pageable_h2d.fixed"))
    assert main(["stats", path, path]) == 2
    assert "is given twice\nhint: give each run once\n" in capsys.readouterr().err
