"""cold-start: code is loaded, compiled or chosen during the analyzed steps."""

from __future__ import annotations

from operator import attrgetter
from typing import NamedTuple

import numpy as np

from warpline.derived.breakdown.partition import RankWindows, step_partition
from warpline.derived.breakdown.step_scope import step_scope
from warpline.derived.idle.code_loading import (
    ThreadSpans,
    code_loading,
    compiling,
    is_tuning,
    timings,
)
from warpline.derived.idle.host_calls import device_of_thread
from warpline.derived.recorder import calls_hint, hints
from warpline.derived.severity import severity_of
from warpline.derived.steps.times import steps
from warpline.derived.time_parts import IDLE, TimePart
from warpline.estimate import Estimate
from warpline.ops.arrays import I64
from warpline.ops.group import distinct_values, group_stats
from warpline.ops.tree import enclosing
from warpline.result import Evidence, Finding, OnDevice, Skipped, rule
from warpline.result.changes import Change, RemoveHostTime
from warpline.trace import Run, Trace
from warpline.units import format_ns, format_ratio, plural

NAME = "cold-start"
TITLE = "Code is loaded or compiled during the analyzed steps"

_LEAST_SHARE = 0.05
_MOST_STEPS = 0.5  # of the steps: what happens in fewer does not affect the median step
_SHOWN = 5
# Of a CPU gap before code is loaded: part of it may be other work.
_LOADED, _COMPILED = Estimate(0.0, 0.0, 0.0), Estimate(0.0, 0.0, 0.5)


class _Found(NamedTuple):
    """Times in the analyzed steps.

    Attributes:
        loading: Times in calls that load code.
        compiling: CPU gaps before such calls.
        tuning: Times in which kernels are compared.
        step_process: Shape (n,), int64, for each step with any of them, its process.
    """

    loading: ThreadSpans
    compiling: ThreadSpans
    tuning: ThreadSpans
    step_process: I64

    def of_rank(self, trace: Trace, rank: RankWindows) -> _Found:
        """Return the times of one rank; of a thread with several devices, for each of them."""
        device_of = device_of_thread(trace)

        def own(spans: ThreadSpans) -> ThreadSpans:
            device = device_of[spans.thread]
            is_own = rank.owns(spans.process, np.where(device < 0, rank.device, device))
            return spans.taken(np.flatnonzero(is_own))

        is_own = (self.step_process == rank.process) | (rank.process < 0)
        return _Found(
            own(self.loading), own(self.compiling), own(self.tuning), self.step_process[is_own]
        )


class _OfRank(NamedTuple):
    """What a rank loses per step.

    Attributes:
        found: Its times.
        loading_ns: Idle time while code is loaded.
        compiling_ns: CPU time.
        tuning_ns: CPU time.
        fact: The sum of these over its steps.
    """

    found: _Found
    loading_ns: float
    compiling_ns: float
    tuning_ns: float
    fact: OnDevice

    @property
    def each_ns(self) -> float:
        """All of it."""
        return self.loading_ns + self.compiling_ns + self.tuning_ns


