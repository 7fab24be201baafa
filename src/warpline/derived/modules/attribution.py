"""The module and the phase of training of each GPU operation.

An operation is where its launch call was (`places`), except:

- Operations of CUDA graphs are where their nodes were captured, if that was recorded.
- Kernels of compiled code are in the module whose operators Inductor compiled into them.
- Collectives launched between backward functions, by hooks of DistributedDataParallel and
  FullyShardedDataParallel, are in the module that wraps the model.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from warpline.derived import derived
from warpline.derived.kernels.categories import operation_categories
from warpline.derived.modules.compiled_work import compiled_work
from warpline.derived.modules.places import Phase, places_of_operations
from warpline.derived.modules.tree import module_of_called, module_of_names, wrapper_of_modules
from warpline.derived.time_parts import TimePart
from warpline.derived.work.operations import operations
from warpline.ops.arrays import I8, I32
from warpline.trace import Trace
from warpline.units import format_ratio


class Attribution(NamedTuple):
    """Where each GPU operation belongs, in the order of `operations`.

    Attributes:
        module: Shape (operations,), int32, places in `modules`; -1 for none.
        phase: Shape (operations,), int8, members of `Phase`.
    """

    module: I32
    phase: I8


class Coverage(NamedTuple):
    """The total duration of GPU operations, overlapped ones included.

    Attributes:
        all_ns: Of all operations.
        module_ns: Of those that belong to a module.
        optimizer_ns: Of those launched by optimizers.
    """

    all_ns: int
    module_ns: int
    optimizer_ns: int


@derived
def attribution(trace: Trace) -> Attribution:
    """Return the module and the phase of each GPU operation."""
    found = places_of_operations(trace)
    module = module_of_called(trace)[found.module]
    sent = np.flatnonzero(found.is_between & (module >= 0))
    if len(sent):
        sent = sent[operation_categories(trace)[sent] == TimePart.COLLECTIVE]
        module[sent] = wrapper_of_modules(trace)[module[sent]]
    compiled = compiled_work(trace)
    if len(compiled.operation):
        module[compiled.operation] = module_of_names(trace, compiled.paths)[compiled.path]
    return Attribution(module, found.phase)


@derived
def coverage_of_modules(trace: Trace) -> Coverage:
    """Return how much of the operations' time belongs to modules and to optimizers."""
    work, found = operations(trace), attribution(trace)
    length = work.end_ns - work.start_ns
    of_optimizer = (found.module < 0) & (found.phase == Phase.OPTIMIZER)
    return Coverage(
        all_ns=int(length.sum()),
        module_ns=int(length[found.module >= 0].sum()),
        optimizer_ns=int(length[of_optimizer].sum()),
    )


def coverage_notes(trace: Trace) -> tuple[str, ...]:
    """Return how much of the GPU time belongs to modules, in a sentence; nothing without work."""
    found = coverage_of_modules(trace)
    if not found.all_ns:
        return ()
    modules, optimizers, rest = (
        format_ratio(part / found.all_ns)
        for part in (
            found.module_ns,
            found.optimizer_ns,
            found.all_ns - found.module_ns - found.optimizer_ns,
        )
    )
    text = (
        f"{modules} of GPU time belongs to modules, {optimizers} to optimizers, {rest} to neither"
    )
    return (text,)
