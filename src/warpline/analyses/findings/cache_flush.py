"""cache-flush: PyTorch's allocator returns its cache to the driver, and allocates again."""

from __future__ import annotations

import numpy as np

from warpline.derived.memory.blocks import replayed
from warpline.derived.memory.fragmentation import Flush, flushes
from warpline.derived.memory.labels import line_of_stack, short_lines
from warpline.derived.memory.timelines import timeline_places
from warpline.derived.python_stacks import texts_of_stacks
from warpline.result import Evidence, Finding, rule
from warpline.trace import Run, Trace
from warpline.units import format_bytes, plural

NAME = "cache-flush"
TITLE = "Cached GPU memory is returned and allocated again"

_LEAST_BYTES = 32 << 20
_LEAST_AGAIN = 0.1  # of what was returned
_SHOWN = 5
_EMPTIES = " empty_cache"


@rule(name=NAME, title=TITLE)
def cache_flush(run: Run) -> list[Finding]:
    """Memory that PyTorch's allocator returns to the driver and gets again.

    What it finds: Flushes of the allocator's cache after which at least 10% of the returned memory,
        and 32 MiB, is allocated from the driver again before the next flush.
    Why it matters: cudaFree waits until the GPU has finished all its work, and cudaMalloc takes up
        to milliseconds for large blocks. If memory is nearly full, this happens in every step.
    How it is found: By released segments in PyTorch's memory history. Released in a row, they are
        one flush. Where the stack of a release ends in empty_cache, the program asked for it.
        Otherwise, the allocator had no memory for a new block and tries again after the flush.
    What to do: Remove torch.cuda.empty_cache() from loops. If memory is full, use less of it.
    Limits: Time is not counted here: see rule allocator, which needs CUDA API calls. Releases by
        garbage_collection_threshold look like those for lack of memory.
    Source: PyTorch, CUDA semantics: memory management.
    """
    trace = run.trace
    found = replayed(trace)
    findings = []
    for number in range(len(found.timelines)):
        costly = [each for each in flushes(trace, number) if _is_costly(each)]
        if costly:
            findings.append(_finding(trace, number, costly))
    return findings


def _is_costly(flush: Flush) -> bool:
    return flush.again_bytes >= max(_LEAST_AGAIN * flush.bytes, _LEAST_BYTES)


def _finding(trace: Trace, number: int, costly: list[Flush]) -> Finding:
    place, rows = timeline_places(trace)[number], np.concatenate([each.rows for each in costly])
    stack = _stack(trace, costly[0])
    is_asked = bool(stack) and stack.partition("\n")[0].endswith(_EMPTIES)
    at = f" at {short_lines([line_of_stack(stack)])[0]}" if stack else ""
    returned = sum(each.bytes for each in costly)
    again = sum(each.again_bytes for each in costly)
    times = f", {len(costly)} times in all" if len(costly) > 1 else ""
    cause = (
        f"torch.cuda.empty_cache(){at} returned"
        if is_asked
        else f"The allocator had no memory for a new block{at} and returned"
    )
    return Finding(
        NAME,
        "medium",
        "Cached GPU memory is returned to the driver and allocated again",
        f"{cause} {format_bytes(returned)} on {place}{times}. Afterwards,"
        f" {format_bytes(again)} was allocated from the driver again. cudaFree synchronizes with"
        " the GPU.",
        (
            Evidence(
                f"{plural(len(rows), 'segment')} released",
                "segment_event",
                tuple(rows[:_SHOWN].tolist()),
                len(rows),
                tuple((each.time_ns, each.time_ns) for each in costly[:_SHOWN]),
            ),
        ),
        "Remove torch.cuda.empty_cache() from the loop."
        if is_asked
        else "Use less memory: smaller batches or activation checkpointing. If shapes vary, set"
        " PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True, which returns single pages.",
        "Profile again: `warpline analyze` does not report cache-flush.",
    )


def _stack(trace: Trace, flush: Flush) -> str:
    """Return the Python stack of a flush; an empty text if there is none."""
    if not trace.has("stack") or not trace.has("frame"):
        return ""
    stack_id = trace.columns("segment_event", "stack_id")["stack_id"]
    stacks = texts_of_stacks(trace, stack_id.take(flush.rows[:1]))
    return stacks.texts[int(stacks.codes[0])] if stacks.codes[0] >= 0 else ""
