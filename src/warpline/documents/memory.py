"""Who holds the memory of GPUs: the tables and findings that `warpline memory` shows."""

from __future__ import annotations

from warpline import plugins, progress
from warpline.comparison.tables import compare_tables
from warpline.derived.memory.labels import By
from warpline.documents.tables import compute
from warpline.errors import MissingTableError
from warpline.result import (
    RULES,
    Document,
    Field,
    Finding,
    Result,
    Skipped,
    document_of,
    severity_rank,
)
from warpline.result.tables import column_of
from warpline.trace import Run, Trace
from warpline.trace.recorder import table_hint
from warpline.units import Unit

FINDINGS = "memory_findings"
PEAK = "memory_peak"
_FIRST, _LAST = ("memory_sum", "memory_kinds"), ("memory_phases", "memory_leaks")
_RULES = (
    *("memory-growth", "fragmentation", "cache-flush", "activation-memory"),
    *("optimizer-state-memory", "gpu-memory-full", "allocator"),
)
_HOLDERS: tuple[By, ...] = ("line", "module", "operator")  # the most telling first
_NEEDS = ("allocator_event", "memory_event")
_HINT = "profile with --pytorch=memory or with --cuda-memory-usage=true"
_FIELDS = (
    Field("severity", Unit.NONE, "Severity.", "Severity"),
    Field("rule", Unit.NONE, "Name of the rule.", "Rule"),
    Field("title", Unit.NONE, "The problem.", "Problem"),
    Field("claim", Unit.NONE, "The facts, and why they matter.", "Claim"),
    Field("fix", Unit.NONE, "What to change.", "Fix"),
)


def document(run: Run, by: By | None = None) -> Document:
    """Return the tables and findings about memory.

    Args:
        run: The trace, and the choice of its steps.
        by: What the holders are named after; None for all that is known.

    Raises:
        MissingTableError: No allocations were recorded.
    """
    trace = run.trace
    require_allocations(trace)
    plugins.load("analyses")
    named = (f"{PEAK}:{each}" for each in ((by,) if by else _HOLDERS))
    tables = [*_FIRST, *named, *_LAST]
    sections: list[Result | Skipped] = []
    with progress.task("Computing tables", len(tables) + 1) as advance:
        for table in tables:
            sections.append(compute(trace, table, run.steps))
            advance(1)
        sections.append(_findings(run))
        advance(1)
    return document_of(trace, sections)


def compared(before: Document, after: Document) -> Document:
    """Return the tables of two recordings side by side, the largest differences first."""
    theirs = {section.name: section for section in after.sections}
    sections = tuple(
        compare_tables(section, theirs[section.name])
        for section in before.sections
        if section.name in theirs and section.name != FINDINGS
    )
    own = [section for section in after.sections if section.name == FINDINGS]
    paths = [*before.meta["paths"], *after.meta["paths"]]
    return Document(
        f"{before.title} and {after.title}",
        {**after.meta, "paths": paths},
        (*sections, *own),
        tuple(f"{each.title}: {warning}" for each in (before, after) for warning in each.warnings),
    )


def require_allocations(trace: Trace) -> None:
    """Raise MissingTableError if no allocations were recorded."""
    if not any(trace.has(table) and trace.row_count(table) for table in _NEEDS):
        raise MissingTableError(
            "no allocations were recorded", hint=table_hint(trace, _NEEDS, _HINT)
        )


def _findings(run: Run) -> Result:
    """Return what the rules about memory found, the most severe first."""
    found: list[Finding] = []
    for name in _RULES:
        judged = RULES.get(name).judge(run)
        found += [] if isinstance(judged, Skipped) else judged
    found.sort(key=lambda item: severity_rank(item.severity))
    columns = {
        field.name: column_of([getattr(item, field.name) for item in found]) for field in _FIELDS
    }
    return Result(FINDINGS, "Findings", _FIELDS, columns, ("rule", "title"))
