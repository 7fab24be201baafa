"""Limits of a gate, as they are typed: ``step:3%,exposed-communication:2ms,finding:high``."""

from __future__ import annotations

import re
from typing import NamedTuple

from warpline.errors import UsageError
from warpline.result.diagnosis import SEVERITIES
from warpline.units import parse_ns

FINDING = "finding"
# Metrics with a name of their own, and those that a pattern follows.
PLAIN = ("step", "exposed-communication", "memory-peak")
PATTERNED = ("kernel", "busy", "idle")
_BYTES = {"b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "kib": 2**10, "mib": 2**20, "gib": 2**30}
_SIZE = re.compile(r"([0-9]+\.?[0-9]*|\.[0-9]+)\s*([a-zA-Z]+)")
_HINT = (
    "use METRIC:LIMIT, such as step:3%, exposed-communication:2ms, memory-peak:5%,"
    " kernel:*attention*:10%, idle:host-sync:1ms or finding:high"
)


class Limit(NamedTuple):
    """How much a metric may grow.

    Attributes:
        kind: A name of `PLAIN` or `PATTERNED`, or `FINDING`.
        pattern: The pattern of names with ``*``; of findings, a severity or a rule. Empty for
            plain metrics.
        text: The limit as it was typed.
        value: The limit: a share if `is_relative`, otherwise ns or bytes. 0 for findings.
        is_relative: Whether it is a share of the value before.
    """

    kind: str
    pattern: str
    text: str
    value: float
    is_relative: bool

    @property
    def is_rule(self) -> bool:
        """Whether it is about the findings of one rule."""
        return self.kind == FINDING and self.pattern not in SEVERITIES

    @property
    def metric(self) -> str:
        """The metric as it was typed."""
        if self.kind == FINDING:
            return FINDING
        return f"{self.kind}:{self.pattern}" if self.pattern else self.kind


def parse(text: str) -> tuple[Limit, ...]:
    """Return the limits of a comma-separated list.

    Raises:
        UsageError: A metric is unknown, or a limit is not one.
    """
    limits = tuple(_limit(word.strip()) for word in text.split(",") if word.strip())
    if not limits:
        raise UsageError("no limit named", hint=_HINT)
    names = [(item.metric, item.pattern) for item in limits]
    for name in names:
        if names.count(name) > 1:
            raise UsageError(f"two limits for {name[0]}", hint="name each metric once")
    return limits


def parse_metric(text: str) -> Limit:
    """Return a metric without a limit: ``step``, ``kernel:*attention*``.

    Raises:
        UsageError: It is unknown, or about findings.
    """
    if text.partition(":")[0] == FINDING:
        raise UsageError("findings are not numbers", hint="use step, memory-peak or kernel:PATTERN")
    return _limit(f"{text}:1%")._replace(text="", value=0.0)


def _limit(word: str) -> Limit:
    kind, _, rest = word.partition(":")
    if kind == FINDING:
        return _finding(rest)
    pattern, found, text = rest.rpartition(":")
    if kind in PLAIN:
        if found or not text:
            raise UsageError(f"{word!r} is not a limit", hint=_HINT)
    elif kind not in PATTERNED:
        raise UsageError(f"unknown metric {kind!r}", hint=_HINT)
    elif not pattern:
        raise UsageError(f"{word!r} lacks a pattern or a limit", hint=_HINT)
    value = _share(text) if text.endswith("%") else _amount(text, is_size=kind == "memory-peak")
    if value is None:
        raise UsageError(f"{text!r} is not a limit for {kind}", hint=_HINT)
    return Limit(kind, pattern, text, value, text.endswith("%"))


def _finding(word: str) -> Limit:
    if not word or ":" in word:
        raise UsageError(
            f"finding:{word} is not a limit",
            hint=f"use finding:SEVERITY ({', '.join(SEVERITIES)}) or finding:RULE",
        )
    return Limit(FINDING, word, word, 0.0, is_relative=False)


def _share(text: str) -> float | None:
    try:
        value = float(text.removesuffix("%")) / 100.0
    except ValueError:
        return None
    return value if 0.0 < value <= 10.0 else None


def _amount(text: str, *, is_size: bool) -> float | None:
    if is_size:
        return parse_bytes(text)
    if not text or text[-1].isdigit():
        return None  # a bare number: 2 of what?
    try:
        value = float(parse_ns(text))
    except ValueError:
        return None
    return value if value > 0.0 else None


def parse_bytes(text: str) -> float | None:
    """Return the bytes that ``8 GiB`` or ``500MB`` stands for; None for another text."""
    found = _SIZE.fullmatch(text)
    unit = _BYTES.get(found[2].lower()) if found else None
    return float(found[1]) * unit if found and unit else None
