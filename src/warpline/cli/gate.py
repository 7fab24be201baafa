"""``warpline gate``: fail when a step becomes slower, and only then."""

from __future__ import annotations

import contextlib
import os
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from warpline.cli import bar, talk, turns
from warpline.cli.arguments import STDOUT, add_steps, add_switches
from warpline.cli.sides import check_runs
from warpline.cli.startup import lazy
from warpline.errors import UsageError, WarplineError
from warpline.files import check_output, complete_file
from warpline.units import plural

if TYPE_CHECKING:
    import tempfile

    from warpline import api, render
    from warpline.cli import freed_memory, parser
    from warpline.comparison import baselines, limits, summary
    from warpline.comparison.summary import Summary
    from warpline.render import gate as rendering
    from warpline.result.gate import Gate
else:
    tempfile = lazy("tempfile")
    api = lazy("warpline.api")
    render = lazy("warpline.render")
    freed_memory = lazy("warpline.cli.freed_memory")
    parser = lazy("warpline.cli.parser")
    baselines = lazy("warpline.comparison.baselines")
    limits = lazy("warpline.comparison.limits")
    summary = lazy("warpline.comparison.summary")
    rendering = lazy("warpline.render.gate")

NAME = "gate"
HELP = "fail if steps become slower: of recordings, a baseline, or commands run in turn"

FOLDER = ".warpline-baselines"
_DEFAULT_LIMIT = "step:2%"  # the tolerance at which false alarms and power are measured
_DEFAULT_RUNS = 5
_BETWEEN = "---"
_SUFFIXES = {".json": "json", ".md": "markdown", ".xml": "junit", ".txt": "text"}
_FORMATS = ("text", "markdown", "json", "junit")


def add_arguments(parser: ArgumentParser) -> None:
    """Declare the arguments of this command."""
    parser.add_argument(
        "recordings",
        nargs="*",
        metavar="RECORDING",
        help="one run before and one after the change; with --baseline, the runs after it",
    )
    parser.usage = (
        f"{parser.prog} [OPTIONS] BEFORE AFTER\n"
        f"       {parser.prog} [OPTIONS] --before A... --after B...\n"
        f"       {parser.prog} [OPTIONS] --baseline NAME RECORDING...\n"
        f"       {parser.prog} [OPTIONS] --runs N --interleave -- COMMAND_A {_BETWEEN} COMMAND_B"
    )
    parser.epilog = (
        "Exit status: 0 all metrics stay within their limits; 3 one is above its limit, and not by"
        " chance; 4 cannot decide, with the number of runs that would; 1 and 2 errors."
    )
    sides = parser.add_argument_group("sides")
    for name, text in (("before", "before the change"), ("after", "after the change")):
        sides.add_argument(
            f"--{name}",
            nargs="+",
            default=[],
            metavar="RECORDING",
            help=f"runs {text}; recordings with distinct ranks are one run",
        )
    sides.add_argument(
        "--paired",
        action="store_true",
        help="the runs were made in turn: compare the first with the first, and so on",
    )
    sides.add_argument(
        "--baseline", metavar="NAME", help="compare with what warpline baseline save NAME saved"
    )
    sides.add_argument(
        "--folder", default=FOLDER, metavar="DIR", help=f"folder of baselines (default: {FOLDER})"
    )
    runs = parser.add_argument_group("runs of commands")
    runs.add_argument(
        "--runs",
        type=int,
        metavar="N",
        help=f"runs of each command (default: {_DEFAULT_RUNS})",
    )
    runs.add_argument(
        "--interleave",
        action="store_true",
        help="run the commands in turn, A B, B A, so that a drifting machine affects both alike",
    )
    runs.add_argument(
        "--warm-up",
        type=int,
        default=1,
        metavar="N",
        help="runs of each command that do not count, before the others (default: 1)",
    )
    runs.add_argument(
        "--bare",
        action="store_true",
        help="do not record: the step is the time of the whole command",
    )
    runs.add_argument(
        "--keep", metavar="DIR", help="keep recordings and output of the commands in this folder"
    )
    group = parser.add_argument_group("limits")
    group.add_argument(
        "--fail-on",
        action="append",
        metavar="METRIC:LIMIT[,...]",
        help="limits: step:3%%, exposed-communication:2ms, memory-peak:5%%,"
        " kernel:*attention*:10%%, busy:gemm:5%%, idle:host-sync:1ms, finding:high (new findings)"
        f" (default: {_DEFAULT_LIMIT.replace('%', '%%')})",
    )
    add_steps(group)
    output = parser.add_argument_group("output")
    output.add_argument(
        "-f",
        "--format",
        default="text",
        metavar="FORMAT",
        help=f"format of standard output: {', '.join(_FORMATS)} (default: text)",
    )
    output.add_argument(
        "-o",
        "--output",
        action="append",
        default=[],
        metavar="FILE",
        help="also write the result to this file: .json, .md (for a pull request), .xml (JUnit)"
        " or .txt (repeatable)",
    )
    add_switches(output)


