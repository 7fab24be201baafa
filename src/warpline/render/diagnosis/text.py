"""A diagnosis as text: verdict, time breakdown, findings, checklist."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from typing import TextIO

from warpline.render import Options
from warpline.render.diagnosis import NOTHING_CHECKED
from warpline.render.diagnosis.devices import devices
from warpline.render.diagnosis.lines import BOLD, DIM, GAP, Lines
from warpline.render.diagnosis.overlaps import device_overlaps
from warpline.render.diagnosis.phases import phases
from warpline.render.escaping import display_width, pad
from warpline.render.screen import without_noise
from warpline.result import Check, Diagnosis, Document, Finding
from warpline.result.savings import saving_text
from warpline.units import plural

_FILES = 3  # in the suggested commands
_OVERLAPS = 6
_CANDIDATES = 3
_STATE = len("unknown")
_LEAST_TEXT = 40  # columns: narrower, the text of a check goes below its name
_FIRST = " Fix first: "  # the advice gets a line of its own
_HANG = " " * len("Fix: ")
_NAMED = 4  # excluded steps
_COLOR_OF_SEVERITY = {"high": "\x1b[31m", "medium": "\x1b[33m", "low": "", "info": DIM}
_COLOR_OF_STATE = {"fail": "\x1b[31m", "pass": "\x1b[32m", "unknown": DIM}


def render(document: Document, out: TextIO, options: Options) -> None:
    """Write a diagnosis; `document` must be a Diagnosis."""
    assert isinstance(document, Diagnosis)
    lines = Lines(options)
    blocks = [
        list(_head(lines, document)),
        *(list(each) for each in devices(lines, document)),
        list(_overlaps(lines, document)),
        list(phases(lines, document)),
        list(_findings(lines, document)),
        list(_checks(lines, document)),
        list(_candidates(lines, document)),
        list(_last(lines, document)),
    ]
    _write(blocks, out)


def render_checklist(document: Document, out: TextIO, options: Options) -> None:
    """Write the checklist of a diagnosis with values, targets and reasons."""
    assert isinstance(document, Diagnosis)
    lines = Lines(options)
    listed = list(_checklist(lines, document.checks)) or [NOTHING_CHECKED]
    findings = [f"Findings: warpline analyze {_recordings(lines, document)}"]
    _write([list(_head(lines, document)), listed, findings if document.findings else []], out)


def _write(blocks: Sequence[Sequence[str]], out: TextIO) -> None:
    filled = ("\n".join(line.rstrip() for line in block) for block in blocks if block)
    out.write("\n\n".join(filled) + "\n")


def _head(lines: Lines, diagnosis: Diagnosis) -> Iterator[str]:
    """Yield the title, how the run ended if abnormally, and the verdict."""
    yield lines.styled(lines.fit(diagnosis.title), BOLD)
    if ended := diagnosis.meta.get("ended"):
        yield from lines.wrapped(ended, GAP, style=BOLD)
    said, first, what = diagnosis.verdict.partition(_FIRST)
    yield from lines.wrapped(said, GAP)
    if first:
        yield from lines.wrapped(f"{first.strip()} {what}", GAP)


def _overlaps(lines: Lines, diagnosis: Diagnosis) -> Iterator[str]:
    """Yield the overlap of copies, communication and compute."""
    found = device_overlaps(diagnosis)[:_OVERLAPS]
    if found:
        yield lines.styled("Overlap", BOLD)
    for text in found:
        yield from lines.wrapped(text, GAP, GAP * 2)


def _findings(lines: Lines, diagnosis: Diagnosis) -> Iterator[str]:
    """Yield each finding: title, claim, estimated saving and fix."""
    if not diagnosis.findings:
        return
    yield lines.styled("Findings", BOLD)
    step = " per step" if any(item.count for item in diagnosis.breakdown) else ""
    for item in diagnosis.findings:
        yield from _finding(lines, item, step)


def _finding(lines: Lines, item: Finding, step: str) -> Iterator[str]:
    mark = lines.styled(f"{item.severity:6}", _COLOR_OF_SEVERITY[item.severity])
    indent = GAP + " " * (4 + 6 + 1)
    title = lines.broken(item.title, lines.width - len(indent))
    yield f"{GAP}{item.id:4}{mark} {lines.styled(title[0], BOLD)}"
    yield from (indent + lines.styled(line, BOLD) for line in title[1:])
    yield from lines.wrapped(item.claim, indent)
    if saving := saving_text(item, step):
        yield from lines.wrapped(f"Estimated saving: {saving}", indent, indent + _HANG)
    yield from lines.wrapped(f"Fix: {item.fix}", indent, indent + _HANG)


def _checks(lines: Lines, diagnosis: Diagnosis) -> Iterator[str]:
    """Yield the number of checks by state, and the failed ones."""
    if not diagnosis.checks:
        return
    states = [check.state for check in diagnosis.checks]
    counts = ", ".join(f"{states.count(state)} {state}" for state in ("pass", "fail", "unknown"))
    yield f"{lines.styled('Checklist', BOLD)}  {counts}"
    for check in diagnosis.checks:
        if check.state == "fail":
            text = f"{check.name}: {check.found} (target: {check.wanted})"
            yield from lines.wrapped(text, GAP, GAP * 2)


def _checklist(lines: Lines, checks: Sequence[Check]) -> Iterator[str]:
    """Yield the whole checklist."""
    width = max((display_width(check.name) for check in checks), default=0)
    left = _STATE + len(GAP) + width + len(GAP)
    is_narrow = lines.width - left < _LEAST_TEXT
    indent = " " * (_STATE + len(GAP) if is_narrow else left)
    for check in checks:
        state = lines.styled(f"{check.state:{_STATE}}", _COLOR_OF_STATE[check.state])
        text = list(lines.wrapped(f"{check.found} (target: {check.wanted})", indent))
        if is_narrow:
            yield f"{state}{GAP}{check.name}"
        else:
            yield f"{state}{GAP}{pad(check.name, width)}{GAP}{text.pop(0).strip()}"
        yield from text
        yield from lines.wrapped(check.reason, indent, style=DIM)


def _candidates(lines: Lines, diagnosis: Diagnosis) -> Iterator[str]:
    """Yield the kernels to profile with Nsight Compute."""
    shown = diagnosis.counter_candidates[:_CANDIDATES]
    if not shown:
        return
    yield lines.styled("Kernels to profile with Nsight Compute", BOLD)
    for item in shown:
        share = f"{item.share * 100:.1f}%"
        name = lines.cut(without_noise(lines.clean(item.name)), lines.width - 30)
        yield f"{GAP}{share:>6}{GAP}{plural(item.instances, 'instance'):>16}{GAP}{name}"
    # Never cut a command: users copy it.
    yield f"{GAP}First: {lines.clean(shown[0].command)}"


def _last(lines: Lines, diagnosis: Diagnosis) -> Iterator[str]:
    """Yield excluded steps, skipped rules, and the commands to run next."""
    excluded = diagnosis.steps.excluded
    if excluded:
        # Ranks exclude the same steps for the same reasons.
        every = [*dict.fromkeys(f"{x.label or x.index} ({x.reason})" for x in excluded)]
        more = len(every) - _NAMED
        rest = f" and {plural(more, 'more step')}" if more > 0 else ""
        text = f"Excluded: {', '.join(every[:_NAMED])}{rest}"
        yield from lines.wrapped(text, "", GAP, DIM)
    for item in diagnosis.not_judged:
        yield from lines.wrapped(f"Skipped: {item.name} ({item.reason})", "", GAP, DIM)
    recordings = _recordings(lines, diagnosis)
    yield f"Next: warpline analyze --checklist {recordings}"
    yield f"      warpline stats -r steps,phases,step_differences {recordings}"


def _recordings(lines: Lines, diagnosis: Diagnosis) -> str:
    """Return the recordings as arguments of a command."""
    paths = [str(path) for path in diagnosis.meta["paths"]]
    files = [lines.clean(shlex.quote(path)) for path in paths[:_FILES]]
    return " ".join([*files, *(["..."] if len(paths) > _FILES else [])])
