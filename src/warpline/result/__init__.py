"""Results of analyses and rules, and their registration.

An analysis is a pure function of a trace. It declares its input tables, and the meanings and units
of its columns, so that renderers, `compare` and the documentation need no code for it. A rule is a
pure function that returns findings.
"""

from warpline.result.analyses import ANALYSES, Analysis, Arguments, Compute, analysis
from warpline.result.checks import CHECKS, CheckSpec, Outcome, check
from warpline.result.diagnosis import (
    SEVERITIES,
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
    Replay,
    Severity,
    StepSummary,
)
from warpline.result.facts import (
    Facts,
    cuda_unrecorded,
    describe_meta,
    source_name,
    warnings_of,
)
from warpline.result.rules import RULES, Judge, Rule, rule
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

__all__ = [
    "ANALYSES",
    "CHECKS",
    "RULES",
    "SEVERITIES",
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
    "Replay",
    "Result",
    "Rule",
    "Severity",
    "Skipped",
    "StepSummary",
    "Texts",
    "Values",
    "analysis",
    "check",
    "column_of",
    "cuda_unrecorded",
    "describe_meta",
    "rule",
    "source_name",
    "warnings_of",
]
