"""capture-quality: problems of the recording itself, to resolve before trusting its numbers."""

from __future__ import annotations

from warpline.analyses.diagnosis.capture_quality import (
    gpu_work,
    launches,
    overhead,
    records,
    step_count,
    unexplained,
)
from warpline.analyses.diagnosis.capture_quality.problem import NAME
from warpline.derived.steps.times import steps
from warpline.result import Finding, rule, severity_rank
from warpline.trace import Run

TITLE = "Recording problems"


@rule(name=NAME, title=TITLE)
def capture_quality(run: Run) -> list[Finding]:
    """Problems of the recording itself, to resolve before trusting its numbers.

    What it finds: Dropped or unreadable records; no GPU work or no CUDA API calls; GPU work
        without its launches, and launches without their GPU work; a recording that is cut out of
        a longer run; idle time for which nothing is recorded; CUDA graphs traced at graph level,
        or without their kernels; managed memory without its migrations; a process in which another
        profiler used CUPTI, or whose events nsys could not import; too few steps, or only warm-up;
        ranges cut off by the end; tables that may matter but are not read; missing ranks; high
        profiling overhead.
    Why it matters: Every other finding depends on the recording. A missing table looks like a
        program that does nothing. A recording of the first step looks like a slow program.
    How it is found: From the dropped records that the producer reports, the tables present, the
        steps analyzed, the launches and operations that match, and the overhead: idle time during
        which the profiler blocked the CPU, or the overhead that Warpline measures itself, at most
        the time the GPU waited for the CPU.
    What to do: Profile again as the finding advises.
    Limits: Drops that a producer does not report go unnoticed. The time that CUPTI adds to each
        call is not recorded, so the overhead is a lower bound.
    Source: Warpline.
    """
    trace = run.trace
    chosen = steps(run)
    findings = [
        *records.dropped(trace),
        *records.damaged(trace),
        *gpu_work.not_recorded(trace),
        *gpu_work.nothing_recorded(trace),
        *launches.unmatched(trace),
        *unexplained.unexplained(run),
        *gpu_work.whole_graphs(trace),
        *gpu_work.migrations_not_recorded(trace),
        *step_count.too_few(trace, chosen),
        *overhead.overhead(run, chosen),
        *records.truncated(trace),
        *records.missing_ranks(trace),
        *records.unread(trace),
    ]
    return sorted(findings, key=lambda item: severity_rank(item.severity))
