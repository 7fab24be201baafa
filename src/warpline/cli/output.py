"""Where a document goes, in which format, and with which messages."""

from __future__ import annotations

import contextlib
import os
import re
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from warpline.cli import talk
from warpline.cli.startup import lazy
from warpline.errors import UsageError, WarplineError
from warpline.files import check_output, complete_file, is_special

if TYPE_CHECKING:
    import dataclasses
    import json
    import shutil
    from argparse import _ArgumentGroup

    from warpline import plugins, render, result
    from warpline.render import Options, TimeUnit
    from warpline.result import Document, Result, Skipped
else:
    dataclasses = lazy("dataclasses")
    json = lazy("json")
    shutil = lazy("shutil")
    plugins = lazy("warpline.plugins")
    render = lazy("warpline.render")
    result = lazy("warpline.result")

Render = Callable[["Document", TextIO, "Options"], None]

Facts = Mapping[str, Any]

STDOUT = "-"
FORMAT_OF_SUFFIX = {".csv": "csv", ".json": "json", ".md": "markdown", ".txt": "text"}
_TIME_UNITS: dict[str, TimeUnit] = {
    **dict.fromkeys(("nsec", "nanoseconds"), "ns"),
    **dict.fromkeys(("usec", "microseconds"), "us"),
    **dict.fromkeys(("msec", "milliseconds"), "ms"),
    "seconds": "s",
}
_UNREAD_SHOWN = 4
# What the names of ranks end in, where the number is removed.
_NUMBERED = re.compile(r"[\W_]*(rank|worker)?[\W_0-9]*$", re.IGNORECASE)


def add_output(parser: ArgumentParser, *, formats: str) -> None:
    """Declare where to write and how.

    Args:
        parser: The command's parser.
        formats: The formats of the command, for the help.
    """
    group = parser.add_argument_group("output")
    group.add_argument("-f", "--format", metavar="FORMAT", help=f"output format: {formats}")
    group.add_argument(
        "-o",
        "--output",
        metavar="FILE",
        default=STDOUT,
        help="output file; its suffix sets the format: .csv, .json, .md or .txt (default: -,"
        " standard output)",
    )
    add_switches(group)


def add_switches(parser: ArgumentParser | _ArgumentGroup) -> None:
    """Declare the options of commands that print data."""
    add_force(parser)
    parser.add_argument("-q", "--quiet", action="store_true", help="print only data and errors")


def add_force(parser: ArgumentParser | _ArgumentGroup, *names: str) -> None:
    """Declare the option that allows overwriting, with more names for it."""
    parser.add_argument(
        *names, "--force-overwrite", action="store_true", help="overwrite existing output"
    )


def add_quiet(parser: ArgumentParser) -> None:
    """Declare the option of commands that print the path of what they wrote."""
    parser.add_argument(
        "-q", "--quiet", action="store_true", help="print only the output path and errors"
    )


def add_table_layout(parser: ArgumentParser) -> None:
    """Declare the layout of tables."""
    group = parser.add_argument_group("layout")
    group.add_argument(
        "--rows",
        type=int,
        metavar="N",
        help="rows per table; 0 prints all (default: 40 on a terminal, otherwise all)",
    )
    group.add_argument(
        "--timeunit", metavar="UNIT", help="time unit: ns, us, ms or s (JSON: always ns)"
    )


def format_name(args: Namespace) -> str:
    """Return the format of the output, by name or by the suffix of the file.

    Raises UsageError for an unknown suffix.
    """
    if args.format is not None:
        return str(args.format)
    path = Path(args.output)
    if args.output == STDOUT or not path.suffix or is_special(path):
        return "text"
    found = FORMAT_OF_SUFFIX.get(path.suffix.lower())
    if found is None:
        raise unknown_suffix(args.output, FORMAT_OF_SUFFIX, "set --format")
    return found


def unknown_suffix(name: str, known: Iterable[str], otherwise: str | None = None) -> UsageError:
    """Return the error for a file name whose suffix names no format."""
    *others, last = known
    hint = f"use {', '.join(others)} or {last}"
    return UsageError(
        f"{name}: unknown output suffix {Path(name).suffix!r}",
        hint=f"{hint}, or {otherwise}" if otherwise else hint,
    )


def default_name(recordings: Sequence[str], suffix: str) -> str:
    """Return the default output file, in the current directory.

    It is the name of the recording with another suffix. For several recordings, such as ranks,
    it is the beginning that their names share.
    """
    names = [bare_name(word) for word in recordings]
    # Of the names, character by character, not of paths.
    shared = os.path.commonprefix(names)  # noqa: RUF071
    if len(names) > 1:
        shared = _NUMBERED.sub("", shared) or shared
    return (shared or names[0]) + suffix


