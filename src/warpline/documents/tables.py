"""Tables by name, and documents of several."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from warpline import plugins, progress
from warpline.derived.steps import STEP_ARGUMENT
from warpline.documents import failures
from warpline.errors import UsageError
from warpline.result import (
    ANALYSES,
    Analysis,
    Document,
    Result,
    Skipped,
    cuda_unrecorded,
    document_of,
)
from warpline.trace import Trace
from warpline.trace.recorder import table_hint

FILTER_HINT = "widen or remove the filters"

_OF_CUDA = frozenset({"kernel", "memcpy", "memset", "graph_launch", "api_call"})
# What tables have that are not named after events.
_ROWS = {
    "gpu_health": "readings of GPUs",
    "host_health": "readings of the machine",
    "pc_sample": "program counter samples",
    "um_cpu_page_fault": "CPU page faults of unified memory",
    "um_gpu_page_fault": "GPU page faults of unified memory",
}


def split_name(text: str) -> tuple[Analysis, tuple[str, ...]]:
    """Parse ``NAME[:ARG]...`` into an analysis and its arguments.

    Raises:
        UsageError: There is no such table or argument.
    """
    name, *arguments = text.split(":")
    analysis = plugins.find("analyses", name, ANALYSES)
    for argument in arguments:
        if argument.split("=")[0] not in analysis.arguments:
            known = ", ".join(analysis.arguments) or "none"
            raise UsageError(
                f"unknown argument {argument!r} of table {analysis.name!r}",
                hint=f"arguments: {known}",
            )
    return analysis, tuple(arguments)


def compute(trace: Trace, table: str, steps: str | None = None) -> Result | Skipped:
    """Compute one table, or return why the trace has no data for it.

    Args:
        trace: The trace.
        table: Its name, with arguments.
        steps: Name of the ranges that are steps, or a pattern, for tables that depend on steps.
    """
    analysis, arguments = split_name(table)
    if steps is not None and _depends_on_steps(analysis):
        arguments = (*arguments, f"name={steps}")
    if analysis.needs and not any(
        trace.has(need) and trace.row_count(need) for need in analysis.needs
    ):
        return _skipped(trace, table, analysis)
    return analysis.compute(trace, arguments)


def _depends_on_steps(analysis: Analysis) -> bool:
    """Return whether an analysis has the argument that chooses the steps."""
    return STEP_ARGUMENT.items() <= analysis.arguments.items()


def _skipped(trace: Trace, table: str, analysis: Analysis) -> Skipped:
    if not any(trace.has(need) for need in analysis.needs) and _OF_CUDA.intersection(
        analysis.needs
    ):
        for cause in cuda_unrecorded(trace):
            return Skipped(table, f"CUDA was not recorded: {cause.why}", cause.hint)
    hint: str | None = FILTER_HINT
    if not _is_filtered_out(trace, analysis.needs):
        hint = table_hint(trace, analysis.needs, analysis.missing_hint)
    return Skipped(table, _reason(trace, analysis), hint)


def _is_filtered_out(trace: Trace, needs: Sequence[str]) -> bool:
    """Return whether the recording has rows of these tables, but a filter excludes them all."""
    whole = trace.unfiltered()
    return not trace.is_whole and any(whole.has(need) and whole.row_count(need) for need in needs)


def _reason(trace: Trace, analysis: Analysis) -> str:
    events = [
        need.removesuffix("_event").replace("_", " ")
        for need in analysis.needs
        if need not in _ROWS
    ]
    others = [_ROWS[need] for need in analysis.needs if need in _ROWS]
    rows = " or ".join([f"{' or '.join(events)} events", *others] if events else others)
    if _is_filtered_out(trace, analysis.needs):
        return f"the filters exclude all {rows}"
    recorded = any(trace.has(need) for need in analysis.needs)
    return f"no {rows}" + ("" if recorded else " were recorded")


def default_tables() -> list[str]:
    """Return the tables that `warpline stats` prints by default, in order."""
    plugins.load_default_tables()
    ranked = [(item.default_rank, item.name) for item in ANALYSES if item.default_rank is not None]
    return [name for _, name in sorted(ranked)]


def document(trace: Trace, tables: Sequence[str], *, keep_going: bool = False) -> Document:
    """Compute several tables for a renderer.

    Args:
        trace: The trace.
        tables: Names, with arguments.
        keep_going: If a table fails because of a defect or damaged data, mark it as failed and
            compute the others. Other errors of the file or the arguments are raised.
    """
    attempt = failures.marked_if_damaged if keep_going else failures.raised
    sections: list[Result | Skipped] = []
    with progress.task("Computing tables", len(tables)) as advance:
        for table in tables:
            sections.append(attempt(table, partial(compute, trace, table)))
            advance(1)
    # Its warnings come last: computing the tables reads the data that they are about.
    return document_of(trace, sections)
