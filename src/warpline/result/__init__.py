"""Results of analyses and rules, and their registration.

An analysis is a pure function of a trace. It declares its input tables, and the meanings and units
of its columns, so that renderers, `compare` and the documentation need no code for it. A rule is a
pure function that returns findings.
"""

from typing import TYPE_CHECKING

from warpline.lazy import lazy_names
from warpline.result.analyses import ANALYSES, Analysis, Arguments, Compute, analysis
from warpline.result.facts import (
    Facts,
    cuda_unrecorded,
    describe_meta,
    document_of,
    source_name,
    warnings_of,
)
from warpline.result.tables import (
    Document,
    Field,
    Numbers,
    Result,
    Skipped,
    Texts,
    Values,
    column_of,
)

if TYPE_CHECKING:
    from warpline.result.checks import CHECKS, CheckSpec, Outcome, check, states_in_words
    from warpline.result.diagnosis import (
        CHECK_STATES,
        PART_KINDS,
        SEVERITIES,
        TAIL,
        Breakdown,
        Check,
        CheckState,
        CounterCandidate,
        Diagnosis,
        Evidence,
        ExcludedStep,
        Finding,
        OnDevice,
        Overlap,
        Part,
        PartKind,
        Phase,
        Program,
        Replay,
        Severity,
        StepCandidate,
        StepSummary,
        TrainingPhase,
        severity_rank,
    )
    from warpline.result.rules import RULES, Judge, Rule, rule
else:
    __getattr__ = lazy_names(
        __name__,
        {
            "checks": ("CHECKS", "CheckSpec", "Outcome", "check", "states_in_words"),
            "diagnosis": (
                "CHECK_STATES",
                "PART_KINDS",
                "SEVERITIES",
                "TAIL",
                "Breakdown",
                "Check",
                "CheckState",
                "CounterCandidate",
                "Diagnosis",
                "Evidence",
                "ExcludedStep",
                "Finding",
                "OnDevice",
                "Overlap",
                "Part",
                "PartKind",
                "Phase",
                "TrainingPhase",
                "Program",
                "Replay",
                "Severity",
                "StepCandidate",
                "StepSummary",
                "severity_rank",
            ),
            "rules": ("RULES", "Judge", "Rule", "rule"),
        },
    )

__all__ = [
    "ANALYSES",
    "CHECKS",
    "CHECK_STATES",
    "PART_KINDS",
    "RULES",
    "SEVERITIES",
    "TAIL",
    "Analysis",
    "Arguments",
    "Breakdown",
    "Check",
    "CheckSpec",
    "CheckState",
    "Compute",
    "CounterCandidate",
    "Diagnosis",
    "Document",
    "Evidence",
    "ExcludedStep",
    "Facts",
    "Field",
    "Finding",
    "Judge",
    "Numbers",
    "OnDevice",
    "Outcome",
    "Overlap",
    "Part",
    "PartKind",
    "Phase",
    "Program",
    "Replay",
    "Result",
    "Rule",
    "Severity",
    "Skipped",
    "StepCandidate",
    "StepSummary",
    "Texts",
    "TrainingPhase",
    "Values",
    "analysis",
    "check",
    "column_of",
    "cuda_unrecorded",
    "describe_meta",
    "document_of",
    "rule",
    "severity_rank",
    "source_name",
    "states_in_words",
    "warnings_of",
]
