"""Where the time of stacks goes, by function: what `warpline flame` prints."""

from __future__ import annotations

import numpy as np

from warpline.derived.flame.call_tree import function_sums
from warpline.derived.flame.profiles import LabelKind, profile
from warpline.derived.flame.weighted import MEANINGS, TITLES, Choice
from warpline.ops.arrays import I64
from warpline.result import Document, Field, Numbers, Result, document_of
from warpline.result.tables import column_of
from warpline.trace import Trace
from warpline.units import Unit

SUM, FUNCTIONS = "flame_sum", "flame_functions"
_SUM_FIELDS = (
    Field("of", Unit.NONE, "What stacks are weighted by: cpu, python, gpu, offcpu or os.", "Of"),
    Field("title", Unit.NONE, "The same in words.", "Time"),
    Field("total_ns", Unit.NS, "Sum of all weights.", "Total"),
    Field("stacks", Unit.COUNT, "Number of stacks: samples, GPU operations or calls.", "Stacks"),
    Field("threads", Unit.COUNT, "Number of threads with stacks.", "Threads"),
)
_FIELDS = (
    Field("function", Unit.NONE, "Function, kernel or OS call.", "Function"),
    Field("kind", Unit.NONE, "What it is: Python, native, kernel, GPU, OS or other.", "Kind"),
    Field("module", Unit.NONE, "Python file or library.", "Module"),
    Field("self_ns", Unit.NS, "Time in the function itself.", "Self"),
    Field("self_ratio", Unit.RATIO, "Share of the total time.", "Self (%)", 100, 1),
    Field("total_ns", Unit.NS, "Time in it and what it called. Recursion counts once.", "Total"),
    Field("total_ratio", Unit.RATIO, "Share of the total time.", "Total (%)", 100, 1),
    Field("stacks", Unit.COUNT, "Number of stacks that end in the function.", "Stacks"),
)
_KINDS = {
    LabelKind.OTHER: "other",
    LabelKind.NATIVE: "native",
    LabelKind.KERNEL: "kernel",
    LabelKind.PYTHON: "Python",
    LabelKind.GPU: "GPU",
    LabelKind.OS: "OS",
}


def document(trace: Trace, choice: Choice) -> Document:
    """Return the sum, and the sums of each function, the longest self time first."""
    found, sums = profile(trace, choice), function_sums(trace, choice)
    total = int(found.weight_ns.sum())
    threads = len(np.unique(found.thread[found.thread >= 0]))
    row = (choice.of, TITLES[choice.of], total, len(found.weight_ns), threads)
    columns = [column_of([value]) for value in row]
    names = (field.name for field in _SUM_FIELDS)
    summed = Result(
        SUM,
        "Sum",
        _SUM_FIELDS,
        dict(zip(names, columns, strict=True)),
        ("of",),
        (MEANINGS[choice.of],),
    )

    def ratio(times: I64) -> Numbers:
        return Numbers(times / max(total, 1))

    rows = sums.label.tolist()
    by_function = Result(
        FUNCTIONS,
        f"{TITLES[choice.of]} by function",
        _FIELDS,
        {
            "function": column_of([found.labels.name[label] for label in rows]),
            "kind": column_of([_KINDS[LabelKind(found.labels.kind[label])] for label in rows]),
            "module": column_of([found.labels.module[label] or None for label in rows]),
            "self_ns": Numbers(sums.self_ns),
            "self_ratio": ratio(sums.self_ns),
            "total_ns": Numbers(sums.total_ns),
            "total_ratio": ratio(sums.total_ns),
            "stacks": Numbers(sums.count),
        },
        ("function", "module"),
    )
    return document_of(trace, [summed, by_function])
