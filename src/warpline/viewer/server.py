"""A local server of one page: to this machine only, and only to who knows its address.

Everything is below a random path. A page from elsewhere cannot guess it, and a name that was made
to point at this machine is refused by the Host header.
"""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple
from urllib.parse import urlsplit

LOOPBACK = "127.0.0.1"
_HOSTS = (LOOPBACK, "localhost")
_SILENCE_S = 30  # a connection that says nothing for so long is closed
_HEADERS = {
    "Cache-Control": "no-store",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}


class Answer(NamedTuple):
    """What stands at an address: its type and content."""

    media_type: str
    content: bytes


class PageServer(ThreadingHTTPServer):
    """Serves one page and its blocks on the loopback interface.

    Attributes:
        url: The address to open; it holds the secret.
    """

    daemon_threads = True

    def __init__(self, page: bytes, blocks: Sequence[bytes], policy: str, port: int = 0) -> None:
        """Bind the port; nothing is answered before `serve_forever`.

        Args:
            page: The page in UTF-8.
            blocks: What it fetches from ``blocks/N``.
            policy: Content security policy of the page.
            port: Where to listen; 0 takes a free one.

        Raises:
            OSError: The port is taken.
        """
        super().__init__((LOOPBACK, port), _Handler)
        self._secret = secrets.token_urlsafe(24)
        self._policy = policy
        octets = "application/octet-stream"
        self._answers: Mapping[str, Answer] = {
            "": Answer("text/html; charset=utf-8", page),
            **{f"blocks/{number}": Answer(octets, data) for number, data in enumerate(blocks)},
        }
        self.url = f"http://{LOOPBACK}:{self.server_port}/{self._secret}/"

    def find(self, host: str | None, target: str) -> Answer | None:
        """Return what stands at an address, None for nothing or a wrong secret or host."""
        if host not in {f"{name}:{self.server_port}" for name in _HOSTS}:
            return None
        secret, _, name = urlsplit(target).path.removeprefix("/").partition("/")
        is_right = hmac.compare_digest(secret.encode(), self._secret.encode())
        return self._answers.get(name) if is_right else None

    @property
    def answer_headers(self) -> Mapping[str, str]:
        """Headers of every answer."""
        return {**_HEADERS, "Content-Security-Policy": f"{self._policy}; frame-ancestors 'none'"}

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing: browsers close connections whenever they like."""


class _Handler(BaseHTTPRequestHandler):
    """Answers GET and HEAD; every other method is refused by the base class."""

    server: PageServer
    protocol_version = "HTTP/1.1"
    server_version = "warpline"
    sys_version = ""
    timeout = _SILENCE_S

    def do_GET(self) -> None:
        self._answer(has_body=True)

    def do_HEAD(self) -> None:
        self._answer(has_body=False)

    def _answer(self, *, has_body: bool) -> None:
        found = self.server.find(self.headers.get("Host"), self.path)
        status = HTTPStatus.NOT_FOUND if found is None else HTTPStatus.OK
        answer = found or Answer("text/plain; charset=utf-8", b"not found\n")
        self.send_response(status)
        for name, value in self.server.answer_headers.items():
            self.send_header(name, value)
        self.send_header("Content-Type", answer.media_type)
        self.send_header("Content-Length", str(len(answer.content)))
        self.end_headers()
        if has_body:
            self.wfile.write(answer.content)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class's name
        """Say nothing: addresses hold the secret."""
