"""The tools: their declarations, the check of arguments, and the calls."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from warpline.errors import UsageError, WarplineError
from warpline.mcp import analyzing, comparing, explaining, listing, looking, pages, tabling
from warpline.mcp.folders import Folders
from warpline.mcp.opened import Opened

INSTRUCTIONS = (
    "Questions about GPU performance recordings. Begin with recordings, then analyze: its verdict"
    " and findings say where time goes and what to change. Check them with table and events, whose"
    ' ids (kernel:12) are evidence. Times are ns. "cannot say" means that the recording has no'
    " data for it; null, that a value was not recorded. If an answer has `next`, pass it as cursor"
    " with the same arguments."
)

_MOST_CHARS = 1000
_MOST_ITEMS = 64
_MOST_NUMBER = 1 << 62

_TEXT: Mapping[str, Any] = {"type": "string"}
_TEXTS: Mapping[str, Any] = {"type": "array", "items": {"type": "string"}}
_RECORDINGS = {**_TEXTS, "description": "Paths; several are the ranks of one run"}
_STEPS = {**_TEXT, "description": "Name of the ranges that are steps, or a pattern (epoch_*)"}
_WHERE = {
    **_TEXTS,
    "description": "Conditions that all hold: COLUMN OP VALUE, OP one of = != > >= < <= ~"
    " (contains), such as name~gemm",
}
_SORT = {**_TEXT, "description": "Column, largest first; NAME:asc for smallest first"}
_TIME = {**_TEXT, "description": "START/END, such as 1.5s/2s, 200ms/ or /3000 (ns)"}
_COLUMNS = {**_TEXTS, "description": "Columns to return"}


@dataclass(frozen=True)
class Tool:
    """A tool.

    Attributes:
        name: Its name.
        about: What it answers, for who chooses a tool.
        call: ``(opened, **arguments) -> JSON``.
        arguments: JSON Schema of each argument, without that of the cursor.
        required: Names of arguments that must be given.
    """

    name: str
    about: str
    call: Callable[..., str]
    arguments: Mapping[str, Mapping[str, Any]]
    required: tuple[str, ...] = ()

    @property
    def schema(self) -> dict[str, Any]:
        """The JSON Schema of its arguments."""
        return {
            "type": "object",
            "properties": {**self.arguments, "cursor": _TEXT},
            "required": list(self.required),
            "additionalProperties": False,
        }


TOOLS = (
    Tool(
        "recordings",
        "List the recordings that can be asked about.",
        listing.recordings,
        {"contains": {**_TEXT, "description": "Part of the path"}},
    ),
    Tool(
        "analyze",
        "Say where the time of a run goes and what to change: verdict, findings with evidence and"
        " estimated savings per step, exact breakdown of each GPU's time, phases, checklist.",
        analyzing.analyze,
        {
            "recordings": _RECORDINGS,
            "steps": _STEPS,
            "part": {**_TEXT, "enum": list(analyzing.PARTS)},
        },
        ("recordings",),
    ),
    Tool(
        "table",
        "Return a table by name, such as cuda_gpu_kern_sum, cuda_api_sum, nvtx_sum (those of nsys"
        " stats), steps, kernel_class_sum, layers. Without a name: which tables have data.",
        tabling.table,
        {
            "recordings": _RECORDINGS,
            "name": {**_TEXT, "description": "NAME[:ARG]"},
            "where": _WHERE,
            "sort": _SORT,
            "columns": _COLUMNS,
            "time": _TIME,
            "nvtx": {**_TEXT, "description": "Only during this range: RANGE[@DOMAIN][/INDEX]"},
            "exclude": {**_TEXTS, "description": "Ranges to leave out, with their GPU work"},
        },
        ("recordings",),
    ),
    Tool(
        "events",
        "Return single events with ids, their count and sum: kernel (default), memcpy, memset,"
        " api_call, range, host_wait, os_call, collective, memory_event, device, process...",
        looking.events,
        {
            "recordings": _RECORDINGS,
            "table": _TEXT,
            "time": _TIME,
            "near": {**_TEXT, "description": "Id of an event: those during it"},
            "margin_ns": {"type": "integer", "description": "Time before and after near"},
            "where": _WHERE,
            "sort": _SORT,
            "columns": _COLUMNS,
        },
        ("recordings",),
    ),
    Tool(
        "compare",
        "Say whether a run is faster than another, by how much, whether that is noise, and why.",
        comparing.compare,
        {
            "before": {**_TEXTS, "description": "Paths: one run, several, or its ranks"},
            "after": _TEXTS,
            "steps": _STEPS,
            "part": {**_TEXT, "enum": list(comparing.PARTS)},
        },
        ("before", "after"),
    ),
    Tool(
        "explain",
        "Explain a table, rule, event table or term. Without a name: all names.",
        explaining.explain,
        {"name": _TEXT},
    ),
)


@dataclass(frozen=True)
class Reply:
    """What a call returns.

    Attributes:
        text: JSON, or of an error, one line.
        is_error: Whether it is an error.
    """

    text: str
    is_error: bool = False


class Toolbox:
    """Takes calls of the tools.

    Args:
        folders: The folders that recordings may be in.
    """

    def __init__(self, folders: Folders) -> None:
        self._opened = Opened(folders)
        self._tools = {tool.name: tool for tool in TOOLS}

    def call(self, name: str, arguments: Mapping[str, Any] | None) -> Reply:
        """Return the answer of a tool; errors are answers, too: this raises nothing."""
        try:
            tool = self._find(name)
            return Reply(tool.call(self._opened, **_checked(tool, arguments or {})))
        except WarplineError as error:
            return _failure(error.message, error.hint)
        except OSError as error:
            return _failure(f"{error.filename or 'a file'}: {error.strerror or error}", None)
        except Exception as error:  # noqa: BLE001 - a defect is an error of the call; the server goes on
            return _failure(f"internal error: {type(error).__name__}: {error}", "please report it")

    def _find(self, name: str) -> Tool:
        if name not in self._tools:
            raise UsageError(f"no tool {name[:60]!r}", hint=f"tools: {', '.join(self._tools)}")
        return self._tools[name]


def _failure(message: str, hint: str | None) -> Reply:
    text = f"error: {message}" + (f" ({hint})" if hint else "")
    line = " ".join(text.encode("utf-8", "backslashreplace").decode("utf-8").split())
    line = "".join(letter if letter.isprintable() else "?" for letter in line)
    return Reply(line if len(line) <= _MOST_CHARS else line[: _MOST_CHARS - 1] + "…", is_error=True)


def _checked(tool: Tool, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of a call if they are what the schema says; else raise UsageError."""
    known = {**tool.arguments, "cursor": _TEXT}
    for name in arguments:
        if name not in known:
            near = difflib.get_close_matches(str(name)[:40], known, n=1)
            hint = f"did you mean {near[0]}?" if near else f"arguments: {', '.join(known)}"
            raise UsageError(f"{tool.name} has no argument {str(name)[:40]!r}", hint=hint)
    given = {name: value for name, value in arguments.items() if value is not None}
    for name in tool.required:
        if name not in given:
            raise UsageError(f"{tool.name} requires the argument {name}")
    checked = {name: _value(name, value, known[name]) for name, value in given.items()}
    if "cursor" in checked:
        pages.check_cursor(checked["cursor"])
    return checked


def _value(name: str, value: Any, schema: Mapping[str, Any]) -> Any:
    if schema["type"] == "array":
        texts = [value] if isinstance(value, str) else value
        if not isinstance(texts, list) or not all(isinstance(item, str) for item in texts):
            raise UsageError(f"argument {name} is not a list of texts")
        if len(texts) > _MOST_ITEMS:
            raise UsageError(f"argument {name} has more than {_MOST_ITEMS} items")
        return [_text(name, item) for item in texts]
    if schema["type"] == "integer":
        if not isinstance(value, int) or isinstance(value, bool) or abs(value) > _MOST_NUMBER:
            raise UsageError(f"argument {name} is not an integer")
        return value
    if not isinstance(value, str):
        raise UsageError(f"argument {name} is not a text")
    return _text(name, value)


def _text(name: str, value: str) -> str:
    if len(value) > _MOST_CHARS:
        raise UsageError(f"argument {name} is longer than {_MOST_CHARS} characters")
    return value
