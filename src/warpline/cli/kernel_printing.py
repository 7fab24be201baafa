"""How counted and sampled kernels are printed by ``warpline kernels``: pages, findings, JSON."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

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
from warpline.cli import kernel_references as references
from warpline.cli import talk
from warpline.cli.startup import lazy
from warpline.cli.stdout import Clean
from warpline.errors import WarplineError

if TYPE_CHECKING:
    import dataclasses

    from warpline import api, plugins, render
    from warpline.capture.counting import passes as counting
    from warpline.capture.launcher import program
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
    from warpline.trace import Trace
else:
    dataclasses = lazy("dataclasses")
    api = lazy("warpline.api")
    plugins = lazy("warpline.plugins")
    render = lazy("warpline.render")
    counting = lazy("warpline.capture.counting.passes")
    program = lazy("warpline.capture.launcher.program")
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
_SAMPLES = "pc_sample"
_STREAMS = ("stdout", "stderr")  # as --log-file
_TIMELINE = "cuda_gpu_kern_gb_sum"  # in place of counters that cannot be used
_NO_COUNTS = "no samples or counts of instructions"
_NO_COUNTS_HINT = (
    "profile with warpline kernels --source, or with ncu --set full --import-source yes"
)


def print_timeline(chosen: CountingSettings, trace: Trace) -> None:
    """Print the kernels of a timeline, recorded in place of counters."""
    _write_document(chosen, api.document(trace, [_TIMELINE], keep_going=True))


def print_page(chosen: CountingSettings, trace: Trace, page: Page) -> None:
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
