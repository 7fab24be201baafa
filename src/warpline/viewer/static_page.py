"""The overview of a report as plain HTML that works without JavaScript and in print.

It has the verdict, cards, the time breakdown of each device, findings, step times, phases, the
checklist, and facts about the recording.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from warpline.result import (
    Breakdown,
    Check,
    Diagnosis,
    ExcludedStep,
    Finding,
    Overlap,
    Part,
    Phase,
    StepSummary,
)
from warpline.result.savings import saving_text
from warpline.result.shares import counted, part_shares, percent, tenths
from warpline.units import format_ns, plural
from warpline.viewer.links import Links, links_of
from warpline.viewer.markup import Content, Markup, element
from warpline.viewer.step_plot import step_plot

_DEVICES = 16
_LEAST_LABEL = 60  # tenths of a percent: narrower parts of the bar have no room for a name
_LEAST_PART = 1
_DEPTH = 4
_LEAST_PHASE = 5
_MOST_PHASES = 60
_CANDIDATES = 5
_EXCLUDED = 4
# The table with the details of a check.
_CHECK_TABLES = {
    "GPU busy": "breakdown",
    "copies overlapped": "overlap",
    "little communication": "collective_kern_sum",
    "communication overlapped": "overlap",
    "no unnecessary synchronization": "cuda_api_sum",
    "few short kernels": "cuda_gpu_kern_sum",
    "few optimizer launches": "kernel_class_sum",
    "epilogues fused": "kernel_class_sum",
    "few layout conversions": "kernel_class_sum",
    "streams concurrent": "overlap",
    "warm-up excluded": "steps",
    "enough steps": "steps",
}


def static_page(diagnosis: Diagnosis, head: Mapping[str, Any]) -> Markup:
    """Return the content of the overview.

    Args:
        diagnosis: The diagnosis to show.
        head: Head of the page's container: its steps, tables, and facts.
    """
    links = links_of(diagnosis, head)
    return element(
        "main",
        _head(diagnosis),
        _cards(diagnosis, links),
        _warnings(diagnosis),
        _devices(diagnosis, links),
        _findings(diagnosis, links),
        _steps(head["steps"], diagnosis.steps, links),
        _phases(diagnosis, links),
        _checklist(diagnosis.checks, links),
        _candidates(diagnosis),
        _not_judged(diagnosis),
        _environment(head["environment"]),
        class_="wl-page",
    )


def _section(identity: str, title: str, *content: Content) -> Markup:
    return element("section", element("h2", title), *content, id=identity)


def _head(diagnosis: Diagnosis) -> Markup:
    command = diagnosis.meta["command"]
    steps, ended = diagnosis.steps, diagnosis.meta.get("ended")
    facts = [f"{format_ns(diagnosis.meta['recorded_ns'])} recorded"]
    devices = diagnosis.meta.get("devices") or ()
    names = {str(device.get("name") or "GPU") for device in devices}
    if devices:
        facts.append(f"{len(devices)} x {' and '.join(sorted(names))}")
    if steps.source != "none":
        kind, _, pattern = steps.source.partition(":")
        where = f"ranges {pattern}" if kind == "range" else "repeated launches"
        facts.append(f"{plural(steps.count, 'step')} analyzed, detected from {where}")
    return element(
        "header",
        element("h1", diagnosis.title),
        element("p", " · ".join(facts), class_="wl-facts"),
        element("p", element("code", command), class_="wl-facts") if command else None,
        element("p", ended, class_="wl-verdict") if ended else None,
        element("p", diagnosis.verdict, class_="wl-verdict"),
    )


def _cards(diagnosis: Diagnosis, links: Links) -> Markup | None:
    cards = [element("div", *card, class_="wl-card") for card in _card_texts(diagnosis, links)]
    if not cards:
        return None
    return element(
        "div", element("div", cards, class_="wl-cards"), links.command("warpline analyze")
    )


def _card_texts(diagnosis: Diagnosis, links: Links) -> Iterator[tuple[Content, ...]]:
    steps = diagnosis.steps
    if steps.median_ns is not None:
        spread = "" if steps.p95_ns is None else f"p95 {format_ns(steps.p95_ns)}"
        yield _card("median step time", links.table("steps", format_ns(steps.median_ns)), spread)
    if diagnosis.breakdown:
        place, item = slowest(diagnosis.breakdown)
        parts = counted(item)[0]
        whole = sum(part.ns for part in parts)
        if whole:
            yield from _time_cards(item, parts, whole, links)
        if whole and place < len(diagnosis.overlaps):
            yield from _exposed_cards(diagnosis.overlaps[place], whole, links)
    if diagnosis.checks:
        failed = sum(check.state == "fail" for check in diagnosis.checks)
        passed = sum(check.state == "pass" for check in diagnosis.checks)
        unknown = len(diagnosis.checks) - failed - passed
        yield _card("checklist", f"{failed} fail", f"{passed} pass, {unknown} unknown")


def _card(label: str, value: Content, note: str) -> tuple[Content, ...]:
    return (
        element("div", label, class_="wl-card-label"),
        element("div", value, class_="wl-card-value"),
        element("div", note, class_="wl-card-note"),
    )


def slowest(breakdown: Sequence[Breakdown]) -> tuple[int, Breakdown]:
    """Return the index of the device with the longest steps, and its breakdown."""
    each = [sum(part.ns for part in counted(item)[0]) / max(item.count, 1) for item in breakdown]
    place = each.index(max(each))
    return place, breakdown[place]


def _time_cards(
    item: Breakdown, parts: Sequence[Part], whole: int, links: Links
) -> Iterator[tuple[Content, ...]]:
    busy = sum(part.ns for part in parts if part.kind == "busy")
    value = links.table("breakdown", percent(busy, whole))
    yield _card("GPU busy", value, f"GPU {item.device}")
    idle = [
        pair
        for pair in zip(parts, part_shares(parts, whole), strict=True)
        if pair[0].kind == "idle"
    ]
    if idle and whole > busy:
        most, share = max(idle, key=lambda pair: pair[0].ns)
        value = links.part(item.device, most.category, most.category)
        yield _card("main idle cause", value, f"{tenths(share)}: {most.meaning}")


def _exposed_cards(item: Overlap, whole: int, links: Links) -> Iterator[tuple[Content, ...]]:
    if item.communication_ns:
        share = links.table("overlap", percent(item.exposed_communication_ns, whole))
        yield _card("exposed communication", share, "not overlapped with compute")
    if item.copy_ns:
        share = links.table("overlap", percent(item.exposed_copy_ns, whole))
        yield _card("exposed copies", share, "not overlapped with compute")


def _warnings(diagnosis: Diagnosis) -> Markup | None:
    if not diagnosis.warnings:
        return None
    items = [element("li", warning) for warning in dict.fromkeys(diagnosis.warnings)]
    return element("ul", items, class_="wl-warnings")


def _devices(diagnosis: Diagnosis, links: Links) -> Markup | None:
    if not diagnosis.breakdown:
        return None
    place, longest = slowest(diagnosis.breakdown)
    others = [item for row, item in enumerate(diagnosis.breakdown) if row != place]
    content = [_device(longest, links, is_full=True)]
    content += [_device(item, links, is_full=False) for item in others[: _DEVICES - 1]]
    hidden = len(others) - (_DEVICES - 1)
    if hidden > 0:
        more = f"and {plural(hidden, 'more GPU')}, see the table breakdown"
        content.append(element("p", more, class_="wl-facts"))
    per = "one step" if longest.count else "the recording"
    command = links.command("warpline stats -r breakdown")
    return _section("wl-breakdown", f"Time breakdown of {per}", content, command)


def _device(item: Breakdown, links: Links, *, is_full: bool) -> Markup:
    parts = counted(item)[0]
    shares = part_shares(parts, sum(part.ns for part in parts))
    per = max(item.count, 1)
    name = f" {item.device_name}" if item.device_name else ""
    rank = "" if item.rank is None else f", rank {item.rank}"
    process = "" if item.process is None else f", process {item.process}"
    total = format_ns(sum(part.ns for part in parts) / per)
    what = f"{plural(item.count, 'step')}, mean {total}"
    if item.count < 2:
        what = f"1 step of {total}" if item.count else f"{total} from first to last operation"
    heading = f"GPU {item.device}{name}{rank}{process}: {what}"
    table = _part_table(item, parts, shares, links) if is_full else None
    bar = _bar(item.device, parts, shares, heading)
    return element("div", element("h3", heading), bar, table, class_="wl-device")


def _bar(device: int, parts: Sequence[Part], shares: Sequence[int], label: str) -> Markup:
    """Return the bar of all parts, which sum to 100%; idle parts are paler."""
    drawn, place = [], 0
    for part, share in zip(parts, shares, strict=True):
        if share:
            drawn.append(_bar_part(device, part, place, share))
        place += share
    said = ", ".join(
        f"{part.category} {tenths(share)}" for part, share in zip(parts, shares, strict=True)
    )
    return element(
        "svg",
        element("title", f"{label}: {said}"),
        drawn,
        class_="wl-bar",
        width="100%",
        height="34",
        role="img",
    )


def _bar_part(device: int, part: Part, place: int, share: int) -> Markup:
    tip = f"{part.category}: {tenths(share)}, {part.meaning}"
    name = part.category if share >= max(_LEAST_LABEL, 9 * len(part.category)) else None
    return element(
        "svg",
        element("title", tip),
        element("rect", width="100%", height="100%", class_=_part_class(part)),
        element("text", name, x="6", y="22") if name else None,
        x=f"{place / 10}%",
        width=f"{share / 10}%",
        height="34",
        class_=f"wl-{part.kind}",
        data_part=f"{device}/{part.category}",
    )


def _part_class(part: Part) -> str:
    plain = "".join(char if char.isalnum() else "-" for char in part.category.lower())
    return f"wl-part wl-part-{plain}"


def _part_table(
    item: Breakdown, parts: Sequence[Part], shares: Sequence[int], links: Links
) -> Markup:
    per = max(item.count, 1)
    heads = ("", "", "per step" if item.count else "time", "share", "")
    rows = []
    for kind in ("busy", "idle"):
        chosen = [
            (part, share) for part, share in zip(parts, shares, strict=True) if part.kind == kind
        ]
        if not chosen:
            continue
        ns, share = sum(part.ns for part, _ in chosen), sum(share for _, share in chosen)
        rows.append(_cells("", kind, format_ns(ns / per), tenths(share), "", class_="wl-sum"))
        rows += [
            _cells(
                _key(part),
                links.part(item.device, part.category, part.category),
                format_ns(part.ns / per),
                tenths(share),
                part.meaning,
            )
            for part, share in chosen
        ]
    return _table(heads, rows, "wl-parts")


def _key(part: Part) -> Markup:
    square = element("rect", width="12", height="12", class_=_part_class(part))
    return element("svg", square, width="12", height="12", aria_hidden="true")


def _cells(*cells: Content, class_: str | None = None) -> Markup:
    return element("tr", (element("td", cell) for cell in cells), class_=class_)


def _table(heads: Sequence[str], rows: Sequence[Markup], name: str) -> Markup:
    head = element("thead", element("tr", (element("th", item, scope="col") for item in heads)))
    return element("table", head, element("tbody", rows), class_=f"wl-table {name}")


def _findings(diagnosis: Diagnosis, links: Links) -> Markup:
    step = " per step" if any(item.count for item in diagnosis.breakdown) else ""
    found = [_finding(item, step, links) for item in diagnosis.findings]
    nothing = element("p", "No findings.")
    return _section("wl-findings", "Findings", found or nothing)


def _finding(item: Finding, step: str, links: Links) -> Markup:
    saving = saving_text(item, step)
    heading = element(
        "h3",
        element("span", item.severity, class_=f"wl-severity wl-{item.severity}"),
        f" {item.id} {item.title}",
    )
    show = element("button", "Show on the timeline", type="button", hidden="", data_finding=item.id)
    facts = [("Fix", item.fix), ("In CUDA C++", item.fix_cuda), ("Verify", item.verify)]
    listed = [(element("dt", name), element("dd", value)) for name, value in facts if value]
    return element(
        "article",
        heading,
        element("p", f"Estimated saving: {saving}", class_="wl-saving") if saving else None,
        element("p", item.claim),
        element("ul", (element("li", links.evidence(each)) for each in item.evidence)),
        element("dl", listed),
        element("p", show),
        links.command(f"warpline explain {item.rule}", has_files=False),
        class_="wl-finding",
        id=f"wl-{item.id}",
    )


def _steps(
    step_lists: Sequence[Mapping[str, Any]], summary: StepSummary, links: Links
) -> Markup | None:
    plot = step_plot(step_lists[0]) if step_lists else None
    if plot is None:
        return None
    excluded = _excluded(summary.excluded)
    note = element("p", f"Excluded: {excluded}", class_="wl-facts") if excluded else None
    return _section("wl-steps", "Step times", plot, note, links.command("warpline stats -r steps"))


def _excluded(steps: Sequence[ExcludedStep]) -> str:
    """Return the excluded steps with their reasons; ranks exclude the same steps."""
    every = [*dict.fromkeys(f"{step.label or step.index} ({step.reason})" for step in steps)]
    more = len(every) - _EXCLUDED
    rest = f" and {plural(more, 'more step')}" if more > 0 else ""
    return ", ".join(every[:_EXCLUDED]) + rest


def _phases(diagnosis: Diagnosis, links: Links) -> Markup | None:
    whole = sum(part.ns for item in diagnosis.breakdown for part in item.parts)
    per = max(sum(item.count for item in diagnosis.breakdown), 1)
    shares = [round(1000 * item.total_ns / whole) if whole else 0 for item in diagnosis.phases]
    chosen = [
        (item, share)
        for item, share in zip(diagnosis.phases, shares, strict=True)
        if share >= _LEAST_PHASE and len(item.path) <= _DEPTH
    ]
    if not any(item.path for item, _ in chosen):
        return None
    has_steps = any(item.count for item in diagnosis.breakdown)
    last = "largest part"
    heads = ("range", "calls", "per step" if has_steps else "time", "share", "idle", last)
    rows = [_phase(item, share, per, links) for item, share in chosen[:_MOST_PHASES]]
    hidden = len(diagnosis.phases) - len(rows)
    more = element("p", f"{plural(hidden, 'smaller phase')} not shown.") if hidden > 0 else None
    command = links.command("warpline stats -r phases")
    return _section("wl-phases", "Phases", _table(heads, rows, "wl-numbers"), more, command)


def _phase(item: Phase, share: int, per: int, links: Links) -> Markup:
    depth = str(max(len(item.path) - 1, 0))
    name = item.path[-1] if item.path else "outside ranges"
    idle = sum(part.ns for part in item.parts if part.kind == "idle")
    most = max(item.parts, key=lambda part: part.ns, default=None)
    return _cells(
        element("span", links.range(name, name) if item.path else name, class_=f"wl-depth-{depth}"),
        f"{item.calls:,}",
        format_ns(item.total_ns / per),
        tenths(share),
        percent(idle, item.total_ns),
        most.category if most else "",
    )


def _checklist(checks: Sequence[Check], links: Links) -> Markup | None:
    if not checks:
        return None
    order = {"fail": 0, "unknown": 1, "pass": 2}
    rows = [
        _cells(
            element("span", item.state, class_=f"wl-state wl-{item.state}"),
            links.table(_CHECK_TABLES.get(item.name, ""), item.name),
            item.found,
            item.wanted,
            item.reason,
        )
        for item in sorted(checks, key=lambda check: order[check.state])
    ]
    heads = ("", "check", "found", "target", "reason")
    command = links.command("warpline stats -r checklist")
    return _section("wl-checklist", "Checklist", _table(heads, rows, "wl-checks"), command)


def _candidates(diagnosis: Diagnosis) -> Markup | None:
    items = [
        element(
            "li",
            element("code", item.name),
            f": {item.share * 100:.1f}% of the time, {plural(item.instances, 'instance')}. ",
            element("code", item.command),
        )
        for item in diagnosis.counter_candidates[:_CANDIDATES]
    ]
    title = "Kernels to profile with Nsight Compute"
    return _section("wl-candidates", title, element("ol", items)) if items else None


def _not_judged(diagnosis: Diagnosis) -> Markup | None:
    items = [element("li", f"{item.name}: {item.reason}") for item in diagnosis.not_judged]
    return _section("wl-skipped", "Skipped rules", element("ul", items)) if items else None


def _environment(environment: Sequence[Sequence[str]]) -> Markup:
    rows = [_cells(name, value) for name, value in environment]
    table = element("table", element("tbody", rows), class_="wl-table wl-environment")
    return _section("wl-environment", "Recording", table)
