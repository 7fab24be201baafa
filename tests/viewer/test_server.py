"""The local server: to whom it answers, and what."""

from __future__ import annotations

import http.client
import threading
from contextlib import contextmanager
from urllib.parse import urlsplit

import pytest

from warpline.viewer.server import PageServer

POLICY = "default-src 'none'"


@contextmanager
def running(server):
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.fixture
def server():
    with running(PageServer(b"<p>page", [b"zero", b"one"], POLICY)) as server:
        yield server


def ask(server, path, method="GET", **headers):
    connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=10)
    connection.request(method, path, headers={key.title(): value for key, value in headers.items()})
    answer = connection.getresponse()
    content = answer.read()
    connection.close()
    return answer, content


def secret_path(server):
    return urlsplit(server.url).path


def test_the_page_and_its_blocks(server):
    path = secret_path(server)
    answer, content = ask(server, path)
    assert (answer.status, content) == (200, b"<p>page")
    assert answer.getheader("Content-Type") == "text/html; charset=utf-8"
    assert answer.getheader("Content-Security-Policy") == f"{POLICY}; frame-ancestors 'none'"
    assert answer.getheader("X-Content-Type-Options") == "nosniff"
    assert answer.getheader("Referrer-Policy") == "no-referrer"
    assert answer.getheader("Cache-Control") == "no-store"
    answer, content = ask(server, f"{path}blocks/1")
    assert (answer.status, content) == (200, b"one")
    assert answer.getheader("Content-Type") == "application/octet-stream"
    answer, content = ask(server, path, "HEAD")
    assert (answer.status, content, answer.getheader("Content-Length")) == (200, b"", "7")


def test_it_listens_on_the_loopback_interface_alone(server):
    assert server.server_address[0] == "127.0.0.1"
    assert server.url.startswith(f"http://127.0.0.1:{server.server_port}/")


def test_every_server_has_a_secret_of_its_own(server):
    other = PageServer(b"", [], POLICY)
    other.server_close()
    secrets = {secret_path(server), secret_path(other)}
    assert len(secrets) == 2
    assert min(len(secret) for secret in secrets) >= 32


@pytest.mark.parametrize(
    "path",
    [
        "/",
        "/blocks/0",
        "/wrong/",
        "/wrong/blocks/0",
        "{secret}blocks/2",
        "{secret}blocks/-1",
        "{secret}blocks/00",
        "{secret}../../etc/passwd",
        "{secret}/etc/passwd",
        "{secret}%2e%2e/%2e%2e/etc/passwd",
        "{secret}index.html",
        "/%",
        "//",
    ],
)
def test_nothing_else_is_served(server, path):
    target = path.format(secret=secret_path(server))
    answer, content = ask(server, target)
    assert (answer.status, content) == (404, b"not found\n")


@pytest.mark.parametrize("host", ["attacker.example", "attacker.example:{port}", "127.0.0.1", ""])
def test_a_name_that_was_made_to_point_here_is_refused(server, host):
    answer, content = ask(server, secret_path(server), host=host.format(port=server.server_port))
    assert (answer.status, content) == (404, b"not found\n")


def test_localhost_is_this_machine(server):
    host = f"localhost:{server.server_port}"
    assert ask(server, secret_path(server), host=host)[0].status == 200


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS", "TRACE"])
def test_nothing_can_be_changed(server, method):
    answer, content = ask(server, secret_path(server), method)
    assert answer.status == 501
    assert b"page" not in content


def test_the_log_says_no_secret(server, capfd):
    ask(server, secret_path(server))
    ask(server, "/nowhere")
    assert capfd.readouterr() == ("", "")
