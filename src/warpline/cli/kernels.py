"""``warpline kernels``: hardware counters per kernel launch, of a program or of a report.

A program is run with the flags of ``ncu``. Terminal and standard output belong to it; the page
follows on standard output when it has ended, messages go to standard error.
"""

from __future__ import annotations

import io
import os
import sys
import tempfile
from argparse import SUPPRESS, ArgumentParser, Namespace
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from warpline.capture.flags import counter_flags
from warpline.capture.flags.counting import (
    CountingSettings,
    Details,
    Instances,
    MetricNames,
    Page,
    Source,
    Summary,
    Units,
)
from warpline.capture.session.agent_config import Clocks, Replay
from warpline.cli import bar, planning, running, sweeping, talk
from warpline.cli import kernel_references as references
from warpline.cli.messages import print_trace_warnings
from warpline.cli.startup import lazy
from warpline.cli.stdout import Clean
from warpline.errors import CounterError, WarplineError
from warpline.units import plural

if TYPE_CHECKING:
    import contextlib
    import dataclasses

    from warpline import api, plugins, render
    from warpline.capture.counting import passes as counting
    from warpline.capture.counting import prepare
    from warpline.capture.launcher import passes, program, reasons
    from warpline.capture.launcher.launch import Outcome
    from warpline.documents import kernel_code as code
    from warpline.documents import kernel_filters as filters
    from warpline.documents import kernel_findings as findings
    from warpline.documents import kernel_pages as documents
    from warpline.documents import kernel_samples as hot
    from warpline.documents import kernel_sections as bodies
    from warpline.documents import kernel_sums as sums
    from warpline.presentation import kernel_code as code_screens
    from warpline.presentation import kernel_findings as presentation
    from warpline.render import kernel_code as code_pages
    from warpline.render import kernel_listings as listings
    from warpline.render import kernel_pages as pages
    from warpline.render import section_bodies
    from warpline.render.diagnosis import text as blocks
    from warpline.result import Document
    from warpline.result.kernel_code import CodeOfLaunches
    from warpline.result.kernel_findings import KernelFinding, KernelFindings
    from warpline.result.kernel_pages import GroupedBy, LaunchTable
    from warpline.trace import Trace, counter_runs
    from warpline.trace import recording as recordings
else:
    contextlib = lazy("contextlib")
    dataclasses = lazy("dataclasses")
    api = lazy("warpline.api")
    plugins = lazy("warpline.plugins")
    render = lazy("warpline.render")
    prepare = lazy("warpline.capture.counting.prepare")
    counting = lazy("warpline.capture.counting.passes")
    program = lazy("warpline.capture.launcher.program")
    reasons = lazy("warpline.capture.launcher.reasons")
    counter_runs = lazy("warpline.trace.counter_runs")
    recordings = lazy("warpline.trace.recording")
    code = lazy("warpline.documents.kernel_code")
    filters = lazy("warpline.documents.kernel_filters")
    findings = lazy("warpline.documents.kernel_findings")
    documents = lazy("warpline.documents.kernel_pages")
    bodies = lazy("warpline.documents.kernel_sections")
    hot = lazy("warpline.documents.kernel_samples")
    sums = lazy("warpline.documents.kernel_sums")
    listings = lazy("warpline.render.kernel_listings")
    pages = lazy("warpline.render.kernel_pages")
    section_bodies = lazy("warpline.render.section_bodies")
    blocks = lazy("warpline.render.diagnosis.text")
    code_pages = lazy("warpline.render.kernel_code")
    code_screens = lazy("warpline.presentation.kernel_code")
    presentation = lazy("warpline.presentation.kernel_findings")

NAME = "kernels"
HELP = "collect hardware counters per kernel launch; accepts options and reports of ncu"

