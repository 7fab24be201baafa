"""``warpline analyze``: where the time goes, and how to reduce it."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from warpline.cli import talk
from warpline.cli.arguments import (
    add_filters,
    add_output,
    add_recordings,
    add_steps,
    all_excluded,
    filters_in_words,
    open_trace,
    require_recordings,
)
from warpline.cli.output import Output, Render
from warpline.cli.startup import lazy
from warpline.errors import UsageError

if TYPE_CHECKING:
    import dataclasses

    from warpline import api, result, units
    from warpline.render.diagnosis import json, markdown, text
    from warpline.result import Diagnosis, Result
else:
    dataclasses = lazy("dataclasses")
    api = lazy("warpline.api")
    result = lazy("warpline.result")
    units = lazy("warpline.units")
    json = lazy("warpline.render.diagnosis.json")
    markdown = lazy("warpline.render.diagnosis.markdown")
    text = lazy("warpline.render.diagnosis.text")

NAME = "analyze"
HELP = "show where GPU time goes: steps, idle causes, phases, findings, checklist"

_FOUND = 3  # exit status: findings at or above --fail-on


def add_arguments(parser: ArgumentParser) -> None:
    """Declare the arguments of this command."""
    add_recordings(parser)
    group = parser.add_argument_group("analysis")
    add_steps(group)
    group.add_argument(
        "--checklist",
        action="store_true",
        help="print the checklist with its thresholds and reasons",
    )
    group.add_argument(
        "--each", action="store_true", help="analyze each recording separately, not all as one run"
    )
    group.add_argument(
        "--fail-on",
        metavar="SEVERITY",
        help="exit with status 3 if a finding has this severity or higher: high, medium, low, info",
    )
    add_filters(parser)
    add_output(parser, formats="text, json, markdown, csv (the breakdown)")


def run(args: Namespace) -> int:
    """Print the diagnosis; status 3 for findings at or above --fail-on."""
    if args.fail_on is not None and args.fail_on not in result.SEVERITIES:
        raise UsageError(
            f"--fail-on: unknown severity {args.fail_on!r}",
            hint=f"use {', '.join(result.SEVERITIES)}",
        )
    require_recordings(args)
    output = Output(args, _renderers(checklist=args.checklist))
    diagnoses: list[Diagnosis] = []
    output.write_all(_documents(args, output.format, diagnoses), as_list=args.each)
    for item in (
        item for diagnosis in diagnoses for item in diagnosis.not_judged if item.is_failure
    ):
        talk.failure(f"{item.name}: {item.reason}", item.hint, debug=False)
    if any(item.is_failure for diagnosis in diagnoses for item in diagnosis.not_judged):
        return 1
    if args.fail_on is None:
        return 0
    grave = result.SEVERITIES[: result.SEVERITIES.index(args.fail_on) + 1]
    has_found = any(
        item.severity in grave for diagnosis in diagnoses for item in diagnosis.findings
    )
    return _FOUND if has_found else 0


def _renderers(*, checklist: bool) -> Mapping[str, Render]:

    if checklist:
        return {
            "text": text.render_checklist,
            "json": json.render,
            "markdown": markdown.render_checklist,
        }
    return {"text": text.render, "json": json.render, "markdown": markdown.render}


def _documents(args: Namespace, format: str, diagnoses: list[Diagnosis]) -> Iterator[Diagnosis]:  # noqa: A002
    """Yield the documents to write, and append each diagnosis to `found`."""
    groups = [[path] for path in args.recordings] if args.each else [args.recordings]
    for paths in groups:
        diagnosis = _diagnose(Namespace(**{**vars(args), "recordings": paths}))
        diagnoses.append(diagnosis)
        table = "checklist" if args.checklist else "breakdown"
        yield _one_table(diagnosis, table, is_named=args.each) if format == "csv" else diagnosis


def _diagnose(args: Namespace) -> Diagnosis:

    trace = open_trace(args)
    error = all_excluded(trace, args)
    if error is not None:
        raise error
    diagnosis = api.analyze(trace, steps=args.steps, keep_going=not args.debug)
    part = filters_in_words(args)
    return dataclasses.replace(diagnosis, title=f"{diagnosis.title} {part}") if part else diagnosis


def _one_table(diagnosis: Diagnosis, name: str, *, is_named: bool) -> Diagnosis:
    """Return the diagnosis with only one of its tables, for formats that show tables."""
    tables = [
        item
        for item in diagnosis.sections
        if isinstance(item, result.Result) and item.name.split(":")[0] == name
    ]
    if is_named:
        tables = [_with_title(item, diagnosis.title) for item in tables]
    return dataclasses.replace(diagnosis, sections=tuple(tables))


def _with_title(table: Result, title: str) -> Result:
    """Return the table with the name of the recording as its first column."""
    field = result.Field("recording", units.Unit.NONE, "The recording.", "Recording")
    column = result.column_of([title] * len(table))
    return dataclasses.replace(
        table,
        fields=(field, *table.fields),
        columns={field.name: column, **table.columns},
        key=(field.name, *table.key),
    )
