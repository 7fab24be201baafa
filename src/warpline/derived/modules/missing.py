"""Why tables of modules have no rows."""

from __future__ import annotations

from warpline.derived.modules.calls import module_calls
from warpline.derived.modules.places import has_places
from warpline.derived.work.busy import has_device_work
from warpline.result import Skipped
from warpline.trace import Trace

MODULES_HINT = "profile with --pytorch=modules, or torch.profiler's with_stack=True"
PHASES_HINT = "profile with --pytorch=all, or with torch.profiler"


def without_modules(name: str, trace: Trace) -> Skipped | None:
    """Return why a table of modules cannot be made; None if it can."""
    if not has_device_work(trace):
        return Skipped(name, "no GPU work was recorded", "profile with --trace=cuda,nvtx")
    if not len(module_calls(trace).row):
        return Skipped(name, "no calls of PyTorch modules were recorded", MODULES_HINT)
    return None


def without_phases(name: str, trace: Trace) -> Skipped | None:
    """Return why a table of phases cannot be made; None if it can."""
    if not has_device_work(trace):
        return Skipped(name, "no GPU work was recorded", "profile with --trace=cuda,nvtx")
    if not has_places(trace):
        return Skipped(name, "no modules, backward functions or optimizers", PHASES_HINT)
    return None
