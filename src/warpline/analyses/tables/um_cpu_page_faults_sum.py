"""um_cpu_page_faults_sum: CPU page faults of unified memory, by function."""

from __future__ import annotations

import numpy as np

from warpline.derived.memory.pages import CPU_FAULTS
from warpline.ops.group import factorize
from warpline.result import Arguments, Field, Numbers, Result, Texts, Values, analysis
from warpline.trace import Trace
from warpline.units import Unit

NAME = "um_cpu_page_faults_sum"
TITLE = "Unified memory CPU page faults summary"
FIELDS = (
    Field("cpu_page_faults", Unit.COUNT, "Page faults of the CPU.", "CPU Page Faults"),
    Field(
        "function",
        Unit.NONE,
        "Function of the CPU instruction, or its address.",
        "CPU Instruction Address",
    ),
)


@analysis(
    name=NAME,
    title=TITLE,
    fields=FIELDS,
    needs=(CPU_FAULTS,),
    missing_hint="profile with --cuda-um-cpu-page-faults=true",
)
def um_cpu_page_faults_sum(trace: Trace, arguments: Arguments) -> Result:
    """CPU page faults of unified memory, by function.

    What it measures: Page faults of the CPU, by the function whose instruction caused them.
    Why it matters: It names the code that reads results from GPUs page by page.
    How it is computed: Rows of `um_cpu_page_fault`, grouped by function.
    Limits: A function has a name if its file has a symbol table. Otherwise, the address of the
        instruction is shown.
    Source: Rows and columns of `nsys stats -r um_cpu_page_faults_sum`.
    """
    column = trace.columns(CPU_FAULTS, "function_id")["function_id"]
    groups = factorize(column.filled(-1))
    counts = np.bincount(groups.codes, minlength=groups.n_groups)
    known = groups.uniques[groups.uniques >= 0].tolist()
    texts = dict(zip(known, trace.strings.texts(known), strict=True))
    names = [texts.get(number) for number in groups.uniques.tolist()]
    order = sorted(range(len(names)), key=lambda place: (-counts[place], names[place] or ""))
    shown = [names[place] for place in order]
    codes = [-1 if name is None else place for place, name in enumerate(shown)]
    columns: dict[str, Values] = {
        "cpu_page_faults": Numbers(counts[order]),
        "function": Texts(np.array(codes, np.int32), [name or "" for name in shown]),
    }
    return Result(NAME, TITLE, FIELDS, columns, ("function",))
