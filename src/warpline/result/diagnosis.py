"""The result of `analyze`: where the time of a run went, and its performance problems."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal, get_args

from warpline.estimate import Estimate
from warpline.lazy import lazy_pattern
from warpline.result.changes import Change
from warpline.result.display import Displayed
from warpline.result.tables import Document, Skipped

# Of the JSON that `analyze` writes. 2: rule data-starved is now input-bound, idle cause data is
# input, category normalisation is normalization, check state "can't tell" is unknown, and titles,
# sentences and names of checks have new wording.
SCHEMA_VERSION = 2

Severity = Literal["high", "medium", "low", "info"]
SEVERITIES: tuple[Severity, ...] = get_args(Severity)
# The kinds of programs that advice differs by. "cuda" is any program without a known framework.
Program = Literal["pytorch", "jax", "cuda"]
PartKind = Literal["busy", "idle"]
PART_KINDS: tuple[PartKind, ...] = get_args(PartKind)
CheckState = Literal["pass", "fail", "unknown"]
CHECK_STATES: tuple[CheckState, ...] = get_args(CheckState)
# The cause of idle time before the first and after the last operation.
TAIL = "tail"
_CUDA_FUNCTION = lazy_pattern(r"\bcuda(?=[A-Z])")


def severity_rank(severity: Severity) -> int:
    """Return the place of a severity, 0 for the highest: findings are sorted by it."""
    return SEVERITIES.index(severity)


@dataclass(frozen=True)
class Evidence:
    """A fact in the recording that supports a finding.

    Attributes:
        text: One sentence, with its number.
        table: The table of the trace with the evidence; None for facts about the recording.
        rows: The first such rows of that table, in its total order.
        count: Number of such rows.
        windows_ns: Start and end times of the first occurrences.
    """

    text: str
    table: str | None = None
    rows: tuple[int, ...] = ()
    count: int = 0
    windows_ns: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True)
class OnDevice:
    """What a finding is about, on one device of one process, over its included steps.

    Attributes:
        process: Process id; None if several processes share the device.
        rank: The process's rank in a distributed program, if known.
        device: Index of the GPU, as recorded.
        steps: Number of included steps of the process; 0 if the whole trace is analyzed.
        ns: Time of operations or idle time of the device in these steps, or the CPU time of calls
            for it, as the claim says; divide by `steps` for the time per step.
        number: Number of operations or calls in these steps; None for idle time.
    """

    process: int | None
    rank: int | None
    device: int
    steps: int
    ns: int
    number: int | None = None


@dataclass(frozen=True, repr=False)
class Finding(Displayed):
    """A performance problem reported by a rule, with evidence and a fix.

    Attributes:
        rule: Name of the rule, as ``warpline explain`` takes it.
        severity: One of `SEVERITIES`.
        title: A few words.
        claim: A sentence or two: the facts, and why they matter here.
        evidence: The facts in the recording that support the claim.
        fix: What to change. A rule gives it for PyTorch, a diagnosis for the recorded program.
        verify: A command or sentence on how to check whether the fix helped.
        id: ``F1``, ``F2``... in the order of the diagnosis; empty before that.
        saving_ns: Estimated saving per step; None if not predicted.
        saving_low_ns: Lower bound of the saving, when the program is measured: its CPU and GPU need
            not be as fast as in the recording. All bounds also are for the errors of measured
            pairs: of 34 steps that were predicted blind, 29 lie inside (docs/findings.md).
        saving_high_ns: Upper bound of the saving.
        cumulative_saving_ns: Saving of this finding and all findings before it together.
        share: The saving as a share of the step. If not predicted, the share of the measured time
            that the claim concerns, or None.
        share_low: Lower bound of a saving's share, at one speed of CPU and GPU before and after the
            fix: of the same pairs, 22 lie inside. None if not predicted.
        share_high: Upper bound of the saving's share.
        predicted_step_ns: Estimated step after the fix; of a generic finding, after those before
            it, too. None if not predicted. Steps and savings are without profiling (see
            `StepSummary.unprofiled_ns`).
        predicted_step_low_ns: Lower bound.
        predicted_step_high_ns: Upper bound.
        fix_cuda: The fix in CUDA C++, if that differs.
        fix_in: The fix in the words of other kinds of programs, where the rule has one.
        is_generic: Whether its saving is estimated after fixing all findings that are not generic.
        is_lateness: Whether it is about a rank that the others wait for. It precedes findings that
            save less once that rank is on time.
        follows: Rules whose problems stand in the way of this fix, or cause a part of this problem.
            If they matter, their findings come first.
        changes: The changes that the fix makes to the run, the input of the simulation.
        most_ns: The most that the fix can save per step, whatever the simulation says: GPU and idle
            time that the claim is about, each bound at the end of what is uncertain about it. None
            if the simulation alone decides.
        on_devices: The facts per process and device, ascending. The longest of their times per step
            is the time in the claim; of ranks that wait, the mean is. Empty if it is not about
            devices, or about calls of threads that launched work on several.
        most_severe: The highest severity that it gets, whatever its saving: ``low`` for a rule
            whose savings no measurement has confirmed.
        is_conditional: Whether the saving depends on what the claim assumes and no recording
            shows. Then it is an upper bound: the lower one is 0.
        is_of_machine: Whether it is about the state of the machine, not about the program: it is
            reported even if its fix saves nothing in this run.
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
    share_low: float | None = None
    share_high: float | None = None
    predicted_step_ns: int | None = None
    predicted_step_low_ns: int | None = None
    predicted_step_high_ns: int | None = None
    fix_cuda: str = ""
    fix_in: Mapping[Program, str] = field(default_factory=dict, compare=False)
    is_generic: bool = False
    is_lateness: bool = field(default=False, compare=False)
    follows: tuple[str, ...] = field(default=(), compare=False)
    changes: tuple[Change, ...] = field(default=(), compare=False)
    most_ns: Estimate | None = field(default=None, compare=False)
    on_devices: tuple[OnDevice, ...] = ()
    most_severe: Severity = field(default="high", compare=False)
    is_conditional: bool = field(default=False, compare=False)
    is_of_machine: bool = field(default=False, compare=False)

    def __repr__(self) -> str:
        name = " ".join(part for part in (self.id, self.severity, self.rule) if part)
        return f"<Finding {name}: {self.title}>"

    def for_program(self, program: Program | None) -> Finding:
        """Return the finding with the fix for a kind of program; unchanged if that is unknown.

        A program without advice of its own gets that for CUDA C++.
        """
        if program is None or program == "pytorch":
            return self
        fix = self.fix_in.get(program) or self.fix_cuda or self.fix
        return replace(self, fix=fix, fix_cuda="" if fix == self.fix_cuda else self.fix_cuda)

    def for_hip(self) -> Finding:
        """Return the finding with the names of HIP's functions instead of CUDA's."""
        return replace(
            self,
            title=_in_hip(self.title),
            claim=_in_hip(self.claim),
            fix=_in_hip(self.fix),
            verify=_in_hip(self.verify),
            fix_cuda=_in_hip(self.fix_cuda),
        )


