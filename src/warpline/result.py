"""What an analysis returns, and how it is registered.

An analysis is a pure function of a trace. It declares what it needs, what its columns mean and
in which units they are, so that every renderer, `compare` and the documentation can show it
without further code.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from warpline.errors import SchemaError
from warpline.registry import Registry
from warpline.trace import Trace
from warpline.units import Unit


@dataclass(frozen=True)
class Field:
    """One column of a result.

    Attributes:
        name: Our name, with its unit: ``total_ns``; the key in JSON.
        unit: What the numbers count. Values are raw: ns, bytes, ratios in [0, 1].
        doc: One sentence.
        header: The heading in text, CSV and Markdown; nsys's own for the tables it has.
        scale: Text, CSV and Markdown show value times scale: 100 for a ratio under ``Time (%)``.
        digits: Decimals shown there; None shows integers and texts as they are.
        is_detail: Terminals too narrow for all columns may leave it out even if it is a key.
    """

    name: str
    unit: Unit
    doc: str
    header: str | None = None
    scale: float = 1.0
    digits: int | None = None
    is_detail: bool = False

    @property
    def heading(self) -> str:
        """The heading to show."""
        return self.header or self.name


@dataclass(frozen=True)
class Texts:
    """A column of texts, kept as codes into distinct values.

    Attributes:
        codes: Shape (n,), int32; -1 where there is no text.
        values: The distinct texts.
    """

    codes: npt.NDArray[np.int32]
    values: Sequence[str]

    def __len__(self) -> int:
        return len(self.codes)

    def to_list(self) -> list[str | None]:
        """Return the texts, None where there is none."""
        table: list[str | None] = [*self.values, None]
        return [table[code] for code in self.codes.tolist()]


@dataclass(frozen=True)
class Numbers:
    """A column of int64 or float64 numbers.

    Attributes:
        values: Shape (n,).
        valid: Shape (n,), False where there is no number; None when all are there.
    """

    values: npt.NDArray[Any]
    valid: npt.NDArray[np.bool_] | None = None

    def __len__(self) -> int:
        return len(self.values)

    def to_list(self) -> list[Any]:
        """Return Python numbers, None where there is none."""
        values: list[Any] = self.values.tolist()
        if self.valid is None:
            return values
        return [v if ok else None for v, ok in zip(values, self.valid.tolist(), strict=True)]


Values = Texts | Numbers


def column_of(values: Sequence[Any]) -> Values:
    """Return Python values as a column: of numbers if all are, else of texts; None is none."""
    known = [value for value in values if value is not None]
    is_number = all(isinstance(value, int | float) for value in known)
    is_large = any(isinstance(value, int) and abs(value) >= 1 << 63 for value in known)
    if known and is_number and not is_large:
        valid = np.array([value is not None for value in values], np.bool_)
        has_float = any(isinstance(value, float) for value in known)
        numbers = [0 if value is None else value for value in values]
        array = np.array(numbers, np.float64 if has_float else np.int64)
        return Numbers(array, None if valid.all() else valid)
    texts = [None if value is None else _text(value) for value in values]
    places = {
        text: place for place, text in enumerate(dict.fromkeys(t for t in texts if t is not None))
    }
    codes = [-1 if text is None else places[text] for text in texts]
    return Texts(np.array(codes, np.int32), [*places])


def _text(value: Any) -> str:
    return value.hex() if isinstance(value, bytes) else str(value)


@dataclass(frozen=True, repr=False)
class Result:
    """A table that an analysis computed.

    Attributes:
        name: Name of the analysis, with its arguments: ``cuda_gpu_kern_sum:base``.
        title: Heading.
        fields: Columns, in the order in which they are shown.
        columns: Values by field name, all of one length.
        key: Names of the fields that tell rows apart when two results are compared.
        notes: Sentences that a reader of the numbers must know.
    """

    name: str
    title: str
    fields: tuple[Field, ...]
    columns: Mapping[str, Values]
    key: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        declared = [item.name for item in self.fields]
        if declared != list(self.columns):
            raise SchemaError(f"{self.name}: fields {declared} but columns {list(self.columns)}")
        if len({len(values) for values in self.columns.values()}) > 1:
            raise SchemaError(f"{self.name}: columns differ in length")

    def __len__(self) -> int:
        return len(next(iter(self.columns.values()))) if self.columns else 0

    def rows(self) -> list[tuple[Any, ...]]:
        """Return the rows as tuples of raw Python values, None where there is none."""
        return list(zip(*(values.to_list() for values in self.columns.values()), strict=True))

    def to_polars(self) -> Any:
        """Return a Polars DataFrame with our column names and raw values."""
        import polars as pl  # noqa: PLC0415 - slow to import, and not needed to print

        return pl.DataFrame({name: values.to_list() for name, values in self.columns.items()})

    def to_pandas(self) -> Any:
        """Return a pandas DataFrame; needs the extra ``warpline[pandas]``."""
        return self.to_polars().to_pandas()

    def __repr__(self) -> str:
        names = ", ".join(item.name for item in self.fields)
        return f"<Result {self.name}: {len(self):,} rows; {names}>"

    def _repr_html_(self) -> str:
        """Return what a notebook shows."""
        return str(self.to_polars()._repr_html_())

    def head(self, count: int) -> Result:
        """Return the first `count` rows."""
        first: dict[str, Values] = {}
        for name, values in self.columns.items():
            if isinstance(values, Texts):
                first[name] = Texts(values.codes[:count], values.values)
            else:
                valid = None if values.valid is None else values.valid[:count]
                first[name] = Numbers(values.values[:count], valid)
        return Result(self.name, self.title, self.fields, first, self.key, self.notes)


@dataclass(frozen=True)
class Skipped:
    """Why an analysis has no result for this trace.

    Attributes:
        name: Name of the analysis.
        reason: What is missing.
        hint: How to record it, or None.
        is_failure: Whether computing it failed, which is a defect of ours or of an extension.
    """

    name: str
    reason: str
    hint: str | None = None
    is_failure: bool = False


@dataclass(frozen=True)
class Document:
    """What a renderer gets.

    Attributes:
        title: What this is about.
        meta: Facts about the recording, JSON-ready: paths, producer, span, lost, unread.
        sections: Results, and what was skipped, in order.
        warnings: Sentences about the recording that every reader must see.
    """

    title: str
    meta: Mapping[str, Any]
    sections: tuple[Result | Skipped, ...]
    warnings: tuple[str, ...] = ()


Severity = Literal["high", "medium", "low", "info"]
SEVERITIES: tuple[Severity, ...] = ("high", "medium", "low", "info")
PartKind = Literal["busy", "idle"]
CheckState = Literal["pass", "fail", "can't tell"]


@dataclass(frozen=True)
class Evidence:
    """Something in the recording that a finding rests on.

    Attributes:
        text: One sentence, with its number.
        table: The table of the trace that shows it; None if it is a fact about the recording.
        rows: The first rows of that table that show it, in its total order.
        count: How many rows show it.
        windows_ns: When it was so: beginnings and ends, the first ones.
    """

    text: str
    table: str | None = None
    rows: tuple[int, ...] = ()
    count: int = 0
    windows_ns: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True)
class Finding:
    """What a rule claims about a run, with what shows it and what to do.

    Attributes:
        rule: Name of the rule, as ``warpline explain`` takes it.
        severity: One of `SEVERITIES`.
        title: A few words.
        claim: One sentence: what is so, and why it matters here.
        evidence: What shows it.
        fix: What to change.
        verify: A command, or a sentence, that shows whether the change helped.
        id: ``F1``, ``F2``... in the order of the diagnosis; empty until it is placed there.
        saving_ns: What the fix saves per step; None where nothing is predicted.
        saving_low_ns: The least it may save.
        saving_high_ns: The most it may save.
        cumulative_saving_ns: What this and all findings before it save together.
        share: The saving as a share of the step.
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


