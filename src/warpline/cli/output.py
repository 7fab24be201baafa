"""Where a document goes, in which format, and what is said beside it."""

from __future__ import annotations

import contextlib
import os
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from warpline.cli import talk
from warpline.errors import UsageError, WarplineError

if TYPE_CHECKING:
    from warpline.render import Options, TimeUnit
    from warpline.result import Document, Result, Skipped

Render = Callable[["Document", TextIO, "Options"], None]

Facts = Mapping[str, Any]

_FORMAT_OF_ENDING = {".csv": "csv", ".json": "json", ".md": "markdown"}
_TIME_UNITS: dict[str, TimeUnit] = {
    **dict.fromkeys(("nsec", "nanoseconds"), "ns"),
    **dict.fromkeys(("usec", "microseconds"), "us"),
    **dict.fromkeys(("msec", "milliseconds"), "ms"),
    "seconds": "s",
}
_UNREAD_SHOWN = 4


def add_output(parser: ArgumentParser, *, formats: str) -> None:
    """Declare where to write and how.

    Args:
        parser: The command's parser.
        formats: The formats that the command offers, for the help.
    """
    group = parser.add_argument_group("output")
    group.add_argument("-f", "--format", metavar="FORMAT", help=f"one of {formats}")
    group.add_argument(
        "-o",
        "--output",
        metavar="FILE",
        default="-",
        help="write to this file, in the format of its ending; - is standard output",
    )
    group.add_argument(
        "--force-overwrite", action="store_true", help="replace the output file if it exists"
    )
    group.add_argument(
        "-q", "--quiet", action="store_true", help="say nothing beside the data but errors"
    )


def add_table_layout(parser: ArgumentParser) -> None:
    """Declare how tables are shown."""
    group = parser.add_argument_group("layout")
    group.add_argument(
        "--rows",
        type=int,
        metavar="N",
        help="rows of each table; 0 shows all (default: all, on a terminal 40)",
    )
    group.add_argument(
        "--timeunit", metavar="UNIT", help="unit of times: ns, us, ms or s (json: always ns)"
    )


def format_name(args: Namespace) -> str:
    """Return the format asked for, by name or by the ending of the output file."""
    if args.format is not None:
        return str(args.format)
    return _FORMAT_OF_ENDING.get(Path(args.output).suffix.lower(), "text")


def time_unit(word: str | None) -> TimeUnit | None:
    """Return the unit that a word or the beginning of one means, as in nsys; else UsageError."""
    if word is None:
        return None
    fitting = {unit for name, unit in _TIME_UNITS.items() if word and name.startswith(word)}
    if len(fitting) != 1:
        why = "may mean several units" if fitting else "is not a unit of time"
        raise UsageError(f"{word!r} {why}", hint="--timeunit ns, us, ms or s")
    return fitting.pop()


class Output:
    """The place and the format that the arguments ask for. Checked before anything is computed.

    Args:
        args: Parsed arguments of a command with `add_output`.
        renders: What writes a document in some formats, by their names, instead of as tables.
    """

    def __init__(self, args: Namespace, renders: Mapping[str, Render] | None = None) -> None:
        from warpline import plugins  # noqa: PLC0415 - start-up: brings numpy
        from warpline.render import RENDERERS  # noqa: PLC0415 - likewise

        plugins.load("renderers")
        renderer = RENDERERS.get(format_name(args))
        self._render = (renders or {}).get(renderer.name, renderer.render)
        self.format = renderer.name
        self._args = args
        self._time_unit = time_unit(getattr(args, "timeunit", None))
        self._rows: int | None = getattr(args, "rows", None)
        if self._rows is not None and self._rows < 0:
            raise UsageError(f"--rows {self._rows}: a number of rows is not negative")
        if args.output != "-":
            _check_free(Path(args.output), force=args.force_overwrite)

    def write(self, document: Document) -> None:
        """Write the document, and say what the recording lacks."""
        self.write_all([document])

    def write_all(self, documents: Iterable[Document], *, as_list: bool = False) -> None:
        """Write documents one after the other, each as soon as it is there.

        Args:
            documents: At least one.
            as_list: Whether JSON is a list of them, even of one.
        """
        from dataclasses import replace  # noqa: PLC0415 - start-up

        from warpline.render import detect_options  # noqa: PLC0415 - start-up

        is_list = as_list and self.format == "json"
        with _destination(self._args.output) as out:
            options = replace(detect_options(out, os.environ), time_unit=self._time_unit)
            if self._rows is not None:
                options = replace(options, row_limit=self._rows or None)
            for place, whole in enumerate(documents):
                document = whole
                if self._rows and self.format in {"csv", "json"}:  # they know no limit
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
        if self.format != "json":  # which holds them
            for warning in dict.fromkeys(document.warnings):
                talk.warning(warning)
            say_unread(document.meta["unread"])


