"""``warpline kernels sweep``: a program at several points of its parameters, and its kernels there.

What the program prints goes to files. Standard output has the result only, messages go to standard
error. All runs are made before the first recording is read: a program is forked from this process,
which must not have threads by then.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from argparse import SUPPRESS, ArgumentParser, Namespace
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from warpline.cli import running, talk
from warpline.cli.startup import lazy
from warpline.errors import CounterError, WarplineError
from warpline.files import check_output, complete_file
from warpline.units import plural

if TYPE_CHECKING:
    import dataclasses
    import json
    import tempfile

    from warpline import api, plugins, render
    from warpline.capture.counting import prepare
    from warpline.capture.flags import sweep_flags
    from warpline.capture.flags.sweep_flags import SweepSettings
    from warpline.capture.launcher import program, swept
    from warpline.counters import names
    from warpline.documents import kernel_sweep as documents
    from warpline.render.sweep import bars, page
    from warpline.sweep import points, state
    from warpline.sweep import running as sweeping
    from warpline.sweep.state import State
else:
    dataclasses = lazy("dataclasses")
    json = lazy("json")
    tempfile = lazy("tempfile")
    api = lazy("warpline.api")
    plugins = lazy("warpline.plugins")
    render = lazy("warpline.render")
    prepare = lazy("warpline.capture.counting.prepare")
    sweep_flags = lazy("warpline.capture.flags.sweep_flags")
    program = lazy("warpline.capture.launcher.program")
    swept = lazy("warpline.capture.launcher.swept")
    names = lazy("warpline.counters.names")
    documents = lazy("warpline.documents.kernel_sweep")
    bars = lazy("warpline.render.sweep.bars")
    page = lazy("warpline.render.sweep.page")
    points = lazy("warpline.sweep.points")
    state = lazy("warpline.sweep.state")
    sweeping = lazy("warpline.sweep.running")

WORD = "sweep"
_FLOP_SET = "flop"
_INTERRUPTED = 128  # as a shell reports it, plus the signal


class Sweep:
    """The part ``sweep`` of the command ``kernels``."""

    NAME = "kernels sweep"
    HELP = "run a program with varied parameters, and compare the counters of its kernels"

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Declare the options for the help; `read` parses them."""
        parser.usage = (
            f"{parser.prog} --vary NAME=VALUES [OPTIONS] [--] PROGRAM [ARGS with {{NAME}}...]\n"
            f"       {parser.prog} -o DIR --resume\n"
            f"       {parser.prog} [OPTIONS] DIR"
        )
        parser.add_argument("program", nargs="*", metavar="PROGRAM", help=SUPPRESS)
        running.add_flags(parser, sweep_flags.FLAGS)
        parser.epilog = (
            "Without --set, --section or --metrics, the program runs twice at each point: for"
            " times, throughputs and occupancy (set light, in one pass), and for FLOP (set flop)."
            " A run that fails is a row with the reason, and the sweep goes on. Exit status: 0 at"
            " least one point was measured, 1 none was, 2 usage errors."
        )

    def asks_for_help(self, words: Sequence[str]) -> bool:
        """Return whether ``-h`` or ``--help`` is given before the program."""
        return sweep_flags.GRAMMAR.asks_for_help(words)

    def read(self, words: Sequence[str]) -> Namespace:
        """Parse the command line."""
        return Namespace(options=sweep_flags.parse(words))

    def run(self, args: Namespace) -> int:
        """Run the program at each point, and print its kernels."""
        chosen: SweepSettings = args.options
        if chosen.plot is not None:
            check_output(Path(chosen.plot), overwrite=chosen.force_overwrite)
        if chosen.shown is not None:
            folder = Path(chosen.shown)
            return _show(chosen, state.load(folder), folder)
        with _folder(chosen) as folder:
            found = _state(chosen, folder)
            if chosen.resume and not chosen.command:
                chosen = sweep_flags.resumed(chosen, found.definition)
            if chosen.ignored and not chosen.quiet:
                ignored = ", ".join(chosen.ignored)
                talk.warning(f"ignored: {ignored} (no effect in warpline kernels sweep)")
            ended_by = _make(chosen, found, folder) if found.missing() else None
            status = _show(chosen, found, folder)
        return status if ended_by is None else _INTERRUPTED + ended_by


SWEEP = Sweep()


@contextlib.contextmanager
def _folder(chosen: SweepSettings) -> Iterator[Path]:
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