PARTS = (planning.PLAN, sweeping.SWEEP)
_GROUPED_BY: Mapping[Summary, GroupedBy] = {
    Summary.PER_GPU: "gpu",
    Summary.PER_KERNEL: "kernel",
    Summary.PER_NVTX: "nvtx",
}
_INSTANCES: Mapping[Instances, documents.ShownInstances] = {
    Instances.NONE: "none",
    Instances.VALUES: "values",
    Instances.DETAILS: "details",
}
_STREAMS = ("stdout", "stderr")  # as --log-file
_TIMELINE = "cuda_gpu_kern_gb_sum"  # in place of counters that cannot be used
_SAMPLES = "pc_sample"
_TEMPORARY = "kernels.warpline"
_KEEP_HINT = "use -o NAME to keep the recording"
_NO_COUNTS = "no samples or counts of instructions"
_NO_COUNTS_HINT = (
    "profile with warpline kernels --source, or with ncu --set full --import-source yes"
)
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


def part(words: Sequence[str]) -> planning.Plan | sweeping.Sweep | None:
    """Return the part of the command that the words mean; None for the command itself."""
    if words[:1] == [sweeping.WORD]:
        return sweeping.SWEEP
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
        _print(chosen, trace, chosen.page or _default_page(trace))
        if not chosen.quiet:
            print_trace_warnings(trace)
    return 0


def _default_page(trace: Trace) -> Page:
    """Return the page of a report: details of launches, or the source where samples are all."""
    is_sampled = trace.has("pc_sample") and not trace.has("profiled_kernel")
    return Page.SOURCE if is_sampled else Page.DETAILS


def _count(chosen: CountingSettings) -> int:
    """Run the program, count its kernels, and print the result."""
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
                _print(chosen, trace, chosen.page or Page.SOURCE)
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
                _print_timeline(chosen, trace)
            else:
                if not chosen.quiet:
                    _tell_counts(prepared, trace)
                if is_wanted:
                    _print(chosen, trace, _page_of(chosen))
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


def _print_timeline(chosen: CountingSettings, trace: Trace) -> None:
    """Print the kernels of a timeline, recorded in place of counters."""
    _write_document(chosen, api.document(trace, [_TIMELINE], keep_going=True))


def _print(chosen: CountingSettings, trace: Trace, page: Page) -> None:
    """Print a page of counted launches."""
    if not chosen.quiet and _is_judged(chosen, page):
        references.measured(chosen.ceilings, trace).tell()
    if page is Page.SUMMARY and not chosen.json:
        found = [] if chosen.csv else _findings(chosen, trace)
        _write_document(chosen, sums.kernel_sums(trace, is_screen=not chosen.csv), found)
        return
    with _Output(chosen.log_file) as out:
        if page is Page.SESSION:
            listings.write_session(documents.session(trace), out, as_csv=chosen.csv)
        elif page is Page.SOURCE:
            _write_source(chosen, trace, out)
        else:
            _write_launches(chosen, trace, page, out)


def _write_source(chosen: CountingSettings, trace: Trace, out: TextIO) -> None:
    """Write the page source: the hottest lines, or listings."""
    choice, name = _choice(chosen), chosen.print_kernel_base
    view = chosen.print_source
    if chosen.json:
        found = code.kernel_code(trace, choice, shown_name=name)
        launches = (
            _launches(chosen, trace) if trace.has("profiled_kernel") else documents.NO_LAUNCHES
        )
        _write_json(chosen, trace, launches, out, found)
    elif chosen.csv and view in (Source.HOT, Source.SASS) and trace.has("profiled_kernel"):
        listings.write_source_csv(documents.listings(trace, choice, shown_name=name), out)
    elif chosen.csv:
        found = code.kernel_code(trace, choice, shown_name=name)
        if view in (Source.HOT, Source.SASS):
            code_pages.write_sass_csv(found.codes, out)
        else:
            code_pages.write_lines_csv(found.codes, out, is_ptx=view is Source.PTX)
    else:
        found = code.kernel_code(trace, choice, shown_name=name, most=code_screens.KERNELS)
        if not found.count and not chosen.quiet:
            talk.warning(_NO_COUNTS)
            talk.hint(_NO_COUNTS_HINT)
        if view is Source.HOT and trace.has(_SAMPLES):
            text = plugins.find("renderers", "text", render.RENDERERS)
            text.render(hot.hot_kernels(trace), out, _options(chosen, out))
            out.write("\n")
        views = [] if view is Source.HOT else view.split(",")
        blocks.write(code_screens.screen(found, views), out, _options(chosen, out))


