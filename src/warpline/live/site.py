"""The page of a recording in progress: its timeline and numbers, from a server on this machine."""

from __future__ import annotations

import base64
import json
import re
import threading
import time

from warpline.errors import WarplineError
from warpline.live.answers import plain
from warpline.live.picture import empty_picture, picture
from warpline.live.source import empty_meta
from warpline.live.watch import Times, Update, Watcher
from warpline.trace import Trace
from warpline.viewer.container import Container
from warpline.viewer.page import assets, page
from warpline.viewer.server import Answer, PageServer
from warpline.viewer.serving import listening

SHARE = 0.35  # of a CPU at most, for the pictures, while somebody looks
_PERIOD_S = 1.0
_REST_S = 5.0  # without a question, nobody looks
_KNOWN = re.compile(r"known=([0-9]{1,12})")


class LiveSite:
    """Answers what the page asks; a thread looks at the recording while it is asked.

    Args:
        watched: The recording.
    """

    def __init__(self, watched: Watcher) -> None:
        self._watched = watched
        self._update: Update = watched.last
        self._failure: str | None = None
        self._version, self._picture = 0, b""
        self._asked = threading.Event()
        self._asked_at = 0.0

    def run(self) -> None:
        """Look at the recording once per second, until it has ended."""
        due = time.monotonic()
        while True:
            if time.monotonic() - self._asked_at > _REST_S:
                self._asked.clear()
                self._asked.wait()
            try:
                self._update = self._watched.update(self._draw)
            except WarplineError as error:
                self._failure = error.message
                return
            if not self._update.is_recording:
                return
            due = max(due + _PERIOD_S, time.monotonic())
            time.sleep(max(due - time.monotonic(), 0))

    def get(self, name: str, query: str) -> Answer | None:
        """Return the numbers and, if it is later than the known one, the timeline."""
        if name != "live":
            return None
        self._asked_at = time.monotonic()
        self._asked.set()
        known = _KNOWN.fullmatch(query)
        version, drawn = self._version, self._picture
        told = {"update": plain(self._update), "failure": self._failure, "version": version}
        content = json.dumps(told, separators=(",", ":")).encode()
        if known is not None and int(known[1]) < version:
            content = content[:-1] + b"," + drawn + b"}"
        return Answer("application/json", content)

    def post(self, name: str, body: bytes) -> Answer | None:
        """Return None: nothing is asked this way."""
        return None

    def _draw(self, part: Trace, _: Times) -> None:
        drawn = _members(picture(part))
        self._picture, self._version = drawn, self._version + 1


def live_server(watched: Watcher, name: str, port: int) -> PageServer:
    """Return a server of the page, not yet running.

    Args:
        watched: The recording.
        name: The name of the recording.
        port: Port to listen on; 0 selects a free one.

    Raises:
        InputError: The port is in use, or the viewer script is not installed.
    """
    site, parts = LiveSite(watched), assets()
    container = empty_picture(empty_meta(name))
    content = "".join(page(None, container, parts, "http")).encode()
    server = listening(content, [block.data for block in container.blocks], parts, port, site)
    server.meanwhile = site.run
    return server


def _members(container: Container) -> bytes:
    """Return head and blocks as members of a JSON object."""
    blocks = [base64.b64encode(block.data).decode() for block in container.blocks]
    return f'"head":{container.head_json("http")},"blocks":{json.dumps(blocks)}'.encode()
