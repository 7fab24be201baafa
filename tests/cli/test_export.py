"""``warpline export``: what is written where, and what is refused."""

from __future__ import annotations

import polars as pl
import pytest

import warpline

FULL = (
    "error: cannot write {}: No space left on device\n"
    "hint: free some disk space, or write to another disk\n"
)


@pytest.fixture(autouse=True)
def _in_an_empty_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def test_it_writes_a_recording_named_as_the_original(run, bad, tmp_path):
    done = run("export", bad)
    assert (done.status, done.out) == (0, "pageable_h2d.bad.warpline\n")
    assert "Not all events of these kinds might have been collected" in done.err
    assert [item.name for item in tmp_path.iterdir()] == ["pageable_h2d.bad.warpline"]
    tables = ("-r", "cuda_gpu_kern_sum,cuda_api_sum,nvtx_sum", "-f", "csv", "-q")
    assert run("stats", done.out.strip(), *tables) == run("stats", bad, *tables)


def test_nothing_is_replaced_unless_asked(run, bad):
    assert run("export", bad, "-o", "a.warpline", "-q") == (0, "a.warpline\n", "")
    done = run("export", bad, "-o", "a.warpline", "--device", "0")
    assert (done.status, done.err) == (
        2,
        "error: a.warpline already exists\nhint: use --force-overwrite to replace it\n",
    )
    # The file may even be the one that is read.
    words = ("-o", "a.warpline", "--force-overwrite", "--times", "/1ns", "-q")
    assert run("export", "a.warpline", *words).status == 0
    assert warpline.open("a.warpline").row_count("kernel") == 0


@pytest.mark.parametrize("option", ["--times", "--filter-time"])
def test_a_stretch_of_time(run, bad, option):
    assert run("export", bad, option, "-1ms/78ms", "-o", "part.warpline").status == 0
    part = warpline.open(bad).window(-1_000_000, 78_000_000)
    found = warpline.open("part.warpline")
    assert found.row_count("kernel") == part.row_count("kernel") > 0
    assert found.row_count("kernel") < warpline.open(bad).row_count("kernel")


def test_some_tables(run, bad):
    assert run("export", bad, "--tables", "kernel, memcpy", "-o", "k.warpline").status == 0
    found = warpline.open("k.warpline")
    assert found.has("kernel")
    assert found.has("memcpy")
    assert not found.has("api_call")


def test_ranks_become_one_file(run, bad, fixed):
    assert run("export", bad, fixed, "-o", "both.warpline").status == 0
    assert warpline.open("both.warpline").row_count("process") == 2


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("-t", "sqlit3"), "unknown export format 'sqlit3'"),
        (("--tables", "kernels"), "unknown table 'kernels'\nhint: did you mean kernel?"),
        (("--tables", "counter"), "the recording has no 'counter' table"),
        (("-o", "no/where.warpline"), "there is no directory no"),
        (("-o", "."), ". is a directory"),
        (("--times", "x"), "invalid time range 'x'"),
    ],
)
def test_a_mistake_is_named(run, bad, tmp_path, words, message):
    done = run("export", bad, *words)
    assert done.status in {1, 2}
    assert message in done.err
    assert not [*tmp_path.iterdir()]