def asks_for_help(words: Sequence[str]) -> bool:
    """Return whether the words before the commands ask for help."""
    own = _split(words)[0]
    return "-h" in own or "--help" in own


def read(words: Sequence[str]) -> Namespace:
    """Parse the options, and the commands after ``--``."""
    own, commands = _split(words)
    args = parser.parser_of(sys.modules[__name__]).read(own)
    args.commands = commands
    return args


def _split(words: Sequence[str]) -> tuple[list[str], tuple[tuple[str, ...], ...] | None]:
    """Return the own words, and the commands if there is ``--``."""
    if "--" not in words:
        return list(words), None
    place = list(words).index("--")
    rest = list(words[place + 1 :])
    commands = []
    while _BETWEEN in rest:
        commands.append(tuple(rest[: rest.index(_BETWEEN)]))
        rest = rest[rest.index(_BETWEEN) + 1 :]
    return list(words[:place]), (*commands, tuple(rest))


def run(args: Namespace) -> int:
    """Print the result; status 0 pass, 3 regression, 4 cannot decide."""
    wanted = limits.parse(",".join(args.fail_on or [_DEFAULT_LIMIT]))
    outputs = _outputs(args)
    if args.commands is None:
        sides, paired = _recorded(args), args.paired
    else:
        sides, paired = _ran(args), args.interleave
    found = api.gate(*sides, wanted, paired=paired)
    _write(found, args, outputs)
    return found.status


def _recorded(args: Namespace) -> tuple[Summary, Summary]:
    """Return both sides from recordings and baselines."""
    before, after = _named(args)
    freed_memory.reuse()
    saved = None
    if args.baseline is not None:
        saved = _saved(args)
    with bar.shown(args):
        first = saved or api.summarize(before, steps=args.steps, keep_going=not args.debug)
        return first, api.summarize(after, steps=args.steps, keep_going=not args.debug)


def _saved(args: Namespace) -> Summary:
    """Return the baseline that the arguments name."""
    found = baselines.load(Path(args.folder), args.baseline)
    return summary.joined(f"baseline {args.baseline}", [found])


def _named(args: Namespace) -> tuple[list[str], list[str]]:
    """Return the recordings of both sides."""
    given = {"--runs": args.runs, "--keep": args.keep}
    given |= {"--interleave": args.interleave, "--bare": args.bare}
    for option in (name for name, value in given.items() if value):
        raise UsageError(
            f"{option} is for commands", hint=f"warpline {NAME} --runs N -- A {_BETWEEN} B"
        )
    before, after = list(args.before), list(args.after)
    if args.baseline is not None:
        after += args.recordings
        if args.paired:
            raise UsageError(
                "--paired: the runs of a baseline were not made in turn with others",
                hint="leave out --paired, or name both sides: --before, --after",
            )
        if before or not after:
            raise UsageError(
                "--baseline takes the place of the runs before",
                hint=f"warpline {NAME} --baseline {args.baseline} RECORDING...",
            )
    elif before or after:
        if args.recordings or not (before and after):
            raise UsageError(
                "name both sides: --before and --after",
                hint=f"warpline {NAME} --before A1 A2 --after B1 B2",
            )
    elif len(args.recordings) == 2:
        before, after = args.recordings[:1], args.recordings[1:]
    else:
        raise UsageError(
            f"two recordings are compared, {len(args.recordings)} named",
            hint=f"warpline {NAME} BEFORE AFTER, or name a --baseline; for several runs, use"
            " --before and --after",
        )
    if args.paired and len(before) != len(after):
        raise UsageError(
            f"--paired: {len(before)} recordings before, {len(after)} after",
            hint="pass as many recordings on both sides, in the order in which they were made",
        )
    check_runs([*before, *after])
    return before, after


