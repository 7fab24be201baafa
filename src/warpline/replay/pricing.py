"""Estimated savings of findings, from simulations of their changes alone and together.

Specific findings come first, each simulated alone. Generic findings, whose changes would also
remove effects of other problems, are simulated on the remaining time. The cumulative saving is that
of a finding and all findings before it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from warpline.derived.severity import MEASURABLE_RATIO, severity_of
from warpline.estimate import Estimate
from warpline.replay.prediction import Prediction, predict
from warpline.result import Finding
from warpline.result.changes import Change, RemoveProfilerCost
from warpline.trace import Run


def price(run: Run, findings: Sequence[Finding]) -> tuple[Finding, ...]:
    """Return findings with their estimated savings per step, the largest saving first.

    Findings without changes are returned unmodified, after the others. A saving below
    `MEASURABLE_RATIO` of the step gives a finding low severity.

    Args:
        run: The trace, and the choice of its steps.
        findings: The findings of the rules.
    """
    specific = [item for item in findings if item.changes and not item.is_generic]
    generic = [item for item in findings if item.changes and item.is_generic]
    if not specific and not generic:
        return tuple(findings)
    whole = predict(run, ())
    priced = [_priced(item, whole, predict(run, item.changes)) for item in specific]
    done = _accumulated(run, sorted(priced, key=_saving, reverse=True), whole)
    made = [change for item in done if _is_measurable(item, whole) for change in item.changes]
    after = _on_what_remains(run, generic, made, whole)
    return (*done, *after, *(item for item in findings if not item.changes))


def _on_what_remains(
    run: Run,
    generic: Sequence[Finding],
    made: Sequence[Change],
    whole: Prediction,
) -> list[Finding]:
    """Return generic findings with their savings after the changes of earlier findings.

    The finding with the largest remaining saving comes next.
    """
    made, left, findings = list(made), list(generic), []
    before = predict(run, made).step_ns.central
    while left:
        each = [predict(run, (*made, *item.changes)) for item in left]
        place = min(range(len(left)), key=lambda place: each[place].step_ns.central)
        item, after = left.pop(place), each[place]
        cumulative = round(max(whole.unchanged_ns - after.step_ns.central, 0))
        priced = _priced(item, whole, after, before)
        findings.append(replace(priced, cumulative_saving_ns=cumulative))
        made += item.changes
        before = after.step_ns.central
    return findings


def _accumulated(run: Run, findings: Sequence[Finding], whole: Prediction) -> list[Finding]:
    """Return findings with their cumulative savings.

    A finding that adds nothing to those before it, for example because they already remove its
    calls, gets low severity.
    """
    made: list[Change] = []
    accumulated: list[Finding] = []
    for place, item in enumerate(findings):
        made += item.changes
        together, severity = _saving(item), item.severity
        if place:
            step = predict(run, made).step_ns.central
            together = round(max(whole.unchanged_ns - step, 0))
            more = together - (accumulated[-1].cumulative_saving_ns or 0)
            if more < MEASURABLE_RATIO * whole.unchanged_ns:
                severity = "low"
        accumulated.append(replace(item, cumulative_saving_ns=together, severity=severity))
    return accumulated


def _priced(
    item: Finding, whole: Prediction, after: Prediction, before_ns: float | None = None
) -> Finding:
    """Return a finding with its saving, bounds, share, and severity."""
    before = float(whole.unchanged_ns) if before_ns is None else before_ns
    low, central, high = (
        max(round(before - step), 0)
        for step in (after.step_ns.high, after.step_ns.central, after.step_ns.low)
    )
    share = central / whole.unchanged_ns if whole.unchanged_ns else 0.0
    return replace(
        item,
        severity=severity_of(share),
        saving_ns=central,
        saving_low_ns=low,
        saving_high_ns=high,
        share=share,
    )


def _saving(item: Finding) -> int:
    return item.saving_ns or 0


def _is_measurable(item: Finding, whole: Prediction) -> bool:
    return _saving(item) >= MEASURABLE_RATIO * whole.unchanged_ns


def unprofiled_step_ns(run: Run) -> Estimate | None:
    """Return the step time without a profiler; None if the profiler's overhead is unknown."""
    cost = run.trace.meta.call_cost_ns
    if cost is None:
        return None
    return predict(run, (RemoveProfilerCost(cost),)).step_ns
