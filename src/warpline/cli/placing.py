"""Where each table of ``warpline stats`` goes: one output, or a file of its own."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from warpline.cli.arguments import STDOUT
from warpline.cli.names import FORMAT_OF_SUFFIX, bare_name, default_name
from warpline.errors import UsageError
from warpline.files import is_special

_DERIVED = "."  # an output: files named after the recording
_PIPE = "@"  # how nsys marks a command to pipe the output to
_SUFFIX_OF_FORMAT = {name: suffix for suffix, name in FORMAT_OF_SUFFIX.items()}


class Part(NamedTuple):
    """Tables that go to the same place in the same format.

    Attributes:
        output: A file, or "-".
        format: The format; None means by the suffix of the file.
        is_derived: Whether the file name contains the table name.
        places: Positions in the list of tables.
    """

    output: str
    format: str | None
    is_derived: bool
    places: list[int]


def parts_of(args: Namespace, tables: list[str]) -> list[Part]:
    """Return where each table goes.

    As in nsys, tables, formats and outputs are matched in order, and the last item of a shorter
    list is repeated.
    """
    formats: list[str | None] = [None if word == "." else word for word in listed(args.format)]
    outputs = listed(args.output)
    formats, outputs = formats or [None], outputs or [STDOUT]
    parts: list[Part] = []
    for place in range(max(len(tables), len(formats), len(outputs))):
        table = min(place, len(tables) - 1)
        part = _part(
            args,
            tables[table],
            formats[min(place, len(formats) - 1)],
            outputs[min(place, len(outputs) - 1)],
        )
        same = next((item for item in reversed(parts) if item.output == part.output), None)
        if part.output == STDOUT and same is not None and same is not parts[-1]:
            same = None  # standard output keeps the order of the tables
        if same is not None and same.format == part.format:
            part = same
        elif same is not None and part.output != STDOUT:
            raise UsageError(
                f"{part.output} has two formats: {same.format} and {part.format}",
                hint="name one file per format, such as -o a.csv,b.json",
            )
        else:
            parts.append(part)
        if table not in part.places:
            part.places.append(table)
    return parts


def _part(args: Namespace, table: str, format: str | None, output: str) -> Part:  # noqa: A002
    """Return where one table goes."""
    if output == STDOUT:
        return Part(STDOUT, format or "text", is_derived=False, places=[])
    if output.startswith(_PIPE):
        raise UsageError(
            f"-o {output}: Warpline does not start commands",
            hint=f"use a shell pipe: warpline stats ... | {output.removeprefix(_PIPE)}",
        )
    path = Path(output)
    if output != _DERIVED and (path.suffix or is_special(path)):
        return Part(output, format, is_derived=False, places=[])
    base = _base(args) if output == _DERIVED else output
    kind = format or "csv"
    name = table.replace(":", "_").replace("=", "_").replace("/", "_")
    suffix = _SUFFIX_OF_FORMAT.get("text" if kind == "column" else kind, f".{kind}")
    return Part(f"{base}_{name}{suffix}", kind, is_derived=True, places=[])


def _base(args: Namespace) -> str:
    """Return the recording's path without its suffix; of several, what their names share.

    Of a recording on another machine, it is the name only: its copy is no place for results.
    """
    first = Path(args.recordings[0])
    one = len(args.recordings) == 1
    name = bare_name(args.recordings[0]) if one else default_name(args.recordings, "")
    return name if getattr(args, "has_copies", False) else str(first.parent / name)


def alone(args: Namespace, part: Part) -> Namespace:
    """Return the arguments of one output; messages are printed once, after all outputs."""
    words = {**vars(args), "format": part.format, "output": part.output, "quiet": True}
    return Namespace(**words)


def listed(words: Sequence[str] | None) -> list[str]:
    """Return the items of comma-separated words, of one option or several."""
    return [name.strip() for word in words or [] for name in word.split(",") if name.strip()]
