"""fragmentation: free GPU memory is in pieces that are too small."""

from __future__ import annotations

from warpline.derived.memory.blocks import replayed
from warpline.derived.memory.fragmentation import Growth, failures, wasteful_growth
from warpline.derived.memory.pressure import is_tight
from warpline.derived.memory.timelines import timeline_places
from warpline.result import Evidence, Finding, Severity, rule
from warpline.trace import Run, Trace
from warpline.units import format_bytes, format_ratio, plural

NAME = "fragmentation"
TITLE = "GPU memory is fragmented"

_LEAST_RATIO = 0.1  # of the reserved memory
_LEAST_BYTES = 32 << 20  # one segment is never fully used
_SHOWN = 5


@rule(name=NAME, title=TITLE)
def fragmentation(run: Run) -> list[Finding]:
    """Free memory of PyTorch's allocator that was unusable when it needed more.

    What it finds: Moments at which the allocator got memory from the driver, or failed to, although
        it had at least as much free memory in partly used segments: 10% of the reserved memory and
        32 MiB or more.
    Why it matters: The program reserves more than it needs, and may run out of memory although
        enough is free. Such memory cannot be returned to the driver.
    How it is found: PyTorch's memory history is replayed. Free parts of partly used segments are
        inactive_split_bytes of torch.cuda.memory_stats. Those for blocks up to 1 MiB do not count.
    What to do: Use expandable segments. Keep shapes constant, or allocate the largest ones first.
    Limits: Free memory of other streams and private pools counts, although it cannot be used by
        this stream. Expandable segments do not count as fragmented, as in PyTorch.
    Source: PyTorch, CUDA semantics: memory management.
    """
    trace = run.trace
    found = replayed(trace)
    return [
        finding for number in range(len(found.timelines)) for finding in _findings(trace, number)
    ]


def _findings(trace: Trace, number: int) -> list[Finding]:
    worst = wasteful_growth(trace, number)
    failed = [each for each in failures(trace, number) if each.unused_bytes >= each.bytes]
    is_much = worst is not None and worst.unused_bytes >= max(
        _LEAST_RATIO * worst.reserved_bytes, _LEAST_BYTES
    )
    if not is_much and not failed:
        return []
    place = timeline_places(trace)[number]
    evidence, claims = [], []
    if failed:
        most = max(failed, key=lambda each: each.unused_bytes)
        rows = tuple(each.row for each in failed[:_SHOWN])
        windows = tuple((each.time_ns, each.time_ns) for each in failed[:_SHOWN])
        many = plural(len(failed), "allocation")
        evidence.append(Evidence(f"{many} failed", "segment_event", rows, len(failed), windows))
        claims.append(
            f"On {place}, an allocation of {format_bytes(most.bytes)} failed although"
            f" {format_bytes(most.unused_bytes)} of reserved memory was free, in pieces that are"
            " too small."
        )
    if is_much and worst is not None:
        claims.append(_claim(place, worst))
        time = int(replayed(trace).timelines[number].time_ns[worst.event])
        text = (
            f"{format_bytes(worst.unused_bytes)} was free when {format_bytes(worst.bytes)} was"
            " allocated from the driver"
        )
        evidence.append(Evidence(text, windows_ns=((time, time),)))
    severity: Severity = "high" if failed else "medium" if is_tight(trace, number) else "low"
    unused = max(worst.unused_bytes if worst else 0, *(each.unused_bytes for each in failed), 0)
    return [
        Finding(
            NAME,
            severity,
            f"{format_bytes(unused)} of GPU memory is free but fragmented",
            " ".join(claims),
            tuple(evidence),
            "Set PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True. Keep shapes constant: pad"
            " batches to a few sizes. Allocate long-lived tensors before the loop.",
            "Profile again: `warpline stats -r memory_kinds` shows less fragmented memory.",
            fix_cuda="Allocate blocks of a few sizes from a pool, or use cudaMallocAsync.",
        )
    ]


def _claim(place: str, worst: Growth) -> str:
    return (
        f"On {place}, {format_bytes(worst.bytes)} was allocated from the driver while"
        f" {format_bytes(worst.unused_bytes)} of reserved memory"
        f" ({format_ratio(worst.unused_bytes / max(worst.reserved_bytes, 1))}) was free, in"
        " pieces that are too small."
    )