@dataclass(frozen=True)
class ExcludedStep:
    """A step that was recognised and is not counted.

    Attributes:
        index: Its number, as the program counts if that is known.
        label: The name of its range, if it has one.
        process: Id of the process at the operating system.
        reason: Why, in a word or a few.
    """

    index: int
    label: str | None
    process: int
    reason: str


@dataclass(frozen=True)
class StepSummary:
    """The steps that a diagnosis is about.

    Attributes:
        source: ``range:step_*``, ``periodicity``, or ``none``: then the whole trace is one.
        count: How many are counted, over all processes.
        median_ns: Median of a step's time on the slowest device; None without steps.
        p95_ns: 95 of 100 steps take at most this there.
        host_median_ns: Median time from the start of a step's range to the next one's.
        excluded: The steps that are not counted.
    """

    source: str
    count: int
    median_ns: float | None
    p95_ns: float | None
    host_median_ns: float | None
    excluded: tuple[ExcludedStep, ...] = ()


@dataclass(frozen=True)
class Part:
    """A share of a device's time.

    Attributes:
        category: What ran (``gemm``), or why nothing did (``launch-bound``).
        kind: Whether the device was busy or idle.
        ns: Time, summed over the steps that are counted.
        meaning: What the category says, in half a sentence.
    """

    category: str
    kind: PartKind
    ns: int
    meaning: str = ""


