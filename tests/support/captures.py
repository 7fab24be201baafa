"""The recordings under tests/data/nsys, unpacked for tests: use the fixture `capture`."""

from __future__ import annotations

import lzma
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from _pytest.mark import ParameterSet

FOLDER = Path(__file__).parents[1] / "data" / "nsys"
SUFFIX = ".sqlite.xz"
COVERED = {  # by another one, which has events of the same program in the same tables
    "ddp_payloads.part.rank0": "ddp_payloads.whole.rank0",
    "ddp_serial.bad.rank0": "ddp_serial.bad.rank1",
    "host_sync.bad": "rich_metrics_sampling",
}


def names() -> list[str]:
    """Return the names of all captures."""
    return sorted(path.name.removesuffix(SUFFIX) for path in FOLDER.glob(f"*{SUFFIX}"))


def cases() -> list[ParameterSet]:
    """Return the names as parameters: those that another one covers are for `make thorough`."""
    marks = {name: [pytest.mark.thorough] if name in COVERED else [] for name in names()}
    return [pytest.param(name, marks=marks[name]) for name in names()]


def unpack(name: str, folder: Path) -> Path:
    """Return the path of ``NAME.sqlite`` in a directory, decompressed there once."""
    target = folder / f"{name}.sqlite"
    if not target.exists():
        partial = target.with_suffix(".part")
        with lzma.open(FOLDER / f"{name}{SUFFIX}") as packed, partial.open("wb") as file:
            shutil.copyfileobj(packed, file)
        partial.replace(target)
    return target
