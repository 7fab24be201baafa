"""What runs within a recorded Python program, besides the agent: names from PyTorch.

`startup/sitecustomize.py` loads this package as `_warpline_injected` when a recorded Python starts,
and `warpline.profile` uses it as `warpline.injected`. It must never change what a program does: the
standard library only, relative imports only, the syntax of Python 3.9, and every error of its own
becomes a note in the recording.

WARPLINE_PYTORCH in the environment has the words of ``--pytorch``. Each part is a file with
`start(context)` and `stop()`, and is started when the program has imported torch. Until then,
almost nothing is loaded: most Python programs never do.
"""

from __future__ import annotations

import importlib
import os
import sys

from .watch_import import call_after_import, forget

TYPE_CHECKING = False  # importing typing takes longer than all that is done here
if TYPE_CHECKING:
    from .parts import Parts

_is_begun = False
_parts: Parts | None = None


def begin() -> None:
    """Start what the environment asks for, as soon as the program imports torch.

    Without a session to record to, do nothing. A second call does nothing before `end`.
    """
    global _is_begun  # noqa: PLW0603 - one per process, as the session is
    session = os.environ.get("WARPLINE_SESSION", "")
    if _is_begun or not os.environ.get("WARPLINE_PYTORCH") or not os.path.isdir(session):  # noqa: PTH112
        return
    other = sys.modules.get("_warpline_injected")
    if other is not None and other.__name__ != __name__:
        other.end()  # of a recording that has ended: this package is here for another one
    _is_begun = True
    _tell_process(session)
    call_after_import("torch", _start)


def end() -> None:
    """Stop all parts, before the session ends or the program exits."""
    global _is_begun, _parts
    forget(_start)
    parts, _is_begun, _parts = _parts, False, None
    if parts is not None:
        parts.stop()


def _start() -> None:
    global _parts  # noqa: PLW0603
    environment = os.environ
    _parts = importlib.import_module(f"{__name__}.parts").Parts(
        environment["WARPLINE_SESSION"],
        environment.get("NVTX_INJECTION64_PATH", ""),
        frozenset(environment["WARPLINE_PYTORCH"].split(",")),
    )
    _parts.start()


def _tell_process(session: str) -> None:
    """Note that this process has run the package."""
    path = f"{session}/pytorch/{os.getpid()}-process.jsonl"
    version = ".".join(map(str, sys.version_info[:3]))
    try:
        with open(path, "a", encoding="ascii") as file:  # noqa: PTH123
            file.write(f'{{"python": "{version}"}}\n')
    except OSError:  # the recording has ended, or the disk is full
        pass
