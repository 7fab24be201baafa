"""What each medium shows of a diagnosis: the sections, their order, and how much of each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from warpline.presentation.blocks import Block, Presentation
from warpline.presentation.candidates import (
    candidates_in_short,
    candidates_on_page,
    candidates_table,
)
from warpline.presentation.checks import (
    checklist_entries,
    checklist_on_page,
    checklist_table,
    failed_checks,
    failed_checks_in_table,
)
from warpline.presentation.closing import (
    closing,
    environment,
    excluded_steps,
    facts_table,
    findings_command,
    skipped_rules,
    step_times,
    unrecorded,
    warnings,
)
from warpline.presentation.devices import (
    devices_in_markdown,
    devices_in_notebook,
    devices_on_page,
    devices_on_screen,
)
from warpline.presentation.findings import (
    findings,
    findings_in_notebook,
    findings_in_short,
    findings_on_page,
    first_findings,
)
from warpline.presentation.head import cards, head
from warpline.presentation.overlaps import overlaps
from warpline.presentation.phases import all_phases, first_phases, longest_phases
from warpline.presentation.results import first_rows
from warpline.presentation.step_source import step_source
from warpline.presentation.training import training, training_on_screen
from warpline.result import Diagnosis, Result


def screen(diagnosis: Diagnosis) -> Presentation:
    """Return what a terminal shows: the main points, in about a screen."""
    return _presentation(
        diagnosis,
        *head(diagnosis),
        *step_source(diagnosis),
        *devices_on_screen(diagnosis, most=2),
        *overlaps(diagnosis, most=6),
        *training_on_screen(diagnosis),
        *longest_phases(diagnosis, most=8, depth=3),
        *findings_in_short(diagnosis),
        *failed_checks(diagnosis),
        *candidates_in_short(diagnosis, most=3),
        *closing(diagnosis),
    )


def checklist_screen(diagnosis: Diagnosis) -> Presentation:
    """Return what a terminal shows of the checklist: values, targets and reasons."""
    return _presentation(
        diagnosis,
        *head(diagnosis),
        *checklist_entries(diagnosis),
        *findings_command(diagnosis),
    )


def markdown(diagnosis: Diagnosis) -> Presentation:
    """Return what Markdown shows: all that is needed to judge, for an issue."""
    return _presentation(
        diagnosis,
        *head(diagnosis, has_warnings=True),
        *step_source(diagnosis),
        *devices_in_markdown(diagnosis),
        *overlaps(diagnosis),
        *training(diagnosis),
        *first_phases(diagnosis, most=12),
        *findings(diagnosis),
        *candidates_table(diagnosis),
        *checklist_table(diagnosis),
    )


def report_markdown(
    diagnosis: Diagnosis,
    facts: Sequence[tuple[str, str]],
    tables: Sequence[Result],
    missing: Sequence[tuple[str, str]],
) -> Presentation:
    """Return what a report in Markdown shows: a page to paste into an issue.

    Args:
        diagnosis: The diagnosis.
        facts: Machine, software and recording, as names and texts.
        tables: Tables of which the first rows are shown, known to `first_rows`.
        missing: What was not recorded, each with how to record it.
    """
    return _presentation(
        diagnosis,
        *head(diagnosis, has_warnings=True),
        *facts_table("Environment", facts),
        *step_source(diagnosis),
        *devices_on_screen(diagnosis, most=1),
        *overlaps(diagnosis, most=4),
        *training(diagnosis),
        *first_phases(diagnosis, most=8),
        *first_rows(tables, most=8),
        *first_findings(diagnosis, most=5),
        *failed_checks(diagnosis),
        *excluded_steps(diagnosis),
        *unrecorded(missing),
    )


def checklist_markdown(diagnosis: Diagnosis) -> Presentation:
    """Return what Markdown shows of the checklist."""
    return _presentation(
        diagnosis,
        *head(diagnosis, has_warnings=True),
        *checklist_table(diagnosis, is_required=True),
    )


def notebook(diagnosis: Diagnosis) -> Presentation:
    """Return what a notebook shows; its reader has the objects for the rest."""
    return _presentation(
        diagnosis,
        *head(diagnosis, has_warnings=True),
        *step_source(diagnosis),
        *devices_in_notebook(diagnosis, most=4),
        *findings_in_notebook(diagnosis),
        *failed_checks_in_table(diagnosis),
    )


def page(
    diagnosis: Diagnosis,
    step_lists: Sequence[Mapping[str, Any]],
    facts: Sequence[Sequence[str]],
) -> Presentation:
    """Return what the overview of the page shows.

    Args:
        diagnosis: The diagnosis.
        step_lists: The lists of steps in the container of the page.
        facts: Facts about the recording and the machine, as names and values.
    """
    return _presentation(
        diagnosis,
        *head(diagnosis, has_facts=True),
        *cards(diagnosis),
        *warnings(diagnosis),
        *step_source(diagnosis),
        *devices_on_page(diagnosis, most=16),
        *findings_on_page(diagnosis),
        *step_times(diagnosis, step_lists[0] if step_lists else None),
        *training(diagnosis),
        *all_phases(diagnosis, least_tenths=5, most=60, depth=4),
        *checklist_on_page(diagnosis),
        *candidates_on_page(diagnosis, most=5),
        *skipped_rules(diagnosis),
        *environment(facts),
    )


def _presentation(diagnosis: Diagnosis, *blocks: Block) -> Presentation:
    paths = diagnosis.meta.get("paths", ())
    return Presentation(blocks, tuple(str(path) for path in paths))