@rule(name=NAME, title=TITLE)
def cold_start(run: Run) -> list[Finding] | Skipped:
    """Loading, compiling and choosing code within the analyzed steps.

    What it finds: The driver loads or compiles code, a compiler such as Triton's runs before code
        is loaded, or a library times kernels to choose one (autotuning). Together they take at
        least 5% of the analyzed time.
    Why it matters: This happens once per kernel or shape. In a short recording it hides how long a
        steady step takes. In a long run it means that kernels are compiled again and again.
    How it is found: GPU idle time whose cause is module-load-or-JIT (see breakdown). CPU gaps of at
        least 1 ms directly before a call that loads code, up to the idle time. Times
        between reads of CUDA event times, in steps with at least 8 of them and 4 times as many as
        usual.
    What to do: Warm up before recording. If it goes on in a long run, keep shapes constant, and
        keep compiled code in a cache.
    Limits: Warm-up steps are excluded where they are longer than the others, so this finding is
        about later steps, recordings of few steps, and recordings without steps. A CPU gap before a
        load may have another reason. The saving is estimated only if most steps load code: what
        happens once does not affect the median step. A program that times its own kernels in some
        steps looks like autotuning.
    Source: CUDA C++ Programming Guide, lazy loading and just-in-time compilation; PyTorch,
        torch.backends.cudnn.benchmark and torch.compile.
    """
    trace = run.trace
    if not trace.has("api_call") or not trace.row_count("api_call"):
        return Skipped(NAME, "no CUDA API calls were recorded", calls_hint(trace))
    scope, found = step_scope(run), _found(run)
    ranks = [_of_rank(run, found, rank) for rank in step_partition(run).ranks]
    if not ranks:
        return []
    most = max(ranks, key=attrgetter("each_ns"))
    each = most.each_ns
    share = min(scope.share_of_all(each), 1.0)
    if share < _LEAST_SHARE:
        return []
    reasons = (
        ("loading code", most.loading_ns),
        ("compiling", most.compiling_ns),
        ("autotuning", most.tuning_ns),
    )
    names = [name for name, ns in reasons if ns > 0]
    subject = f"{' and '.join(names).capitalize()} {'take' if len(names) > 1 else 'takes'}"
    what = ", ".join(f"{name} {format_ns(ns)}" for name, ns in reasons if ns > 0)
    where = "the analyzed steps" if scope.has_steps else "the recording"
    number = len(most.found.step_process)
    often = scope.has_steps and number > _MOST_STEPS * most.fact.steps
    affected = ""
    if scope.has_steps and not often:
        affected = f" Affects only {number:,} of {plural(most.fact.steps, 'step')}."
    return [
        Finding(
            NAME,
            severity_of(share),
            f"{subject} {format_ratio(share)} of {where}",
            f"{subject} {format_ns(each)}{scope.each} ({format_ratio(share)})"
            f"{f': {what}' if len(names) > 1 else ''}.{affected}",
            tuple(_evidence(most.found)),
            f"{hints(run.trace).after_warm_up} If it recurs in a long run, keep input shapes"
            " constant or use torch.compile(dynamic=True), keep TORCHINDUCTOR_CACHE_DIR and"
            " TRITON_CACHE_DIR between runs, and turn off torch.backends.cudnn.benchmark for"
            " changing shapes.",
            "Profile again: `warpline stats -r breakdown` shows no module-load-or-JIT.",
            fix_cuda="Launch each kernel once before the loop, or set CUDA_MODULE_LOADING=EAGER."
            " Compile for the architecture of the GPU, so that the driver does not compile PTX.",
            fix_in={
                "jax": "Call each function under jax.jit once with the final shapes before the"
                " loop, set jax_compilation_cache_dir, and keep shapes and static arguments"
                " constant."
            },
            share=share,
            changes=tuple(_changes(found)) if often else (),
            on_devices=tuple(rank.fact for rank in ranks if rank.fact.ns),
        )
    ]


def _of_rank(run: Run, found: _Found, rank: RankWindows) -> _OfRank:
    scope, own = step_scope(run), found.of_rank(run.trace, rank)
    total = step_partition(run).total(rank)
    loading_ns = int(total[TimePart.MODULE_LOAD]) if len(own.loading.start_ns) else 0
    idle_ns = int(total[list(IDLE)].sum())
    compiling_ns, tuning_ns = min(_sum(own.compiling), idle_ns - loading_ns), _sum(own.tuning)
    whole_ns = loading_ns + compiling_ns + tuning_ns
    fact = scope.on_device(rank.process, rank.device, whole_ns)
    count = max(fact.steps, 1)
    return _OfRank(own, loading_ns / count, compiling_ns / count, tuning_ns / count, fact)


