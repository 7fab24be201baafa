"""kernel_lines: source lines of kernels by samples of warps."""

from __future__ import annotations

import numpy as np

from warpline.derived.code.kernels import FEW_NOTE, TOO_FEW_SAMPLES
from warpline.derived.code.lines import NO_FILE, counted_places, line_texts
from warpline.derived.code.metrics import SAMPLES, STALLED
from warpline.derived.code.values import (
    CodeValues,
    launch_values,
    sampled_kernels,
    sampled_values,
)
from warpline.derived.texts import labelled
from warpline.frozen import frozen
from warpline.ops.arrays import F64, I64, BoolArray
from warpline.ops.group import factorize_rows
from warpline.result import Arguments, Field, Numbers, Result, Skipped, Texts, Values, analysis
from warpline.trace import Trace
from warpline.units import Unit

NAME = "kernel_lines"
TITLE = "Source lines of profiled kernels"
HINT = (
    "profile with warpline kernels --source or ncu --set full --import-source yes, and compile with"
    " -lineinfo"
)
FIELDS = (
    Field("launch", Unit.ID, "ID of the launch; null for samples of the whole program.", "ID"),
    Field("kernel", Unit.NONE, "Kernel name.", "Kernel"),
    Field("samples", Unit.COUNT, "Samples of warps at the line.", "Samples"),
    Field("share_ratio", Unit.RATIO, "Share of the kernel's samples.", "Samples (%)", 100.0, 1),
    Field("stall", Unit.NONE, "Most frequent reason why sampled warps wait.", "Top Stall"),
    Field("executed", Unit.COUNT, "Instructions executed by warps.", "Executed"),
    Field("file", Unit.NONE, "Source file.", "File"),
    Field("line", Unit.ID, "Line of the file.", "Line"),
    Field("text", Unit.NONE, "The line, if its file was recorded.", "Source"),
)


@analysis(
    name=NAME,
    title=TITLE,
    fields=FIELDS,
    needs=("kernel_instruction",),
    missing_hint=HINT,
)
def kernel_lines(trace: Trace, arguments: Arguments) -> Result | Skipped:
    """Source lines of kernels by samples of warps.

    What it measures: How many samples of warps hit each source line, the most frequent reason why
        these warps waited, and how many instructions of the line warps executed.
    Why it matters: The lines with most samples are where a kernel spends its time.
    How it is computed: Sums over the instructions of a line: of samples of the whole program, as
        warpline kernels --source takes them; of a report, of the metrics
        smsp__pcsamp_warps_issue_stalled_* (without those that end in _not_issued) and
        inst_executed. An instruction of an inlined function counts at the line of that function; if
        that is in a header of CUDA or the system, or in Triton, at the line that calls it.
    Limits: A report needs section SourceCounters. Instructions without a line, such as those
        of programs that were compiled without -lineinfo, are one row without a file. A wait is
        sampled at the instruction that waits, not at the one that it waits for. Fewer than 200
        samples of a kernel are too few to compare its lines.
    Source: Warpline.
    """
    kinds = [_sums(trace, launch_values(trace)), _sums(trace, sampled_values(trace))]
    if not any(len(of.kernel) for of in kinds):
        return Skipped(NAME, "no samples or executions of instructions", HINT)
    file, line, samples, share, executed = (
        np.concatenate([getattr(of, name) for of in kinds])
        for name in ("file", "line", "samples", "share", "executed")
    )
    launches, sampled = (of.kernel for of in kinds)
    is_launch = np.arange(len(file)) < len(launches)
    stalls = [stall for of in kinds for stall in of.stall]
    values: dict[str, Values] = {
        **_kernels(trace, launches, sampled),
        "samples": Numbers(np.rint(samples).astype(np.int64)),
        "share_ratio": Numbers(share),
        "stall": labelled(np.arange(len(stalls)), stalls),
        "executed": Numbers(np.rint(executed).astype(np.int64), is_launch),
        "file": _texts(trace, file, file != NO_FILE),
        "line": Numbers(line, file != NO_FILE),
        "text": _source(trace, file, line),
    }
    few = any(of.least < TOO_FEW_SAMPLES for of in kinds)
    key = ("launch", "kernel", "file", "line")
    return Result(NAME, TITLE, FIELDS, values, key, (FEW_NOTE,) if few else ())


