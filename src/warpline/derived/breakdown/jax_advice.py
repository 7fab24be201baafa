"""What makes launch-bound JAX programs launch less: compiled steps, and loops on the GPU."""

from __future__ import annotations

from warpline.derived.breakdown.step_scope import step_scope
from warpline.derived.kernels.categories import operation_categories
from warpline.derived.program import program_kind
from warpline.derived.severity import MEASURABLE_RATIO
from warpline.derived.time_parts import TimePart
from warpline.trace import Run
from warpline.units import format_ratio

_ONE_JIT = "Compile the whole step with one jax.jit instead of several small ones."
_LOOPS = (
    " Run loops on the GPU: lax.scan over steps or layers (unroll= where the body is short),"
    " lax.associative_scan for recurrences, and lax.while_loop where a result decides when to stop."
)
_READS = (
    " The loop reads results back: keep them in an array on the GPU, and copy that once at the end."
)
_DONATE = " Donate arrays that the step replaces (donate_argnums): XLA copies them otherwise."
_GRAPHS = (
    " XLA launches kernels of a compiled function as CUDA graphs, unless XLA_FLAGS turns them off"
    " (--xla_gpu_enable_command_buffer=)."
)


def launch_less(run: Run, *, reads: bool = False) -> str:
    """Return how a JAX program launches less and larger work.

    Args:
        run: The trace, and the choice of its steps.
        reads: Whether the CPU reads results back in every step.
    """
    return f"{_ONE_JIT}{_LOOPS}{_READS if reads else ''}{_donation(run)}{_GRAPHS}"


def _donation(run: Run) -> str:
    """Return advice on donation, with the time that copies on the GPU take if that is much."""
    if program_kind(run.trace) != "jax":
        return _DONATE
    scope = step_scope(run)
    copies = operation_categories(run.trace) == TimePart.COPY_D2D
    share = scope.share(scope.ns_of(copies))
    if share < MEASURABLE_RATIO:
        return _DONATE
    return f"{_DONATE} Copies from GPU to GPU memory take {format_ratio(share)} of the time."
