"""The reports under tests/data/ncu, unpacked for tests, and what Nsight Compute printed of them."""

from __future__ import annotations

import lzma
from pathlib import Path

FOLDER = Path(__file__).parents[1] / "data" / "ncu"
NAMES = ("target", "uncoalesced.fixed")


def unpack(name: str, folder: Path) -> Path:
    """Return the path of ``NAME.ncu-rep`` in a directory, decompressed there once."""
    target = folder / f"{name}.ncu-rep"
    if not target.exists():
        target.write_bytes(lzma.decompress((FOLDER / f"{name}.ncu-rep.xz").read_bytes()))
    return target


def printed(name: str, page: str) -> str:
    """Return what Nsight Compute printed: of ``target``, page ``raw.csv``."""
    return lzma.decompress((FOLDER / f"{name}.{page}.xz").read_bytes()).decode()