def test_a_disk_that_refuses(run, bad, monkeypatch):
    def refuse(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", refuse)
    done = run("export", bad, "-o", "a.warpline", "-q")
    assert done.status == 1
    assert done.err == FULL.format("a.warpline")


def test_python_does_the_same(bad, tmp_path):
    trace = warpline.open(bad)
    path = warpline.export(trace, tmp_path / "a.warpline", tables=["kernel"])
    assert warpline.open(path).row_count("kernel") == trace.row_count("kernel")
    with pytest.raises(warpline.UsageError, match="exists"):
        warpline.export(trace, path)
    warpline.export(trace, path, "warpline", overwrite=True)


def test_the_default_name_is_that_of_the_recording_with_the_suffix_of_the_format(run, bad, fixed):
    for kind in ("json", "perfetto", "sqlite", "parquet", "arrow", "warpline"):
        suffix = "perfetto.json" if kind == "perfetto" else kind
        assert run("export", "-t", kind, bad, "-q", "--tables", "kernel") == (
            0,
            f"pageable_h2d.bad.{suffix}\n",
            "",
        )
    done = run("export", "-t", "json", bad, "-q")
    assert (done.status, done.out) == (2, "")
    assert done.err.startswith("error: pageable_h2d.bad.json already exists\nhint: ")
    assert run("export", "-t", "json", bad, "-q", "-f").status == 0
    assert run("export", bad, fixed, "-q").out == "pageable_h2d.warpline\n"


@pytest.mark.parametrize(
    ("name", "start"),
    [
        ("a.sqlite", b"SQLite format 3"),
        ("a.json", b'{"schema_version"'),
        ("a.perfetto.json", b'{"displayTimeUnit"'),
        ("A.WARPLINE", b"PK"),
        ("a", b"PK"),
    ],
)
def test_the_suffix_chooses_the_format(run, bad, tmp_path, name, start):
    assert run("export", bad, "-o", name, "-q", "--tables", "kernel") == (0, f"{name}\n", "")
    assert (tmp_path / name).read_bytes().startswith(start)


def test_an_unknown_suffix_needs_a_type(run, bad, tmp_path):
    done = run("export", bad, "-o", "a.xyz", "-q")
    assert (done.status, done.out) == (2, "")
    assert done.err.startswith("error: a.xyz: unknown output suffix '.xyz'\nhint: use .")
    assert not [*tmp_path.iterdir()]
    assert run("export", bad, "-o", "a.xyz", "-t", "json", "-q").status == 0


KINDS = ("parquet", "arrow", "json", "perfetto", "sqlite", "warpline")


@pytest.mark.parametrize("kind", KINDS)
def test_a_full_disk_is_one_error_and_leaves_nothing(run, bad, small_disk, kind):
    done = run("export", "-t", kind, bad, "-q", "-o", str(small_disk / "a"))
    assert (done.status, done.out) == (1, "")
    assert done.err == FULL.format(small_disk / "a")
    assert not [*small_disk.iterdir()]


@pytest.mark.parametrize(
    "words",
    [
        ("stats", "-r", "cuda_api_trace,cuda_gpu_trace,cuda_api_trace", "-o", "{}/a.csv"),
        ("report", "-o", "{}/a.html"),
        ("demo", "--copy", "{}/new"),
    ],
)
def test_other_outputs_on_a_full_disk(run, bad, small_disk, words):
    done = run(*(word.format(small_disk) for word in words), *([bad] if "-o" in words else []))
    assert (done.status, done.out) == (1, "")
    assert ": No space left on device\nhint: free some disk" in done.err
    assert not [item for item in small_disk.rglob("*") if item.is_file()]


@pytest.mark.parametrize("kind", ["parquet", "arrow"])
def test_a_full_disk_leaves_an_existing_directory_alone(run, bad, small_disk, kind):
    (small_disk / "kernel.parquet").write_text("mine")
    done = run("export", "-t", kind, bad, "-q", "-f", "-o", str(small_disk))
    assert (done.status, done.err) == (1, FULL.format(small_disk))
    assert [item.name for item in small_disk.iterdir()] == ["kernel.parquet"]
    assert (small_disk / "kernel.parquet").read_text() == "mine"


@pytest.mark.parametrize("place", ["mkdir", "rename", "write"])
def test_a_directory_that_cannot_be_made_leaves_nothing(run, bad, tmp_path, monkeypatch, place):
    def refuse(*_, **__):
        if place == "write":  # as Polars reports it
            raise pl.exceptions.ComputeError("No space left on device (os error 28)")
        raise OSError(28, "No space left on device")

    target = "polars.DataFrame.write_parquet" if place == "write" else f"pathlib.Path.{place}"
    monkeypatch.setattr(target, refuse)
    done = run("export", "-t", "parquet", bad, "-q", "-o", "a")
    assert (done.status, done.out, done.err) == (1, "", FULL.format("a"))
    assert not [*tmp_path.iterdir()]