def _found(run: Run) -> _Found:
    run_steps = steps(run)
    every = [code_loading(run.trace), compiling(run.trace), timings(run.trace)]
    if not step_scope(run).has_steps:
        low, high = _worked(run)
        taken = [
            spans.taken(np.flatnonzero((spans.start_ns >= low) & (spans.start_ns < high)))
            for spans in every
        ]
        tuning = _tuned(taken[2], taken[2].process, 1)
        return _Found(taken[0], taken[1], tuning, np.zeros(0, np.int64))
    rows = np.flatnonzero(run_steps.included)
    place = [
        enclosing(
            spans.start_ns,
            run_steps.host_start_ns[rows],
            run_steps.host_end_ns[rows],
            point_group=spans.process,
            group=run_steps.process[rows],
        )
        for spans in every
    ]
    loading, compiled, timed = (
        spans.taken(np.flatnonzero(at.found)) for spans, at in zip(every, place, strict=True)
    )
    step = place[2].row[place[2].found]
    tuning = _tuned(timed, step, len(rows))
    tuned = enclosing(
        tuning.start_ns,
        run_steps.host_start_ns[rows],
        run_steps.host_end_ns[rows],
        point_group=tuning.process,
        group=run_steps.process[rows],
    )
    affected = [at.row[at.found] for at in (place[0], place[1], tuned)]
    with_any = rows[distinct_values(np.concatenate(affected))]
    return _Found(loading, compiled, tuning, run_steps.process[with_any])


def _worked(run: Run) -> tuple[int, int]:
    """Return the time from the first to the last operation."""
    windows = step_partition(run).windows
    if not len(windows.device):
        return 0, 0
    return int(windows.start_ns.min()), int(windows.end_ns.max())


def _tuned(timed: ThreadSpans, step: I64, count: int) -> ThreadSpans:
    """Return the time from the first to the last read of an event time, in unusual steps.

    Args:
        timed: The reads.
        step: Shape (reads,), int64, the step of each, from 0 to `count` - 1.
        count: Number of steps.
    """
    number = np.bincount(step, minlength=count)
    usual = float(np.median(number)) if count > 1 else 0.0
    many = np.flatnonzero(is_tuning(number, usual))
    first = group_stats(step, timed.start_ns, len(number)).min[many]
    last = group_stats(step, timed.end_ns, len(number)).max[many]
    at = np.array([np.flatnonzero(step == place)[0] for place in many.tolist()], np.int64)
    return ThreadSpans(first, last, timed.thread[at], timed.process[at])


def _sum(spans: ThreadSpans) -> int:
    return int((spans.end_ns - spans.start_ns).sum())


def _evidence(found: _Found) -> list[Evidence]:
    kinds = (
        (found.loading, "call that loads or compiles code", "calls that load or compile code"),
        (found.compiling, "CPU gap before code is loaded", "CPU gaps before code is loaded"),
        (found.tuning, "period of autotuning", "periods of autotuning"),
    )
    evidence = []
    for spans, one, several in kinds:
        if not len(spans.start_ns):
            continue
        longest = np.argsort(spans.start_ns - spans.end_ns, kind="stable")[:_SHOWN]
        windows = zip(spans.start_ns[longest].tolist(), spans.end_ns[longest].tolist(), strict=True)
        said = f"{plural(len(spans.start_ns), one, several)}: {format_ns(_sum(spans))}"
        evidence.append(Evidence(said, None, (), len(spans.start_ns), tuple(windows)))
    return evidence


def _changes(found: _Found) -> list[Change]:
    return [
        RemoveHostTime(thread, spans.start_ns[own], spans.end_ns[own], remaining)
        for spans, remaining in ((found.loading, _LOADED), (found.compiling, _COMPILED))
        for thread in distinct_values(spans.thread).tolist()
        for own in (spans.thread == thread,)
    ]
