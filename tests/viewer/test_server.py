"""The local server: access control and answers."""

from __future__ import annotations

import http.client
import socket
import threading
from contextlib import contextmanager
from urllib.parse import urlsplit

import pytest

from warpline.viewer.server import Answer, PageServer

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


class Site:
    """Answers one address and one query."""

    def get(self, name, query):
        return Answer("text/plain", query.encode()) if name == "now" else None

    def post(self, name, body):
        return Answer("text/plain", body[::-1]) if name == "turn" else None


@pytest.fixture
def site():
    with running(PageServer(b"<p>page", [b"zero"], POLICY, site=Site())) as server:
        yield server


def ask(server, path, method="GET", body=None, **headers):
    connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=60)
    named = {key.replace("_", "-").title(): value for key, value in headers.items()}
    connection.request(method, path, body=body, headers=named)
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


def test_a_site_answers_what_is_no_page_and_no_block(site):
    path = secret_path(site)
    assert ask(site, f"{path}now?x=1")[1] == b"x=1"
    assert ask(site, path)[1] == b"<p>page"
    assert ask(site, f"{path}blocks/0")[1] == b"zero"
    assert ask(site, f"{path}never")[0].status == 404
    answer, content = ask(site, f"{path}turn", "POST", body=b"abc")
    assert (answer.status, content) == (200, b"cba")
    assert answer.getheader("Content-Security-Policy") == f"{POLICY}; frame-ancestors 'none'"
    assert ask(site, f"{path}now", "POST", body=b"abc")[0].status == 404


def test_a_question_needs_the_secret_and_the_host(site):
    path = secret_path(site)
    assert ask(site, "/turn", "POST", body=b"abc")[0].status == 404
    assert ask(site, "/wrong/turn", "POST", body=b"abc")[0].status == 404
    host = f"attacker.example:{site.server_port}"
    assert ask(site, f"{path}turn", "POST", body=b"abc", host=host)[0].status == 404


@pytest.mark.parametrize("length", ["", "-1", "x", "1e9", "4000001", "9" * 5000, "٣"])
def test_a_question_without_a_sensible_length_is_not_read(site, length):
    with socket.create_connection(("127.0.0.1", site.server_port), timeout=60) as connection:
        host = f"127.0.0.1:{site.server_port}"
        head = f"POST {secret_path(site)}turn HTTP/1.1\r\nHost: {host}\r\n"
        connection.sendall(f"{head}Content-Length: {length}\r\n\r\n".encode())
        assert connection.recv(100).startswith(b"HTTP/1.1 400 ")
        while connection.recv(1000):
            pass  # the server closes the connection


def test_a_page_can_be_replaced_while_it_is_served(site):
    site.replace(b"<p>other", [b"one", b"two"])
    assert ask(site, secret_path(site))[1] == b"<p>other"
    assert ask(site, f"{secret_path(site)}blocks/1")[1] == b"two"


def test_what_is_done_meanwhile_begins_with_the_server():
    done = threading.Event()
    server = PageServer(b"", [], POLICY)
    server.meanwhile = done.set
    assert not done.is_set()
    with running(server):
        assert done.wait(10)
