"""``warpline export``: what is written where, and what is refused."""

from __future__ import annotations

import pytest

import warpline


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
        "error: a.warpline exists\nhint: --force-overwrite replaces it\n",
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
        (("--tables", "kernels"), "there is no table 'kernels'\nhint: did you mean kernel?"),
        (("--tables", "counter"), "the recording holds no 'counter' table"),
        (("-o", "no/where.warpline"), "there is no folder no"),
        (("-o", "."), ". is a folder"),
        (("--times", "x"), "'x' is not a stretch of time"),
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
    assert done.err == "error: a.warpline cannot be written: No space left on device\n"


def test_python_does_the_same(bad, tmp_path):
    trace = warpline.open(bad)
    path = warpline.export(trace, tmp_path / "a.warpline", tables=["kernel"])
    assert warpline.open(path).row_count("kernel") == trace.row_count("kernel")
    with pytest.raises(warpline.UsageError, match="exists"):
        warpline.export(trace, path)
    warpline.export(trace, path, "warpline", overwrite=True)
