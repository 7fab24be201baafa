"""What runs within a recorded Python program, besides the agent: names from PyTorch.

`startup/sitecustomize.py` loads this package as `_warpline_injected` when a recorded Python starts,
and `warpline.profile` uses it as `warpline.injected`. It must never change what a program does: the
standard library only, relative imports only, the syntax of Python 3.9, and every error of its own
becomes a note in the recording.

WARPLINE_PYTORCH in the environment has the words of ``--pytorch``. Each part is a file with
`start(context)` and `stop()`, and is started when the program has imported torch.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False  # importing typing takes longer than this file
if TYPE_CHECKING:
    from .parts import Parts

_running: Parts | None = None


def begin() -> None:
    """Start what the environment asks for, as soon as the program imports torch.

    Without a session to record to, do nothing. A second call does nothing before `end`.
    """
    global _running  # noqa: PLW0603 - one per process, as the session is
    words = os.environ.get("WARPLINE_PYTORCH", "")
    session = os.environ.get("WARPLINE_SESSION", "")
    agent = os.environ.get("NVTX_INJECTION64_PATH", "")
    if _running is not None or not words or not agent or not os.path.isdir(session):  # noqa: PTH112
        return
    from .parts import Parts  # noqa: PLC0415 - programs that are not recorded do not load it

    _running = Parts(session, agent, frozenset(words.split(",")))
    _running.begin()


def end() -> None:
    """Stop all parts, before the session ends or the program exits."""
    global _running
    running, _running = _running, None
    if running is not None:
        running.end()