def bare_name(word: str) -> str:
    """Return the name of a recording without its directory and suffixes."""
    path = Path(word).resolve() if Path(word).is_dir() else Path(word)
    if path.is_dir():
        return path.name or "report"
    name = path.stem
    for suffix in (".json", ".trace", ".pt"):  # of NAME.pt.trace.json.gz
        name = name.removesuffix(suffix)
    return name


def time_unit(word: str | None) -> TimeUnit | None:
    """Return the unit for a word or its beginning, as in nsys; else UsageError."""
    if word is None:
        return None
    fitting = {unit for name, unit in _TIME_UNITS.items() if word and name.startswith(word)}
    if len(fitting) != 1:
        why = "ambiguous" if fitting else "unknown"
        raise UsageError(f"--timeunit: {why} unit {word!r}", hint="use ns, us, ms or s")
    return fitting.pop()


class Output:
    """The destination and format of the output, checked before anything is computed.

    Args:
        args: Parsed arguments of a command with `add_output`.
        renders: Functions that replace the table renderers of some formats, by format.
    """

    def __init__(self, args: Namespace, renders: Mapping[str, Render] | None = None) -> None:

        plugins.load("renderers")
        renderer = render.RENDERERS.get(format_name(args))
        self._render = (renders or {}).get(renderer.name, renderer.render)
        self.format = renderer.name
        self._args = args
        self._time_unit = time_unit(getattr(args, "timeunit", None))
        self._rows: int | None = getattr(args, "rows", None)
        if self._rows is not None and self._rows < 0:
            raise UsageError(f"--rows {self._rows}: must be 0 or more")
        if args.output != STDOUT:
            path = Path(args.output)
            if path.is_dir() or not is_special(path):  # tables may go to a device
                check_output(path, overwrite=args.force_overwrite)

    def write(self, document: Document) -> None:
        """Write the document, and print the warnings of the recording."""
        self.write_all([document])

    def write_all(self, documents: Iterable[Document], *, as_list: bool = False) -> None:
        """Write each document as soon as it is computed.

        Args:
            documents: At least one.
            as_list: Whether JSON is a list, even of one document.
        """
        is_list = as_list and self.format == "json"
        with _destination(self._args.output) as out:
            options = dataclasses.replace(
                render.detect_options(out, os.environ), time_unit=self._time_unit
            )
            if self._args.output != STDOUT:  # FORCE_COLOR is for pipes
                options = dataclasses.replace(options, color=options.color and out.isatty())
            if self._rows is not None:
                options = dataclasses.replace(options, row_limit=self._rows or None)
            for place, whole in enumerate(documents):
                document = whole
                if self._rows and self.format in {"csv", "json"}:  # their renderers have no limit
                    document = _first_rows(document, self._rows)
                before = "," if is_list else "\n"
                out.write(before if place else "[\n" if is_list else "")
                self._render(document, out, options)
                out.flush()
                if not self._args.quiet:
                    self._talk(document)
            out.write("]\n" if is_list else "")
            out.flush()

    def _talk(self, document: Document) -> None:
        if self.format != "json":  # which includes them
            print_warnings(document)


def print_warnings(document: Document) -> None:
    """Print the warnings of a document, and the tables of the file that were not read."""
    for warning in dict.fromkeys(document.warnings):
        talk.warning(warning)
    say_unread(document.meta["unread"])


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


def say_unread(unread: Mapping[str, int]) -> None:
    """Print which tables of the file were not read."""
    if not unread:
        return
    largest = sorted(unread.items(), key=lambda item: (-item[1], item[0]))
    shown = ", ".join(f"{name} ({rows:,} rows)" for name, rows in largest[:_UNREAD_SHOWN])
    rest = f" and {len(unread) - _UNREAD_SHOWN} more" if len(unread) > _UNREAD_SHOWN else ""
    tables = "1 table" if len(unread) == 1 else f"{len(unread)} tables"
    talk.note(f"{tables} of the file not read: {shown}{rest}")


def _first_rows(document: Document, count: int) -> Document:

    def cut(section: Result | Skipped) -> Result | Skipped:
        return section.head(count) if isinstance(section, result.Result) else section

    return dataclasses.replace(
        document, sections=tuple(cut(section) for section in document.sections)
    )


@contextlib.contextmanager
def _destination(name: str) -> Iterator[TextIO]:
    """Open standard output or a file. A file appears when it is complete, or not at all."""
    if name == STDOUT:
        if sys.stdout is None:
            raise WarplineError("standard output is closed", hint="use -o FILE")
        yield sys.stdout
        return
    path = Path(name)
    if is_special(path):  # a device or a pipe: it cannot be replaced
        with path.open("w", encoding="utf-8", newline="\n") as out:
            yield out
        return
    with (
        complete_file(path) as unfinished,
        unfinished.open("w", encoding="utf-8", newline="\n") as out,
    ):
        yield out
