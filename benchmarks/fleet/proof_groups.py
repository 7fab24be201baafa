"""Checks parallel groups, pipeline stages and experts in `warpline fleet analyze`, by simulation.

python benchmarks/fleet/proof_groups.py layouts [DRAWS]  layouts are recognized, none is wrong
python benchmarks/fleet/proof_groups.py stages [DRAWS]   slow stages and slow ranks of pipelines
python benchmarks/fleet/proof_groups.py experts [DRAWS]  uneven experts, hot ranks, slow GPUs
python benchmarks/fleet/proof_groups.py many [STEPS]     memory for jobs with many exchanges (Linux)
"""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path

import numpy as np
from job_layouts import Layout, simulate, step_ns, summaries
from job_programs import Recorded

from warpline.fleet.summary import drained, packed, unpacked
from warpline.fleet.verdict import verdict_of
from warpline.result.fleet import Fleet

LAYOUTS = {
    "DP 8": Layout(data=8),
    "FSDP 8": Layout(data=8, is_sharded=True),
    "TP 4 x DP 4": Layout(tensor=4, data=4),
    "TP 2 x FSDP 4": Layout(tensor=2, data=4, is_sharded=True),
    "PP 4 x DP 4": Layout(pipeline=4, data=4, microbatches=8),
    "TP 2 x PP 4 x DP 2": Layout(tensor=2, pipeline=4, data=2, microbatches=4),
    "DP 8, EP 4": Layout(data=8, experts=4),
    "TP 2 x DP 4, EP 2": Layout(tensor=2, data=4, experts=2),
    "TP 2 x PP 2 x DP 4, EP 4": Layout(tensor=2, pipeline=2, data=4, experts=4, microbatches=4),
}
PIPELINE = Layout(tensor=2, pipeline=4, data=2, microbatches=8, layers=3)
MOE = Layout(data=8, experts=4)
MANY = {
    "sends and receives": Layout(pipeline=8, data=32, microbatches=64, layers=2),
    "all-to-alls": Layout(data=256, experts=8, layers=24),
}


def answer(job: Layout) -> tuple[Fleet, list[Recorded]]:
    """Return the answer about a job, and what is recorded of it."""
    recorded = simulate(job)
    return verdict_of("job", unpacked(packed(summaries(job, recorded)))), recorded


def layouts(draws: int) -> None:
    """Count layouts that are recognized, and wrong ones where no communicators are recorded."""
    for text, layout in LAYOUTS.items():
        found: Counter[str] = Counter()
        unnamed: Counter[str] = Counter()
        for draw in range(draws):
            job = replace(layout, seed=draw, layers=2 + draw % 4, jitter=0.01 * (1 + draw % 5))
            found[answer(job)[0].layout] += 1
            if draw < draws // 4:
                unnamed[answer(replace(job, is_named=False))[0].layout or "unclear"] += 1
        print(
            f"{text}: {found[text]} of {draws}; others: {dict(found - Counter({text: draws}))};"
            f" without communicators: {dict(unnamed)}",
            flush=True,
        )


def stages(draws: int) -> None:
    """Count slow stages and slow ranks that are found, and false ones."""
    counts: Counter[str] = Counter()
    apart = []
    rng = np.random.default_rng(3)
    for draw in range(draws):
        base = replace(PIPELINE, seed=draw)
        stage, rank = int(rng.integers(base.pipeline)), int(rng.integers(len(base)))
        times = float(rng.uniform(1.2, 1.5))
        more = replace(base, more_layers=(stage, 1))
        even = replace(base, scale=(base.layers * 4 + 1) / (base.layers * 4))
        _count_stage(counts, "more layers", more, even, stage, "more-gpu-work")
        slow = replace(base, slow_stage=(stage, times))
        even = replace(base, scale=(3 + times) / 4)
        _count_stage(counts, "slow GPUs", slow, even, stage, "slow-gpu")
        found, _ = answer(replace(base, slow_rank=(rank, times)))
        counts["slow rank"] += [(s.rank, s.cause) for s in found.stragglers] == [(rank, "slow-gpu")]
        truth = step_ns(simulate(base))
        step = found.findings[0].step_ns
        counts["slow rank, step"] += step is not None and step.low <= truth <= step.high
        calm, recorded = answer(base)
        counts["false, healthy"] += bool(calm.stragglers)
        assert calm.pipeline is not None
        apart.append(calm.pipeline.bubble_ratio - _waited_ns(recorded) / base.steps / truth)
        counts["microbatches"] += calm.pipeline.microbatches == base.microbatches
    print(f"{draws} draws: {dict(counts)}")
    print(f"bubbles less those simulated: {min(apart):+.3f} to {max(apart):+.3f} of the step")


