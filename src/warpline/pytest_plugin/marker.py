"""What the marker ``warpline`` asks for."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import pytest

from warpline import plugins
from warpline.comparison import limits
from warpline.comparison.bounds import BOUNDED, Bound, parse_bound
from warpline.comparison.limits import Limit
from warpline.errors import UsageError
from warpline.result.diagnosis import SEVERITIES
from warpline.result.rules import RULES

DEFAULT_FAIL_ON = "step:2%"  # as warpline gate
DEFAULT_TRACE = "cuda,nvtx"
_TEXTS = ("no_findings", "baseline", "fail_on", "undecided", "steps", "trace")
_KNOWN = (*BOUNDED, *_TEXTS)
_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9._@+-]+")


class Wanted(NamedTuple):
    """The limits of a test, and how it is recorded.

    Attributes:
        bounds: Limits of single metrics.
        no_findings: Severities and rules of which there may be no finding.
        baseline: Name of the baseline to compare with; None for none.
        fail_on: How much metrics may grow since the baseline.
        passes_undecided: Whether a comparison that cannot decide passes.
        steps: Name of the NVTX ranges that are steps; None detects steps.
        trace: APIs to trace.
    """

    bounds: tuple[Bound, ...] = ()
    no_findings: tuple[str, ...] = ()
    baseline: str | None = None
    fail_on: tuple[Limit, ...] = ()
    passes_undecided: bool = False
    steps: str | None = None
    trace: str = DEFAULT_TRACE

    @property
    def has_limits(self) -> bool:
        """Whether there is anything to check."""
        return bool(self.bounds or self.no_findings or self.baseline)

    @property
    def needs_memory(self) -> bool:
        """Whether allocations must be recorded."""
        return any(bound.metric == "memory_peak" for bound in self.bounds) or any(
            limit.kind == "memory-peak" for limit in self.fail_on
        )


def of_markers(markers: Iterable[pytest.Mark], test: str) -> Wanted:
    """Return what the markers of a test ask for; the closest one wins.

    Args:
        markers: Those of the test, its class and its module, the closest first.
        test: Name of the test, which takes the place of ``{test}`` in the name of a baseline.

    Raises:
        UsageError: A keyword or its value is wrong.
    """
    found: dict[str, Any] = {}
    for marker in markers:
        if marker.args:
            raise UsageError(
                f"warpline({marker.args[0]!r}): limits have names",
                hint='use @pytest.mark.warpline(step_ms="<= 12")',
            )
        found = {**marker.kwargs, **found}
    return wanted(found, test)


def wanted(given: Mapping[str, Any], test: str = "") -> Wanted:
    """Return what keywords ask for; UsageError if one is wrong."""
    for name, value in given.items():
        _check(name, value)
    baseline = given.get("baseline")
    fail_on = given.get("fail_on")
    if fail_on is not None and baseline is None:
        raise UsageError("fail_on compares with a baseline", hint='add baseline="main"')
    undecided = given.get("undecided", "fail")
    if undecided not in {"fail", "pass"}:
        raise UsageError(f"undecided={undecided!r}", hint='use undecided="fail" or "pass"')
    if baseline is not None:
        baseline = baseline.replace("{test}", _NOT_IN_NAMES.sub("-", test).strip("-"))
    return Wanted(
        bounds=tuple(parse_bound(name, given[name]) for name in BOUNDED if name in given),
        no_findings=_findings(given["no_findings"]) if given.get("no_findings") else (),
        baseline=baseline,
        fail_on=limits.parse(fail_on or DEFAULT_FAIL_ON) if baseline is not None else (),
        passes_undecided=undecided == "pass",
        steps=given.get("steps"),
        trace=given.get("trace", DEFAULT_TRACE),
    )


def _check(name: str, value: Any) -> None:
    if name not in _KNOWN:
        near = difflib.get_close_matches(name, _KNOWN, n=1)
        hint = f"did you mean {near[0]}?" if near else f"use {', '.join(_KNOWN)}"
        raise UsageError(f"warpline has no limit {name!r}", hint=hint)
    kinds = (str,) if name in _TEXTS else (str, int, float)
    if not isinstance(value, kinds) and not (name == "steps" and value is None):
        raise UsageError(f"{name}={value!r} is not a text", hint="put it into quotation marks")


def _findings(text: str) -> tuple[str, ...]:
    """Return severities and rules, these by their present names."""
    words = [word.strip() for word in text.split(",") if word.strip()]
    if not words:
        raise UsageError(f"no_findings={text!r} names nothing", hint='use no_findings="high"')
    return tuple(map(_severity_or_rule, words))


def _severity_or_rule(word: str) -> str:
    """Return a severity, or the present name of a rule."""
    if word in SEVERITIES:
        return word
    plugins.load("analyses")
    if word in RULES:
        return RULES.get(word).name
    near = difflib.get_close_matches(word, [*SEVERITIES, *RULES.names()], n=2)
    raise UsageError(
        f"no_findings={word!r}: there is no such severity or rule",
        hint=f"did you mean {' or '.join(near)}?"
        if near
        else f"use {', '.join(SEVERITIES)}, or a rule of docs/findings.md",
    )
