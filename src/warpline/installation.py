"""What this installation can do: read recordings, record programs.

The package warpline-agent has what records, and no more. It and Warpline install the same package
``warpline``. The agent's has a file that Warpline lacks, so what cannot be done is refused with a
reason, and so are both at once: their files would mix.
"""

from __future__ import annotations

import os
import sys

from warpline.errors import InstallationError

MARKER = "recording_only.txt"  # written when the package is made

_FOLDER = os.path.dirname(__file__)  # noqa: PTH120 - commands that need no paths start sooner


def reads() -> bool:
    """Return whether this is Warpline, and not warpline-agent."""
    return not os.path.exists(f"{_FOLDER}/{MARKER}")  # noqa: PTH110 - as above


def package() -> str:
    """Return the name of the package that is installed."""
    return "warpline" if reads() else "warpline-agent"


def require_reading(what: str = "reading recordings") -> None:
    """Raise InstallationError if recordings cannot be read.

    Args:
        what: What is to be done, for the message.
    """
    if not reads():
        raise InstallationError(
            f"{what} requires Warpline; this is warpline-agent, which only records",
            hint="record here, and read the recording where Warpline is installed",
        )


def require_linux() -> None:
    """Raise InstallationError on systems where programs cannot be recorded."""
    if sys.platform != "linux":
        raise InstallationError(
            "programs are recorded on Linux only",
            hint="record on Linux, and read the recording here",
        )


def check() -> None:
    """Raise InstallationError if both packages are installed in one place."""
    if not reads() and os.path.exists(f"{_FOLDER}/api"):  # noqa: PTH110 - as above
        place = os.path.dirname(_FOLDER)  # noqa: PTH120 - as above
        raise InstallationError(
            f"warpline and warpline-agent are both installed in {place}",
            hint="pip uninstall warpline warpline-agent, then install one; warpline records, too",
        )
