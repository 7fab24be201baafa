"""Where a document goes, and in which format."""

from __future__ import annotations

import contextlib
import os
import sys
from argparse import Namespace
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from warpline import frozen
from warpline.cli.arguments import STDOUT
from warpline.cli.messages import print_warnings
from warpline.cli.names import FORMAT_OF_SUFFIX, unknown_suffix
from warpline.cli.startup import lazy
from warpline.errors import UsageError, WarplineError
from warpline.files import check_output, complete_file, is_special

if TYPE_CHECKING:
    import dataclasses

    from warpline import plugins, render, result
    from warpline.render import Options, TimeUnit
    from warpline.result import Document, Result, Skipped
else:
    dataclasses = lazy("dataclasses")
    plugins = lazy("warpline.plugins")
    render = lazy("warpline.render")
    result = lazy("warpline.result")

Render = Callable[["Document", TextIO, "Options"], None]

_TIME_UNITS: dict[str, TimeUnit] = {
    **dict.fromkeys(("nsec", "nanoseconds"), "ns"),
    **dict.fromkeys(("usec", "microseconds"), "us"),
    **dict.fromkeys(("msec", "milliseconds"), "ms"),
    "seconds": "s",
}


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

    Attributes:
        format: The name of the format.
        has_warnings: Whether the output has the warnings of the recording, too.
    """

    def __init__(self, args: Namespace, renders: Mapping[str, Render] | None = None) -> None:
        renderer = plugins.find("renderers", format_name(args), render.RENDERERS)
        self._render = (renders or {}).get(renderer.name, renderer.render)
        self._limits_rows = renderer.limits_rows
        self.has_warnings = renderer.has_warnings
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
            options = frozen.replace(
                render.detect_options(out, os.environ), time_unit=self._time_unit
            )
            if self._args.output != STDOUT:  # FORCE_COLOR is for pipes
                options = frozen.replace(options, color=options.color and out.isatty())
            if self._rows is not None:
                options = frozen.replace(options, row_limit=self._rows or None)
            for place, whole in enumerate(documents):
                document = whole
                if self._rows and not self._limits_rows:
                    document = _first_rows(document, self._rows)
                before = "," if is_list else "\n"
                out.write(before if place else "[\n" if is_list else "")
                self._render(document, out, options)
                out.flush()
                if not (self._args.quiet or self.has_warnings):
                    print_warnings(document)
            out.write("]\n" if is_list else "")
            out.flush()


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
