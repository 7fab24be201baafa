"""A line below a cell that is being recorded: what ``warpline top`` shows, once per second."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from warpline.derived.time_parts import TimePart
from warpline.lazy import lazy
from warpline.units import format_ns, format_ratio, plural

if TYPE_CHECKING:
    from IPython import display as ipython_display
else:
    ipython_display = lazy("IPython.display")

DELAY_S = 1.0  # a shorter cell shows nothing
_IDLE = [part.label for part in TimePart if not part.is_busy]
_LEAST_SHARE = 0.01  # of a cause of idle time that is named


class ProgressLine:
    """Shows a recording in progress, with numbers of another process: this one has the program.

    Args:
        recording: The file that is being made.
        is_shown: Whether there is a page whose text can be replaced; otherwise nothing happens.
    """

    def __init__(self, recording: Path, *, is_shown: bool) -> None:
        self._recording = recording
        self._is_shown = is_shown
        self._environment = dict(os.environ)  # without the session's: what shows is not recorded
        self._lock = threading.Lock()
        self._over = threading.Event()
        self._top: subprocess.Popen[str] | None = None
        self._timer = threading.Timer(DELAY_S, self._follow)
        self._timer.daemon = True

    def start(self) -> None:
        """Show the line after a second."""
        if self._is_shown:
            # Made here: the output of other threads may not belong to the cell.
            self._handle = ipython_display.display(_text(""), raw=True, display_id=True)
            self._timer.start()

    def stop(self) -> None:
        """Remove the line."""
        if not self._is_shown:
            return
        with self._lock:
            self._over.set()
            top = self._top
        self._timer.cancel()
        if top is not None:
            top.terminate()
        if self._timer.ident is not None:
            self._timer.join()
        self._handle.update(_text(""), raw=True)

    def _follow(self) -> None:
        words = [sys.executable, "-m", "warpline", "top", "--format=json", str(self._recording)]
        with self._lock:
            if self._over.is_set():
                return
            self._top = subprocess.Popen(
                words,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
                env=self._environment,
            )
        assert self._top.stdout is not None
        with self._top:
            for line in self._top.stdout:
                if self._over.is_set():
                    return
                self._handle.update(_text(in_words(json.loads(line))), raw=True)


def _text(line: str) -> dict[str, str]:
    return {"text/plain": line}


def in_words(update: Mapping[str, Any]) -> str:
    """Return a line of ``warpline top --format json`` in words."""
    return "; ".join([f"recording, {format_ns(update['now_ns'])}", *_parts(update)])


def _parts(update: Mapping[str, Any]) -> Iterator[str]:
    second = update["second"] or {"gpus": []}
    for gpu in second["gpus"]:
        share = gpu["busy_ns"] / (second["end_ns"] - second["start_ns"])
        yield f"GPU {gpu['gpu']} {format_ratio(share)} busy"
    for rank in (update["steps"] or {"ranks": []})["ranks"]:
        if rank["count"]:
            median = rank["median_ns"]
            each = "" if median is None else f" of {format_ns(median)}"
            yield f"{plural(rank['count'], 'step')}{each}"
    times = update["times"] or {"ranks": []}
    for rank in times["ranks"]:
        all_ns = times["end_ns"] - times["start_ns"]
        parts = ((name, rank["parts_ns"].get(name, 0)) for name in _IDLE)
        idle = {name: ns for name, ns in parts if ns >= _LEAST_SHARE * all_ns}
        for name in sorted(idle, key=lambda name: -idle[name])[:2]:
            yield f"idle: {name} {format_ratio(idle[name] / all_ns)}"
    if update["lost_events"]:
        yield f"{plural(update['lost_events'], 'event')} lost"
