"""The findings: claim, evidence, estimated saving, and what to do."""

from __future__ import annotations

from collections.abc import Iterator

from warpline.presentation.blocks import Block, Cell, FindingBlock, Line, Section
from warpline.result import Diagnosis, Finding
from warpline.result.savings import BOUNDS_TEXT, base_text, saving_text
from warpline.units import plural

_PER_STEP = " per step"


def findings_in_short(diagnosis: Diagnosis) -> Iterator[Block]:
    """Yield a section with each finding's claim, estimated saving and fix."""
    step = _step(diagnosis)
    blocks = tuple(_block(item, step, (("Fix", item.fix),)) for item in diagnosis.findings)
    if blocks:
        yield Section("Findings", (*_base(diagnosis), *blocks))


def first_findings(diagnosis: Diagnosis, *, most: int) -> Iterator[Block]:
    """Yield the first findings with claim, estimated saving and fix, and the number of others."""
    step = _step(diagnosis)
    yield from _base(diagnosis)
    for item in diagnosis.findings[:most]:
        yield _block(item, step, (("Fix", item.fix),), has_evidence=False)
    if len(diagnosis.findings) > most:
        yield Line(f"{plural(len(diagnosis.findings) - most, 'more finding')} not shown.")


def findings(diagnosis: Diagnosis) -> Iterator[Block]:
    """Yield each finding with all its facts."""
    step = _step(diagnosis)
    yield from _base(diagnosis)
    yield from (_whole(item, step) for item in diagnosis.findings)


def findings_on_page(diagnosis: Diagnosis) -> Iterator[Block]:
    """Yield a section with all findings, even if there are none."""
    yield Section("Findings", tuple(findings(diagnosis)) or (Line("No findings."),), "findings")


def findings_in_notebook(diagnosis: Diagnosis) -> Iterator[Block]:
    """Yield each finding as a notebook shows it."""
    yield from map(finding_alone, diagnosis.findings)


def finding_alone(item: Finding) -> FindingBlock:
    """Return one finding with evidence, fix, and how to verify it."""
    return _block(item, _PER_STEP, (("Fix", item.fix), ("Verify", item.verify)))


def _whole(item: Finding, step: str) -> FindingBlock:
    facts = (("Fix", item.fix), ("In CUDA C++", item.fix_cuda), ("Verify", item.verify))
    return _block(item, step, tuple(fact for fact in facts if fact[1]))


def _block(
    item: Finding, step: str, facts: tuple[tuple[str, str], ...], *, has_evidence: bool = True
) -> FindingBlock:
    return FindingBlock(
        id=item.id,
        severity=item.severity,
        title=item.title,
        rule=item.rule,
        claim=item.claim,
        evidence=tuple(Cell(each.text, each) for each in item.evidence if has_evidence),
        saving=saving_text(item, step),
        facts=facts,
    )


def _base(diagnosis: Diagnosis) -> tuple[Line, ...]:
    """Return a line on which step the savings are of, and what their bounds mean."""
    step = _step(diagnosis)
    texts = [saving_text(item, step) for item in diagnosis.findings]
    if not any(texts):
        return ()
    bounds = BOUNDS_TEXT if any("bounds" in text for text in texts) else ""
    text = " ".join(filter(None, (base_text(diagnosis.replay, step), bounds)))
    return (Line(text),) if text else ()


def _step(diagnosis: Diagnosis) -> str:
    return _PER_STEP if any(item.count for item in diagnosis.breakdown) else ""
