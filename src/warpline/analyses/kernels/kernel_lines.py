"""kernel_lines: source lines of profiled launches by samples of stalled warps."""

from __future__ import annotations

import numpy as np

from warpline.derived.counters import launch_columns
from warpline.derived.counters.instructions import NO_FILE, line_values
from warpline.derived.texts import labelled
from warpline.ops.arrays import F64, I64, BoolArray
from warpline.ops.group import factorize_rows
from warpline.ops.join import lookup_rows
from warpline.result import Arguments, Field, Numbers, Result, Skipped, Texts, Values, analysis
from warpline.trace import Trace
from warpline.units import Unit

NAME = "kernel_lines"
TITLE = "Source lines of profiled kernels"
HINT = "profile with ncu --set full --import-source yes, and compile with -lineinfo"
FIELDS = (
    Field("launch", Unit.ID, "ID of the launch in its report.", "ID"),
    Field("kernel", Unit.NONE, "Kernel name.", "Kernel"),
    Field("samples", Unit.COUNT, "Samples of warps at the line.", "Samples"),
    Field("share_ratio", Unit.RATIO, "Share of the launch's samples.", "Samples (%)", 100.0, 1),
    Field("stall", Unit.NONE, "Most frequent reason why sampled warps wait.", "Top Stall"),
    Field("executed", Unit.COUNT, "Instructions executed by warps.", "Executed"),
    Field("file", Unit.NONE, "Source file.", "File"),
    Field("line", Unit.ID, "Line of the file.", "Line"),
    Field("text", Unit.NONE, "The line, if the report has the source.", "Source"),
)


@analysis(
    name=NAME,
    title=TITLE,
    fields=FIELDS,
    needs=("kernel_instruction",),
    missing_hint=HINT,
)
def kernel_lines(trace: Trace, arguments: Arguments) -> Result | Skipped:
    """Source lines of profiled launches by samples of stalled warps.

    What it measures: How many samples of warps hit each source line, the most frequent reason why
        these warps waited, and how many instructions of the line warps executed.
    Why it matters: The lines with most samples are where a kernel spends its time.
    How it is computed: Sums over the instructions of a line, of the metrics
        smsp__pcsamp_warps_issue_stalled_* (without those that end in _not_issued) and
        inst_executed. An instruction of an inlined function counts at the line of that function.
    Limits: Needs a report with section SourceCounters. Instructions without a line, such as those
        of programs that were compiled without -lineinfo, are one row without a file. A wait is
        sampled at the instruction that waits, not at the one that it waits for.
    Source: Warpline.
    """
    found = line_values(trace)
    if not len(found.value):
        return Skipped(NAME, "no samples or executions of instructions in the report", HINT)
    groups = factorize_rows(found.launch, found.file, found.line)
    n_reasons = len(found.reasons)
    is_sample = found.reason >= 0
    cells = groups.codes[is_sample].astype(np.int64) * n_reasons + found.reason[is_sample]
    by_reason = np.zeros((groups.n_groups, n_reasons))
    np.add.at(by_reason.reshape(-1), cells, found.value[is_sample])
    executed = np.bincount(groups.codes[~is_sample], found.value[~is_sample], groups.n_groups)
    samples = by_reason.sum(axis=1)
    launch, file, line = (of[groups.first] for of in (found.launch, found.file, found.line))
    of_launch = np.bincount(launch, samples)[launch]
    order = np.lexsort((line, file, -executed, -samples, launch))
    values: dict[str, Values] = {
        **launch_columns(trace, launch[order]),
        "samples": Numbers(np.rint(samples[order]).astype(np.int64)),
        "share_ratio": Numbers((samples / np.maximum(of_launch, 1))[order]),
        "stall": _top(by_reason[order], found.reasons),
        "executed": Numbers(np.rint(executed[order]).astype(np.int64)),
        "file": _texts(trace, file[order], file[order] != NO_FILE),
        "line": Numbers(line[order], file[order] != NO_FILE),
        "text": _source(trace, file[order], line[order]),
    }
    return Result(NAME, TITLE, FIELDS, values, ("launch", "kernel", "file", "line"))


def _top(by_reason: F64, reasons: tuple[str, ...]) -> Texts:
    """Return the reason with most samples of each row, shape (n, reasons); none without samples."""
    if not reasons:
        return labelled(np.zeros(len(by_reason), np.int64), [None])
    return labelled(by_reason.argmax(axis=1), reasons, by_reason.sum(axis=1) > 0)


def _texts(trace: Trace, rows: I64, is_known: BoolArray) -> Texts:
    distinct, codes = np.unique(np.where(is_known, rows, 0), return_inverse=True)
    texts = trace.strings.texts(distinct.tolist()) if is_known.any() else [""] * len(distinct)
    return labelled(codes, texts, is_known)


def _source(trace: Trace, file: I64, line: I64) -> Texts:
    """Return the text of each line; none if the report does not have the file."""
    missing = labelled(np.zeros(len(file), np.int64), [None])
    if not trace.has("source_line") or not trace.row_count("source_line"):
        return missing
    source = trace.columns("source_line", "file_id", "line", "text_id")
    known = np.flatnonzero(source["file_id"].is_valid())  # PTX has no file
    files = source["file_id"].values[known].astype(np.int64)
    row, found = lookup_rows((file, line), (files, source["line"].values[known]))
    if not found.any():
        return missing
    return _texts(trace, source["text_id"].values[known][row].astype(np.int64), found)