def _waited_ns(recorded: Sequence[Recorded]) -> float:
    """Return how long a rank waits for other stages: in receives, and for all at the end."""
    waits = [
        end - start - op.ns
        for one in recorded
        for op, start, end in one.kernels
        if op.kind == "recv" or op.key == "all"
    ]
    return sum(waits) / len(recorded)


def _count_stage(
    counts: Counter[str], name: str, job: Layout, even: Layout, stage: int, cause: str
) -> None:
    found, _ = answer(job)
    ranks = [rank for rank in range(len(job)) if job.place(rank)[0] == stage]
    is_stage = bool(found.findings) and found.findings[0].rule == "slow-stage"
    counts[name] += is_stage and sorted(s.rank or 0 for s in found.stragglers) == ranks
    counts[f"{name}, cause"] += {s.cause for s in found.stragglers} == {cause}
    truth, step = step_ns(simulate(even)), found.findings[0].step_ns
    counts[f"{name}, step"] += step is not None and step.low <= truth <= step.high


def experts(draws: int) -> None:
    """Count uneven experts and hot ranks that are found, and false ones."""
    counts: Counter[str] = Counter()
    rng = np.random.default_rng(4)
    for draw in range(draws):
        base = replace(MOE, seed=draw)
        rank, times = int(rng.integers(len(base))), float(rng.uniform(1.5, 2.0))
        truth = step_ns(simulate(replace(base, is_even=True)))
        found, _ = answer(replace(base, hot=((rank,), times)))
        counts["hot rank"] += found.experts is not None and found.experts.hot == (f"rank {rank}",)
        causes = {s.cause for s in found.stragglers}
        counts["hot rank, cause"] += causes == {"uneven-experts"} or (
            not causes and found.findings[0].rule == "uneven-experts"
        )
        step = found.findings[0].step_ns
        counts["hot rank, step"] += step is not None and step.low <= truth <= step.high
        found, _ = answer(replace(base, spread=0.4))
        uneven = [item for item in found.findings if item.rule == "uneven-experts"]
        counts["uneven, no rank"] += bool(uneven) and not found.stragglers
        step = uneven[0].step_ns if uneven else None
        counts["uneven, step"] += step is not None and step.low <= truth <= step.high
        found, _ = answer(base)
        counts["false, even"] += bool(found.stragglers) or any(
            item.rule == "uneven-experts" for item in found.findings
        )
        found, _ = answer(replace(base, slow_rank=(rank, times - 0.2)))
        counts["slow GPU is one"] += [(s.rank, s.cause) for s in found.stragglers] == [
            (rank, "slow-gpu")
        ] and all(item.rule != "uneven-experts" for item in found.findings)
    print(f"{draws} draws: {dict(counts)}")


def many(steps: int) -> None:
    """Measure time and memory of the answer by the number of exchanges."""
    for name, layout in MANY.items():
        for job in (replace(layout, steps=max(steps // 4, 3)), replace(layout, steps=steps)):
            content = [packed([one]) for one in summaries(job, simulate(job))]
            (first,) = unpacked(content[0])
            count = len(first.collectives.start_ns) + len(first.exchanges.start_ns)
            size = sum(map(len, content)) / 2**20
            # In a new process, whose memory is that of the answer.
            with ProcessPoolExecutor(1, get_context("spawn")) as pool:
                before, peak, cpu, text = pool.submit(_cost, content).result()
            print(
                f"{name}: {len(job)} ranks x {job.steps} steps, {count:,} exchanges per rank:"
                f" {size:.0f} MiB of summaries, {cpu:.1f} s of CPU, memory {peak:.0f} MiB (before:"
                f" {before:.0f}); {text}",
                flush=True,
            )


def _cost(content: list[bytes]) -> tuple[float, float, float, str]:
    """Return the memory before and at most, in MiB, the CPU time, and the layout."""
    Path("/proc/self/clear_refs").write_text("5")  # else the peak is that of the parent
    before, began = _peak_mib(), time.process_time()
    found = verdict_of("job", drained(content))
    return before, _peak_mib(), time.process_time() - began, found.layout


def _peak_mib() -> float:
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM"))


def main(words: Sequence[str]) -> None:
    """Run one of the checks."""
    what, *rest = words
    checks = {"layouts": layouts, "stages": stages, "experts": experts, "many": many}
    checks[what](int(rest[0]) if rest else 100)


if __name__ == "__main__":
    main(sys.argv[1:])
