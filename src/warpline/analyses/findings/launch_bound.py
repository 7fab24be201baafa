"""launch-bound: the device waits for launches."""

from __future__ import annotations

import numpy as np

from warpline.derived.breakdown.host_pauses import HostPauses, host_pauses
from warpline.derived.breakdown.step_scope import StepScope, step_scope
from warpline.derived.severity import severity_of
from warpline.derived.steps.launch_sequences import could_be_graphs
from warpline.result import Evidence, Finding, rule
from warpline.result.changes import Change, Range, RemoveHostTime
from warpline.trace import Trace
from warpline.units import format_ns, format_ratio, plural

NAME = "launch-bound"
TITLE = "The host launches work more slowly than the device does it"
PAUSES = "The host does something else, and launches nothing meanwhile"

_LEAST_SHARE = 0.15
_SHOWN = 5
_MOST_STEPS = 0.5  # of the steps; a pause in fewer is nothing that the median step has
# What goes to another thread, or is not done, is gone; of what cannot, a part stays.
_REMAINING = Range(0.0, 0.0, 0.25)


@rule(name=NAME, title=TITLE)
def launch_bound(trace: Trace, steps: str | None) -> list[Finding]:
    """Idle time because the host had not launched the next operation yet.

    What it finds: Launch-bound idle time of at least 15% of a step (see breakdown), where steps
        are not the same or launch little, so that a graph is no help (see graph-opportunity). And
        times of half a millisecond or more in which the host makes no call and the device is
        launch-bound, if they take as much.
    Why it matters: The device waits for the program's own code, the framework and the driver; no
        faster kernel helps.
    How it is found: Idle time that no wait, copy, allocation or data explains, and in which the
        launch call of the next operation had not returned.
    What to do: Launch fewer and larger operations, or make the host's work less.
    Limits: Recording costs the host time too, so that the share is smaller without it. What fewer
        launches save is not predicted: it depends on how much of the host's work can go. What the
        host did in a pause shows only with ranges or samples; a quarter of it may have to stay.
    Source: Warpline.
    """
    scope = step_scope(trace, steps)
    idle_ns = scope.idle_ns("launch-bound") - scope.paused_ns
    found = []
    if scope.paused_ns:
        found.append(_pauses(scope, host_pauses(trace, steps)))
    if scope.share(idle_ns) >= _LEAST_SHARE and not could_be_graphs(trace, steps):
        found.append(_launches(scope, idle_ns))
    return found


def _launches(scope: StepScope, idle_ns: float) -> Finding:
    share = scope.share(idle_ns)
    return Finding(
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


def _pauses(scope: StepScope, pauses: HostPauses) -> Finding:
    times, idle_ns = pauses.times, scope.paused_ns
    longest = np.argsort(times.start_ns - times.end_ns, kind="stable")[:_SHOWN]
    windows = zip(times.start_ns[longest].tolist(), times.end_ns[longest].tolist(), strict=True)
    share = scope.share_of_all(idle_ns)
    often = not scope.has_steps or pauses.windows > _MOST_STEPS * scope.count
    where = "" if often else f"; only {plural(pauses.windows, 'step')} of {scope.count:,} have one"
    changes: tuple[Change, ...] = tuple(
        RemoveHostTime(
            thread,
            times.start_ns[times.thread == thread],
            times.end_ns[times.thread == thread],
            _REMAINING,
        )
        for thread in np.unique(times.thread).tolist()
    )
    return Finding(
        NAME,
        severity_of(share),
        PAUSES,
        f"The device is idle for {format_ns(idle_ns)}{scope.each} ({format_ratio(share)}) in long"
        f" pauses of the host, which makes no CUDA call meanwhile{where}.",
        (
            Evidence(
                f"{plural(len(times.thread), 'pause')} of the host, the longest first",
                None,
                (),
                len(times.thread),
                tuple(windows),
            ),
        ),
        "Look at what the program does there (warpline profile --sample, or ranges around it):"
        " move logging, checkpoints, metrics and preparation to another thread or process, do them"
        " less often, or launch the next step's work first",
        "record again: less launch-bound time in `warpline stats -r breakdown`",
        changes=changes if often else (),
        share=share,
    )
