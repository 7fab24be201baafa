"""Run a command line in this process and count what it executes; instruction_counts.py starts it.

Usage: python counted_program.py MODULE:FUNCTION OUTPUT [--region LIBRARY] [--first] WORDS...

FUNCTION takes the words and returns an exit status. Unless `--first` is given, it runs once before
it is counted, so that imports are not. With `--region`, the process runs under callgrind, and
LIBRARY, compiled from callgrind_region.c, limits what is counted. Otherwise the bytecodes of each
Python function are counted and written to OUTPUT as JSON, and the words' own output is discarded.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import importlib
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

Main = Callable[[Sequence[str]], int]
_PACKAGES = ("site-packages", "src", f"python{sys.version_info.major}.{sys.version_info.minor}")


def place_of(code: CodeType) -> str:
    """Return a function's name with its module's path, the same on every machine."""
    parts = Path(code.co_filename).parts
    for folder in _PACKAGES:
        if folder in parts:
            parts = parts[parts.index(folder) + 1 :]
    return f"{'/'.join(parts)}: {code.co_qualname}"


@contextlib.contextmanager
def bytecodes() -> Iterator[dict[str, int]]:
    """Count the bytecodes that this thread executes inside, by function; filled at the end."""
    codes: dict[int, CodeType] = {}  # by address: comparing code objects compares their contents
    counts: dict[int, int] = {}

    def begin(frame: FrameType, event: str, argument: Any) -> Callable[..., Any]:
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        codes[id(frame.f_code)] = frame.f_code
        counts.setdefault(id(frame.f_code), 0)
        return count

    def count(frame: FrameType, event: str, argument: Any) -> Callable[..., Any]:
        counts[id(frame.f_code)] += 1
        return count

    found: dict[str, int] = {}
    sys.settrace(begin)
    try:
        yield found
    finally:
        sys.settrace(None)
        for key, code in codes.items():
            found[place_of(code)] = found.get(place_of(code), 0) + counts[key]


@contextlib.contextmanager
def region(library: Path) -> Iterator[None]:
    """Let callgrind count what is inside."""
    marks = ctypes.CDLL(str(library))
    marks.begin_counting()
    try:
        yield
    finally:
        marks.end_counting()


def main() -> int:
    """Run the words given on the command line."""
    parser = argparse.ArgumentParser(description="Count what a command executes.")
    parser.add_argument("main", metavar="MODULE:FUNCTION")
    parser.add_argument("output", type=Path)
    parser.add_argument("--region", type=Path, metavar="LIBRARY")
    parser.add_argument("--first", action="store_true", help="count the first run, with imports")
    options, words = parser.parse_known_args()
    module, _, function = options.main.partition(":")

    def run() -> None:
        found: Main = getattr(importlib.import_module(module), function)
        status = found(words)
        if status:
            raise SystemExit(f"exit {status}: {words}")

    if not options.first:
        run()
    if options.region:
        with region(options.region):
            run()
        return 0
    with bytecodes() as counts:
        run()
    options.output.write_text(json.dumps(counts), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
