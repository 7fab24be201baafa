"""``warpline kernels``: hardware counters per kernel launch, of a program or of a report.

A program is run with the flags of ``ncu``. Terminal and standard output belong to it; the page
follows on standard output when it has ended, messages go to standard error.
"""

from __future__ import annotations

import os
import tempfile
from argparse import SUPPRESS, ArgumentParser, Namespace
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from warpline import installation
from warpline.capture.flags import counter_flags
from warpline.capture.flags.counting import (
    CountingSettings,
    Details,
    Page,
    Summary,
)
from warpline.capture.session.agent_config import Clocks, Replay
from warpline.cli import bar, kernel_printing, kernel_sweeping, planning, running, talk
from warpline.cli import kernel_references as references
from warpline.cli.messages import print_trace_warnings
from warpline.cli.startup import lazy
from warpline.errors import CounterError
from warpline.units import plural

if TYPE_CHECKING:
    import contextlib
    import dataclasses

    from warpline import api
    from warpline.capture.counting import passes as counting
    from warpline.capture.counting import prepare
    from warpline.capture.launcher import passes, program, reasons
    from warpline.capture.launcher.launch import Outcome
    from warpline.cli.sweeping import Sweep
    from warpline.trace import Trace, counter_runs
    from warpline.trace import recording as recordings
else:
    contextlib = lazy("contextlib")
    dataclasses = lazy("dataclasses")
    api = lazy("warpline.api")
    prepare = lazy("warpline.capture.counting.prepare")
    counting = lazy("warpline.capture.counting.passes")
    program = lazy("warpline.capture.launcher.program")
    reasons = lazy("warpline.capture.launcher.reasons")
    counter_runs = lazy("warpline.trace.counter_runs")
    recordings = lazy("warpline.trace.recording")

NAME = "kernels"
HELP = "collect hardware counters per kernel launch; accepts options and reports of ncu"

PARTS = (planning.PLAN, kernel_sweeping.SWEEP)
_TEMPORARY = "kernels.warpline"
_KEEP_HINT = "use -o NAME to keep the recording"
_NOT_IN_ALL = (
    "no launch is in all passes",
    "use --app-replay-mode relaxed, --app-replay-match name, or --replay-mode kernel",
)
_EPILOG = (
    "Options of ncu without a counterpart have no effect and are named in a warning; those that"
    " would change what is counted are refused. Patterns in the output name: %p process id of the"
    " program, %h host name, %i number that makes the name unique, %q{NAME} environment variable,"
    " %% percent sign."
)


def add_arguments(parser: ArgumentParser) -> None:
    """Declare the command's options for its help; `read` parses them."""
    parser.usage = f"{parser.prog} [OPTIONS] [--] PROGRAM [ARGS...] | REPORT..."
    parser.epilog = _EPILOG
    parser.add_argument("program", nargs="*", metavar="PROGRAM", help=SUPPRESS)
    running.add_flags(parser, counter_flags.FLAGS)


def part(words: Sequence[str]) -> planning.Plan | Sweep | None:
    """Return the part of the command that the words mean; None for the command itself."""
    if words[:1] == [kernel_sweeping.WORD]:
        return kernel_sweeping.SWEEP
    is_meant = words[:1] == [planning.WORD] or counter_flags.lists_something(words)
    return planning.PLAN if is_meant else None


def asks_for_help(words: Sequence[str]) -> bool:
    """Return whether ``-h`` or ``--help`` is given before the program."""
    return counter_flags.GRAMMAR.asks_for_help(words)


def read(words: Sequence[str]) -> Namespace:
    """Parse the command line."""
    return Namespace(options=counter_flags.parse(words))


def run(args: Namespace) -> int:
    """Run a program and print its counters, or print reports."""
    chosen: CountingSettings = args.options
    if chosen.ignored and not chosen.quiet:
        talk.warning(f"ignored: {', '.join(chosen.ignored)} (no effect in warpline kernels)")
    references.check(chosen)
    if chosen.command:
        return _count(chosen)
    with bar.shown(Namespace(quiet=chosen.quiet)):
        trace = api.open(*chosen.imported)
        kernel_printing.print_page(chosen, trace, chosen.page or _default_page(trace))
        if not chosen.quiet:
            print_trace_warnings(trace)
    return 0


