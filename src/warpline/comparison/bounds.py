"""Limits that one side must keep by itself: ``step_ms <= 12``, ``idle <= 10%``."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple

import numpy as np

from warpline.comparison.gate import metric_values
from warpline.comparison.limits import Limit, parse_bytes
from warpline.comparison.summary import Summary, at_least
from warpline.errors import UsageError
from warpline.result.diagnosis import SEVERITIES
from warpline.result.profile import steps_in_words
from warpline.units import format_bytes, format_ns, format_ratio, plural

Outcome = Literal["ok", "failed", "unknown", "undecided"]

STEP, IDLE, MEMORY, FINDINGS = "step_ms", "idle", "memory_peak", "no_findings"
BOUNDED = (STEP, IDLE, MEMORY)
_EXAMPLES = {STEP: "<= 12", IDLE: "<= 10%", MEMORY: "<= 8 GiB"}
_WORDS = re.compile(r"\s*(<=?)?\s*(.*?)\s*")
_NO_GPU_WORK = "there is no GPU work in the recording"
NO_STEP = (
    "there is no step in the recording: put each step into an NVTX range named step, or name the"
    ' ranges that are steps with steps="NAME"'
)
_LEAST_SHARE = 0.0005  # below, it is shown as 0.0%
_NAMED = 3  # of the causes of idle time


class Bound(NamedTuple):
    """The most that a metric may be.

    Attributes:
        metric: A name of `BOUNDED`.
        text: The bound in words: ``<= 12 ms``.
        value: The same in ns, as a share, or in bytes.
        is_strict: Whether a value that equals it is too much.
    """

    metric: str
    text: str
    value: float
    is_strict: bool

    def holds(self, value: float) -> bool:
        """Return whether a value is within the bound."""
        return value < self.value if self.is_strict else value <= self.value


class Held(NamedTuple):
    """Whether a limit holds.

    Attributes:
        metric: What is limited.
        outcome: ``ok``, ``failed``, ``unknown`` if the recording lacks what it needs, or
            ``undecided`` if the difference from a baseline may be chance.
        said: The value and the limit; or why it is unknown.
        value: The value in ns, as a share, or in bytes; None if unknown, or not a number.
        of_what: What the value is of: ``mean of 19 steps``; may be empty.
    """

    metric: str
    outcome: Outcome
    said: str
    value: float | None = None
    of_what: str = ""


def parse_bound(metric: str, text: str | float) -> Bound:
    """Return the bound that a text such as ``<= 8 GiB`` stands for; without a sign, it is ``<=``.

    Args:
        metric: A name of `BOUNDED`.
        text: Of step_ms a number of milliseconds, of idle a percentage, of memory_peak a size.

    Raises:
        UsageError: It is none.
    """
    found = _WORDS.fullmatch(str(text))
    sign, amount = (found[1] or "<=", found[2]) if found else ("", "")
    value, shown = None, amount
    if metric == MEMORY:
        value = parse_bytes(amount)
    elif metric == STEP or amount.endswith("%"):
        unit, scale = (" ms", 1e6) if metric == STEP else ("%", 0.01)
        number = amount.removesuffix(unit.strip()).strip()
        value, shown = _number(number), f"{number}{unit}"
        value = None if value is None else value * scale
    if value is None or isinstance(text, bool):
        raise UsageError(
            f"{metric}={text!r} is not a limit", hint=f'use {metric}="{_EXAMPLES[metric]}"'
        )
    return Bound(metric, f"{sign} {shown}", value, is_strict=sign == "<")


def _number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) and value >= 0 else None


class Measured(NamedTuple):
    """A metric of one side.

    Attributes:
        value: The value in ns, as a share, or in bytes. Of several runs, their mean.
        text: The value in readable units.
        of_what: What the value is of; may be empty.
    """

    value: float
    text: str
    of_what: str


def judge_bound(side: Summary, bound: Bound) -> Held:
    """Return whether a side keeps a bound."""
    found = measure(side, bound.metric)
    if isinstance(found, str):
        return Held(bound.metric, "unknown", found)
    outcome: Outcome = "ok" if bound.holds(found.value) else "failed"
    said = f"{found.text}, limit {bound.text}"
    return Held(bound.metric, outcome, said, found.value, found.of_what)


def measure(side: Summary, metric: str) -> Measured | str:
    """Return a metric of `BOUNDED`, or why it is unknown."""
    return {STEP: _step, IDLE: _idle, MEMORY: _memory}[metric](side)


def _step(side: Summary) -> Measured | str:
    if not has_steps(side):
        return NO_STEP
    source = steps_in_words(side.source)
    if side.runs > 1:
        each = [float(np.mean(run)) for run in side.step_ns]
        what = f"mean of {plural(side.runs, 'run')}, {source}"
    else:
        each = list(side.step_ns[0])
        what = f"mean of {plural(len(each), 'step')}, {source}"
    if len(each) > 1:
        what += f", {format_ns(min(each))} to {format_ns(max(each))}"
    return Measured(side.mean_ns, format_ns(side.mean_ns), what)


def _idle(side: Summary) -> Measured | str:
    if not side.parts_ns:
        return _NO_GPU_WORK
    all_ns = sum(map(sum, side.parts_ns.values()))
    causes = {
        name.removeprefix("idle:"): sum(ns) / all_ns
        for name, ns in side.parts_ns.items()
        if name.startswith("idle:")
    }
    seen = [name for name, share in causes.items() if share >= _LEAST_SHARE]
    largest = sorted(seen, key=lambda name: -causes[name])[:_NAMED]
    more = [f"{name} {format_ratio(causes[name])}" for name in largest]
    if not has_steps(side):
        more.append("of the whole recording, which has no steps")
    return Measured(sum(causes.values()), format_ratio(sum(causes.values())), ", ".join(more))


def _memory(side: Summary) -> Measured | str:
    if not side.memory_peak_bytes and not side.parts_ns:
        return _NO_GPU_WORK
    found = metric_values(side, Limit("memory-peak", "", "", 0.0, is_relative=False))
    if isinstance(found, str):
        return found
    mean = float(np.mean(found))
    more = f"mean of {plural(side.runs, 'run')}" if side.runs > 1 else ""
    return Measured(mean, format_bytes(mean), more)


def judge_findings(side: Summary, names: Sequence[str]) -> Held:
    """Return whether a side has no finding of a severity or higher, or of a rule.

    Args:
        side: The runs. Of several, those findings count that most runs have.
        names: Severities and rules, at least one.
    """
    if not side.parts_ns:
        return Held(FINDINGS, "unknown", f"{_NO_GPU_WORK} that rules could judge")
    found = _chosen(side.findings, names)
    limit = " or ".join(f"{name} or higher" if name in SEVERITIES[1:] else name for name in names)
    if not found:
        return Held(FINDINGS, "ok", f"no finding is {limit}")
    said = ", ".join(f"{rule} ({severity})" for rule, severity in found.items())
    return Held(FINDINGS, "failed", f"{said}; limit: none that is {limit}")


def _chosen(findings: Mapping[str, str], names: Sequence[str]) -> dict[str, str]:
    severities = [word for word in SEVERITIES if word in names]
    grave = at_least(severities[-1]) if severities else frozenset()
    return {
        rule: severity for rule, severity in findings.items() if severity in grave or rule in names
    }


def has_steps(side: Summary) -> bool:
    """Return whether every run has steps, so that its times are of steps."""
    return "none" not in side.source.replace("cpu:", "").split(", ")