def _choice(chosen: CountingSettings) -> filters.Choice:
    """Return the launches to print; of a program, those that were counted."""
    if chosen.command and not chosen.source:
        return filters.Choice(attributes=chosen.request.metrics)
    metrics = tuple(name for names in chosen.metrics for name in names.split(",") if name)
    return filters.Choice(
        name=chosen.kernel_name,
        name_base=chosen.kernel_name_base,
        ids=chosen.kernel_id,
        skip=chosen.launch_skip,
        count=chosen.launch_count,
        skip_before_match=chosen.launch_skip_before_match,
        sections=chosen.section,
        metrics=metrics,
        attributes=metrics,
    )


def _write_launches(chosen: CountingSettings, trace: Trace, page: Page, out: TextIO) -> None:
    """Write the page details or raw, or a summary of it."""
    launches = _launches(chosen, trace)
    if chosen.print_metric_name is MetricNames.NAME:
        launches = documents.with_metric_names(launches)
    if not len(launches) and not chosen.quiet:
        is_empty = not trace.row_count("profiled_kernel")
        talk.warning(
            "the recording has no counted launches"
            if is_empty
            else "the filters exclude all launches"
        )
    drift = sums.drift_note(trace)
    if drift is not None and not chosen.quiet:
        talk.warning(drift)
    is_scaled = chosen.print_units is Units.AUTO
    if chosen.json:
        _write_json(chosen, trace, launches, out)
    elif chosen.print_summary is not Summary.NONE:
        groups = documents.summaries(
            launches,
            by=_GROUPED_BY[chosen.print_summary],
            is_raw=page is Page.RAW,
        )
        listings.write_summaries(groups, out, is_scaled=is_scaled, as_csv=chosen.csv)
    elif page is Page.RAW:
        write = pages.write_raw_csv if chosen.csv else pages.write_raw
        write(launches, out, is_scaled=is_scaled)
    else:
        if chosen.csv:
            pages.write_details_csv(launches, out, is_scaled=is_scaled)
        else:
            pages.write_details(
                launches,
                out,
                is_scaled=is_scaled,
                has_header=chosen.print_details is not Details.BODY,
                bodies=_bodies(chosen, trace, _options(chosen, out)),
            )
        if _wants_findings(chosen):
            _write_findings(_findings(chosen, trace), out, _options(chosen, out))


def _launches(chosen: CountingSettings, trace: Trace) -> LaunchTable:
    """Return the launches to print."""
    return documents.launches(
        trace,
        _choice(chosen),
        shown_name=chosen.print_kernel_base,
        shown_instances=_INSTANCES[chosen.print_metric_instances],
    )


def _write_json(
    chosen: CountingSettings,
    trace: Trace,
    launches: LaunchTable,
    out: TextIO,
    found: CodeOfLaunches | None = None,
) -> None:
    """Write launches with their findings as JSON, and their sections and code if asked for."""
    choice = _choice(chosen)
    listed: list[tuple[KernelFinding, ...]] = []
    shown, files = None, []
    if len(launches):
        ceilings = references.measured(chosen.ceilings, trace)
        measured, files = ceilings.measured, [*map(str, ceilings.files)]
        timeline = references.timeline(chosen, trace)
        listed = findings.kernel_findings(trace, choice, timeline=timeline, measured=measured)
        if chosen.print_details is not Details.HEADER:
            shown = bodies.ChosenSections(trace, choice, measured=measured).at
    listings.write_json(launches, out, findings=listed, sections=shown, code=found, ceilings=files)


