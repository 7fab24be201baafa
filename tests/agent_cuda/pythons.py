"""The Pythons of this machine whose stacks the agent knows."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest

VERSIONS = ("3.9", "3.10", "3.11", "3.12", "3.13", "3.14", "3.15")


def interpreter(version: str) -> str:
    """Return an interpreter of a version, or skip the test."""
    if version == f"{sys.version_info.major}.{sys.version_info.minor}":
        return sys.executable
    folder = Path.home() / ".pyenv" / "versions"
    installed = sorted(folder.glob(f"{version}.*/bin/python3"))
    found = str(installed[-1]) if installed else shutil.which(f"python{version}")
    if found is None:
        pytest.skip(f"Python {version} is not installed")
    return found
