"""The functions that the command line and notebooks call.

They are imported on first use: a command that prints a table loads nothing of pages.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from warpline import plugins
from warpline.lazy import lazy
from warpline.result.display import DISPLAY

if TYPE_CHECKING:
    from warpline.api.answers import (
        analyze,
        compare_memory,
        default_tables,
        document,
        flame,
        graphcheck,
        memory,
        query,
        query_document,
        run,
        split_name,
        stack_choice,
        stats,
        summary,
    )
    from warpline.api.comparing import (
        compare,
        compare_kernels,
        compared,
        gate,
        summarize,
    )
    from warpline.api.fleet_comparing import compare_fleets
    from warpline.api.fleets import fleet
    from warpline.api.pages import (
        make_flame_report,
        make_fleet_report,
        make_markdown_report,
        make_memory_report,
        make_picture,
        make_report,
        make_side_by_side,
        report,
        serve,
        timeline,
    )
    from warpline.api.recordings import (
        export,
        formats,
        merge,
        open,  # noqa: A004
        opened,
        select,
    )
    from warpline.render import display
    from warpline.result import Document, Finding
    from warpline.result.graphcheck import GraphCheck
else:
    display = lazy("warpline.render.display")

# The module of each function; no module has the name of a function.
_MODULES = {
    "analyze": "answers",
    "compare": "comparing",
    "compare_fleets": "fleet_comparing",
    "compare_kernels": "comparing",
    "compare_memory": "answers",
    "compared": "comparing",
    "default_tables": "answers",
    "document": "answers",
    "export": "recordings",
    "flame": "answers",
    "fleet": "fleets",
    "formats": "recordings",
    "gate": "comparing",
    "graphcheck": "answers",
    "make_flame_report": "pages",
    "make_fleet_report": "pages",
    "make_markdown_report": "pages",
    "make_memory_report": "pages",
    "make_picture": "pages",
    "make_report": "pages",
    "make_side_by_side": "pages",
    "memory": "answers",
    "merge": "recordings",
    "open": "recordings",
    "opened": "recordings",
    "query": "answers",
    "query_document": "answers",
    "report": "pages",
    "run": "answers",
    "select": "recordings",
    "serve": "pages",
    "split_name": "answers",
    "stack_choice": "answers",
    "stats": "answers",
    "summarize": "comparing",
    "summary": "answers",
    "timeline": "pages",
}

__all__ = [
    "analyze",
    "compare",
    "compare_fleets",
    "compare_kernels",
    "compare_memory",
    "compared",
    "default_tables",
    "document",
    "export",
    "flame",
    "fleet",
    "formats",
    "gate",
    "graphcheck",
    "make_flame_report",
    "make_fleet_report",
    "make_markdown_report",
    "make_memory_report",
    "make_picture",
    "make_report",
    "make_side_by_side",
    "memory",
    "merge",
    "open",
    "opened",
    "query",
    "query_document",
    "report",
    "run",
    "select",
    "serve",
    "split_name",
    "stack_choice",
    "stats",
    "summarize",
    "summary",
    "timeline",
]


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module 'warpline.api' has no attribute {name!r}")
    value = getattr(importlib.import_module(f"warpline.api.{_MODULES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


def _as_text(shown: Document | Finding | GraphCheck) -> str:
    plugins.load("renderers")
    return display.text(shown)


def _as_html(shown: Document | Finding | GraphCheck) -> str:
    return display.html(shown)


DISPLAY.text, DISPLAY.html = _as_text, _as_html