def _bodies(chosen: CountingSettings, trace: Trace, options: render.Options) -> pages.Bodies | None:
    """Return how the charts and tables of sections are written; None if they are not."""
    if chosen.print_details is Details.HEADER:
        return None
    measured = references.measured(chosen.ceilings, trace).measured
    shown = bodies.ChosenSections(trace, _choice(chosen), measured=measured)
    if shown.lacks_counters and not chosen.quiet:
        talk.warning("no section has charts or tables: their counters were not collected")
        talk.hint("count them with --set full, in warpline kernels or ncu")
    drawing = section_bodies.Drawing(options.unicode, chosen.print_units is Units.AUTO)
    return lambda places, names: [
        section_bodies.body_texts(names, of, drawing) for of in shown.at(places)
    ]


def _is_judged(chosen: CountingSettings, page: Page) -> bool:
    """Return whether a page has findings, or charts of sections: what ceilings decide."""
    if chosen.json or chosen.csv:
        return chosen.json
    has_bodies = page is Page.DETAILS and chosen.print_details is not Details.HEADER
    return page is Page.SUMMARY or has_bodies or (page is Page.DETAILS and _wants_findings(chosen))


def _wants_findings(chosen: CountingSettings) -> bool:
    """Return whether findings follow the page details.

    If it was asked for by name, or parts of it, it is what ncu prints.
    """
    is_part = chosen.imported and (chosen.section or chosen.metrics)
    return chosen.page is None and not chosen.csv and not is_part


def _findings(chosen: CountingSettings, trace: Trace) -> list[KernelFindings]:
    """Return what rules found in each kernel, where there are the metrics for it."""
    found = findings.of_kernels(
        trace,
        _choice(chosen),
        timeline=references.timeline(chosen, trace),
        measured=references.measured(chosen.ceilings, trace).measured,
        shown_name=chosen.print_kernel_base,
    )
    if chosen.timeline and not found and not chosen.quiet:
        talk.warning("--timeline has no effect: the counters lack what findings need")
        talk.hint("count with --set full")
    return found


def _write_findings(found: Sequence[KernelFindings], out: TextIO, options: render.Options) -> None:
    if found:
        out.write("\n")
        blocks.write(presentation.findings_screen(found), out, options)


def _options(chosen: CountingSettings, out: TextIO) -> render.Options:
    """Return the options of standard output, or of a file."""
    return render.detect_options(out if chosen.log_file else sys.stdout, os.environ)


def _write_document(
    chosen: CountingSettings, document: Document, found: Sequence[KernelFindings] = ()
) -> None:
    """Write a document as text, CSV or JSON, and findings about kernels after it."""
    name = "csv" if chosen.csv else "json" if chosen.json else "text"
    out = io.StringIO()
    stream = None if chosen.log_file else sys.stdout
    options = _options(chosen, out)
    if name == "text":
        options = dataclasses.replace(options, time_unit="us")
    plugins.find("renderers", name, render.RENDERERS).render(document, stream or out, options)
    _write_findings(found, stream or out, options)
    if stream is None:
        with _Output(chosen.log_file) as log:
            log.write(out.getvalue())


class _Output(io.StringIO):
    """Where a page is written, as it is made: standard output, or where --log-file says.

    Without text nothing is written, and no file is created.
    """

    def __init__(self, log_file: str | None) -> None:
        super().__init__()
        self._name = log_file or "stdout"
        self._out: Clean | TextIO | None = None

    def write(self, text: str) -> int:
        """Write text."""
        if text:
            try:
                self._out = self._out or self._opened()
                self._out.write(text)
            except OSError as error:
                if self._name in _STREAMS:
                    raise
                raise WarplineError(
                    f"--log-file {self._name}: {error.strerror or error}"
                ) from error
        return len(text)

    def close(self) -> None:
        """Write the end."""
        if self._out is not None and self._name != "stderr":
            self._out.close()
        super().close()

    def _opened(self) -> Clean | TextIO:
        if self._name == "stdout":
            return Clean()
        if self._name == "stderr":
            return sys.stderr
        return Path(self._name).open("w", encoding="utf-8")
