"""The profiler that measures hardware counters on the recorded GPUs."""

from __future__ import annotations

from warpline.derived import derived
from warpline.derived.kernels.categories import Origin, operation_origins
from warpline.derived.program import calls_hip
from warpline.trace import Trace

NSIGHT_COMPUTE = "Nsight Compute (ncu)"
_ON_AMD = "rocprof-compute"
_OWN_PRODUCER = "Warpline"


@derived
def counter_profiler(trace: Trace) -> str:
    """Return the profiler; GPUs are AMD's by the API, or the libraries that kernels come from."""
    is_amd = calls_hip(trace) or (operation_origins(trace) == Origin.ROCM).any()
    return _ON_AMD if is_amd else NSIGHT_COMPUTE


def can_sample_metrics(trace: Trace) -> bool:
    """Return whether `warpline profile`, which recorded the trace, can sample these GPUs."""
    is_own = (trace.meta.producer or "").startswith(_OWN_PRODUCER)
    return is_own and counter_profiler(trace) == NSIGHT_COMPUTE
