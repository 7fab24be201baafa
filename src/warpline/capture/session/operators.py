"""The files of a session with what PyTorch recorded of operators."""

from __future__ import annotations

from pathlib import Path

from warpline.capture.session.pytorch import FOLDER

_WRITTEN = ".ops.json"
UNWRITTEN = "-ops.unwritten"
"""Ends the name of a file of a process that is recording operators and has not written them."""


def operator_files(session: Path) -> list[Path]:
    """Return the files with operators, and those of processes that have not written their last."""
    folder = session / FOLDER
    if not folder.is_dir():
        return []
    ending = (_WRITTEN, UNWRITTEN)
    return sorted(path for path in folder.iterdir() if path.name.endswith(ending))
