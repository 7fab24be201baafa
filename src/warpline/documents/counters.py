"""Documents about hardware counters: plans, and the metrics, sets and chips that there are."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from warpline.counters.host_process import HostProcess, Metric
from warpline.counters.names import Catalogue
from warpline.counters.plan import START_NS, Plan, PlannedMetric, Session
from warpline.counters.sets import SECTIONS, SETS
from warpline.result import Document, Field, Result, column_of
from warpline.units import Unit, format_count, plural

_SESSION = Field(
    "session",
    Unit.ID,
    "Metrics of different sessions cannot be counted in one run of the program.",
    "Session",
)
_PASSES = (
    _SESSION,
    Field("pass", Unit.ID, "The pass of the session, from 1.", "Pass"),
    Field("counters", Unit.COUNT, "Events that the pass counts.", "Counters"),
    Field("complete", Unit.COUNT, "Metrics that need this pass only.", "Complete"),
    Field("partial", Unit.COUNT, "Metrics that need this and other passes.", "Partial"),
)
_METRICS = (
    _SESSION,
    Field("passes", Unit.COUNT, "How many passes of this plan count something it needs.", "Passes"),
    Field("in_passes", Unit.NONE, "Which passes.", "In"),
    Field("section", Unit.NONE, "The section that lists it.", "Section"),
    Field("metric", Unit.NONE, "The metric.", "Metric"),
)
_LEFT_OUT = (
    Field("reason", Unit.NONE, "Why it is not counted.", "Reason"),
    Field("metric", Unit.NONE, "The metric.", "Metric"),
)
_CATALOGUE = (
    Field("chip", Unit.NONE, "The chip that has it.", "Chip"),
    Field("metric", Unit.NONE, "The metric.", "Metric"),
    Field("kind", Unit.NONE, "counter, ratio or throughput.", "Type"),
    Field("unit", Unit.NONE, "The unit of its value.", "Unit"),
    Field("hw_unit", Unit.NONE, "The part of the GPU that is counted.", "HW Unit"),
    Field("description", Unit.NONE, "NVIDIA's description.", "Description"),
)
_NAMES = (Field("metric", Unit.NONE, "The full name of the metric.", "Metric"),)
_SETS = (
    Field("set", Unit.NONE, "The name for --set.", "Identifier"),
    Field("metrics", Unit.COUNT, "Metrics that it lists.", "Metrics"),
    Field("purpose", Unit.NONE, "What it is for.", "Purpose"),
    Field("sections", Unit.NONE, "Its sections.", "Sections"),
)
_SECTIONS = (
    Field("section", Unit.NONE, "The name for --section.", "Identifier"),
    Field("metrics", Unit.COUNT, "Metrics that it lists.", "Metrics"),
    Field("sets", Unit.NONE, "The sets that it is in.", "Sets"),
    Field("title", Unit.NONE, "What it is about.", "Title"),
)
_CHIPS = (Field("chip", Unit.NONE, "The name for --chip.", "Chip"),)

_ESTIMATED = "estimated, as measured on an H100 with CUPTI 13.0"


def plan_document(plan: Plan, host: HostProcess, asked: str) -> Document:
    """Return a document about a plan.

    Args:
        plan: The plan.
        host: The CUPTI that knew the passes.
        asked: What was planned, in words: ``set full``.
    """
    title = (
        f"{plan.chip}, {asked}: {plural(len(plan.metrics), 'metric')},"
        f" {plural(plan.passes, 'pass', 'passes')}"
    )
    sections = [_passes(plan, title), _metrics(plan)]
    if plan.left_out:
        rows = [(reason, name) for name, reason in plan.left_out.items()]
        sections.append(_result("left_out", "Left out", _LEFT_OUT, sorted(rows), ("metric",)))
    facts: dict[str, Any] = {
        "chip": plan.chip,
        "passes": plan.passes,
        "passes_of_sessions": [session.passes for session in plan.sessions],
        "launch_cost_ns": plan.launch_cost_ns if plan.passes else None,
    }
    return Document(f"{plan.chip}, {asked}", facts | _cupti(host), tuple(sections))


def metrics_document(
    catalogue: Catalogue, host: HostProcess, metrics: Iterable[Metric]
) -> Document:
    """Return a document with base metrics of a chip and their descriptions."""
    rows = [
        (catalogue.chip, item.name, item.kind, item.unit, item.hw_unit, item.description)
        for item in metrics
    ]
    title = f"{catalogue.chip}: {plural(len(rows), 'base metric')}"
    return _one(_result("metrics", title, _CATALOGUE, rows, ("metric",)), catalogue, host)


def names_document(catalogue: Catalogue, host: HostProcess, names: Sequence[str]) -> Document:
    """Return a document with full names of metrics of a chip."""
    title = f"{catalogue.chip}: {plural(len(names), 'metric')}"
    rows = [(name,) for name in names]
    return _one(_result("metric_names", title, _NAMES, rows, ("metric",)), catalogue, host)


def sets_document() -> Document:
    """Return a document with the sets of metrics."""
    rows = [
        (
            item.name,
            len({request for section in item.sections for request in section.requests()}),
            item.title,
            ", ".join(section.name for section in item.sections),
        )
        for item in SETS
    ]
    return Document("sets", {}, (_result("sets", "Sets of metrics", _SETS, rows, ("set",)),))


def sections_document() -> Document:
    """Return a document with the sections of metrics."""
    rows = [
        (
            section.name,
            len(section.requests()),
            ", ".join(item.name for item in SETS if section in item.sections),
            section.title,
        )
        for section in SECTIONS
    ]
    result = _result("sections", "Sections of metrics", _SECTIONS, rows, ("section",))
    return Document("sections", {}, (result,))


def chips_document(host: HostProcess) -> Document:
    """Return a document with the chips that CUPTI knows."""
    rows = [(name,) for name in host.chips()]
    title = f"Chips that CUPTI {host.version or ''}".rstrip() + " knows"
    return Document("chips", _cupti(host), (_result("chips", title, _CHIPS, rows, ("chip",)),))


def _passes(plan: Plan, title: str) -> Result:
    rows = [
        (number, index, *_content(session, index))
        for number, session in enumerate(plan.sessions, 1)
        for index in range(1, session.passes + 1)
    ]
    notes = tuple(_notes(plan))
    return _result("passes", title, _PASSES, rows, ("session", "pass"), notes)


def _content(session: Session, index: int) -> tuple[int | None, int | None, int | None]:
    """Return the counters of a pass, and its complete and partial metrics; None if unknown."""
    if session.counters is None:
        return None, None, None
    return session.counters[index - 1], *session.metrics_in(index)


def _notes(plan: Plan) -> Iterator[str]:
    if plan.passes:
        yield _cost(plan)
    if len(plan.sessions) > 1:
        yield (
            f"CUPTI cannot count all these metrics together: {len(plan.sessions)} sessions,"
            " each with a run of the program"
        )
    instrumented = sum(metric.is_instrumented for metric in plan.metrics)
    if instrumented:
        verb = "is" if instrumented == 1 else "are"
        yield f"{plural(instrumented, '_sass_ metric')} {verb} counted by instrumented code"
    if plan.left_out:
        yield f"{plural(len(plan.left_out), 'metric')} left out: see the last table"


def _cost(plan: Plan) -> str:
    launch = _milliseconds(plan.launch_cost_ns)
    if plan.passes == 1:
        return (
            f"cost: about {launch} per launch, and {_milliseconds(START_NS)} to switch counting"
            f" on and off ({_ESTIMATED}); one pass, so nothing is replayed or restored"
        )
    return (
        f"cost: about {launch} per launch ({_ESTIMATED}); the kernel runs once per pass, and memory"
        " that it wrote is restored before each further pass"
    )


def _milliseconds(duration_ns: int) -> str:
    return f"{format_count(round(duration_ns / 1e6))} ms"  # an estimate has no decimals


def _metrics(plan: Plan) -> Result:
    rows = [
        (
            number,
            None if metric.passes is None else len(metric.passes),
            None if metric.passes is None else _ranges(metric.passes),
            metric.section or None,
            metric.name,
        )
        for number, session in enumerate(plan.sessions, 1)
        for metric in sorted(session.metrics, key=_by_passes)
    ]
    return _result("metrics", "Metrics and the passes that they need", _METRICS, rows, ("metric",))


def _by_passes(metric: PlannedMetric) -> tuple[bool, tuple[int, ...]]:
    """Return the order of the table: pass by pass, then what several passes count together."""
    passes = metric.passes or ()
    return len(passes) > 1, passes


def _ranges(numbers: Sequence[int]) -> str:
    """Return ascending numbers in short: ``1-3, 7``."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][-1] + 1:
            runs[-1][1:] = [number]
        else:
            runs.append([number])
    return ", ".join("-".join(map(str, run)) for run in runs)


def _one(result: Result, catalogue: Catalogue, host: HostProcess) -> Document:
    return Document(catalogue.chip, {"chip": catalogue.chip} | _cupti(host), (result,))


def _cupti(host: HostProcess) -> dict[str, Any]:
    return {"cupti": host.version, "cupti_path": str(host.path)}


def _result(
    name: str,
    title: str,
    fields: tuple[Field, ...],
    rows: Sequence[tuple[Any, ...]],
    key: tuple[str, ...],
    notes: tuple[str, ...] = (),
) -> Result:
    columns = zip(*rows, strict=True) if rows else [() for _ in fields]
    values = {field.name: column_of(column) for field, column in zip(fields, columns, strict=True)}
    return Result(name, title, fields, values, key, notes)
