"""launch-bound: the device waits for launches, and the steps differ."""

from __future__ import annotations

from warpline.derived.breakdown.step_scope import step_scope
from warpline.derived.severity import severity_of
from warpline.derived.steps.launch_sequences import steps_repeat
from warpline.result import Evidence, Finding, rule
from warpline.trace import Trace
from warpline.units import format_ns, format_ratio

NAME = "launch-bound"
TITLE = "The host launches work more slowly than the device does it"

_LEAST_SHARE = 0.15


@rule(name=NAME, title=TITLE)
def launch_bound(trace: Trace, steps: str | None) -> list[Finding]:
    """Idle time because the host had not launched the next operation yet.

    What it finds: Launch-bound idle time of at least 15 % of a step (see breakdown), where steps
        are not the same, so that they cannot be launched as one graph (see graph-opportunity).
    Why it matters: The device waits for the program's own code, the framework and the driver; no
        faster kernel helps.
    How it is found: Idle time that no wait, copy, allocation or data explains, and in which the
        launch call of the next operation had not returned.
    What to do: Launch fewer and larger operations, or make the host's work less.
    Limits: Recording costs the host time too, so that the share is smaller without it. What the
        change saves is not predicted: it depends on how much of the host's work can go.
    Source: Warpline.
    """
    scope = step_scope(trace, steps)
    idle_ns = scope.idle_ns("launch-bound")
    share = scope.share(idle_ns)
    if share < _LEAST_SHARE or steps_repeat(trace, steps):
        return []
    return [
        Finding(
            NAME,
            severity_of(share),
            TITLE,
            f"The device is idle for {format_ns(idle_ns)}{scope.each} ({format_ratio(share)})"
            " because the host had not launched the next operation yet.",
            (Evidence(f"{format_ns(idle_ns)} launch-bound{scope.each}"),),
            "torch.compile the model, make batches larger, fuse small operators, and move work"
            " that is not about the model (logging, metrics, data) out of the training thread",
            "record again: less launch-bound time in `warpline stats -r breakdown`",
            fix_cuda="Merge small kernels, launch parts that repeat as CUDA graphs, and launch"
            " from a thread that does nothing else",
            is_generic=True,
        )
    ]
