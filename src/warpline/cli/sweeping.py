"""What ``warpline sweep`` and ``warpline kernels sweep`` have in common.

What the program prints goes to files. Standard output has the result only, messages go to standard
error. A program is forked from this process, which must not have threads: recordings are read when
all runs are made, or in a process of their own.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from argparse import SUPPRESS, ArgumentParser, Namespace
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TextIO

from warpline import installation
from warpline.cli import running, talk
from warpline.cli.startup import lazy
from warpline.errors import UsageError, WarplineError
from warpline.files import check_output, complete_file
from warpline.units import plural

if TYPE_CHECKING:
    import json
    import tempfile

    from warpline import plugins, render
    from warpline.capture.flags.grammar import Grammar
    from warpline.capture.launcher import swept
    from warpline.render.sweep import bars, heat, page
    from warpline.render.sweep.look import Look
    from warpline.result import Document
    from warpline.sweep import running as engine
    from warpline.sweep import state
    from warpline.sweep.running import Measure
    from warpline.sweep.state import Definition, State
else:
    json = lazy("json")
    tempfile = lazy("tempfile")
    plugins = lazy("warpline.plugins")
    render = lazy("warpline.render")
    swept = lazy("warpline.capture.launcher.swept")
    bars = lazy("warpline.render.sweep.bars")
    heat = lazy("warpline.render.sweep.heat")
    page = lazy("warpline.render.sweep.page")
    state = lazy("warpline.sweep.state")
    engine = lazy("warpline.sweep.running")

_INTERRUPTED = 128  # as a shell reports it, plus the signal
_COMMANDS = {"kernels": "warpline kernels sweep", "program": "warpline sweep"}
Facts = Mapping[str, Any]


class Kind(Protocol):
    """A kind of sweep: what is recorded at a point, and what is shown of it."""

    NAME: str  # of its command
    KIND: str  # of its definition
    EPILOG: str

    def grammar(self) -> Grammar:
        """Return its flags."""

    def parse(self, words: Sequence[str]) -> Any:
        """Return the settings that a command line makes: SweepOptions and those of a recording."""

    def resumed(self, settings: Any, stored: Definition) -> Any:
        """Return the settings of a sweep that is resumed without its command line."""

    def recorded(self, chosen: Any, found: State) -> Sequence[swept.Recorded]:
        """Return what is recorded at each point."""

    def ignores_status(self, chosen: Any) -> bool:
        """Return whether a run does not fail because its exit status is not 0."""

    def lacked_memory(self, recording: Path) -> bool:
        """Return whether the recording of a run that failed says that GPU memory ran out."""

    def measure(self, chosen: Any, folder: Path) -> Measure:
        """Return what measures the recordings of a run."""

    def facts(self, chosen: Any, found: State, folder: Path) -> Facts:
        """Return what is known of the sweep, as its JSON."""

    def document(self, known: Facts, *, is_screen: bool) -> Document:
        """Return the document of these facts."""

    def look(self) -> Look:
        """Return what bars and plots show."""

    def is_measured(self, point: Facts) -> bool:
        """Return whether a point of the facts has numbers."""


class Sweep:
    """A command that runs a program at several points.

    Args:
        kind: What is recorded and shown.
        help_text: What the command does, in a few words.
    """

    def __init__(self, kind: Kind, help_text: str) -> None:
        self._kind = kind
        self.NAME, self.HELP = kind.NAME, help_text

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Declare the options for the help; `read` parses them."""
        parser.usage = (
            f"{parser.prog} --vary NAME=VALUES [OPTIONS] [--] PROGRAM [ARGS with {{NAME}}...]\n"
            f"       {parser.prog} -o DIR --resume\n"
            f"       {parser.prog} [OPTIONS] DIR"
        )
        parser.add_argument("program", nargs="*", metavar="PROGRAM", help=SUPPRESS)
        running.add_flags(parser, self._kind.grammar().flags)
        parser.epilog = (
            f"{self._kind.EPILOG} A run that fails is a row with the reason, and the sweep goes on."
            " Exit status: 0 at least one point was measured, 1 none was, 2 usage errors."
        )

    def asks_for_help(self, words: Sequence[str]) -> bool:
        """Return whether ``-h`` or ``--help`` is given before the program."""
        return self._kind.grammar().asks_for_help(words)

    def read(self, words: Sequence[str]) -> Namespace:
        """Parse the command line."""
        return Namespace(options=self._kind.parse(words))

    def run(self, args: Namespace) -> int:
        """Run the program at each point, and print what was measured."""
        chosen = args.options
        if chosen.plot is not None:
            check_output(Path(chosen.plot), overwrite=chosen.force_overwrite)
        if chosen.shown is not None:
            folder = Path(chosen.shown)
            return self._show(chosen, self._load(folder), folder)
        installation.require_linux()
        with _folder(chosen) as folder:
            found = self._state(chosen, folder)
            if chosen.resume and not chosen.command:
                chosen = self._kind.resumed(chosen, found.definition)
            ended_by = self._make(chosen, found, folder)
            status = self._show(chosen, found, folder)
        return status if ended_by is None else _INTERRUPTED + ended_by

    def _load(self, folder: Path) -> State:
        """Return the sweep in a directory, of this kind."""
        found = state.load(folder)
        kind = found.definition.kind
        if kind != self._kind.KIND:
            command = _COMMANDS.get(kind)
            raise UsageError(
                f"{folder} is a sweep of another kind ({kind})",
                hint=f"use {command}" if command else "update Warpline",
            )
        return found

    def _state(self, chosen: Any, folder: Path) -> State:
        """Return the sweep as far as it was made."""
        if not chosen.resume:
            return state.State(chosen.definition)
        found = self._load(folder)
        if chosen.command:
            state.check_same(found.definition, chosen.definition)
        if chosen.retry_failed:
            found.forget_failures()
        return found

    def _make(self, chosen: Any, found: State, folder: Path) -> int | None:
        """Make the runs that are missing; return the signal that ended them, if one did."""
        policy = engine.Policy(finds_border=chosen.find_border, skips=chosen.skip_oom)
        if not engine.has_more(found, policy):
            return None
        runs = swept.SweptRuns(
            self._kind.recorded(chosen, found),
            folder,
            chosen.time_limit,
            ignores_status=self._kind.ignores_status(chosen),
            lacked_memory=self._kind.lacked_memory,
        )
        tell = _nothing if chosen.quiet else talk.note
        measure = self._kind.measure(chosen, folder)
        if engine.run(found, folder, runs, tell, measure, policy):
            return None
        left = plural(len(found.missing()), "run")
        kept = f"; warpline {self.NAME} -o {chosen.output} --resume goes on"
        talk.warning(f"interrupted with {left} to make{kept if chosen.output else ''}")
        return runs.signal or signal.SIGINT

    def _show(self, chosen: Any, found: State, folder: Path) -> int:
        """Print the result and write the plot; status 1 if no point was measured."""
        known = self._kind.facts(chosen, found, folder)
        if sys.stdout is None:
            raise WarplineError("standard output is closed", hint="redirect it to a file")
        self._write(known, chosen.format, sys.stdout)
        if chosen.plot is not None:
            path = Path(chosen.plot)
            with (
                complete_file(path) as unfinished,
                unfinished.open("w", encoding="utf-8", newline="\n") as out,
            ):
                is_page = path.suffix.lower() == ".html"
                page.write(known, out, self._kind.look(), is_page=is_page)
            if not chosen.quiet:
                talk.note(f"wrote {chosen.plot}")
        return int(not any(map(self._kind.is_measured, known["points"])))

    def _write(self, known: Facts, name: str, out: TextIO) -> None:
        """Write the result in a format."""
        if name == "json":
            out.write(json.dumps(known, indent=2, allow_nan=False) + "\n")
            return
        document = self._kind.document(known, is_screen=name != "csv")
        options = render.detect_options(out, os.environ)
        plugins.find("renderers", name, render.RENDERERS).render(document, out, options)
        if name == "text":
            bars.write_bars(known, out, options, self._kind.look())
            heat.write_grid(known, out, options, self._kind.look())


@contextlib.contextmanager
def _folder(chosen: Any) -> Iterator[Path]:
    """Yield the directory of the sweep; a temporary one without -o."""
    if chosen.output is None:
        with tempfile.TemporaryDirectory(prefix="warpline-sweep-") as name:
            yield Path(name)
        return
    folder = Path(chosen.output)
    if not chosen.resume:
        check_output(folder, is_folder=True, overwrite=chosen.force_overwrite)
        folder.mkdir(exist_ok=True)
        state.remove(folder)
    yield folder


def _nothing(_: str) -> None:
    """Print nothing, with --quiet."""
