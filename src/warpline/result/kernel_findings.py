"""Findings about profiled kernels, with the time that a repair would save."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from warpline.result.diagnosis import Severity

Outcome = Literal["expected", "floor", "no-gain"]
"""What is known of the time after a repair: an expected value, a floor, or that it stays."""


@dataclass(frozen=True, slots=True)
class MetricValue:
    """A metric that a finding rests on, and its value in the metric's unit."""

    metric: str
    value: int | float
    unit: str


@dataclass(frozen=True, slots=True)
class FindingLine:
    """A source line at which a finding shows.

    Attributes:
        file: Path of the file.
        line: Line.
        text: The line; None if the file was not recorded.
        metric: What is counted there: excess sectors.
        value: How much of it.
        ratio: Part of all that the launch has.
    """

    file: str
    line: int
    text: str | None
    metric: str
    value: int | float
    ratio: float


@dataclass(frozen=True, slots=True)
class StepSaving:
    """What a repair of all launches of a kernel and shape saves of a step, in whole ns.

    Attributes:
        saving_ns: Expected saving, after the findings above; None with a floor only.
        low_ns: The least saving.
        high_ns: The most saving.
        step_ns: The step as it is, without a profiler.
    """

    saving_ns: int | None
    low_ns: int
    high_ns: int
    step_ns: int


@dataclass(frozen=True, slots=True)
class KernelInSteps:
    """The launches of a kernel and shape in a timeline of the program.

    Attributes:
        launches: Launches per step, the mean; without steps, in the whole recording. 0 if none
            has this name, grid and block.
        time_ns: Their time per step.
        step_ns: The step, without a profiler.
        source: What steps are: ``range:step_*``, ``periodicity``; None without steps.
    """

    launches: float
    time_ns: int
    step_ns: int
    source: str | None


@dataclass(frozen=True, slots=True)
class KernelFinding:
    """A finding about one launch. Times are whole ns of one launch.

    Findings of a launch are ranked. Each excess is removed from what remains after those above it,
    so that savings never add up to more than the launch takes.

    Attributes:
        rule: Id of the rule.
        title: The fault in a few words.
        severity: How much it matters.
        outcome: What is known of the time after the repair.
        claim: The facts.
        before_ns: Time before the repair: that of the launch, or after the findings above.
        low_ns: The least time after it.
        likely_ns: The expected time after it; None with a floor only.
        high_ns: The most time after it.
        limiter: What limits the launch then.
        evidence: Metrics with their values.
        fix: What to do.
        lines: Where in the source it shows most, ranked; empty if that is not known.
        step: What it saves of a step; None without a timeline, or if it lacks the kernel.
    """

    rule: str
    title: str
    severity: Severity
    outcome: Outcome
    claim: str
    before_ns: int
    low_ns: int
    likely_ns: int | None
    high_ns: int
    limiter: str
    evidence: tuple[MetricValue, ...]
    fix: str
    lines: tuple[FindingLine, ...] = ()
    step: StepSaving | None = None

    @property
    def saving_ns(self) -> int | None:
        """Expected saving; None with a floor only."""
        return None if self.likely_ns is None else self.before_ns - self.likely_ns

    @property
    def saving_low_ns(self) -> int:
        """The least saving."""
        return self.before_ns - self.high_ns

    @property
    def saving_high_ns(self) -> int:
        """The most saving."""
        return self.before_ns - self.low_ns


@dataclass(frozen=True, slots=True)
class KernelFindings:
    """The findings of a launch that stands for all of its kernel and shape.

    Attributes:
        name: Name of the kernel.
        shape: Grid and block, such as ``2048x256``.
        launches: Number of launches.
        time_ns: Duration of this one, the median.
        busiest: The busiest resource.
        busiest_ratio: Its use, of its peak, on the busiest SM.
        has_conversions: Whether conversions between types were counted, which some rules need.
        findings: The findings, ranked.
        in_steps: Its launches in the timeline; None without one.
    """

    name: str
    shape: str
    launches: int
    time_ns: int
    busiest: str
    busiest_ratio: float
    has_conversions: bool
    findings: tuple[KernelFinding, ...]
    in_steps: KernelInSteps | None = None
