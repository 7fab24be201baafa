"""The server of ``warpline mcp``, asked by the official SDK's client: `make mcp-tests`."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from pathlib import Path

import pytest
from support import tool_calls

from warpline import __version__
from warpline.mcp.pages import LIMIT_TOKENS, tokens

pytestmark = pytest.mark.mcp
CALLS = 1000


@pytest.fixture(scope="module")
def folder(tmp_path_factory, repository: Path) -> Path:
    return tool_calls.prepare(tmp_path_factory.mktemp("served"), repository)


def asked(folder: Path, errors: Path, talk):
    """Return what an async function of a session returns, and check that the server was quiet."""
    import anyio
    from mcp import ClientSession, StdioServerParameters
    from mcp.client.stdio import stdio_client

    arguments = ["-m", "warpline", "mcp", str(folder)]
    parameters = StdioServerParameters(
        command=sys.executable, args=arguments, env={**os.environ}, cwd=folder
    )

    async def run():
        with errors.open("w") as log:
            async with (
                stdio_client(parameters, errlog=log) as (read, write),
                ClientSession(read, write) as session,
            ):
                found = await session.initialize()
                return found, await talk(session)

    answer = anyio.run(run)
    assert errors.read_text() == ""
    return answer


def test_the_handshake_and_the_tools(folder, tmp_path):
    async def talk(session):
        await session.send_ping()
        return (await session.list_tools()).tools

    found, tools = asked(folder, tmp_path / "log", talk)
    assert (found.server_info.name, found.server_info.version) == ("warpline", __version__)
    assert len(tools) <= 6
    for tool in tools:
        assert tool.annotations.read_only_hint
        assert tool.input_schema["type"] == "object"


def test_a_thousand_random_calls_have_no_traceback(folder, tmp_path):
    dice = random.Random(7)
    calls = [tool_calls.call(dice) for _ in range(CALLS)]
    before = sorted(folder.parent.rglob("*"))

    async def talk(session):
        return [await session.call_tool(name, _sendable(words)) for name, words in calls]

    _, replies = asked(folder, tmp_path / "log", talk)
    assert sorted(folder.parent.rglob("*")) == before
    assert len(replies) == CALLS
    for reply in replies:
        [content] = reply.content
        assert tokens(content.text) <= LIMIT_TOKENS
        assert "internal error" not in content.text
        assert "Traceback" not in content.text
        if reply.is_error:
            assert len(content.text.splitlines()) == 1
        else:
            json.loads(content.text)
    assert CALLS // 4 < sum(not reply.is_error for reply in replies) < CALLS


def _sendable(arguments):
    """Return arguments without lone surrogates, which the SDK's client cannot send."""
    return json.loads(json.dumps(arguments).replace("\\ud800", "\\ufffd"))


def test_lines_that_are_no_messages_end_nothing(folder):
    hello = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "initialize",
        "params": {
            "protocolVersion": "2025-06-18",
            "capabilities": {},
            "clientInfo": {"name": "test", "version": "1"},
        },
    }
    ask = {
        "jsonrpc": "2.0",
        "id": 2,
        "method": "tools/call",
        "params": {"name": "recordings", "arguments": {}},
    }
    began = {"jsonrpc": "2.0", "method": "notifications/initialized"}
    lines = ["no json", "[]", "{}", json.dumps(hello), json.dumps(began), "\0", json.dumps(ask)]
    with subprocess.Popen(
        [sys.executable, "-m", "warpline", "mcp", str(folder)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        server.stdin.write("\n".join(lines) + "\n")
        server.stdin.flush()
        found = {}
        while 2 not in found:
            message = json.loads(server.stdout.readline())
            found[message.get("id")] = message
        server.stdin.close()
        assert server.wait(30) == 0
    assert "pageable_h2d.bad.sqlite" in found[2]["result"]["content"][0]["text"]


def test_the_network_is_not_used(folder, tmp_path):
    """A server in whose process no socket of the internet can be made answers all the same."""
    code = (
        "import socket, sys\n"
        "real = socket.socket.__init__\n"
        "def init(self, family=-1, *rest, **named):\n"
        "    assert family not in (-1, socket.AF_INET, socket.AF_INET6), 'network'\n"
        "    real(self, family, *rest, **named)\n"
        "socket.socket.__init__ = init\n"
        "from warpline.cli import main\n"
        f"sys.exit(main(['mcp', {str(folder)!r}]))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], input="", capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
