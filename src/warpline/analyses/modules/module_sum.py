"""module_sum: GPU time by class of module."""

from __future__ import annotations

import numpy as np

from warpline.derived.efficiency.module_costs import ModuleCosts, module_costs
from warpline.derived.efficiency.operation_flop import flop_notes
from warpline.derived.modules.attribution import coverage_notes
from warpline.derived.modules.missing import MODULES_HINT, without_modules
from warpline.derived.modules.places import Phase
from warpline.derived.modules.tree import declared
from warpline.derived.steps import STEP_ARGUMENT
from warpline.derived.steps.ranges import run_of
from warpline.ops.arrays import I64
from warpline.result import (
    Arguments,
    Field,
    Numbers,
    Result,
    Skipped,
    Values,
    analysis,
    column_of,
)
from warpline.trace import Trace
from warpline.units import Unit

NAME = "module_sum"
TITLE = "GPU time by class of module, per step"
OPTIMIZERS, OUTSIDE = "(optimizers)", "(outside modules)"
FIELDS = (
    Field("total_ratio", Unit.RATIO, "Share of all GPU busy time.", "GPU (%)", 100.0, 1),
    Field("device_ns", Unit.NS, "Median GPU busy time per step.", "GPU Med (ns)", digits=0),
    Field("forward_ns", Unit.NS, "The same in the forward pass.", "Forward (ns)", digits=0),
    Field("backward_ns", Unit.NS, "The same in the backward pass.", "Backward (ns)", digits=0),
    Field("modules", Unit.COUNT, "Modules of the class.", "Modules"),
    Field("calls", Unit.NONE, "Mean forward calls per step.", "Calls", digits=1),
    Field("kernels", Unit.NONE, "Mean kernels per step.", "Kernels", digits=1),
    Field("flop", Unit.NONE, "Floating-point operations per step.", "GFLOP", 1e-9, 3),
    Field("peak_ratio", Unit.RATIO, "Share of the GPU's peak FLOP/s.", "Peak (%)", 100.0, 1),
    Field("class_name", Unit.NONE, "Class.", "Class"),
)


@analysis(
    name=NAME,
    title=TITLE,
    fields=FIELDS,
    needs=("range",),
    arguments=STEP_ARGUMENT,
    missing_hint=MODULES_HINT,
)
def module_sum(trace: Trace, arguments: Arguments) -> Result | Skipped:
    """GPU time, kernels and FLOP by class of module, such as Linear.

    What it measures: For each class: GPU busy time in the forward and the backward pass, number
        of modules and calls, kernels, FLOP and share of the GPU's peak. Work belongs to the
        innermost module, so modules inside others count for their own class only.
    Why it matters: It shows which kinds of layers take the time, however many of them there are.
    How it is computed: As in table modules, without the modules inside. Rows sum to the GPU's busy
        time. Largest first.
    Limits: As in table modules. Medians do not add up exactly.
    Source: Warpline; formulas of PyTorch's FlopCounterMode.
    """
    skipped = without_modules(NAME, trace)
    if skipped is not None:
        return skipped
    run, facts = run_of(trace, arguments), declared(trace)
    names, group, count = np.unique(
        np.array(facts.classes, np.str_), return_inverse=True, return_counts=True
    )
    costs = module_costs(run, group.reshape(-1).astype(np.int32), len(names))
    texts = [*names.tolist(), OPTIMIZERS, OUTSIDE]
    used = np.flatnonzero((costs.total_ns > 0) | (costs.calls > 0))
    rows = used[np.argsort(-costs.total_ns[used], kind="stable")]
    columns = _columns(costs, rows, np.append(count, (0, 0)))
    columns["class_name"] = column_of([texts[row] for row in rows.tolist()])
    ordered = {field.name: columns[field.name] for field in FIELDS}
    notes = (*coverage_notes(trace), *flop_notes(trace))
    name = ":".join((NAME, *arguments))
    return Result(name, TITLE, FIELDS, ordered, ("class_name",), notes)


def _columns(costs: ModuleCosts, rows: I64, count: I64) -> dict[str, Values]:
    return {
        "total_ratio": Numbers(costs.total_ns[rows] / max(costs.all_ns, 1)),
        "device_ns": Numbers(costs.median_ns[rows]),
        "forward_ns": Numbers(costs.phase_median_ns[int(Phase.FORWARD)][rows]),
        "backward_ns": Numbers(costs.phase_median_ns[int(Phase.BACKWARD)][rows]),
        "modules": Numbers(count[rows]),
        "calls": Numbers(costs.calls[rows]),
        "kernels": Numbers(costs.kernels[rows]),
        "flop": Numbers(costs.flop[rows], costs.has_flop[rows]),
        "peak_ratio": Numbers(costs.peak_ratio[rows], costs.has_peak[rows]),
    }
