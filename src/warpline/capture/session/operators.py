"""What a session has of PyTorch's operators, which become rows after its recording is written."""

from __future__ import annotations

from pathlib import Path

from warpline.capture.session.facts import read_facts
from warpline.capture.session.pytorch import FOLDER
from warpline.errors import CaptureError

_WRITTEN = ".ops.json"
UNWRITTEN = "-ops.unwritten"
"""Ends the name of a file of a process that is recording operators and has not written them."""


_ASKED = frozenset(("functions-trace", "functions-trace-shapes"))


def has_operators(session: Path) -> bool:
    """Return whether operators were asked for, or recorded."""
    try:
        facts = read_facts(session)
    except CaptureError:
        facts = {}
    asked = facts.get("pytorch")
    return (isinstance(asked, list) and not _ASKED.isdisjoint(asked)) or bool(
        operator_files(session)
    )


def operator_files(session: Path) -> list[Path]:
    """Return the files with operators, and those of processes that have not written their last."""
    folder = session / FOLDER
    if not folder.is_dir():
        return []
    ending = (_WRITTEN, UNWRITTEN)
    return sorted(path for path in folder.iterdir() if path.name.endswith(ending))