def _state(chosen: SweepSettings, folder: Path) -> State:
    """Return the sweep as far as it was made."""
    if not chosen.resume:
        return state.State(chosen.definition)
    found = state.load(folder)
    if chosen.command:
        state.check_same(found.definition, chosen.definition)
    if chosen.retry_failed:
        found.forget_failures()
    return found


def _make(chosen: SweepSettings, found: State, folder: Path) -> int | None:
    """Make the runs that are missing; return the signal that ended them, if one did."""
    recorded = _recorded(chosen, found)
    runs = swept.SweptRuns(
        recorded, folder, chosen.time_limit, ignores_status=not chosen.check_exit_code
    )
    tell = _nothing if chosen.quiet else talk.note
    if sweeping.run(found, folder, runs, tell):
        return None
    left = plural(len(found.missing()), "run")
    kept = f"; warpline kernels sweep -o {chosen.output} --resume goes on"
    talk.warning(f"interrupted with {left} to make{kept if chosen.output else ''}")
    return runs.signal or signal.SIGINT


def _recorded(chosen: SweepSettings, found: State) -> list[swept.Recorded]:
    """Return what is recorded at each point: times and throughputs, then FLOP, or what was asked.

    The times of a set of one pass are those of a usual run: nothing is replayed, and caches keep
    what earlier launches left there. FLOP take several passes, and do not depend on that.
    """
    first = points.filled(chosen.command, found.definition.points()[0])
    executable = program.find(first[0], os.environ, "warpline kernels sweep")
    with_time = dataclasses.replace(chosen, metrics=(*chosen.metrics, names.DURATION))
    prepared = prepare.prepare(
        chosen if chosen.request.is_light else with_time, os.environ, executable
    )
    if not chosen.quiet:
        for text in prepared.warnings:
            talk.warning(text)
    if prepared.obstacle is not None:
        if chosen.has_filter:  # a timeline has all launches
            raise CounterError(prepared.obstacle.cause, hint=prepared.obstacle.cure)
        talk.warning(f"no counters: {prepared.obstacle.cause}; recording timelines instead")
        talk.hint(prepared.obstacle.cure)
        return [swept.Recorded(chosen.capture("", None), "", "timeline")]
    runs = [_counted(chosen, prepared, "", "counters")]
    if not (chosen.sets or chosen.section or chosen.metrics):
        more = prepare.prepare(
            dataclasses.replace(chosen, sets=(_FLOP_SET,)), os.environ, executable
        )
        runs.append(_counted(chosen, more, "-flop", "FLOP"))
    return runs


def _counted(
    chosen: SweepSettings, prepared: prepare.Prepared, ending: str, what: str
) -> swept.Recorded:
    counters = prepared.counters
    assert counters is not None
    if chosen.sample is None:
        is_one_pass = counters.passes == 1
        sample = sweep_flags.DEFAULT_SAMPLE if is_one_pass else sweep_flags.SAMPLE_OF_PASSES
        counters = dataclasses.replace(counters, sample=sample, burst=0, budget_ppm=0)
    return swept.Recorded(chosen.capture("", counters), ending, what)


def _show(chosen: SweepSettings, found: State, folder: Path) -> int:
    """Print the result and write the plot; status 1 if no point was measured."""
    documents.complete(found, folder, api.open)
    is_asked = sweep_flags.asked_metrics(found.definition)
    known = documents.facts(found, folder, api.open, chosen.top, is_asked)
    if sys.stdout is None:
        raise WarplineError("standard output is closed", hint="redirect it to a file")
    _write(known, chosen.format, sys.stdout)
    if chosen.plot is not None:
        path = Path(chosen.plot)
        with (
            complete_file(path) as unfinished,
            unfinished.open("w", encoding="utf-8", newline="\n") as out,
        ):
            page.write(known, out, is_page=path.suffix.lower() == ".html")
        if not chosen.quiet:
            talk.note(f"wrote {chosen.plot}")
    return int(not any(point["kernels"] for point in known["points"]))


def _write(known: dict[str, Any], name: str, out: TextIO) -> None:
    """Write the result in a format."""
    if name == "json":
        out.write(json.dumps(known, indent=2, allow_nan=False) + "\n")
        return
    is_screen = name != "csv"
    document = documents.document(known, is_screen=is_screen)
    options = render.detect_options(out, os.environ)
    plugins.find("renderers", name, render.RENDERERS).render(document, out, options)
    if name == "text":
        bars.write_bars(known, out, options)


def _nothing(_: str) -> None:
    """Print nothing, with --quiet."""
