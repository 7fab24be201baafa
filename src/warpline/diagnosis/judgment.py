"""The findings of all rules, with estimated savings and in their order."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import NamedTuple, Protocol, TypeVar

from warpline.derived import forget
from warpline.derived.efficiency.half_precision import float_kernels
from warpline.derived.efficiency.stream_order import kernels_by_stream
from warpline.derived.kernels.collective_launches import collective_of_kernel
from warpline.derived.metrics.kernel_samples import alone_times
from warpline.derived.program import calls_hip, program_kind
from warpline.derived.ranges.names import range_names
from warpline.derived.ranges.stacks import range_nesting
from warpline.derived.ranks.naming import named
from warpline.derived.steps.launch_sequences import launch_sequences
from warpline.derived.work.launch_order import launch_order
from warpline.derived.work.operations import operations
from warpline.diagnosis.verdict import GRAVE
from warpline.replay import predict, replay_quality
from warpline.replay.host import host_side
from warpline.replay.pricing import accumulate, price
from warpline.result import RULES, Finding, Replay, Skipped, severity_rank
from warpline.trace import Run

T = TypeVar("T")

_MOST = 0.5
_OF_RECORDING, _OF_DEBUGGING = "capture-quality", "debug-switch"
# Large, and of use to one rule, or two at most; made in a few tens of ms per million operations.
_FOR_ONE_RULE = (launch_order, range_nesting, kernels_by_stream, float_kernels)
# Large, and not used by the simulation.
_ONLY_FOR_RULES = (launch_sequences, range_names, collective_of_kernel, alone_times)
_WORST_REPLAY = 0.1  # relative error of the step: a worse simulation predicts nothing


class Attempt(Protocol):
    """Computes a part of the diagnosis, or reports that it failed."""

    def __call__(self, name: str, compute: Callable[[], T], /) -> T | Skipped:
        """Return the result of `compute`; `name` is its table or rule."""
        ...


class Judgment(NamedTuple):
    """What the rules found.

    Attributes:
        findings: Numbered, in order of severity.
        not_judged: The rules without a result, and the simulation if it has none.
        replay: Accuracy of the simulation; None if nothing is predicted.
    """

    findings: tuple[Finding, ...]
    not_judged: tuple[Skipped, ...]
    replay: Replay | None


def judge(run: Run, attempt: Attempt) -> Judgment:
    """Ask all rules, and estimate the savings if the simulation is accurate enough."""
    findings, not_judged = _judged(run, attempt)
    forget(run.trace, *_ONLY_FOR_RULES)
    replay = attempt("replay", partial(_replay, run))
    if isinstance(replay, Skipped):
        return Judgment(_ranked(findings), (*not_judged, replay), None)
    priced = _ranked(_attempted(attempt, partial(price, run, findings), findings))
    together = _attempted(attempt, partial(accumulate, run, priced), priced)
    return Judgment(together, tuple(not_judged), replay)


def _judged(run: Run, attempt: Attempt) -> tuple[tuple[Finding, ...], list[Skipped]]:
    """Return the findings of the rules, worded for the program, and the rules that were skipped."""
    findings: list[Finding] = []
    not_judged: list[Skipped] = []
    for rule in RULES:
        judged = attempt(rule.name, partial(rule.judge, run))
        forget(run.trace, *_FOR_ONE_RULE)
        if isinstance(judged, Skipped):
            not_judged.append(judged)
        else:
            kind = program_kind(run.trace)
            findings += (named(run, item.for_program(kind)) for item in judged)
    if calls_hip(run.trace):
        findings = [item.for_hip() for item in findings]
    return tuple(findings), not_judged


def _replay(run: Run) -> Replay | Skipped:
    """Return how accurately the simulation reproduces the run."""
    if not len(operations(run.trace)) or not len(host_side(run)):
        return Skipped("replay", "no CUDA API calls with GPU work were recorded")
    quality, measured = replay_quality(run), predict(run, ())
    if not measured.unchanged_ns or quality.error_ratio > _WORST_REPLAY:
        return Skipped("replay", "the simulation is not accurate enough to predict savings")
    is_known = run.trace.meta.call_cost_ns is not None
    times = tuple(round(measured.before_ns[at]) for at in (1, 0, 2)) if is_known else ()
    return Replay(quality.error_ratio, quality.unexplained_ratio, measured.measured_ns, *times)


def _attempted(
    attempt: Attempt, compute: Callable[[], tuple[Finding, ...]], findings: tuple[Finding, ...]
) -> tuple[Finding, ...]:
    """Return the findings with what is computed; unchanged if that fails."""
    computed = attempt("pricing", compute)
    return findings if isinstance(computed, Skipped) else computed


def _ranked(findings: tuple[Finding, ...]) -> tuple[Finding, ...]:
    """Return findings numbered in order of severity; the sort is stable.

    Within a severity, debug settings come first, because they hide other problems, then a finding
    without a saving if it concerns most of the time, and
    problems of the recording come last: to record again makes no program faster. A finding that
    another one follows comes before it and is as severe: a CUDA graph, for example, cannot be
    captured before the synchronization inside is gone.
    """

    def order(item: Finding) -> tuple[int, bool, bool, bool]:
        has_most = item.saving_ns is None and (item.share or 0.0) > _MOST
        is_recording, is_debug = item.rule == _OF_RECORDING, item.rule == _OF_DEBUGGING
        return severity_rank(item.severity), is_recording, not is_debug, not has_most

    ranked = sorted(_raised(findings), key=order)
    for item in [item for item in ranked if item.follows]:
        place = ranked.index(item)
        after = [other for other in ranked[place:] if _precedes(other, item)]
        rest = [other for other in ranked[place:] if not _precedes(other, item)]
        ranked[place:] = [*after, *rest]
    return tuple(replace(item, id=f"F{n}") for n, item in enumerate(ranked, 1))


def _precedes(other: Finding, item: Finding) -> bool:
    """Return whether one finding matters and another follows it."""
    return other.rule in item.follows and other.severity in GRAVE and other is not item


def _raised(findings: tuple[Finding, ...]) -> list[Finding]:
    """Return findings, each at least as severe as those that follow it."""
    return [
        replace(
            item,
            severity=min(
                [item.severity, *(other.severity for other in findings if _precedes(item, other))],
                key=severity_rank,
            ),
        )
        for item in findings
    ]