def _in_hip(text: str) -> str:
    renamed = _CUDA_FUNCTION.sub("hip", text)
    return renamed.replace("hipHostAlloc", "hipHostMalloc")


@dataclass(frozen=True)
class ExcludedStep:
    """A step that was detected and excluded.

    Attributes:
        index: Its number, as the program counts it if known.
        label: The name of its range, if any.
        process: Process id.
        reason: The reason in a few words.
        cause: What made it longer, such as ``compilation``, if that is known.
    """

    index: int
    label: str | None
    process: int
    reason: str
    cause: str | None = None


@dataclass(frozen=True)
class StepCandidate:
    """Ranges that might be the steps of a program whose steps no range names.

    Attributes:
        name: The name or pattern that selects them: ``analyze --steps-from NAME``.
        count: Number of ranges, of the process with the most.
        coverage_ratio: Fraction of the GPU operations that are launched within.
    """

    name: str
    count: int
    coverage_ratio: float


@dataclass(frozen=True)
class StepSummary:
    """The analyzed steps.

    Attributes:
        source: ``range:step_*``, ``periodicity``, or ``none``: the whole trace is analyzed.
        count: Number of included steps, of the process with the most.
        median_ns: Median step time on the slowest device; None without steps.
        p95_ns: 95th percentile of the step time on that device.
        host_median_ns: Median time from the start of a step to the start of the next on the CPU.
        excluded: The excluded steps.
        unprofiled_ns: Estimated step time without profiling, which savings are of; None if the
            overhead of the profiler is unknown, or nothing could be simulated.
        unprofiled_low_ns: Lower bound.
        unprofiled_high_ns: Upper bound.
        is_inferred: Whether they are inferred from repeating launches, since no range names them.
        notes: Caveats, such as why repeating launches do not count as steps.
        candidates: Ranges that might be the steps, if no range names them.
    """

    source: str
    count: int
    median_ns: float | None
    p95_ns: float | None
    host_median_ns: float | None
    excluded: tuple[ExcludedStep, ...] = ()
    unprofiled_ns: int | None = None
    unprofiled_low_ns: int | None = None
    unprofiled_high_ns: int | None = None
    is_inferred: bool = False
    notes: tuple[str, ...] = ()
    candidates: tuple[StepCandidate, ...] = ()


