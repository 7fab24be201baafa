"""``warpline view HOST:PATH``: the viewer serves there, and a port here leads to it."""

from __future__ import annotations

import contextlib
import re
import socket
from collections.abc import Iterator, Sequence

from warpline.errors import HostError
from warpline.frozen import frozen
from warpline.hosts import Place
from warpline.remote.job import encoded
from warpline.remote.ssh import Connection, Exchange

_LOOPBACK = "127.0.0.1"
_URL = re.compile(r"http://127\.0\.0\.1:(?P<port>[0-9]{1,5})/(?P<secret>[A-Za-z0-9_-]{1,100})/")


class NoReaderError(HostError):
    """The Python there lacks modules that read recordings."""


@frozen
class Tunnel:
    """A viewer on another machine that can be reached from here.

    Attributes:
        url: The URL here, with its secret.
        exchange: The exchange with the machine.
    """

    url: str
    exchange: Exchange

    def wait(self) -> None:
        """Wait until the viewer ends: HostError."""
        self.exchange.hear()


@contextlib.contextmanager
def opened(
    place: Place, connection: Connection, port: int, words: Sequence[str]
) -> Iterator[Tunnel]:
    """Serve a recording where it is, for as long as the block runs.

    Args:
        place: The recording.
        connection: The connection to its machine.
        port: The port of the loopback interface here; 0 for a free one.
        words: Further options of ``warpline view``.

    Raises:
        NoReaderError: Recordings cannot be read there.
        HostError: Nor can anything else be done there.
    """
    request = {"do": "view", "path": encoded(place.path), "words": list(words)}
    with connection.request(request) as exchange:
        said = exchange.hear()
        if "lacking" in said:
            lacking = ", ".join(map(str, said["lacking"]))
            raise NoReaderError(f"{said['python']} on {place.host} lacks {lacking}")
        found = _URL.fullmatch(str(said.get("url")))
        if found is None:
            raise HostError(f"{place.host}: unexpected answer")
        ports = port or _free_port(), int(found["port"])
        connection.forward(*ports)
        try:
            yield Tunnel(f"http://{_LOOPBACK}:{ports[0]}/{found['secret']}/", exchange)
        finally:
            connection.unforward(*ports)


def _free_port() -> int:
    with socket.socket() as found:
        found.bind((_LOOPBACK, 0))
        return int(found.getsockname()[1])
