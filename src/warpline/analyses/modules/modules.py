"""modules: the tree of a PyTorch model, with what each module costs per step."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from warpline.derived.efficiency.module_costs import ModuleCosts, module_costs
from warpline.derived.efficiency.operation_flop import flop_notes
from warpline.derived.modules.attribution import coverage_notes
from warpline.derived.modules.missing import MODULES_HINT, without_modules
from warpline.derived.modules.places import Phase
from warpline.derived.modules.tree import Modules, declared, merged
from warpline.derived.modules.tree import modules as modules_of
from warpline.derived.steps import STEP_ARGUMENT
from warpline.derived.steps.ranges import run_of
from warpline.errors import UsageError
from warpline.ops.arrays import I32, I64, BoolArray
from warpline.ops.tree import accumulate_up
from warpline.result import (
    Arguments,
    Field,
    Numbers,
    Result,
    Skipped,
    Texts,
    Values,
    analysis,
    column_of,
)
from warpline.trace import Run, Trace
from warpline.units import Unit, plural

NAME = "modules"
TITLE = "Modules of the model, per step"
OPTIMIZERS, OUTSIDE = "(optimizers)", "(outside modules)"
FIELDS = (
    Field("depth", Unit.NONE, "Number of enclosing modules.", "Lvl"),
    Field("calls", Unit.NONE, "Mean forward calls per step.", "Calls", digits=1),
    Field("device_ns", Unit.NS, "Median GPU busy time per step.", "GPU Med (ns)"),
    Field("total_ratio", Unit.RATIO, "Share of all GPU busy time.", "GPU (%)", 100.0, 1),
    Field("forward_ns", Unit.NS, "The same in the forward pass.", "Forward (ns)"),
    Field("backward_ns", Unit.NS, "The same in the backward pass.", "Backward (ns)"),
    Field("host_ns", Unit.NS, "Median CPU time of forward calls per step.", "CPU Med (ns)"),
    Field("kernels", Unit.NONE, "Mean kernels per step.", "Kernels", digits=1),
    Field("flop", Unit.NONE, "Floating-point operations per step.", "GFLOP", 1e-9, 3),
    Field("peak_ratio", Unit.RATIO, "Share of the GPU's peak FLOP/s.", "Peak (%)", 100.0, 1),
    Field("parameters", Unit.COUNT, "Parameters, including modules inside.", "Params"),
    Field("class_name", Unit.NONE, "Class.", "Class"),
    Field("path", Unit.NONE, "Full name.", "Path", is_detail=True),
    Field("name", Unit.NONE, "Name in the parent module, indented by depth.", "Name"),
)


class _Options(NamedTuple):
    """The parsed arguments."""

    depth: int | None
    is_merged: bool


@analysis(
    name=NAME,
    title=TITLE,
    fields=FIELDS,
    needs=("range",),
    arguments={
        "depth": "show modules up to a depth: depth=2",
        "merged": "merge sibling modules whose names differ only in numbers, such as blocks.0 and"
        " blocks.1",
        **STEP_ARGUMENT,
    },
    missing_hint=MODULES_HINT,
)
def modules(trace: Trace, arguments: Arguments) -> Result | Skipped:
    """The modules of a PyTorch model as a tree, with GPU time, CPU time and FLOP per step.

    What it measures: For each module: calls, GPU busy time in the forward and the backward pass,
        CPU time of its calls, kernels, FLOP, share of the GPU's peak, and parameters, each
        including the modules inside. Optimizers, and work outside modules, have a row each.
    Why it matters: It shows which layers of a model take the time of a step, and which of them use
        the GPU well.
    How it is computed: A kernel launched in the forward pass belongs to the innermost module that
        was called on the launching thread. A backward function has the sequence number of the
        forward operator that made it, and belongs to the module called then; so do gradients that
        are accumulated after it. Forward work that a checkpoint repeats is backward time.
        Collectives that hooks launch in the backward pass belong to the module that wraps the
        model (DistributedDataParallel, FSDP), if there is one. Kernels of CUDA graphs belong to
        the module that captured them, kernels of torch.compile to the module whose source was
        compiled. Each moment of a GPU belongs to one operation, as in table breakdown, so rows of
        depth 0 sum to the GPU's busy time. Times are medians over the analyzed steps or, without
        steps, those of the whole recording. FLOP follow torch.utils.flop_counter: GEMMs,
        convolutions and fused attention only. The share of peak is the time these take at the
        peak for their precision, divided by the GPU time.
    Limits: Medians of modules do not add up exactly. A module used in several places has one row.
        Overlapped work counts once. FLOP require input shapes. Backward time requires backward
        functions: --pytorch=modules records them. Fused optimizers update all parameters at once,
        so their time belongs to no module.
    Source: Warpline; formulas of PyTorch's FlopCounterMode.
    """
    skipped = without_modules(NAME, trace)
    if skipped is not None:
        return skipped
    options, run = _options(arguments), run_of(trace, arguments)
    found = modules_of(trace)
    group = np.arange(len(found), dtype=np.int32)
    if options.is_merged:
        found, group = merged(found)
    costs = module_costs(run, group, len(found), found.tree)
    rows = np.flatnonzero(_is_shown(found, costs, options.depth))
    columns = {**_labels(trace, found, group), **_costs(costs)}
    ordered = {field.name: _taken(columns[field.name], rows) for field in FIELDS}
    name = ":".join((NAME, *arguments))
    return Result(name, TITLE, FIELDS, ordered, ("path",), _notes(run, costs))


def _options(arguments: Arguments) -> _Options:
    depth = None
    for argument in arguments:
        word, _, value = argument.partition("=")
        if word == "depth":
            if not (value.isascii() and value.isdecimal() and len(value) < 10):
                raise UsageError(
                    f"invalid depth: {argument!r}", hint="use a whole number: modules:depth=2"
                )
            depth = int(value)
    return _Options(depth, "merged" in arguments)


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