@frozen
class _Lines:
    """Sums by kernel and line, the line with most samples of each kernel first.

    Arrays of shape (lines,), and the samples of the kernel with fewest.
    """

    kernel: I64
    file: I64
    line: I64
    samples: F64
    share: F64
    executed: F64
    stall: list[str | None]
    least: float


def _sums(trace: Trace, found: CodeValues) -> _Lines:
    names = [metric.name for metric in found.metrics]
    is_shown = [name == "executed" or name.startswith((SAMPLES, STALLED)) for name in names]
    chosen = np.flatnonzero(np.array(is_shown, np.bool_)[found.metric])
    file, line = counted_places(trace, found.instruction[chosen])
    kernel = found.kernel[chosen]
    groups = factorize_rows(kernel, file, line)
    by_metric = np.zeros((groups.n_groups, len(names)))
    np.add.at(by_metric, (groups.codes, found.metric[chosen]), found.value[chosen])
    none = np.zeros(groups.n_groups)
    samples, executed = (
        by_metric[:, names.index(name)] if name in names else none for name in (SAMPLES, "executed")
    )
    kernel, file, line = (of[groups.first] for of in (kernel, file, line))
    of_kernel = np.bincount(kernel, samples) if len(kernel) else none
    # Launches are in their order; what was sampled in the whole program is by samples.
    rank = kernel if found.is_by_launch else -of_kernel[kernel]
    order = np.lexsort((line, file, -executed, -samples, kernel, rank))
    stalls = [place for place, name in enumerate(names) if name.startswith(STALLED)]
    top = by_metric[:, stalls].argmax(axis=1) if stalls else none.astype(np.int64)
    reasons = [
        names[stalls[place]].removeprefix(STALLED) if count else None
        for place, count in zip(top.tolist(), samples.tolist(), strict=True)
    ]
    counted = of_kernel[np.unique(kernel)] if SAMPLES in names else none
    return _Lines(
        kernel[order],
        file[order],
        line[order],
        samples[order],
        (samples / np.maximum(of_kernel[kernel], 1))[order] if len(kernel) else none,
        executed[order],
        [reasons[place] for place in order.tolist()],
        float(counted.min()) if len(counted) else np.inf,
    )


def _kernels(trace: Trace, launches: I64, sampled: I64) -> dict[str, Values]:
    """Return ID and name of the launch of each line, then the names of kernels without launches."""
    numbers = np.zeros(len(launches) + len(sampled), np.int64)
    rows: list[I64] = []
    if len(launches):
        table = trace.columns("profiled_kernel", "launch_number", "name_id")
        numbers[: len(launches)] = table["launch_number"].values[launches]
        rows.append(table["name_id"].values[launches].astype(np.int64))
    if len(sampled):
        names = trace.columns("pc_sample", "name_id")["name_id"].values
        rows.append(names[sampled_kernels(trace).first[sampled]].astype(np.int64))
    is_launch = np.arange(len(numbers)) < len(launches)
    name = np.concatenate(rows)
    return {
        "launch": Numbers(numbers, None if is_launch.all() else is_launch),
        "kernel": _texts(trace, name, np.ones(len(name), np.bool_)),
    }


def _texts(trace: Trace, rows: I64, is_known: BoolArray) -> Texts:
    distinct, codes = np.unique(np.where(is_known, rows, 0), return_inverse=True)
    texts = trace.strings.texts(distinct.tolist()) if is_known.any() else [""] * len(distinct)
    return labelled(codes, texts, is_known)


def _source(trace: Trace, file: I64, line: I64) -> Texts:
    """Return the text of each line; none if its file is not in the recording."""
    text = line_texts(trace, file, line)
    return _texts(trace, text, text != NO_FILE)
