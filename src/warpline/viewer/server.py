"""A local server for one page, reachable only from this machine and only with its secret URL.

All addresses are below a random path, which other web pages cannot guess. A check of the Host
header rejects host names that were rebound to this machine.
"""

from __future__ import annotations

import hmac
import re
import secrets
import threading
from collections.abc import Callable, Mapping, Sequence
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple, Protocol
from urllib.parse import urlsplit

LOOPBACK = "127.0.0.1"
# Any port: that of a tunnel from another machine may differ from the server's.
_HOST = re.compile(r"(127\.0\.0\.1|localhost):[0-9]{1,5}")
_SILENCE_S = 30  # idle connections are closed after this time
_LONGEST_QUESTION = 4_000_000
_LENGTH = re.compile(r"[0-9]{1,12}")
_HEADERS = {
    "Cache-Control": "no-store",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}


class Answer(NamedTuple):
    """A response: its media type and content."""

    media_type: str
    content: bytes


class Site(Protocol):
    """Dynamic content; addresses are relative to the page."""

    def get(self, name: str, query: str) -> Answer | None:
        """Return the content of an address, or None if it does not exist."""

    def post(self, name: str, body: bytes) -> Answer | None:
        """Return the answer to a query, or None if the query is invalid."""


class PageServer(ThreadingHTTPServer):
    """Serves one page and its blocks on the loopback interface.

    Attributes:
        url: The URL to open, including the secret.
        meanwhile: Runs in a background thread once the server is running.
    """

    daemon_threads = True

    def __init__(
        self,
        page: bytes,
        blocks: Sequence[bytes],
        policy: str,
        port: int = 0,
        site: Site | None = None,
    ) -> None:
        """Bind the port; requests are answered once `serve_forever` is called.

        Args:
            page: The page in UTF-8.
            blocks: Contents of ``blocks/N``.
            policy: Content security policy of the page.
            port: Port to listen on; 0 selects a free one.
            site: Answers all requests except for the page and its blocks.

        Raises:
            OSError: The port is taken.
        """
        super().__init__((LOOPBACK, port), _Handler)
        self._secret = secrets.token_urlsafe(24)
        self._policy = policy
        self._site = site
        self._answers: Mapping[str, Answer] = {}
        self.replace(page, blocks)
        self.meanwhile: Callable[[], None] | None = None
        self.url = f"http://{LOOPBACK}:{self.server_port}/{self._secret}/"

    def replace(self, page: bytes, blocks: Sequence[bytes]) -> None:
        """Serve another page from now on."""
        octets = "application/octet-stream"
        self._answers = {
            "": Answer("text/html; charset=utf-8", page),
            **{f"blocks/{number}": Answer(octets, data) for number, data in enumerate(blocks)},
        }

    def serve_forever(self, poll_interval: float = 0.5) -> None:
        """Answer requests until `shutdown`."""
        if self.meanwhile is not None:
            threading.Thread(target=self.meanwhile, daemon=True).start()
        super().serve_forever(poll_interval)

    def find(self, host: str | None, target: str) -> Answer | None:
        """Return the content of an address; None for an unknown address, secret, or host."""
        name = self._name(host, target)
        if name is None:
            return None
        answer = self._answers.get(name)
        if answer is None and self._site is not None:
            return self._site.get(name, urlsplit(target).query)
        return answer

    @property
    def takes_questions(self) -> bool:
        """Whether POST requests are accepted."""
        return self._site is not None

    def ask(self, host: str | None, target: str, body: bytes) -> Answer | None:
        """Return the answer to a POST request; None for an unknown address, secret, or host."""
        name = self._name(host, target)
        return None if name is None or self._site is None else self._site.post(name, body)

    def _name(self, host: str | None, target: str) -> str | None:
        """Return an address relative to the page; None for a wrong secret or host."""
        if not _HOST.fullmatch(host or ""):
            return None
        secret, _, name = urlsplit(target).path.removeprefix("/").partition("/")
        is_right = hmac.compare_digest(secret.encode(), self._secret.encode())
        return name if is_right else None

    @property
    def answer_headers(self) -> Mapping[str, str]:
        """Headers of every answer."""
        return {**_HEADERS, "Content-Security-Policy": f"{self._policy}; frame-ancestors 'none'"}

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Log nothing: browsers close connections at any time."""


class _Handler(BaseHTTPRequestHandler):
    """Answers GET and HEAD, and POST to a site; the base class rejects all other methods."""

    server: PageServer
    protocol_version = "HTTP/1.1"
    server_version = "warpline"
    sys_version = ""
    timeout = _SILENCE_S
    disable_nagle_algorithm = True  # answers are sent in two parts; the first must not wait

    def do_GET(self) -> None:
        self._answer(has_body=True)

    def do_HEAD(self) -> None:
        self._answer(has_body=False)

    def do_POST(self) -> None:
        if not self.server.takes_questions:
            self.send_error(HTTPStatus.NOT_IMPLEMENTED)
            return
        length = self.headers.get("Content-Length", "")
        if not _LENGTH.fullmatch(length) or int(length) > _LONGEST_QUESTION:
            self.close_connection = True  # the body is not read
            self._send(None, HTTPStatus.BAD_REQUEST, has_body=True)
            return
        body = self.rfile.read(int(length))
        answer = self.server.ask(self.headers.get("Host"), self.path, body)
        self._send(answer, HTTPStatus.NOT_FOUND, has_body=True)

    def _answer(self, *, has_body: bool) -> None:
        answer = self.server.find(self.headers.get("Host"), self.path)
        self._send(answer, HTTPStatus.NOT_FOUND, has_body=has_body)

    def _send(self, answer: Answer | None, otherwise: HTTPStatus, *, has_body: bool) -> None:
        status = otherwise if answer is None else HTTPStatus.OK
        answer = answer or Answer("text/plain; charset=utf-8", b"not found\n")
        self.send_response(status)
        for name, value in self.server.answer_headers.items():
            self.send_header(name, value)
        self.send_header("Content-Type", answer.media_type)
        self.send_header("Content-Length", str(len(answer.content)))
        self.end_headers()
        if has_body:
            self.wfile.write(answer.content)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class's name
        """Log nothing: URLs contain the secret."""