def _default_page(trace: Trace) -> Page:
    """Return the page of a report: details of launches, or the source where samples are all."""
    is_sampled = trace.has("pc_sample") and not trace.has("profiled_kernel")
    return Page.SOURCE if is_sampled else Page.DETAILS


def _count(chosen: CountingSettings) -> int:
    """Run the program, count its kernels, and print the result."""
    installation.require_linux()
    executable = program.find(chosen.command[0], os.environ, f"warpline {NAME}")
    if chosen.source:
        return _sample(chosen, executable)
    prepared = prepare.prepare(chosen, os.environ, executable)
    if not chosen.quiet:
        for text in prepared.warnings:
            talk.warning(text)
        if prepared.obstacle is not None:
            talk.warning(f"no counters: {prepared.obstacle.cause}; recording a timeline instead")
            talk.hint(prepared.obstacle.cure)
    with contextlib.ExitStack() as stack:
        # Directories go before this process ends, perhaps by a signal: the stack is closed then.
        output = _output(chosen, stack)
        if len(prepared.runs) > 1:
            return _count_in_passes(chosen, prepared, output, stack)
        return running.run_program(
            chosen.capture(output, prepared.counters),
            lambda outcome: _afterwards(chosen, prepared, outcome, stack),
        )


def _sample(chosen: CountingSettings, executable: Path) -> int:
    """Run the program, sample its program counters, and print the result."""
    chip = prepare.prepare_samples(chosen, os.environ, executable)
    with contextlib.ExitStack() as stack:
        return running.run_program(
            chosen.capture(_output(chosen, stack), None),
            lambda outcome: _after_sampling(chosen, chip, outcome, stack),
        )


def _after_sampling(
    chosen: CountingSettings, chip: str, outcome: Outcome, stack: contextlib.ExitStack
) -> None:
    """Print the samples and the warnings; remove a temporary recording."""
    is_kept = chosen.output is not None
    is_wanted = not is_kept or chosen.page is not None or chosen.json
    with stack, running.keeping_status(_KEEP_HINT):
        if outcome.reason is None:
            trace = api.open(outcome.output)
            if not chosen.quiet:
                _tell_samples(chip, trace)
            if is_wanted:
                kernel_printing.print_page(chosen, trace, chosen.page or Page.SOURCE)
    if not chosen.quiet:
        running.tell(outcome, "nothing was sampled")
        if is_kept:
            talk.note(f"wrote {running.short(outcome.output)}")


def _tell_samples(chip: str, trace: Trace) -> None:
    """Print how much was sampled."""
    columns = trace.columns("pc_sampling", "total_samples", "period_cycles")
    total = int(columns["total_samples"].values.sum())
    period = int(columns["period_cycles"].values.max(initial=0))
    talk.note(f"{plural(total, 'sample')} on {chip}, one per SM every {period:,} cycles")


def _output(chosen: CountingSettings, stack: contextlib.ExitStack) -> str:
    """Return the name of the recording; without one, in a directory that goes with the stack."""
    if chosen.output is not None:
        return chosen.output
    folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="warpline-"))
    return _in(folder, _TEMPORARY)


def _count_in_passes(
    chosen: CountingSettings, prepared: prepare.Prepared, output: str, stack: contextlib.ExitStack
) -> int:
    """Run the program once for each pass, and print the result.

    The first run makes the recording, to which the metrics of the others are added.
    """
    folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="warpline-"))
    outputs = [output, *(_in(folder, f"pass{n}") for n in range(2, len(prepared.runs) + 1))]
    runs = [chosen.capture(*run) for run in zip(outputs, prepared.runs, strict=True)]

    def afterwards(found: passes.Passes) -> None:
        with stack, running.keeping_status(_KEEP_HINT):
            _afterwards(chosen, *_merged(chosen, prepared, found), stack)

    return running.run_passes(runs, afterwards, goes_on_after_failure=not chosen.check_exit_code)