@dataclass(frozen=True)
class Breakdown:
    """Where the time of one process on one device went; the parts sum to the total exactly.

    Attributes:
        process: Id of the process at the operating system; None if several share the time.
        device: The producer's index of the GPU.
        device_name: Its product name.
        count: Steps counted; 0 if the whole trace is.
        total_ns: Time on the device in these steps.
        parts: Without those of no time; busy before idle, each by falling time.
    """

    process: int | None
    device: int
    device_name: str | None
    count: int
    total_ns: int
    parts: tuple[Part, ...]

    def ns(self, *, kind: PartKind) -> int:
        """Return the time for which the device was busy, or idle."""
        return sum(part.ns for part in self.parts if part.kind == kind)


@dataclass(frozen=True)
class Check:
    """One line of the checklist.

    Attributes:
        name: What is checked.
        state: ``pass``, ``fail`` or ``can't tell``.
        found: What was found, with its number; or what is missing.
        wanted: The threshold, in words.
        reason: Why this threshold.
        value: The number that was compared; None if there is none.
        unit: Unit of the number, as column names spell it: ``ratio``, ``ns``, ``count``.
    """

    name: str
    state: CheckState
    found: str
    wanted: str
    reason: str
    value: float | None = None
    unit: str = ""


@dataclass(frozen=True, kw_only=True)
class Diagnosis(Document):
    """Where the time of a run went, and what stands out.

    Attributes:
        verdict: One sentence.
        steps: The steps it is about.
        breakdown: Each device's time, per process.
        findings: By severity.
        checks: The checklist.
        overlaps: Facts about simultaneous work of each device, JSON-ready.
        phases: Ranges and the time of their work, JSON-ready rows.
        counter_candidates: Kernels worth a run with hardware counters, JSON-ready rows.
        not_judged: Rules that could say nothing, and why.
    """

    verdict: str
    steps: StepSummary
    breakdown: tuple[Breakdown, ...]
    findings: tuple[Finding, ...] = ()
    checks: tuple[Check, ...] = ()
    overlaps: tuple[Mapping[str, Any], ...] = ()
    phases: tuple[Mapping[str, Any], ...] = ()
    counter_candidates: tuple[Mapping[str, Any], ...] = ()
    not_judged: tuple[Skipped, ...] = ()


Arguments = tuple[str, ...]
Compute = Callable[[Trace, Arguments], "Result | Skipped"]


@dataclass(frozen=True)
class Analysis:
    """A registered analysis.

    Attributes:
        name: What users type.
        title: Heading.
        fields: Columns of its result (an argument may add to them).
        needs: Tables of which at least one must hold rows, in the trace.
        compute: The function.
        doc: Its docstring; `explain` and the documentation show it.
        arguments: Arguments it takes after a colon -> what each does.
        default_rank: Place among the tables that `stats` prints when none is named, or None.
        missing_hint: How to record what it needs.
    """

    name: str
    title: str
    fields: tuple[Field, ...]
    needs: tuple[str, ...]
    compute: Compute
    doc: str
    arguments: Mapping[str, str] = field(default_factory=dict)
    default_rank: int | None = None
    missing_hint: str | None = None


