"""Where the time of a run went, and what is wrong with it: the answer of `analyze`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal

from warpline.result.changes import Change
from warpline.result.tables import Document, Skipped

# Of the JSON that `analyze` writes. 2: the rule data-starved is input-bound, the idle cause data is
# input, the category normalisation is normalization; titles and sentences are worded anew.
SCHEMA_VERSION = 2

Severity = Literal["high", "medium", "low", "info"]
SEVERITIES: tuple[Severity, ...] = ("high", "medium", "low", "info")
PartKind = Literal["busy", "idle"]
CheckState = Literal["pass", "fail", "unknown"]


@dataclass(frozen=True)
class Evidence:
    """Something in the recording that a finding rests on.

    Attributes:
        text: One sentence, with its number.
        table: The table of the trace that shows it; None if it is a fact about the recording.
        rows: The first rows of that table that show it, in its total order.
        count: How many rows show it.
        windows_ns: When it was so: beginnings and ends, the first ones.
    """

    text: str
    table: str | None = None
    rows: tuple[int, ...] = ()
    count: int = 0
    windows_ns: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True)
class Finding:
    """What a rule claims about a run, with what shows it and what to do.

    Attributes:
        rule: Name of the rule, as ``warpline explain`` takes it.
        severity: One of `SEVERITIES`.
        title: A few words.
        claim: One sentence: what is so, and why it matters here.
        evidence: What shows it.
        fix: What to change.
        verify: A command, or a sentence, that shows whether the change helped.
        id: ``F1``, ``F2``... in the order of the diagnosis; empty until it is placed there.
        saving_ns: What the fix saves per step; None where nothing is predicted.
        saving_low_ns: The least it may save.
        saving_high_ns: The most it may save.
        cumulative_saving_ns: What this and all findings before it save together.
        share: The saving as a share of the step. Where nothing is predicted, which part of all
            that was measured the claim is about, or None.
        fix_cuda: The same in terms of CUDA C++, where that differs.
        is_generic: Whether it is priced on what remains after the findings that are not.
        changes: What the fix changes in the run; replay says what that saves.
    """

    rule: str
    severity: Severity
    title: str
    claim: str
    evidence: tuple[Evidence, ...]
    fix: str
    verify: str
    id: str = ""
    saving_ns: int | None = None
    saving_low_ns: int | None = None
    saving_high_ns: int | None = None
    cumulative_saving_ns: int | None = None
    share: float | None = None
    fix_cuda: str = ""
    is_generic: bool = False
    changes: tuple[Change, ...] = field(default=(), compare=False)


@dataclass(frozen=True)
class ExcludedStep:
    """A step that was recognised and is not counted.

    Attributes:
        index: Its number, as the program counts if that is known.
        label: The name of its range, if it has one.
        process: Id of the process at the operating system.
        reason: Why, in a word or a few.
    """

    index: int
    label: str | None
    process: int
    reason: str


@dataclass(frozen=True)
class StepSummary:
    """The steps that a diagnosis is about.

    Attributes:
        source: ``range:step_*``, ``periodicity``, or ``none``: then the whole trace is one.
        count: How many are counted, of the process with the most.
        median_ns: Median of a step's time on the slowest device; None without steps.
        p95_ns: 95 of 100 steps take at most this there.
        host_median_ns: Median time from the start of a step's range to the next one's.
        excluded: The steps that are not counted.
    """

    source: str
    count: int
    median_ns: float | None
    p95_ns: float | None
    host_median_ns: float | None
    excluded: tuple[ExcludedStep, ...] = ()


@dataclass(frozen=True)
class Part:
    """A share of a device's time.

    Attributes:
        category: What ran (``gemm``), or why nothing did (``launch-bound``).
        kind: Whether the device was busy or idle.
        ns: Time, summed over the steps that are counted.
        meaning: What the category says, in half a sentence.
    """

    category: str
    kind: PartKind
    ns: int
    meaning: str = ""


@dataclass(frozen=True)
class Breakdown:
    """Where the time of one process on one device went; the parts sum to the total exactly.

    Attributes:
        process: Id of the process at the operating system; None if several share the time.
        device: The producer's index of the GPU.
        device_name: Its product name.
        count: Steps counted; 0 if the whole trace is.
        total_ns: Time on the device in these steps.
        parts: Without those of no time; busy before idle, each by falling time.
        origins: Busy time by whose code ran, ``cublas`` -> ns, by falling time.
        rank: The process's rank in a distributed program, if it is known.
    """

    process: int | None
    device: int
    device_name: str | None
    count: int
    total_ns: int
    parts: tuple[Part, ...]
    origins: Mapping[str, int] = field(default_factory=dict)
    rank: int | None = None

    def ns(self, *, kind: PartKind) -> int:
        """Return the time for which the device was busy, or idle."""
        return sum(part.ns for part in self.parts if part.kind == kind)


@dataclass(frozen=True)
class Check:
    """One line of the checklist.

    Attributes:
        name: What is checked.
        state: ``pass``, ``fail`` or ``unknown``.
        found: What was found, with its number; or what is missing.
        wanted: The threshold, in words.
        reason: Why this threshold.
        value: The number that was compared; None if there is none.
        unit: Unit of the number, as column names spell it: ``ratio``, ``ns``, ``count``.
    """

    name: str
    state: CheckState
    found: str
    wanted: str
    reason: str
    value: float | None = None
    unit: str = ""


@dataclass(frozen=True)
class Overlap:
    """What ran at a time on one device for one process, ns over the steps that count.

    Attributes:
        process: Id of the process at the operating system; None if several share the time.
        device: The producer's index of the GPU.
        busy_ns: Time in which anything ran.
        concurrent_ns: Time in which operations of two or more streams ran.
        communication_ns: Time in which a collective ran.
        exposed_communication_ns: The part of it in which nothing was computed.
        copy_ns: Time in which a copy ran that is not from the device to itself.
        exposed_copy_ns: The part of it in which nothing was computed.
        waiting_ns: The part of the communication in which it waited for other ranks to begin;
            None where the trace does not tell.
    """

    process: int | None
    device: int
    busy_ns: int
    concurrent_ns: int
    communication_ns: int
    exposed_communication_ns: int
    copy_ns: int
    exposed_copy_ns: int
    waiting_ns: int | None = None


@dataclass(frozen=True)
class Phase:
    """The device time of the work launched in ranges of one path, over the steps that count.

    Attributes:
        path: Names of ranges, the outermost first; empty for what belongs to no range.
        calls: How often such a range ran in the steps that count.
        total_ns: Time of its work and of the idle time before that work, with that of the
            ranges inside it.
        self_ns: The same without the ranges inside it.
        parts: What `total_ns` is made of; sums to it exactly.
    """

    path: tuple[str, ...]
    calls: int
    total_ns: int
    self_ns: int
    parts: tuple[Part, ...]


@dataclass(frozen=True)
class CounterCandidate:
    """A kernel that is worth a run with hardware counters.

    Attributes:
        name: Its whole name.
        category: What it computes.
        ns: Time that is counted for it in the steps that count.
        instances: How often it ran there.
        share: Of the time of all devices in these steps.
        command: What to run to measure one instance of it in the middle of the run.
    """

    name: str
    category: str
    ns: int
    instances: int
    share: float
    command: str


@dataclass(frozen=True)
class Replay:
    """How well a replay of the run reproduces it: savings are no better than that.

    Attributes:
        error_ratio: Relative error of the median step, replayed unchanged with usual latencies.
        unexplained_ratio: Share of the time in which the next operation began late for no reason
            that the recording tells.
        step_ns: The median step, from the end of all work of one to the end of all of the next.
        unprofiled_ns: What it takes when nothing is recorded; None where that is not known.
        unprofiled_low_ns: At least.
        unprofiled_high_ns: At most.
    """

    error_ratio: float
    unexplained_ratio: float
    step_ns: int
    unprofiled_ns: int | None = None
    unprofiled_low_ns: int | None = None
    unprofiled_high_ns: int | None = None


@dataclass(frozen=True, kw_only=True, repr=False)
class Diagnosis(Document):
    """Where the time of a run went, and what stands out.

    Attributes:
        verdict: One sentence.
        steps: The steps it is about.
        breakdown: Each device's time, per process.
        findings: By severity.
        checks: The checklist.
        overlaps: What ran at a time on each device, per process.
        phases: The time of each range's work, in the order of the model.
        counter_candidates: Kernels worth a run with hardware counters, the longest first.
        not_judged: Rules that could say nothing, and why.
        replay: How well the run can be replayed; None if it cannot, and nothing is predicted.
    """

    verdict: str
    steps: StepSummary
    breakdown: tuple[Breakdown, ...]
    findings: tuple[Finding, ...] = ()
    checks: tuple[Check, ...] = ()
    overlaps: tuple[Overlap, ...] = ()
    phases: tuple[Phase, ...] = ()
    counter_candidates: tuple[CounterCandidate, ...] = ()
    not_judged: tuple[Skipped, ...] = ()
    replay: Replay | None = None

    def __repr__(self) -> str:
        findings = f"{len(self.findings)} findings"
        return f"<Diagnosis of {self.title}: {self.verdict} {findings}>"

    def to_dict(self) -> dict[str, Any]:
        """Return the content that ``analyze --format json`` writes; docs/analyze.md tells it."""
        return {
            "schema_version": SCHEMA_VERSION,
            "title": self.title,
            "trace": dict(self.meta),
            "steps": asdict(self.steps),
            "breakdown": [_breakdown_facts(item) for item in self.breakdown],
            "overlap": [asdict(item) for item in self.overlaps],
            "phases": [_phase_facts(item) for item in self.phases],
            "findings": [_finding_facts(item) for item in self.findings],
            "checklist": [asdict(item) for item in self.checks],
            "counter_candidates": [asdict(item) for item in self.counter_candidates],
            "replay": asdict(self.replay) if self.replay else None,
            "skipped": [
                {"rule": item.name, "reason": item.reason, "hint": item.hint}
                for item in self.not_judged
            ],
            "warnings": list(self.warnings),
            "verdict": self.verdict,
        }


def _finding_facts(item: Finding) -> dict[str, Any]:
    facts = asdict(replace(item, changes=()))
    del facts["changes"]
    return {"id": item.id, **facts}


def _breakdown_facts(item: Breakdown) -> dict[str, Any]:
    facts = asdict(item)
    return {**facts, "parts": _part_facts(item.parts, item.total_ns)}


def _phase_facts(item: Phase) -> dict[str, Any]:
    facts = asdict(item)
    return {**facts, "parts": _part_facts(item.parts, item.total_ns)}


def _part_facts(parts: tuple[Part, ...], total_ns: int) -> list[dict[str, Any]]:
    return [
        {
            "category": part.category,
            "kind": part.kind,
            "ns": part.ns,
            "share": part.ns / total_ns if total_ns else 0.0,
        }
        for part in parts
    ]
