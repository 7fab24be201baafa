"""Text and facts on standard output."""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from warpline.cli import talk
from warpline.cli.startup import lazy
from warpline.errors import UsageError, WarplineError

if TYPE_CHECKING:
    import json
    import shutil
else:
    json = lazy("json")
    shutil = lazy("shutil")

Facts = Mapping[str, Any]

_PLAIN = b"\n" + bytes(range(ord(" "), ord("~") + 1))


def write_text(text: str) -> int:
    """Write text to standard output and return the exit status.

    Unprintable characters, and those that the stream cannot encode, are escaped.
    """
    if sys.stdout is None:
        raise WarplineError("standard output is closed")
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    for line in text.removesuffix("\n").split("\n"):
        clean = talk.printable(line).encode(encoding, "backslashreplace").decode(encoding)
        sys.stdout.write(clean + "\n")
    return 0


class Clean:
    """Standard output for text that is written in parts, as by `write_text`."""

    def __init__(self) -> None:
        if sys.stdout is None:
            raise WarplineError("standard output is closed")
        self._encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
        self._last = "\n"

    def write(self, text: str) -> None:
        """Write text; unprintable characters are escaped."""
        if not text:
            return
        self._last = text[-1]
        if not _is_plain(text):
            lines = map(talk.printable, text.split("\n"))
            encoded = "\n".join(lines).encode(self._encoding, "backslashreplace")
            text = encoded.decode(self._encoding)
        sys.stdout.write(text)

    def close(self) -> None:
        """End the last line."""
        if self._last != "\n":
            sys.stdout.write("\n")


def _is_plain(text: str) -> bool:
    """Return whether text has printable ASCII characters and ends of lines only."""
    return text.isascii() and not text.encode("ascii").translate(None, _PLAIN)


def write_facts(args: Namespace, facts: Facts, text: Callable[[Facts], str]) -> int:
    """Write facts as text or, with --format json, as JSON; return the exit status."""
    if args.format == "json":
        return write_text(json.dumps({"schema_version": 1, **facts}, indent=2))
    if args.format != "text":
        raise UsageError(f"unknown format {args.format!r}", hint="use text or json")
    return write_text(text(facts))


def text_width() -> int:
    """Return the line width of prose."""
    return min(100, shutil.get_terminal_size().columns)
