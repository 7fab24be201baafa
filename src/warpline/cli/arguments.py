"""Arguments that several commands share, and opening the recordings that they name."""

from __future__ import annotations

from argparse import SUPPRESS, ArgumentParser, Namespace
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from warpline.cli import talk
from warpline.cli.startup import lazy
from warpline.errors import UsageError

if TYPE_CHECKING:
    import dataclasses
    import shlex
    from argparse import _ArgumentGroup

    from warpline import api, plugins, result, units
    from warpline.cli import freed_memory
    from warpline.documents import tables
    from warpline.trace import Trace, selection
else:
    dataclasses = lazy("dataclasses")
    shlex = lazy("shlex")
    api = lazy("warpline.api")
    freed_memory = lazy("warpline.cli.freed_memory")
    plugins = lazy("warpline.plugins")
    result = lazy("warpline.result")
    units = lazy("warpline.units")
    tables = lazy("warpline.documents.tables")
    selection = lazy("warpline.trace.selection")

T = TypeVar("T")

STDOUT = "-"

_FILTERS = ("filter_time", "filter_nvtx", "exclude", "process", "device", "stream")
_LISTS = {
    "process": ("PID|NAME", "keep only these processes"),
    "device": ("INDEX|UUID", "keep only these GPUs, by index or start of the UUID"),
    "stream": ("ID", "keep only these CUDA streams"),
}
_GPU_TABLES = ("kernel", "memcpy", "memset", "graph_launch")


def add_recordings(parser: ArgumentParser) -> None:
    """Declare the recordings to read."""
    parser.add_argument(
        "recordings",
        nargs="*",
        metavar="RECORDING",
        help="recording to read, also HOST:PATH; several, such as one per rank, are merged",
    )
    parser.usage = f"{parser.prog} RECORDING... [OPTIONS]"


def add_steps(parser: ArgumentParser | _ArgumentGroup) -> None:
    """Declare the option that names the steps."""
    parser.add_argument(
        "--steps-from",
        dest="steps",
        metavar="NAME",
        help="ranges that are steps; accepts *, such as 'epoch_*'; 'launches' takes repeating"
        " launches (default: detected)",
    )
    parser.add_argument("--steps", dest="steps", help=SUPPRESS)  # its former name


def add_filters(parser: ArgumentParser) -> None:
    """Declare the options that select a part of the recording."""
    group = parser.add_argument_group("filters")
    group.add_argument(
        "--filter-time",
        metavar="START/END",
        help="keep events that overlap this time range, such as 1.5s/2s, 200ms/ or /3000 (ns)",
    )
    group.add_argument(
        "--filter-nvtx",
        metavar="RANGE[@DOMAIN][/INDEX]",
        help="keep events that overlap this instance of an NVTX range (default INDEX: 0);"
        " overrides --filter-time",
    )
    group.add_argument(
        "--exclude",
        action="append",
        default=[],
        metavar="RANGE[@DOMAIN]",
        help="exclude this range, such as warm-up, and the GPU work launched from it (repeatable)",
    )
    for name, (metavar, text) in _LISTS.items():
        _add_list(group, name, metavar, text)


def add_places(parser: ArgumentParser) -> None:
    """Declare the options that select processes and GPUs, where a part of the time has no meaning.

    `open_trace` takes them as it takes those of `add_filters`.
    """
    group = parser.add_argument_group("filters")
    for name in ("process", "device"):
        _add_list(group, name, *_LISTS[name])
    parser.set_defaults(filter_time=None, filter_nvtx=None, exclude=[], stream=[])


def _add_list(group: _ArgumentGroup, name: str, metavar: str, text: str) -> None:
    group.add_argument(
        f"--{name}",
        action="append",
        default=[],
        metavar=metavar,
        help=f"{text} (comma-separated)",
    )


def add_output(parser: ArgumentParser, *, formats: str, page: str | None = None) -> None:
    """Declare where to write and how.

    Args:
        parser: The command's parser.
        formats: The formats of the command, for the help.
        page: What other suffixes mean, for the help.
    """
    group = parser.add_argument_group("output")
    group.add_argument("-f", "--format", metavar="FORMAT", help=f"output format: {formats}")
    group.add_argument(
        "-o",
        "--output",
        metavar="FILE",
        default=STDOUT,
        help="output file; its suffix sets the format: .csv, .json, .md or .txt"
        + (f"; or {page}" if page else "")
        + " (default: -, standard output)",
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


def require_recordings(args: Namespace) -> None:
    """Raise a UsageError if no recording is named."""
    if not args.recordings:
        raise UsageError("missing RECORDING argument", hint=f"warpline {args.command} RECORDING")


def open_trace(args: Namespace) -> Trace:
    """Open the recordings and apply the filters of the arguments."""
    require_recordings(args)

    for word in args.recordings:
        if not Path(word).exists():
            _refuse_table(word)
    freed_memory.reuse()
    return selection.select(
        api.open(*args.recordings), **{name: getattr(args, name) for name in _FILTERS}
    )


def _refuse_table(word: str) -> None:
    """Raise a UsageError if a word in the place of a file is the name of a table."""
    plugins.load("analyses")
    if word.split(":", maxsplit=1)[0] in result.ANALYSES:
        raise UsageError(
            f"{word!r} is a table, not a recording", hint=f"warpline stats -r {word} RECORDING"
        )


def filters_in_words(args: Namespace) -> str:
    """Return the filters as they would be typed; empty if there are none."""
    words = []
    for name in _FILTERS:
        value = getattr(args, name)
        option = "--" + name.replace("_", "-")
        words += [
            f"{option} {shlex.quote(word)}"
            for word in ([value] if isinstance(value, str) else value or [])
        ]
    return " ".join(words)


def with_filter_named(section: T, args: Namespace) -> T:
    """Return a section; the hint of a table that the filters emptied names them."""
    if not isinstance(section, result.Skipped) or section.hint != tables.FILTER_HINT:
        return section
    return dataclasses.replace(section, hint=f"widen or remove {filters_in_words(args)}")


def warn_if_all_excluded(trace: Trace, args: Namespace) -> None:
    """Warn if the filters exclude all GPU operations of the recording."""
    error = all_excluded(trace, args)
    if error is not None and not getattr(args, "quiet", False):
        talk.warning(error.message)
        talk.hint(error.hint or "")


def all_excluded(trace: Trace, args: Namespace) -> UsageError | None:
    """Return an error if the filters exclude all GPU operations of the recording, else None."""
    if trace.is_whole:
        return None
    whole = trace.unfiltered()
    recorded = [name for name in _GPU_TABLES if whole.has(name) and whole.row_count(name)]
    if not recorded or any(trace.row_count(name) for name in recorded):
        return None
    start_ns, end_ns = whole.span()
    return UsageError(
        f"{filters_in_words(args)} excludes all GPU operations",
        hint="widen or remove the filters: the recording covers"
        f" {units.format_ns(start_ns)} to {units.format_ns(end_ns)}",
    )
