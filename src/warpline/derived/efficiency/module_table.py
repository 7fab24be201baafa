"""The table of a model's modules, as a tree: what each costs per step."""

from __future__ import annotations

import numpy as np

from warpline.derived.efficiency.module_costs import ModuleCosts, module_costs
from warpline.derived.efficiency.operation_flop import flop_notes
from warpline.derived.modules.attribution import coverage_notes
from warpline.derived.modules.places import Phase
from warpline.derived.modules.tree import Modules, declared, merged, modules
from warpline.ops.arrays import I32, I64, BoolArray
from warpline.ops.tree import accumulate_up
from warpline.result import Field, Numbers, Result, Texts, Values, column_of
from warpline.trace import Run, Trace
from warpline.units import Unit, plural

OPTIMIZERS, OUTSIDE = "(optimizers)", "(outside modules)"
FIELDS = (
    Field("depth", Unit.NONE, "Number of enclosing modules.", "Lvl"),
    Field("calls", Unit.NONE, "Mean forward calls per step.", "Calls", digits=1),
    Field("device_ns", Unit.NS, "Median GPU busy time per step.", "GPU Med (ns)", digits=0),
    Field("total_ratio", Unit.RATIO, "Share of all GPU busy time.", "GPU (%)", 100.0, 1),
    Field("forward_ns", Unit.NS, "The same in the forward pass.", "Forward (ns)", digits=0),
    Field("backward_ns", Unit.NS, "The same in the backward pass.", "Backward (ns)", digits=0),
    Field("host_ns", Unit.NS, "Median CPU time of calls per step.", "CPU Med (ns)", digits=0),
    Field("kernels", Unit.NONE, "Mean kernels per step.", "Kernels", digits=1),
    Field("flop", Unit.NONE, "Floating-point operations per step.", "GFLOP", 1e-9, 3),
    Field("peak_ratio", Unit.RATIO, "Share of the GPU's peak FLOP/s.", "Peak (%)", 100.0, 1),
    Field("parameters", Unit.COUNT, "Parameters, including modules inside.", "Params"),
    Field("class_name", Unit.NONE, "Class.", "Class"),
    Field("device_busy_ns", Unit.NS, "GPU busy time in all of these steps.", "GPU Busy (ns)"),
    Field("path", Unit.NONE, "Full name.", "Path", is_detail=True),
    Field("name", Unit.NONE, "Name in the parent module, indented by depth.", "Name"),
)


def module_table(
    run: Run, name: str, title: str, *, depth: int | None = None, is_merged: bool = False
) -> Result:
    """Return the modules of a trace that has calls of them, and what is outside modules.

    Args:
        run: The trace and its steps.
        name: Name of the table, with its arguments.
        title: Its title.
        depth: Show modules up to this depth; None for all.
        is_merged: Whether siblings whose names differ only in numbers are one row.
    """
    found = modules(run.trace)
    group = np.arange(len(found), dtype=np.int32)
    if is_merged:
        found, group = merged(found)
    costs = module_costs(run, group, len(found), found.tree)
    rows = np.flatnonzero(_is_shown(found, costs, depth))
    columns = {**_labels(run.trace, found, group), **_costs(costs)}
    ordered = {field.name: _taken(columns[field.name], rows) for field in FIELDS}
    return Result(name, title, FIELDS, ordered, ("path",), _notes(run, costs))


def _is_shown(found: Modules, costs: ModuleCosts, depth: int | None) -> BoolArray:
    """Return which rows are shown: modules up to a depth, and others with GPU time."""
    shown = np.ones(len(found) + 2, np.bool_)
    if depth is not None:
        shown[: len(found)] = found.tree.depth <= depth
    shown[len(found) :] = costs.total_ns[len(found) :] > 0
    return shown


def _costs(costs: ModuleCosts) -> dict[str, Values]:
    return {
        "calls": Numbers(costs.calls),
        "device_ns": Numbers(costs.median_ns),
        "device_busy_ns": Numbers(costs.total_ns),
        "total_ratio": Numbers(costs.total_ns / max(costs.all_ns, 1)),
        "forward_ns": Numbers(costs.phase_median_ns[int(Phase.FORWARD)]),
        "backward_ns": Numbers(costs.phase_median_ns[int(Phase.BACKWARD)]),
        "host_ns": Numbers(costs.host_median_ns),
        "kernels": Numbers(costs.kernels),
        "flop": Numbers(costs.flop, costs.has_flop),
        "peak_ratio": Numbers(costs.peak_ratio, costs.has_peak),
    }


def _labels(trace: Trace, found: Modules, group: I32) -> dict[str, Values]:
    """Return the columns that say what each row is."""
    facts, n_groups = declared(trace), len(found)
    parameters, known = np.zeros(n_groups, np.int64), np.zeros(n_groups, np.int64)
    np.add.at(parameters, group, facts.parameters)
    np.add.at(known, group, facts.has_parameters.astype(np.int64))
    own: list[set[str]] = [set() for _ in range(n_groups)]
    for place, class_name in zip(group.tolist(), facts.classes, strict=True):
        own[place].add(class_name)
    classes = [next(iter(names)) if len(names) == 1 else None for names in own]
    depth = found.tree.depth.astype(np.int64)
    indented = ["  " * level + label for level, label in zip(depth, found.labels, strict=True)]
    return {
        "depth": Numbers(np.append(depth, (0, 0))),
        "parameters": Numbers(
            np.append(accumulate_up(found.tree, parameters), (0, 0)),
            np.append(accumulate_up(found.tree, known) > 0, (False, False)),
        ),
        "class_name": column_of([*classes, None, None]),
        "path": column_of([*found.names, OPTIMIZERS, OUTSIDE]),
        "name": column_of([*indented, OPTIMIZERS, OUTSIDE]),
    }


def _taken(values: Values, rows: I64) -> Values:
    if isinstance(values, Numbers):
        valid = None if values.valid is None else values.valid[rows]
        return Numbers(values.values[rows], valid)
    return Texts(values.codes[rows], values.values)


def _notes(run: Run, costs: ModuleCosts) -> tuple[str, ...]:
    steps = "no steps: numbers are of the whole recording"
    if costs.n_steps:
        steps = f"medians of {plural(costs.n_steps, 'step')}; warm-up is excluded"
    return (steps, *coverage_notes(run.trace), *flop_notes(run.trace))
