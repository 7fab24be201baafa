"""What a capture of a step requires, or fixes: optimizers, generators, collectives."""

from __future__ import annotations

import re

from warpline.derived import derived
from warpline.derived.graph_safety import kinds
from warpline.derived.graph_safety.calls import OffendingCalls
from warpline.derived.graph_safety.scope import NO_STEP, checked_steps
from warpline.derived.kernels.categories import operation_categories
from warpline.derived.kernels.named import kernels_named
from warpline.derived.time_parts import TimePart
from warpline.derived.work.operations import operations
from warpline.lazy import lazy_pattern
from warpline.ops.arrays import I64, BoolArray
from warpline.ops.group import distinct_values
from warpline.trace import Run

# Kernels of cuRAND's host generators. PyTorch's own kernels use its device API.
_HOST_GENERATOR = lazy_pattern(r"\b(?:gen_sequenced|generate_seed_pseudo)\b")
# PyTorch's kernels that take numbers from a generator.
_PYTORCH_RANDOM = lazy_pattern(
    r"at::native::.*(?:distribution_elementwise|fused_dropout|distribution_nullary)|philox"
)
_OPTIMIZER = lazy_pattern(r"(?:torch: ?)?Optimizer\.step#(\w+)\.step$")
# Their step counts and learning rates are numbers of Python unless they are capturable.
CAPTURABLE = frozenset(
    ("Adam", "AdamW", "NAdam", "RAdam", "Adamax", "ASGD", "Adadelta", "RMSprop", "Rprop")
)


@derived
def random_launches(run: Run) -> tuple[OffendingCalls, ...]:
    """Return the launches of cuRAND's host generators in included steps."""
    calls = _launching(run, _named(run, _HOST_GENERATOR))
    return (OffendingCalls(kinds.RANDOM_NUMBERS, calls),) if len(calls) else ()


def has_pytorch_random(run: Run) -> bool:
    """Return whether included steps draw random numbers in PyTorch's own kernels."""
    return len(_launching(run, _named(run, _PYTORCH_RANDOM))) > 0


def collective_calls(run: Run) -> I64:
    """Return the calls that launch collectives in included steps, rows of api_call."""
    return _launching(run, operation_categories(run.trace) == TimePart.COLLECTIVE)


@derived
def optimizers(run: Run) -> tuple[str, ...]:
    """Return the classes of optimizers whose steps were recorded."""
    trace = run.trace
    if not trace.has("range"):
        return ()
    names = distinct_values(trace.columns("range", "name_id")["name_id"].values)
    found = map(_OPTIMIZER.match, trace.strings.texts(names.tolist()))
    return tuple(sorted({match[1] for match in found if match}))


def _launching(run: Run, chosen: BoolArray) -> I64:
    """Return the calls that launch some operations in included steps, rows of api_call."""
    calls = operations(run.trace).call[chosen]
    calls = calls[calls >= 0]
    if len(calls):
        calls = calls[checked_steps(run).of_call[calls] != NO_STEP]
    return distinct_values(calls)


def _named(run: Run, pattern: re.Pattern[str]) -> BoolArray:
    return kernels_named(run.trace, lambda name: pattern.search(name) is not None)