def _merged(
    chosen: CountingSettings, prepared: prepare.Prepared, found: passes.Passes
) -> tuple[prepare.Prepared, Outcome]:
    """Write what the runs counted to one recording; return what was counted, and the outcome."""
    first = dataclasses.replace(found.outcomes[0], ending=found.last)
    assert prepared.counters is not None
    counted = {name for run in prepared.runs[: len(found.outcomes)] for name, _ in run.metrics}
    wanted = prepared.counters.metrics
    counters = dataclasses.replace(
        prepared.counters,
        metrics=tuple(metric for metric in wanted if metric[0] in counted),
        passes=len(found.outcomes),
    )
    prepared = dataclasses.replace(prepared, counters=counters)
    warnings = []
    if found.why_ended is not None:
        missing = [name for name, _ in wanted if name not in counted]
        warnings.append(_missing(found.why_ended, missing))
    if first.reason is not None:
        return prepared, first
    try:
        trace = counter_runs.merge_runs(
            [api.open(outcome.output) for outcome in found.outcomes],
            [name for name, _ in counters.metrics],
            clock=counting.CLOCK,
            match=chosen.app_replay_match,
            mode=chosen.app_replay_mode,
            warnings=warnings,
        )
    except CounterError:
        first.output.unlink(missing_ok=True)  # it has the metrics of one pass
        raise
    recordings.write_recording(trace, first.output)
    finished = {
        **first.finished,
        "warnings": trace.meta.warnings,
        "lost": sum(outcome.finished.get("lost", 0) for outcome in found.outcomes),
    }
    reason = None if trace.row_count("profiled_kernel") else reasons.Reason(*_NOT_IN_ALL)
    return prepared, dataclasses.replace(first, finished=finished, reason=reason)


def _missing(why: str, missing: Sequence[str]) -> str:
    if not missing:
        return why
    are = "is" if len(missing) == 1 else "are"
    return f"{why}: {plural(len(missing), 'metric')} {are} missing, such as {missing[0]}"


def _in(folder: str, name: str) -> str:
    """Return the name of a recording in a directory, without patterns."""
    return str(Path(folder, name)).replace("%", "%%")


def _afterwards(
    chosen: CountingSettings,
    prepared: prepare.Prepared,
    outcome: Outcome,
    stack: contextlib.ExitStack,
) -> None:
    """Print the page and the warnings; remove a temporary recording.

    Errors here do not change the exit status, which is the program's.
    """
    name = running.short(outcome.output)
    is_kept = chosen.output is not None
    is_wanted = not is_kept or chosen.page is not None or chosen.json
    with stack, running.keeping_status(_KEEP_HINT):
        if outcome.reason is None and (is_wanted or not chosen.quiet):
            trace = api.open(outcome.output)
            if prepared.counters is None:
                kernel_printing.print_timeline(chosen, trace)
            else:
                if not chosen.quiet:
                    _tell_counts(prepared, trace)
                if is_wanted:
                    kernel_printing.print_page(chosen, trace, _page_of(chosen))
    if not chosen.quiet:
        running.tell(outcome, "no kernel was counted")
        if is_kept:
            talk.note(f"wrote {name}")


def _page_of(chosen: CountingSettings) -> Page:
    """Return the page to print of a run."""
    if chosen.page is not None:
        return chosen.page
    is_plain = not chosen.csv and chosen.print_summary is Summary.NONE
    is_plain = is_plain and chosen.print_details is Details.HEADER
    return Page.SUMMARY if is_plain and chosen.request.is_light else Page.DETAILS


def _tell_counts(prepared: prepare.Prepared, trace: Trace) -> None:
    """Print how much was counted."""
    counters = prepared.counters
    assert counters is not None
    limits = []
    if counters.sample:
        limits.append(f"at most {counters.sample} of each kernel and shape")
    if counters.budget_ppm:
        limits.append(f"in at most {counters.budget_ppm / 10_000:g}% of the run time")
    if counters.clocks is not Clocks.NONE:
        fixed = trace.columns("profiled_kernel", "has_fixed_clocks")["has_fixed_clocks"]
        are_fixed = bool(fixed.filled(0).all())
        limits.append(f"clocks {'' if are_fixed else 'not '}locked to {counters.clocks}")
    is_range = counters.replay is Replay.RANGE
    words = ("range",) if is_range else ("launch", "launches")
    talk.note(
        f"counted {plural(trace.row_count('profiled_kernel'), *words)}"
        f" on {prepared.chip}: {plural(len(counters.metrics), 'metric')},"
        f" {plural(counters.passes, 'pass', 'passes')}" + "".join(f", {limit}" for limit in limits)
    )
