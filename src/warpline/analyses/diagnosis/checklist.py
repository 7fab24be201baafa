"""checklist: common performance checks, each with its value and target."""

from __future__ import annotations

import numpy as np

from warpline.derived.breakdown.measured_time import measured_time
from warpline.derived.work.busy import DEVICE_TABLES
from warpline.result import Arguments, Check, Field, Numbers, Result, analysis, column_of
from warpline.result.checks import CHECKS, CheckSpec, states_in_words
from warpline.trace import Run, Trace
from warpline.units import Unit

NAME = "checklist"
TITLE = "Checklist"
FIELDS = (
    Field("state", Unit.NONE, "pass, fail or unknown.", "State"),
    Field("name", Unit.NONE, "What is checked.", "Check"),
    Field("found", Unit.NONE, "The measured value, or what is missing.", "Found"),
    Field("wanted", Unit.NONE, "The target.", "Target"),
    Field("reason", Unit.NONE, "Why it matters.", "Reason", is_detail=True),
    Field("value", Unit.NONE, "The number compared with the target.", "Value", digits=4),
    Field("unit", Unit.NONE, "Unit of the number: ratio or count.", "Unit"),
    Field("id", Unit.NONE, "Id of the check, which does not change.", "Id", is_detail=True),
)

_NOT_RECORDED = {"memcpy": "copies not recorded", "kernel": "kernels not recorded"}


@analysis(
    name=NAME,
    title=TITLE,
    fields=FIELDS,
    needs=DEVICE_TABLES,
    arguments={"name": "name=PATTERN: the ranges that are steps."},
    missing_hint="profile a program that uses a GPU with --trace=cuda",
)
def checklist(trace: Trace, arguments: Arguments) -> Result:
    """Common performance checks, each with its value, target and reason.

    What it measures: Whether the GPU is busy; whether copies, communication and streams overlap
        with compute; whether the program synchronizes unnecessarily, runs many short kernels,
        launches its optimizer in few kernels, fuses elementwise operations with GEMMs, and avoids
        layout conversions. Also whether the recording has enough steps after warm-up.
    Why it matters: These are the first things to check before any single kernel. A failed check
        is not a finding with an estimated saving. It shows where to look.
    How it is computed: Over the included steps or, without steps, from the first to the last
        operation. With several GPUs or processes, the worst one counts. Shares are those of the
        tables breakdown and overlap. A kernel is short below 10 us. Kernels of CUDA graphs are
        excluded, as they need no launches of their own. An elementwise kernel is an unfused
        epilogue if it directly follows a GEMM or convolution on its stream. Optimizer launches are
        kernels of that category, and all kernels launched in ranges with the word "optim" or
        "optimizer" in their names.
    Limits: Targets are rules of thumb. A check whose data is missing from the recording is
        unknown: it neither passes nor fails.
    Source: Warpline.
    """
    name = next((text.partition("=")[2] for text in arguments if text.startswith("name=")), None)
    run = Run(trace, name)
    checks = [_measure(run, spec) for spec in sorted(CHECKS, key=lambda spec: spec.rank)]
    return _result(checks, ":".join((NAME, *arguments)))


def _measure(run: Run, spec: CheckSpec) -> Check:
    """Return the check, or its unknown state if the recording lacks its data."""
    outcome = spec.measure(run)
    missing = _missing(run, spec)
    if missing is not None:
        outcome = outcome._replace(state="unknown", found=missing, value=None)
    return spec.result(outcome)


def _missing(run: Run, spec: CheckSpec) -> str | None:
    """Return the data that a check needs and the recording lacks, if any."""
    if "kernel" in spec.needs and measured_time(run).is_opaque:
        return "CUDA graphs traced at graph level"
    lacks = (table for table in spec.needs if not run.trace.has(table))
    return next((_NOT_RECORDED.get(table, f"{table} not recorded") for table in lacks), None)


def _result(checks: list[Check], name: str) -> Result:
    columns = {field.name: column_of([getattr(x, field.name) for x in checks]) for field in FIELDS}
    values = [check.value for check in checks]
    known = np.array([value is not None for value in values], np.bool_)
    numbers = np.array([value or 0.0 for value in values], np.float64)
    columns["value"] = Numbers(numbers, known)
    return Result(name, TITLE, FIELDS, columns, ("name",), (states_in_words(checks),))
