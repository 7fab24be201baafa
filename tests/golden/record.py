"""Record nsys's output for captures: the golden files for test_nsys_csv.py.

Usage: python tests/golden/record.py NSYS CAPTURE.sqlite...

NSYS is the nsys executable of Nsight Systems 2024.2. Each capture gives one file in
tests/data/golden, a ZIP of one CSV per table; add it to tests/data/INDEX.md. Tests do not run this.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
import zipfile
from functools import partial
from pathlib import Path

from warpline import plugins
from warpline.result import ANALYSES

FOLDER = Path(__file__).parents[1] / "data" / "golden"
RECORDED = (2026, 1, 1, 0, 0, 0)  # a fixed time, so that the same content is the same file

# A large table that differs only in its names; the summary covers these names.
TOO_LARGE = ("cuda_kern_exec_trace:base", "cuda_kern_exec_trace:mangled")
# If a call was recorded with and without its backtrace, nsys counts its kernels twice.
COUNTED_TWICE = {"rich_metrics_sampling": ("cuda_kern_exec_", "nvtx_kern_sum")}


def tables() -> list[str]:
    """Return nsys's tables with each of their arguments, in the form of ``-r``."""
    plugins.load("analyses")
    ours = [item for item in ANALYSES if "nsys stats -r" in item.doc]
    return [f"{item.name}{a}" for item in ours for a in ("", *(f":{x}" for x in item.arguments))]


def is_recorded(capture: str, table: str) -> bool:
    """Return whether to keep a table of a capture: it must be correct and not too large."""
    return table not in TOO_LARGE and not table.startswith(COUNTED_TWICE.get(capture, ()))


def record(nsys: Path, capture: Path) -> Path:
    """Write the golden file of a capture and return its path."""
    path = FOLDER / f"{capture.stem}.zip"
    with tempfile.TemporaryDirectory() as folder, zipfile.ZipFile(path, "w") as golden:
        copy = Path(folder) / capture.name  # nsys may write beside the file
        shutil.copyfile(capture, copy)
        for table in filter(partial(is_recorded, capture.stem), tables()):
            options = ["-q", "--format", "csv", "-r", table, "-o", "-"]
            command = [str(nsys), "stats", *options, str(copy)]
            printed = subprocess.run(command, capture_output=True, check=True).stdout
            member = zipfile.ZipInfo(f"{table}.csv", RECORDED)
            golden.writestr(member, printed, zipfile.ZIP_LZMA)
    return path


if __name__ == "__main__":
    for name in sys.argv[2:]:
        sys.stdout.write(f"{record(Path(sys.argv[1]), Path(name))}\n")
