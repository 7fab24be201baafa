"""The protocol: the tools as a server on standard input and output, by the official SDK.

The SDK is the extra ``mcp``, imported when a server starts.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from warpline import __version__
from warpline.errors import UsageError
from warpline.lazy import lazy
from warpline.mcp.folders import Folders
from warpline.mcp.tools import INSTRUCTIONS, TOOLS, Toolbox

if TYPE_CHECKING:
    import anyio
    import mcp_types as types
    from anyio import to_thread
    from mcp.server import stdio
    from mcp.server.context import ServerRequestContext
    from mcp.server.lowlevel import server
else:
    anyio = lazy("anyio")
    to_thread = lazy("anyio.to_thread")
    types = lazy("mcp_types")
    server = lazy("mcp.server.lowlevel.server")
    stdio = lazy("mcp.server.stdio")

NAME = "warpline"


def serve(folders: Sequence[str]) -> None:
    """Answer calls on standard input until it ends.

    Args:
        folders: Directories whose recordings may be read.

    Raises:
        UsageError: The SDK is not installed.
        InputError: A folder is not a directory.
    """
    toolbox = Toolbox(Folders(folders))
    try:
        made = _server(toolbox)
    except ModuleNotFoundError as error:
        raise UsageError(
            f"warpline mcp requires the package mcp, 2.3 or newer ({error})",
            hint="run pip install 'warpline[mcp]'",
        ) from None
    with contextlib.suppress(KeyboardInterrupt):
        anyio.run(_run, made)


async def _run(made: server.Server[Any]) -> None:
    async with stdio.stdio_server() as (read, write):
        await made.run(read, write, made.create_initialization_options())


def _server(toolbox: Toolbox) -> server.Server[Any]:
    tools = [
        types.Tool(
            name=tool.name,
            description=tool.about,
            input_schema=tool.schema,
            annotations=types.ToolAnnotations(read_only_hint=True, open_world_hint=False),
        )
        for tool in TOOLS
    ]
    one_at_a_time = anyio.Lock()

    async def list_tools(
        context: ServerRequestContext[Any], params: types.PaginatedRequestParams | None
    ) -> types.ListToolsResult:
        return types.ListToolsResult(tools=tools)

    async def call_tool(
        context: ServerRequestContext[Any], params: types.CallToolRequestParams
    ) -> types.CallToolResult:
        # In a thread, so that pings are answered meanwhile.
        async with one_at_a_time:
            reply = await to_thread.run_sync(toolbox.call, params.name, params.arguments)
        content = types.TextContent(type="text", text=reply.text)
        return types.CallToolResult(content=[content], is_error=reply.is_error)

    return server.Server(
        NAME,
        version=__version__,
        instructions=INSTRUCTIONS,
        on_list_tools=list_tools,
        on_call_tool=call_tool,
    )
