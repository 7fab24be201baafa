"""The content of a report in Markdown: what an issue about a program's performance needs."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import NamedTuple

import numpy as np

from warpline.derived.breakdown.kernel_times import kernel_sums, kernel_times
from warpline.derived.kernels.categories import operation_categories
from warpline.derived.program import has_modules, program_kind
from warpline.derived.recorder import hints
from warpline.derived.steps.times import measure_windows
from warpline.derived.time_parts import TimePart
from warpline.derived.work.operations import operations
from warpline.documents.diagnosis import diagnosis
from warpline.documents.tables import compute
from warpline.ops.group import group_stats
from warpline.result import Diagnosis, Field, Result, column_of
from warpline.trace import Run, Trace
from warpline.units import Unit, format_bytes

_KERNELS = (
    Field("name", Unit.NONE, "The kernel."),
    Field("category", Unit.NONE, "Its category."),
    Field("step_ns", Unit.NS, "Time attributed to it, per step."),
    Field("share_ratio", Unit.RATIO, "Share of the GPUs' time."),
    Field("step_instances", Unit.COUNT, "Instances per step."),
    Field("median_ns", Unit.NS, "Median duration."),
)


class Content(NamedTuple):
    """What a report shows.

    Attributes:
        diagnosis: The diagnosis.
        facts: Machine, software and recording, as names and texts. Neither the name of the machine
            nor identifiers of GPUs: the report is made to be posted.
        tables: Kernels of the analyzed steps; modules by class, and operators, if recorded.
        missing: What was not recorded, each with how to record it.
    """

    diagnosis: Diagnosis
    facts: list[tuple[str, str]]
    tables: list[Result]
    missing: list[tuple[str, str]]


def content(run: Run) -> Content:
    """Return the content of a report in Markdown.

    Raises:
        MissingTableError: The trace has no timeline.
    """
    judged = diagnosis(run, keep_going=True)
    tables = [_kernels(run, judged)]
    others = ["module_sum"] if has_modules(run.trace) else []
    others += ["op_sum"] if run.trace.has("op") and run.trace.row_count("op") else []
    computed = (compute(run.trace, name, run.steps) for name in others)
    tables += [table for table in computed if isinstance(table, Result)]
    shown = [table for table in tables if len(table)]
    return Content(judged, [*_facts(run.trace)], shown, [*_missing(run.trace, judged)])


def _facts(trace: Trace) -> Iterator[tuple[str, str]]:
    meta = trace.meta
    yield from _gpus(trace)
    yield from meta.software.items()
    if meta.command:
        yield "Command", meta.command
    yield from meta.environment.items()
    made = ""
    if meta.origin_utc_ns is not None:
        made = f", {datetime.fromtimestamp(meta.origin_utc_ns // 10**9, UTC):%Y-%m-%d}"
    yield "Recorded by", (meta.producer or "unknown") + made


def _gpus(trace: Trace) -> Iterator[tuple[str, str]]:
    if not trace.has("device"):
        return
    names, memory = trace.columns("device", "name_id", "memory_bytes").values()
    texts = []
    for name, size in zip(names.to_list(), memory.to_list(), strict=True):
        facts = ["unknown" if name is None else trace.strings.text(name)]
        texts.append(", ".join(facts + ([] if size is None else [format_bytes(size)])))
    for text in dict.fromkeys(texts):
        count = texts.count(text)
        yield "GPU", f"{count} x {text}" if count > 1 else text


def _kernels(run: Run, judged: Diagnosis) -> Result:
    """Return the kernels of the analyzed steps, except collectives, the longest first."""
    trace, times, sums = run.trace, kernel_times(run), kernel_sums(run)
    windows, per = measure_windows(run), max(sum(item.count for item in judged.breakdown), 1)
    whole_ns = max(int((windows.end_ns - windows.start_ns).sum()), 1)
    work, count = operations(trace), len(sums.names)
    lengths = group_stats(sums.group, (work.end_ns - work.start_ns)[times.kernel], count)
    category = np.zeros(count, np.int64)
    category[sums.group] = operation_categories(trace)[times.kernel]
    columns = {
        "name": sums.names,
        "category": [TimePart.at(of).label for of in category.tolist()],
        "step_ns": [ns / per for ns in sums.ns.tolist()],
        "share_ratio": [ns / whole_ns for ns in sums.ns.tolist()],
        "step_instances": [round(number / per) for number in lengths.count.tolist()],
        "median_ns": lengths.median.tolist(),
    }
    values = {name: column_of(column) for name, column in columns.items()}
    return Result("kernels", "Kernels", _KERNELS, values, ("name",))


def _missing(trace: Trace, judged: Diagnosis) -> Iterator[tuple[str, str]]:
    told = hints(trace)
    if judged.steps.source == "none" and told.steps:
        yield "steps", told.steps
    if program_kind(trace) == "pytorch":
        if not has_modules(trace):
            yield "GPU time by module", told.modules
        if not trace.has("op"):
            yield "operators", told.operators
    by_reason: dict[tuple[str, str], list[str]] = {}
    for item in judged.not_judged:
        if not item.is_failure:
            by_reason.setdefault((item.reason, item.hint or ""), []).append(item.name)
    for (reason, hint), names in by_reason.items():
        yield f"{', '.join(names)} (not judged: {reason})", hint
