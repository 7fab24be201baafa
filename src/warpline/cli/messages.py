"""Messages about a recording and its tables."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from warpline.cli import talk
from warpline.cli.startup import lazy

if TYPE_CHECKING:
    from warpline import result
    from warpline.result import Document, Skipped
    from warpline.trace import Trace
else:
    result = lazy("warpline.result")

_UNREAD_SHOWN = 4


def print_warnings(document: Document) -> None:
    """Print the warnings of a document, and the tables of the file that were not read."""
    _say(document.warnings, document.meta.get("unread", {}))  # not every document is of a file


def print_trace_warnings(trace: Trace) -> None:
    """Print the warnings about a recording, and the tables of the file that were not read."""
    _say(result.warnings_of(trace), trace.meta.unread)


def _say(warnings: Iterable[str], unread: Mapping[str, int]) -> None:
    for warning in dict.fromkeys(warnings):
        talk.warning(warning)
    _say_unread(unread)


def say_skipped(section: Skipped, *, with_hint: bool) -> None:
    """Print why a table is skipped and, if `with_hint`, how to record what it needs."""
    talk.note(f"{section.name}: skipped: {section.reason}")
    if with_hint and section.hint:
        talk.hint(section.hint)


def say_failed(sections: Iterable[Skipped]) -> bool:
    """Print which tables failed and why, each reason once; return whether any failed."""
    names: dict[tuple[str, str | None], list[str]] = {}
    for section in sections:
        if section.is_failure:
            names.setdefault((section.reason, section.hint), []).append(section.name)
    for (reason, hint), failed in names.items():
        talk.failure(f"{', '.join(failed)}: {reason}", hint, debug=False)
    return bool(names)


def _say_unread(unread: Mapping[str, int]) -> None:
    """Print which tables of the file were not read."""
    if not unread:
        return
    largest = sorted(unread.items(), key=lambda item: (-item[1], item[0]))
    shown = ", ".join(f"{name} ({rows:,} rows)" for name, rows in largest[:_UNREAD_SHOWN])
    rest = f" and {len(unread) - _UNREAD_SHOWN} more" if len(unread) > _UNREAD_SHOWN else ""
    tables = "1 table" if len(unread) == 1 else f"{len(unread)} tables"
    talk.note(f"{tables} of the file not read: {shown}{rest}")
