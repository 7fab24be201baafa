"""How findings about kernels are presented."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePath

from warpline.presentation.blocks import Block, FindingBlock, Line, Presentation, Section
from warpline.presentation.kernel_names import short_names
from warpline.result.kernel_findings import KernelFinding, KernelFindings, KernelInSteps
from warpline.units import format_ns, format_ratio, plural

_SHOWN, _KERNELS = 3, 20  # findings of a kernel, kernels
_LINE_CHARACTERS = 60  # of a source line
_UNJUDGED = (
    "Slow math and conversions to double were not judged: that requires instructions by opcode, as"
    " in reports of ncu --set full."
)


def findings_screen(kernels: Sequence[KernelFindings]) -> Presentation:
    """Return what a terminal shows: of the kernels first in order the most important findings."""
    shown = kernels[:_KERNELS]
    names = short_names(kernel.name for kernel in shown)
    sections: list[Block] = [_section(kernel, names[kernel.name]) for kernel in shown]
    if len(kernels) > len(shown):
        more = plural(len(kernels) - len(shown), "more kernel")
        sections.append(Line(f"{more} with less time: see --json", is_faint=True))
    return Presentation(sections, ())


def _section(kernel: KernelFindings, name: str) -> Section:
    median = f", median of {kernel.launches} launches" if kernel.launches > 1 else ""
    title = f"{name} {kernel.shape}: {format_ns(kernel.time_ns)}{median}"
    of_step = () if kernel.in_steps is None else (Line(_in_steps(kernel.in_steps)),)
    busiest = f"{kernel.busiest} at {format_ratio(kernel.busiest_ratio)} of its peak"
    if not kernel.findings:
        unjudged = "" if kernel.has_conversions else f" {_UNJUDGED}"
        text = f"No findings. Busiest resource: {busiest}.{unjudged}"
        return Section(title, (*of_step, Line(text)))
    shown = kernel.findings[:_SHOWN]
    blocks = tuple(_block(finding, place) for place, finding in enumerate(shown, 1))
    more = len(kernel.findings) - len(shown)
    rest = (Line(f"{plural(more, 'more finding')}: see --json", is_faint=True),) if more else ()
    return Section(title, (*of_step, *blocks, *rest))


def _block(finding: KernelFinding, place: int) -> FindingBlock:
    return FindingBlock(
        f"F{place}",
        finding.severity,
        finding.title,
        finding.rule,
        finding.claim,
        (),
        "",
        (*_line(finding), ("Time", _time(finding)), *_step(finding), ("Fix", finding.fix)),
    )


def _line(finding: KernelFinding) -> Sequence[tuple[str, str]]:
    """Return the source line at which the finding shows most."""
    if not finding.lines:
        return ()
    line = finding.lines[0]
    place, text = f"{PurePath(line.file).name}:{line.line}", line.text or ""
    if len(text) > _LINE_CHARACTERS:
        text = f"{text[: _LINE_CHARACTERS - 3]}..."
    share = f"{format_ratio(line.ratio)} of the {line.metric}"
    return (("At", f"{place}  {text}  ({share})" if text else f"{place} ({share})"),)


def _in_steps(of: KernelInSteps) -> str:
    """Return how much of a step the kernel takes."""
    if not of.launches:
        return "Not in the timeline: no launch has this name, grid and block."
    launches = f"{round(of.launches, 1):g}"
    share = format_ratio(of.time_ns / of.step_ns) if of.step_ns else "0%"
    step = "the timeline, as one step" if of.source is None else "a step"
    time = f"{format_ns(of.time_ns)} of the {format_ns(of.step_ns)}"
    noun = "launch" if launches == "1" else "launches"
    return f"In {step}: {launches} {noun}, {time} ({share})."


def _step(finding: KernelFinding) -> Sequence[tuple[str, str]]:
    """Return what the finding saves of a step, if a timeline shows it."""
    step = finding.step
    if step is None or finding.outcome == "no-gain":
        return ()
    most, whole = format_ns(step.high_ns), format_ns(step.step_ns)
    if step.saving_ns is None:
        return (("Step", f"saves at most {most} of the {whole} step"),)
    factor = finding.before_ns / max(finding.likely_ns or 0, 1)
    bounds = f"between {format_ns(step.low_ns)} and {most}"
    saved = f"{format_ns(step.saving_ns)} of the {whole} step ({bounds})"
    return (("Step", f"{factor:.1f}x faster, this kernel saves {saved}"),)


def _time(finding: KernelFinding) -> str:
    """Return the time of one launch before and after the repair, as far as it is known."""
    before, low = format_ns(finding.before_ns), format_ns(finding.low_ns)
    if finding.outcome == "no-gain":
        return f"no gain expected (now {before}, at best {low})"
    if finding.likely_ns is None:
        return f"{before} -> at least {low}; how much is not predictable from counters"
    likely, high = format_ns(finding.likely_ns), format_ns(finding.high_ns)
    return f"{before} -> {likely} (between {low} and {high}), then limited by {finding.limiter}"
