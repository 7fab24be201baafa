"""A diagnosis in Markdown, for issues and pull requests."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TextIO

from warpline.render import Options
from warpline.render.diagnosis import NOTHING_CHECKED
from warpline.render.diagnosis.devices import device_label
from warpline.render.diagnosis.overlaps import device_overlaps
from warpline.render.markdown import code, plain
from warpline.result import Breakdown, Check, CounterCandidate, Diagnosis, Document, Finding, Phase
from warpline.result.savings import saving_text
from warpline.result.shares import part_shares
from warpline.units import format_ns, plural

_PHASES = 12


def render(document: Document, out: TextIO, options: Options) -> None:
    """Write a diagnosis; `document` must be a Diagnosis."""
    assert isinstance(document, Diagnosis)
    writer = _Writer(options)
    step = " per step" if any(item.count for item in document.breakdown) else ""
    blocks = [
        *writer.head(document),
        *(list(writer.device(item)) for item in document.breakdown),
        list(writer.overlaps(document)),
        list(writer.phases(document.phases, max(sum(d.count for d in document.breakdown), 1))),
        *(list(writer.finding(item, step)) for item in document.findings),
        list(writer.candidates(document.counter_candidates)),
        list(writer.checklist(document.checks)),
    ]
    _write(blocks, out)


def render_checklist(document: Document, out: TextIO, options: Options) -> None:
    """Write the checklist of a diagnosis; `document` must be a Diagnosis."""
    assert isinstance(document, Diagnosis)
    writer = _Writer(options)
    listed = list(writer.checklist(document.checks)) or [NOTHING_CHECKED]
    _write([*writer.head(document), listed], out)


def _write(blocks: Sequence[Sequence[str]], out: TextIO) -> None:
    out.write("\n\n".join("\n".join(lines) for lines in blocks if lines) + "\n")


class _Writer:
    """Writes lines of Markdown in which names never act as markup."""

    def __init__(self, options: Options) -> None:
        self._options = options

    def head(self, diagnosis: Diagnosis) -> Iterator[list[str]]:
        """Yield the title, the warnings, how the run ended if abnormally, and the verdict."""
        yield [f"## {self._text(diagnosis.title)}"]
        yield [f"> **Warning:** {self._text(warning)}" for warning in diagnosis.warnings]
        ended = diagnosis.meta.get("ended")
        yield [f"**{self._text(text)}**" for text in (ended, diagnosis.verdict) if text]

    def device(self, item: Breakdown) -> Iterator[str]:
        """Yield the breakdown of one GPU's time."""
        time = f"{format_ns(item.total_ns)} analyzed"
        if item.count:
            time = f"{plural(item.count, 'step')}, mean {format_ns(item.total_ns / item.count)}"
        yield f"### {self._text(f'{device_label(item)}: {time}')}"
        yield ""
        yield f"| part | kind | {'per step' if item.count else 'time'} | share | meaning |"
        yield "| :--- | :--- | ---: | ---: | :--- |"
        shares = part_shares(item.parts, item.total_ns)
        per = max(item.count, 1)
        for part, share in zip(item.parts, shares, strict=True):
            cells = (
                part.category,
                part.kind,
                format_ns(part.ns / per),
                f"{share / 10:.1f}%",
                self._text(part.meaning),
            )
            yield f"| {' | '.join(cells)} |"

    def overlaps(self, diagnosis: Diagnosis) -> Iterator[str]:
        """Yield the overlap of copies, communication and compute."""
        found = device_overlaps(diagnosis)
        if not found:
            return
        yield "### Overlap"
        yield ""
        yield from (f"- {self._text(text)}" for text in found)

    def phases(self, phases: Sequence[Phase], per: int) -> Iterator[str]:
        """Yield the table of the first phases."""
        if not phases:
            return
        yield "### Phases"
        yield ""
        yield "| phase | calls | per step | idle |"
        yield "| :--- | ---: | ---: | ---: |"
        for item in phases[:_PHASES]:
            idle_ns = sum(part.ns for part in item.parts if part.kind == "idle")
            name = code("/".join(item.path), self._options) if item.path else "outside ranges"
            idle = f"{100 * idle_ns / item.total_ns:.1f}%" if item.total_ns else ""
            yield f"| {name} | {item.calls:,} | {format_ns(item.total_ns / per)} | {idle} |"
        if len(phases) > _PHASES:
            yield ""
            yield f"{plural(len(phases) - _PHASES, 'more phase')} not shown."

    def finding(self, item: Finding, step: str) -> Iterator[str]:
        """Yield one finding with its evidence; `step` is appended to times."""
        rule = code(item.rule, self._options)
        yield f"### {item.id} {item.severity}: {self._text(item.title)} ({rule})"
        yield ""
        yield self._text(item.claim)
        yield ""
        yield from (f"- Evidence: {self._text(seen.text)}" for seen in item.evidence)
        if saving := saving_text(item, step):
            yield f"- Estimated saving: {self._text(saving)}"
        yield f"- Fix: {self._text(item.fix)}"
        if item.fix_cuda:
            yield f"- In CUDA C++: {self._text(item.fix_cuda)}"
        yield f"- Verify: {self._text(item.verify)}"

    def candidates(self, candidates: Sequence[CounterCandidate]) -> Iterator[str]:
        """Yield the kernels to profile with Nsight Compute, each with its command."""
        if not candidates:
            return
        yield "### Kernels to profile with Nsight Compute"
        yield ""
        yield "| share | instances | kernel | command |"
        yield "| ---: | ---: | :--- | :--- |"
        for item in candidates:
            name, command = (code(text, self._options) for text in (item.name, item.command))
            yield f"| {item.share * 100:.1f}% | {item.instances:,} | {name} | {command} |"

    def checklist(self, checks: Sequence[Check]) -> Iterator[str]:
        """Yield the table of the checklist."""
        if not checks:
            return
        yield "### Checklist"
        yield ""
        yield "| state | check | found | target |"
        yield "| :--- | :--- | :--- | :--- |"
        for check in checks:
            cells = (check.state, *map(self._text, (check.name, check.found, check.wanted)))
            yield f"| {' | '.join(cells)} |"

    def _text(self, text: str) -> str:
        return plain(text, self._options)
