"""Every command treats existing output alike: status 2, one sentence, --force-overwrite."""

from __future__ import annotations

from pathlib import Path

import pytest

NAMES = {
    "a.csv": ("stats", "BAD", "-r", "nvtx_sum", "-o", "a.csv"),
    "a.json": ("summary", "BAD", "-o", "a.json"),
    "a.md": ("query", "BAD", "SELECT name FROM kernel LIMIT 1", "-o", "a.md"),
    "b.json": ("analyze", "BAD", "-o", "b.json"),
    "a.html": ("report", "BAD", "-o", "a.html"),
    "a.warpline": ("export", "BAD", "-o", "a.warpline"),
    "pageable_h2d.bad.sqlite": ("demo", "--copy", "."),
}


@pytest.mark.parametrize("name", NAMES)
def test_existing_output_is_replaced_only_on_request(run, bad, tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    words = [bad if word == "BAD" else word for word in NAMES[name]]
    Path(name).write_text("precious")
    assert run(*words) == (
        2,
        "",
        f"error: {name} already exists\nhint: use --force-overwrite to replace it\n",
    )
    assert [path.name for path in tmp_path.iterdir()] == [name]
    assert Path(name).read_text() == "precious"
    assert run(*words, "--force-overwrite").status == 0
    assert Path(name).read_bytes() != b"precious"
