"""Ranges, each noted in a file when it has ended, for comparison with the recording."""

from __future__ import annotations

import os
import time
from pathlib import Path

import nvtx

_LEDGER = os.environ["LEDGER"]


def work(name: str, count: int = 1, domain: str | None = None) -> None:
    """Run `count` ranges of one name."""
    for _ in range(count):
        with nvtx.annotate(name, domain=domain):
            pass
        note(name)


def note(name: str) -> None:
    """Note one range of this process. The file is opened anew: programs close what is open."""
    handle = os.open(_LEDGER, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    os.write(handle, f"{os.getpid()} {name}\n".encode())
    os.close(handle)


def tell(name: str) -> None:
    """Let the test, or another process, know that this place is reached."""
    Path(f"{_LEDGER}.{name}").touch()


def leave(name: str, text: str) -> None:
    """Leave a text for whoever waits for this place: the file is there only once it is whole."""
    unfinished = Path(f"{_LEDGER}.{name}.unfinished")
    unfinished.write_text(text)
    unfinished.replace(f"{_LEDGER}.{name}")


def wait_for(name: str, seconds: float = 10.0) -> None:
    """Wait until a place is reached."""
    end = time.monotonic() + seconds
    while not Path(f"{_LEDGER}.{name}").exists():
        if time.monotonic() > end:
            raise TimeoutError(name)
        time.sleep(0.005)