def _ran(args: Namespace) -> tuple[Summary, Summary]:
    """Run the commands and return both sides."""
    commands: tuple[tuple[str, ...], ...] = args.commands
    needed = 1 if args.baseline is not None else 2
    if len(commands) != needed or not all(commands):
        what = "a baseline is compared with one command" if needed == 1 else "two are compared"
        raise UsageError(
            f"{plural(len([item for item in commands if item]), 'command')} named: {what}",
            hint=f"warpline {NAME} --baseline NAME -- COMMAND"
            if needed == 1
            else f"warpline {NAME} --runs 5 --interleave -- COMMAND_A {_BETWEEN} COMMAND_B",
        )
    if args.recordings or args.before or args.after:
        raise UsageError("name recordings or commands, not both", hint=f"warpline {NAME} --help")
    runs = _DEFAULT_RUNS if args.runs is None else args.runs
    if not 1 <= runs <= 1000 or not 0 <= args.warm_up <= 1000:
        raise UsageError("--runs and --warm-up count runs", hint="use --runs 5 --warm-up 1")
    saved = None
    if args.baseline is not None:  # before anything runs
        saved = _saved(args)
        if args.bare:
            raise UsageError(
                f"--bare: baseline {args.baseline} has times of steps, not of whole commands",
                hint="leave out --bare, or run both versions: -- COMMAND_A --- COMMAND_B",
            )
    with _folder(args) as folder:
        plan = turns.Plan(
            commands, runs, args.warm_up, args.interleave and needed > 1, args.bare, folder
        )
        results = turns.run(plan, _nothing if args.quiet else talk.note)
        freed_memory.reuse()
        sides = [_summary(args, own, side) for side, own in enumerate(results)]
    return (saved, sides[0]) if saved is not None else (sides[0], sides[1])


def _summary(args: Namespace, results: Sequence[Path | float], side: int) -> Summary:
    title = "the command" if args.baseline is not None else turns.SIDES[side]
    if args.bare:
        return summary.timed(title, [float(item) for item in results if isinstance(item, int)])
    with bar.shown(args):
        runs = [str(item) for item in results]
        try:
            found = api.summarize(runs, steps=args.steps, keep_going=not args.debug)
        except UsageError as error:
            raise UsageError(
                error.message, hint=f"{error.hint}, or time whole commands with --bare"
            ) from error
    return summary.joined(title, [found])


@contextlib.contextmanager
def _folder(args: Namespace) -> Iterator[Path]:
    if args.keep is None:
        with tempfile.TemporaryDirectory(prefix="warpline-gate-") as name:
            yield Path(name)
        return
    folder = Path(args.keep)
    check_output(folder, is_folder=True, overwrite=args.force_overwrite)
    folder.mkdir(exist_ok=True)
    yield folder


def _outputs(args: Namespace) -> list[tuple[Path, str]]:
    """Return the files to write and their formats, checked before anything runs."""
    if args.format not in _FORMATS:
        raise UsageError(
            f"unknown format {args.format!r}", hint=f"use {', '.join(_FORMATS[:-1])} or junit"
        )
    files = []
    for word in args.output:
        if word == STDOUT:
            continue
        path = Path(word)
        if path.suffix.lower() not in _SUFFIXES:
            raise UsageError(
                f"{word}: unknown output suffix {path.suffix!r}",
                hint="use .json, .md, .xml or .txt",
            )
        check_output(path, overwrite=args.force_overwrite)
        files.append((path, _SUFFIXES[path.suffix.lower()]))
    return files


def _write(found: Gate, args: Namespace, outputs: Sequence[tuple[Path, str]]) -> None:
    for path, name in outputs:
        with (
            complete_file(path) as unfinished,
            unfinished.open("w", encoding="utf-8", newline="\n") as out,
        ):
            rendering.WRITERS[name](found, out, render.Options())
    if sys.stdout is None:
        raise WarplineError("standard output is closed", hint="use -o FILE")
    options = render.detect_options(sys.stdout, os.environ)
    rendering.WRITERS[args.format](found, sys.stdout, options)
    sys.stdout.flush()


def _nothing(_: str) -> None:
    """Print nothing, with --quiet."""
