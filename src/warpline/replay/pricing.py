"""Estimated savings of findings, from simulations of their changes alone and together.

Specific findings come first, each simulated alone. Generic findings, whose changes would also
remove effects of other problems, are simulated on the remaining time. The cumulative saving is that
of a finding and all findings before it. All are of the program without a profiler.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from warpline.derived.severity import MEASURABLE_RATIO, severity_of
from warpline.replay.prediction import Baseline, Prediction
from warpline.result import Finding
from warpline.result.changes import Change
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
    whole = Baseline(run)
    step_ns = whole.step_ns.central
    priced = [_priced(item, whole.predict(item.changes), step_ns) for item in specific]
    done = _accumulated(whole, sorted(priced, key=_saving, reverse=True))
    made = [
        change
        for item in done
        if _saving(item) >= MEASURABLE_RATIO * step_ns
        for change in item.changes
    ]
    after = _on_what_remains(run, generic, made, step_ns)
    return (*done, *after, *(item for item in findings if not item.changes))


def _on_what_remains(
    run: Run, generic: Sequence[Finding], made: Sequence[Change], whole_ns: float
) -> list[Finding]:
    """Return generic findings with their savings after the changes of earlier findings.

    The finding with the largest remaining saving comes next.
    """
    made, left, findings = list(made), list(generic), []
    while left:
        before = Baseline(run, made)
        each = [before.after(item.changes) for item in left]
        place = min(range(len(left)), key=each.__getitem__)
        item = left.pop(place)
        cumulative = round(max(whole_ns - each[place], 0))
        priced = _priced(item, before.predict(item.changes), whole_ns)
        findings.append(replace(priced, cumulative_saving_ns=cumulative))
        made += item.changes
    return findings


def _accumulated(whole: Baseline, findings: Sequence[Finding]) -> list[Finding]:
    """Return findings with their cumulative savings.

    A finding that adds nothing to those before it, for example because they already remove its
    calls, gets low severity.
    """
    made: list[Change] = []
    accumulated: list[Finding] = []
    step_ns = whole.step_ns.central
    for place, item in enumerate(findings):
        made += item.changes
        together, severity = _saving(item), item.severity
        if place:
            together = round(max(step_ns - whole.after(made), 0))
            more = together - (accumulated[-1].cumulative_saving_ns or 0)
            if more < MEASURABLE_RATIO * step_ns:
                severity = "low"
        accumulated.append(replace(item, cumulative_saving_ns=together, severity=severity))
    return accumulated


def _priced(item: Finding, predicted: Prediction, whole_ns: float) -> Finding:
    """Return a finding with its saving, the step after it, share, and severity."""
    low, central, high = (round(value) for value in predicted.saving_ns)
    step_low, step, step_high = (round(value) for value in predicted.step_ns)
    share = central / whole_ns if whole_ns else 0.0
    return replace(
        item,
        severity=severity_of(share),
        saving_ns=central,
        saving_low_ns=low,
        saving_high_ns=high,
        share=share,
        predicted_step_ns=step,
        predicted_step_low_ns=step_low,
        predicted_step_high_ns=step_high,
    )


def _saving(item: Finding) -> int:
    return item.saving_ns or 0