@dataclass(frozen=True)
class Part:
    """A share of a device's time.

    Attributes:
        category: Category of the work (``gemm``), or cause of idle time (``launch-bound``).
        kind: Whether the device was busy or idle.
        ns: Total time in the included steps.
        meaning: Meaning of the category, in a few words.
    """

    category: str
    kind: PartKind
    ns: int
    meaning: str = ""


@dataclass(frozen=True)
class Breakdown:
    """Where the time of one process on one device went; the parts sum exactly to the total.

    Attributes:
        process: Process id; None if several processes share the device.
        device: Index of the GPU, as recorded.
        device_name: Its product name.
        count: Number of included steps; 0 if the whole trace is analyzed.
        total_ns: Time on the device in these steps.
        parts: Non-zero parts; busy before idle, each in descending order of time.
        origins: Busy time by library, ``cublas`` -> ns, in descending order.
        rank: The process's rank in a distributed program, if known.
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
        """Return the busy or idle time of the device."""
        return sum(part.ns for part in self.parts if part.kind == kind)


@dataclass(frozen=True)
class Check:
    """One check of the checklist.

    Attributes:
        name: Name of the check.
        state: ``pass``, ``fail`` or ``unknown``.
        found: The measured value as text, or the missing data.
        wanted: The target as text.
        reason: Why it matters.
        value: The number compared with the target; None if there is none.
        unit: Unit of the number, as in column names: ``ratio``, ``ns``, ``count``.
        id: Its id, which stays the same when its name changes: ``gpu-busy``.
    """

    name: str
    state: CheckState
    found: str
    wanted: str
    reason: str
    value: float | None = None
    unit: str = ""
    id: str = ""


@dataclass(frozen=True)
class Overlap:
    """Overlap on one device for one process, in ns over the included steps.

    Attributes:
        process: Process id; None if several processes share the device.
        device: Index of the GPU, as recorded.
        busy_ns: Time of any operation.
        concurrent_ns: Time with concurrent operations of two or more streams.
        communication_ns: Time of collectives.
        exposed_communication_ns: The part of it without concurrent compute.
        copy_ns: Time of copies.
        exposed_copy_ns: The part of it without a concurrent kernel.
        waiting_ns: The part of the communication spent waiting for other ranks to arrive; None if
            unknown.
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
    """The device time of work launched in ranges of one path, over the included steps.

    Attributes:
        path: Names of ranges, outermost first; empty for work outside ranges.
        calls: Number of such ranges in the included steps.
        total_ns: Time of its work and idle time before that work, including nested ranges.
        self_ns: The same without nested ranges.
        parts: The parts of `total_ns`; they sum exactly to it.
    """

    path: tuple[str, ...]
    calls: int
    total_ns: int
    self_ns: int
    parts: tuple[Part, ...]