def write_text(text: str) -> int:
    """Write lines of our own to standard output and return the exit status.

    What does not print, or the stream cannot encode, is written as an escape.
    """
    if sys.stdout is None:
        raise WarplineError("standard output is closed")
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    for line in text.removesuffix("\n").split("\n"):
        clean = talk.printable(line).encode(encoding, "backslashreplace").decode(encoding)
        sys.stdout.write(clean + "\n")
    return 0


def write_facts(args: Namespace, facts: Facts, text: Callable[[Facts], str]) -> int:
    """Write facts as JSON if the arguments say so, else as text; return the exit status."""
    if args.format == "json":
        import json  # noqa: PLC0415 - start-up

        return write_text(json.dumps({"schema_version": 1, **facts}, indent=2))
    if args.format != "text":
        raise UsageError(f"unknown format {args.format!r}", hint="--format text or json")
    return write_text(text(facts))


def text_width() -> int:
    """Return the width of lines of prose."""
    import shutil  # noqa: PLC0415 - start-up

    return min(100, shutil.get_terminal_size().columns)


def say_skipped(section: Skipped, *, with_hint: bool) -> None:
    """Say that a table has nothing to show and, if wanted, how to record what it needs."""
    talk.note(f"{section.name}: skipped: {section.reason}")
    if with_hint and section.hint:
        talk.hint(section.hint)


def say_failed(sections: Iterable[Skipped]) -> bool:
    """Say which tables failed and why, each reason once; return whether there are any."""
    names: dict[tuple[str, str | None], list[str]] = {}
    for section in sections:
        if section.is_failure:
            names.setdefault((section.reason, section.hint), []).append(section.name)
    for (reason, hint), failed in names.items():
        talk.failure(f"{', '.join(failed)}: {reason}", hint, debug=False)
    return bool(names)


def say_unread(unread: Mapping[str, int]) -> None:
    """Say which tables of the file nothing is made of."""
    if not unread:
        return
    largest = sorted(unread.items(), key=lambda item: (-item[1], item[0]))
    shown = ", ".join(f"{name} ({rows:,} rows)" for name, rows in largest[:_UNREAD_SHOWN])
    rest = f" and {len(unread) - _UNREAD_SHOWN} more" if len(unread) > _UNREAD_SHOWN else ""
    subject = (
        "1 table of the file is" if len(unread) == 1 else f"{len(unread)} tables of the file are"
    )
    talk.note(f"{subject} not read: {shown}{rest}")


def _first_rows(document: Document, count: int) -> Document:
    from dataclasses import replace  # noqa: PLC0415 - start-up

    from warpline.result import Result  # noqa: PLC0415 - start-up

    def cut(section: Result | Skipped) -> Result | Skipped:
        return section.head(count) if isinstance(section, Result) else section

    return replace(document, sections=tuple(cut(section) for section in document.sections))


def _check_free(path: Path, *, force: bool) -> None:
    """Refuse a file that exists, unless `force`, and a folder that does not."""
    if not path.parent.is_dir():
        raise WarplineError(f"{path} cannot be written: there is no folder {path.parent}")
    if path.is_dir():
        raise WarplineError(f"{path} is a folder", hint="name a file in it")
    if path.is_file() and not force:
        raise WarplineError(f"{path} exists", hint="--force-overwrite replaces it")


@contextlib.contextmanager
def _destination(name: str) -> Iterator[TextIO]:
    """Open standard output or a file. A file appears when it is complete, or not at all."""
    if name == "-":
        if sys.stdout is None:
            raise WarplineError("standard output is closed", hint="-o FILE writes to a file")
        yield sys.stdout
        return
    path = Path(name)
    if path.exists() and not path.is_file():  # a device or a pipe
        with path.open("w", encoding="utf-8", newline="\n") as out:
            yield out
        return
    unfinished = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with unfinished.open("x", encoding="utf-8", newline="\n") as out:
            yield out
        unfinished.replace(path)
    except FileExistsError:  # not ours
        raise
    except BaseException:
        unfinished.unlink(missing_ok=True)
        raise