ANALYSES: Registry[Analysis] = Registry("table")


def analysis(  # noqa: PLR0913 - a declaration; every part is named
    *,
    name: str,
    title: str,
    fields: Sequence[Field],
    needs: Sequence[str],
    aliases: Sequence[str] = (),
    arguments: Mapping[str, str] | None = None,
    default_rank: int | None = None,
    missing_hint: str | None = None,
) -> Callable[[Compute], Compute]:
    """Register the decorated function as an analysis.

    The function gets the trace and the arguments written after the name (``:base``), which
    were checked against `arguments`. It runs only when one of the tables in `needs` holds
    rows. Its docstring has the headings *What it measures*, *Why it matters*, *How it is
    computed*, *Limits* and *Source*.
    """

    def register(compute: Compute) -> Compute:
        doc = compute.__doc__ or ""
        ANALYSES.add(
            name,
            Analysis(
                name,
                title,
                tuple(fields),
                tuple(needs),
                compute,
                doc,
                dict(arguments or {}),
                default_rank,
                missing_hint,
            ),
            aliases=aliases,
        )
        return compute

    return register


Judge = Callable[[Trace, str | None], "Sequence[Finding] | Skipped"]


@dataclass(frozen=True)
class Rule:
    """A registered rule, which looks for one kind of fault.

    Attributes:
        name: What users type after ``warpline explain``.
        title: What it looks for, in a few words.
        judge: Gets the trace and the name of the steps' ranges, None to find the steps.
        doc: Its docstring; `explain` and the documentation show it.
    """

    name: str
    title: str
    judge: Judge
    doc: str


RULES: Registry[Rule] = Registry("rule")


def rule(*, name: str, title: str) -> Callable[[Judge], Judge]:
    """Register the decorated function as a rule.

    It returns what it finds, nothing if all is well, or Skipped if it cannot tell. Its docstring
    has the headings *What it finds*, *Why it matters*, *How it is found*, *What to do*, *Limits*
    and *Source*.
    """

    def register(judge: Judge) -> Judge:
        RULES.add(name, Rule(name, title, judge, judge.__doc__ or ""))
        return judge

    return register


class Facts(Mapping[str, Any]):
    """Facts by name; one given as a function is computed when it is asked for."""

    def __init__(self, facts: Mapping[str, Any]) -> None:
        self._facts = dict(facts)

    def __getitem__(self, name: str) -> Any:
        fact = self._facts[name]
        return fact() if callable(fact) else fact

    def __iter__(self) -> Iterator[str]:
        return iter(self._facts)

    def __len__(self) -> int:
        return len(self._facts)


def describe_meta(trace: Trace) -> Mapping[str, Any]:
    """Return the facts about a recording that every JSON document carries."""
    meta = trace.meta

    def span_ns() -> int:
        # Reads every table of events: only for who asks.
        start_ns, end_ns = trace.span()
        return end_ns - start_ns

    def recorded_ns() -> int:
        return trace.recorded_ns()

    facts = {
        "paths": [str(path) for path in meta.paths],
        "format": meta.format,
        "format_version": meta.format_version,
        "producer": meta.producer,
        "host": meta.host,
        "command": meta.command,
        "origin_utc_ns": meta.origin_utc_ns,
        "span_ns": span_ns,
        "recorded_ns": recorded_ns,
        "lost": dict(meta.lost),
        "unread": dict(meta.unread),
        "damaged": dict(meta.damaged),
    }
    return Facts(facts)


def warnings_of(trace: Trace) -> tuple[str, ...]:
    """Return what users must know about a recording: losses first."""
    meta = trace.meta
    said = [
        f"{subject} were lost while recording" + ("" if count is None else f": {count:,}")
        for subject, count in meta.lost.items()
    ]
    said += [f"table {table!r} could not be read: {why}" for table, why in meta.damaged.items()]
    return (*said, *meta.warnings)


def source_name(paths: Sequence[Path]) -> str:
    """Return a short name for one or several files."""
    first = paths[0].name if paths else "?"
    return first if len(paths) < 2 else f"{first} and {len(paths) - 1} more"
