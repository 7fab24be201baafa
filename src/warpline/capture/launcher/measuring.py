"""Measures a recording in a process of its own, so that this one stays without numpy's threads."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from warpline.capture.finishing.process import own_environment

_MODULE = "warpline.documents.swept_program"


def measured(recording: Path, steps: str | None = None) -> dict[str, Any]:
    """Return what is measured of a recording (``documents.swept_program``), or a note why not.

    Args:
        recording: The recording.
        steps: Name of the ranges that are steps; None detects steps.
    """
    done = subprocess.run(
        [sys.executable, "-P", "-m", _MODULE, str(recording), *([steps] if steps else [])],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        env=own_environment(),
        encoding="utf-8",
        errors="replace",
        check=False,
    )
    if done.returncode == 0:
        found = json.loads(done.stdout.splitlines()[-1])
        return dict(found)
    said = done.stderr.strip().splitlines()
    why = said[-1] if said else f"the process that reads it ended with status {done.returncode}"
    return {"note": f"not measured: {why}"}