@dataclass(frozen=True)
class TrainingPhase:
    """The device time of a phase of training, over the included steps; the phases sum to all.

    Attributes:
        name: ``forward``, ``backward``, ``optimizer``, ``data`` or ``other``.
        meaning: What belongs to it, in a few words.
        total_ns: Time of its work and idle time before that work.
        parts: The parts of `total_ns`; they sum exactly to it.
    """

    name: str
    meaning: str
    total_ns: int
    parts: tuple[Part, ...]


@dataclass(frozen=True)
class CounterCandidate:
    """A kernel to profile with Nsight Compute.

    Attributes:
        name: Its full name.
        category: Its category.
        ns: Time attributed to it in the included steps.
        instances: Number of instances in these steps.
        share: Share of the time of all devices in these steps.
        command: The command that profiles one typical instance.
    """

    name: str
    category: str
    ns: int
    instances: int
    share: float
    command: str


@dataclass(frozen=True)
class Replay:
    """Accuracy of the simulation of the run, which limits the accuracy of estimated savings.

    Attributes:
        error_ratio: Relative error of the median step, simulated unchanged with typical latencies.
        unexplained_ratio: Share of the time during which the next operation was late without a
            recorded reason.
        step_ns: The median step, from the end of all its work to the end of the next step's.
        unprofiled_ns: Its estimated duration without profiling; None if unknown.
        unprofiled_low_ns: Lower bound.
        unprofiled_high_ns: Upper bound.
    """

    error_ratio: float
    unexplained_ratio: float
    step_ns: int
    unprofiled_ns: int | None = None
    unprofiled_low_ns: int | None = None
    unprofiled_high_ns: int | None = None


@dataclass(frozen=True, kw_only=True, repr=False)
class Diagnosis(Document):
    """Where the time of a run went, and its performance problems.

    Attributes:
        verdict: A few sentences: the main result, and what to fix first.
        steps: The analyzed steps.
        breakdown: Each device's time, per process.
        findings: By severity.
        checks: The checklist.
        overlaps: Overlap on each device, per process.
        phases: The time of each range's work, in program order.
        training: The time of each phase of training, if modules or backward functions of PyTorch
            were recorded.
        counter_candidates: Kernels to profile with Nsight Compute, longest first.
        not_judged: Rules that were skipped, and why.
        replay: Accuracy of the simulation; None if it fails, so that nothing is predicted.
    """

    verdict: str
    steps: StepSummary
    breakdown: tuple[Breakdown, ...]
    findings: tuple[Finding, ...] = ()
    checks: tuple[Check, ...] = ()
    overlaps: tuple[Overlap, ...] = ()
    phases: tuple[Phase, ...] = ()
    training: tuple[TrainingPhase, ...] = ()
    counter_candidates: tuple[CounterCandidate, ...] = ()
    not_judged: tuple[Skipped, ...] = ()
    replay: Replay | None = None

    def __repr__(self) -> str:
        count = len(self.findings)
        findings = f"{count} finding" if count == 1 else f"{count} findings"
        return f"<Diagnosis of {self.title}: {self.verdict} {findings}>"

    def to_dict(self) -> dict[str, Any]:
        """Return the content of ``analyze --format json``, described in docs/analyze.md."""
        return {
            "schema_version": SCHEMA_VERSION,
            "title": self.title,
            "trace": dict(self.meta),
            "steps": asdict(self.steps),
            "breakdown": [_breakdown_facts(item) for item in self.breakdown],
            "overlap": [asdict(item) for item in self.overlaps],
            "phases": [_phase_facts(item) for item in self.phases],
            "training": [_phase_facts(item) for item in self.training],
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


# Attributes of findings that the JSON lacks.
_INTERNAL = (
    *("changes", "fix_in", "follows", "most_ns", "most_severe", "is_conditional"),
    "is_of_machine",
)


def _finding_facts(item: Finding) -> dict[str, Any]:
    facts = asdict(replace(item, changes=()))
    for internal in _INTERNAL:
        del facts[internal]
    return {"id": item.id, **facts}


def _breakdown_facts(item: Breakdown) -> dict[str, Any]:
    facts = asdict(item)
    return {**facts, "parts": _part_facts(item.parts, item.total_ns)}


def _phase_facts(item: Phase | TrainingPhase) -> dict[str, Any]:
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
