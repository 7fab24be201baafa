"""The recordings under tests/data/nsys, unpacked for tests: use the fixture `capture`."""

from __future__ import annotations

import lzma
import shutil
from pathlib import Path

FOLDER = Path(__file__).parents[1] / "data" / "nsys"
SUFFIX = ".sqlite.xz"


def names() -> list[str]:
    """Return the names of all captures."""
    return sorted(path.name.removesuffix(SUFFIX) for path in FOLDER.glob(f"*{SUFFIX}"))


def unpack(name: str, folder: Path) -> Path:
    """Return the path of ``NAME.sqlite`` in a directory, decompressed there once."""
    target = folder / f"{name}.sqlite"
    if not target.exists():
        partial = target.with_suffix(".part")
        with lzma.open(FOLDER / f"{name}{SUFFIX}") as packed, partial.open("wb") as file:
            shutil.copyfileobj(packed, file)
        partial.replace(target)
    return target
