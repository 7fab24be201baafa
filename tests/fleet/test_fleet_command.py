"""`warpline fleet analyze`: what it prints, which files it leaves out, and its errors."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest
from support.json_schema import violations

from warpline import api
from warpline.api.fleet_reading import matching
from warpline.cli import main
from warpline.errors import InputError, UsageError

has_dask = importlib.util.find_spec("distributed") is not None


@pytest.fixture(scope="module")
def ranks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with two ranks of a real job, a damaged file and junk."""
    from support.captures import unpack

    folder = tmp_path_factory.mktemp("ranks")
    for rank in (0, 1):
        found = unpack(f"ddp_serial.bad.rank{rank}", folder)
        if found.parent != folder:
            (folder / found.name).write_bytes(found.read_bytes())
    good = (folder / "ddp_serial.bad.rank0.sqlite").read_bytes()
    (folder / "rank7.sqlite").write_bytes(good[: len(good) // 3])
    (folder / "rank8.sqlite").write_bytes(b"junk")
    return folder


def run(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    status = main(["fleet", *words])
    return status, *capsys.readouterr()


def test_one_screen(ranks: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status, out, err = run(capsys, "analyze", f"{ranks}/*.sqlite", "--workers", "1")
    assert (status, err) == (0, "")
    text = " ".join(out.split())
    assert "2 ranks, 5 steps of 25.5 ms (mean)" in text
    assert "Rank 1 runs behind: the other rank waits 10.1 ms per step" in text
    assert "2 recordings left out" in text
    assert "rank8.sqlite: unsupported file format" in text
    assert len(out.splitlines()) <= 60


def test_json_keeps_its_contract(
    ranks: Path, repository: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ("analyze", f"{ranks}/*.sqlite", "--workers", "1", "--format", "json")
    status, out, _ = run(capsys, *words)
    found = json.loads(out)
    schema = json.loads((repository / "docs" / "fleet.schema.json").read_text(encoding="utf-8"))
    assert status == 0
    assert violations(found, schema) == []
    assert sum(part["ns"] for part in found["breakdown"]["parts"]) == found["breakdown"]["total_ns"]
    assert [Path(item["path"]).name for item in found["left_out"]] == [
        "rank7.sqlite",
        "rank8.sqlite",
    ]
    assert [item["rank"] for item in found["stragglers"]] == [1]


def test_markdown_and_files(
    ranks: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = tmp_path / "answer.md"
    words = ("analyze", f"{ranks}/ddp*", "--workers", "1", "-o", str(target))
    assert run(capsys, *words)[0] == 0
    assert "Rank 1 runs behind" in target.read_text(encoding="utf-8")
    status, _, err = run(capsys, *words)
    assert status != 0
    assert "--force-overwrite" in err


def test_page_and_parquet(ranks: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page, rows = tmp_path / "fleet.html", tmp_path / "steps.parquet"
    words = ("analyze", f"{ranks}/ddp*", "--workers", "1", "-o", str(page), "--parquet", str(rows))
    status, out, err = run(capsys, *words)
    assert (status, out) == (0, f"{page}\n")
    assert "Rank 1 runs behind" in err
    assert err.splitlines()[-1].endswith("the file opens in a browser")
    text = page.read_text(encoding="utf-8")
    assert "Rank 1 runs behind" in text
    assert "ddp_serial.bad.rank1.sqlite -o ddp_serial.bad.rank1.html" in text
    frame = pl.read_parquet(rows)
    assert frame.select("rank", "step").rows() == [(rank, n) for rank in (0, 1) for n in range(5)]
    status, _, err = run(capsys, *words)
    assert status == 2
    assert "--force-overwrite" in err


def test_fail_on(ranks: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ("analyze", f"{ranks}/ddp*", "--workers", "1", "--fail-on", "high")
    assert run(capsys, *words)[0] == 3


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((), "missing PART argument"),
        (("compute",), "no part 'compute'"),
        (("analyze",), "missing RECORDING argument"),
        (("analyze", "nothing/*.warpline"), "no recording matches nothing/*.warpline"),
        (("analyze", "x", "--workers", "0"), "--workers 0"),
        (("analyze", "x", "--workers", "2", "--scheduler", "tcp://x"), "cannot be combined"),
        (("analyze", "x", "--format", "csv"), "unknown format 'csv'"),
        (("analyze", "x", "-o", "x.pdf"), "unknown output suffix '.pdf'"),
        (("analyze", "x", "-o", "a.json", "--parquet", "a.json"), "name the same file"),
        (("analyze", "x", "--fail-on", "grave"), "unknown severity 'grave'"),
        (("analyze", "missing.warpline"), "none of 1 recording could be used"),
    ],
)
def test_mistakes(words: tuple[str, ...], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    status, out, err = run(capsys, *words)
    assert status in {1, 2}
    assert out == ""
    assert message in err
    assert len(err.splitlines()) <= 2


def test_recordings_are_named_once(ranks: Path) -> None:
    named = matching([f"{ranks}/ddp*", ranks / "ddp_serial.bad.rank0.sqlite"])
    assert len(named) == 2


def test_a_rank_counts_once(ranks: Path, tmp_path: Path) -> None:
    for name in ("ddp_serial.bad.rank0.sqlite", "ddp_serial.bad.rank1.sqlite"):
        (tmp_path / name).symlink_to(ranks / name)
    (tmp_path / "rank0.again.sqlite").symlink_to(ranks / "ddp_serial.bad.rank0.sqlite")
    found = api.fleet(f"{tmp_path}/*", workers=1)
    assert len(found.ranks) == 2
    assert [item.reason for item in found.left_out] == [
        "holds the same rank as ddp_serial.bad.rank0.sqlite"
    ]


def test_nothing_usable_is_an_error(ranks: Path) -> None:
    with pytest.raises(InputError, match=r"none of 2 recordings could be used: rank7.sqlite"):
        api.fleet([f"{ranks}/rank*"], workers=1)


@pytest.mark.skipif(has_dask, reason="dask.distributed is installed")
def test_workers_need_the_extra(ranks: Path) -> None:
    with pytest.raises(UsageError, match=r"dask\.distributed") as raised:
        api.fleet([f"{ranks}/ddp*"], workers=2)
    assert "warpline[cluster]" in str(raised.value.hint)


def test_one_worker_does_not_import_dask(ranks: Path) -> None:
    code = (
        "import sys; from warpline import api;"
        f" api.fleet([{str(ranks)!r} + '/ddp*'], workers=1);"
        " sys.exit('dask' in sys.modules or 'distributed' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
