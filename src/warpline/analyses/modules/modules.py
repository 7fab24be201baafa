"""modules: the tree of a PyTorch model, with what each module costs per step."""

from __future__ import annotations

from warpline.derived.efficiency.module_table import FIELDS, module_table
from warpline.derived.modules.missing import MODULES_HINT, without_modules
from warpline.derived.steps import STEP_ARGUMENT
from warpline.derived.steps.ranges import run_of
from warpline.errors import UsageError
from warpline.result import Arguments, Result, Skipped, analysis
from warpline.trace import Trace

NAME = "modules"
TITLE = "Modules of the model, per step"


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
    name, depth = ":".join((NAME, *arguments)), _depth(arguments)
    run, is_merged = run_of(trace, arguments), "merged" in arguments
    return module_table(run, name, TITLE, depth=depth, is_merged=is_merged)


def _depth(arguments: Arguments) -> int | None:
    """Return the depth of the last modules to show, None for all."""
    depth = None
    for argument in arguments:
        word, _, value = argument.partition("=")
        if word == "depth":
            if not (value.isascii() and value.isdecimal() and len(value) < 10):
                raise UsageError(
                    f"invalid depth: {argument!r}", hint="use a whole number: modules:depth=2"
                )
            depth = int(value)
    return depth
