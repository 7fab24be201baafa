"""Estimated savings of findings, from simulations of their changes alone and together.

Specific findings come first, each simulated alone. Generic findings, whose changes would also
remove effects of other problems, are simulated on the remaining time. All are of the program
without a profiler.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from warpline.derived.severity import MEASURABLE_RATIO, severity_of
from warpline.replay.prediction import Baseline, Prediction
from warpline.result import Finding, severity_rank
from warpline.result.changes import Change
from warpline.trace import Run

# Of the step: a finding that saves less even at best is not reported.
_LEAST_RATIO = 0.01
_LEAST_SHARE = 0.02  # of the step, of a finding whose saving is unknown
_NOTHING = "The simulation shows no saving in these steps."
_UNKNOWN = "The saving is unknown: the simulation shows none."


def price(run: Run, findings: Sequence[Finding]) -> tuple[Finding, ...]:
    """Return findings with their estimated savings per step, the largest saving first.

    Uncertain findings, which are of low severity whatever they save, come after the certain ones
    and take nothing from these.
    Findings without changes are returned unmodified, after the others. A saving below
    `MEASURABLE_RATIO` of the step gives a finding low severity. Specific findings that save next to
    nothing even at best are left out, unless they are of high severity and their rule has measured
    their share: then the saving is unknown. Those about the state of the machine stay, too, of low
    severity.

    Args:
        run: The trace, and the choice of its steps.
        findings: The findings of the rules.
    """
    specific = [item for item in findings if item.changes and not item.is_generic]
    generic = [item for item in findings if item.changes and item.is_generic]
    if not specific and not generic:
        return tuple(findings)
    whole = Baseline(run)
    priced = [_priced(item, whole.predict(item.changes, item.most_ns), whole) for item in specific]
    is_little = [(item.saving_high_ns or 0) < _LEAST_RATIO * whole.typical_ns for item in priced]
    unknown = [item for item, little in zip(specific, is_little, strict=True) if little]
    priced = [item for item, little in zip(priced, is_little, strict=True) if not little]
    done = _without_repetition(whole, _in_order(whole, priced))
    made = [
        change
        for item in done
        if _is_measurable(item, whole) and not _is_uncertain(item)
        for change in item.changes
    ]
    after = _on_what_remains(run, generic, made, whole)
    stays = [_without_saving(item) for item in unknown if _is_measured(item)]
    return (*done, *after, *stays, *(item for item in findings if not item.changes))


def accumulate(run: Run, findings: Sequence[Finding]) -> tuple[Finding, ...]:
    """Return findings with their cumulative savings: of each and those above it that matter.

    Args:
        run: The trace, and the choice of its steps.
        findings: Findings with savings, in the order in which they are shown.
    """
    if all(item.saving_ns is None for item in findings):
        return tuple(findings)
    whole, made, saved_ns = Baseline(run), list[Change](), 0
    shown: list[Finding] = []
    for item in findings:
        if item.saving_ns is None:
            shown.append(item)
            continue
        if item.severity != "low":
            is_first, made = not made, [*made, *item.changes]
            more_ns = _saving(item)
            if not is_first:
                more_ns = round(whole.step_ns.central) - whole.after(made)
            saved_ns = max(saved_ns, more_ns)
        shown.append(replace(item, cumulative_saving_ns=max(saved_ns, _saving(item))))
    return tuple(shown)


def _in_order(whole: Baseline, priced: Sequence[Finding]) -> list[Finding]:
    """Return findings with the largest saving first, and a late rank before what follows from it.

    Whatever makes a rank late also shows as waits, idle time, and slow kernels. A finding with a
    larger saving stays ahead only if it still saves more once the rank is on time.
    """
    order = sorted(priced, key=lambda item: (_is_uncertain(item), -_saving(item)))
    late = next((item for item in order if item.is_lateness and _is_measurable(item, whole)), None)
    if late is None:
        return order
    ahead = []
    for item in order[: order.index(late)]:
        together = whole.step_ns.central - whole.after((*late.changes, *item.changes))
        if together >= 2 * _saving(late):
            ahead.append(item)
    first = [*ahead, late]
    return [*first, *(item for item in order if all(item is not each for each in first))]


def _on_what_remains(
    run: Run, generic: Sequence[Finding], made: Sequence[Change], whole: Baseline
) -> list[Finding]:
    """Return generic findings with their savings after the changes of earlier findings.

    The finding with the largest remaining saving comes next, uncertain ones last.
    """
    made, left, findings = list(made), list(generic), []
    while left:
        before = Baseline(run, made)
        each = [before.after(item.changes) for item in left]
        first = min(range(len(left)), key=lambda at: (_is_uncertain(left[at]), each[at]))
        item = left.pop(first)
        findings.append(_priced(item, before.predict(item.changes, item.most_ns), whole))
        made += item.changes
    return findings


def _without_repetition(whole: Baseline, findings: Sequence[Finding]) -> list[Finding]:
    """Return findings, of low severity if they add nothing to those before them.

    For example because those already remove its calls.
    """
    made: list[Change] = []
    told: list[Finding] = []
    before_ns = whole.step_ns.central
    for item in findings:
        made += item.changes
        after_ns = whole.after(made) if told else before_ns - _saving(item)
        adds = before_ns - after_ns >= MEASURABLE_RATIO * whole.typical_ns
        told.append(item if adds or not told else replace(item, severity="low"))
        before_ns = min(before_ns, after_ns)
    return told


def _priced(item: Finding, predicted: Prediction, whole: Baseline) -> Finding:
    """Return a finding with its saving, the step after it, share, and severity.

    A few slow steps do not hide the problems of the others: these have their share of a typical
    step, if that is larger than their share of the mean.
    """
    low, central, high = map(round, predicted.saving_ns)
    step_low, step, step_high = map(round, predicted.step_ns)
    # A generic finding saves of what remains, and its share is of the whole step.
    whole_ns = whole.step_ns.central
    share, part = (
        ns / whole_ns if whole_ns else 0.0 for ns in (central, predicted.before_ns.central)
    )
    if share and whole.typical_ns < whole_ns:
        typical = predicted.typical_saving_ns / max(whole.typical_ns, 1)
        part *= max(typical / share, 1.0)
        share = max(share, typical)
    share_low, share_high = part * predicted.saved_ratio.low, part * predicted.saved_ratio.high
    if item.is_conditional:
        low, share_low, step_high = 0, 0.0, max(step_high, step + central)
    return replace(
        item,
        severity=max(severity_of(share), item.most_severe, key=severity_rank),
        saving_ns=central,
        saving_low_ns=low,
        saving_high_ns=high,
        share=share,
        share_low=share_low,
        share_high=share_high,
        predicted_step_ns=step,
        predicted_step_low_ns=step_low,
        predicted_step_high_ns=step_high,
    )


def _is_measured(item: Finding) -> bool:
    """Return whether a finding concerns a part of the time that no simulation makes disappear.

    Or a state of the machine, which is there whatever it takes.
    """
    is_grave = item.severity == "high" and (item.share or 0.0) > _LEAST_SHARE
    return is_grave or item.is_of_machine


def _without_saving(item: Finding) -> Finding:
    if item.is_of_machine:
        item = replace(item, severity="low", is_conditional=False)
        return replace(item, claim=f"{item.claim} {_NOTHING}", changes=())
    return replace(item, claim=f"{item.claim} {_UNKNOWN}", changes=())


def _is_uncertain(item: Finding) -> bool:
    return item.most_severe == "low"


def _saving(item: Finding) -> int:
    return item.saving_ns or 0


def _is_measurable(item: Finding, whole: Baseline) -> bool:
    return _saving(item) >= MEASURABLE_RATIO * whole.typical_ns
