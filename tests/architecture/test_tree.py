"""The tree beside the source: sample data and what the documents promise."""

from __future__ import annotations

import re
from pathlib import Path

DATA_LIMIT_BYTES = 6 * 2**20


def test_sample_data_is_small_and_explained(data_dir: Path) -> None:
    files = [path for path in data_dir.rglob("*") if path.is_file() and path.name != "INDEX.md"]
    assert sum(path.stat().st_size for path in files) <= DATA_LIMIT_BYTES
    index = (data_dir / "INDEX.md").read_text(encoding="utf-8")
    explained = {name for line in index.splitlines() for name in re.findall(r"`([^`]+)`", line)}
    names = {path.relative_to(data_dir).as_posix() for path in files}
    assert names - explained == set(), "files that INDEX.md does not explain"
