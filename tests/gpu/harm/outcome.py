"""The results of a harm test as a table, as JSON, and as a section of docs/harm.md."""

from __future__ import annotations

import json
import platform
import re
import subprocess
import sys
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from importlib import metadata
from pathlib import Path
from typing import Any

from gpu.harm.building import ROOT, find_nvcc
from gpu.harm.judging import Verdict, status_name
from gpu.harm.levels import LEVELS
from gpu.harm.running import Run
from gpu.harm.table import Program

BEGIN, END = "<!-- harm: begin -->", "<!-- harm: end -->"
_PACKAGES = (
    "torch", "triton", "jax", "flax", "cupy-cuda13x", "numba-cuda", "cuda-bindings",
    "transformers", "lightning", "accelerate", "nvidia-cuda-cupti",
)  # fmt: skip


@dataclass
class Row:
    """A program, its runs and their verdicts.

    Attributes:
        skipped: Why it was not run, or None.
        fault: Why the program fails even without profiling, or None.
        runs: By name of the level, in the order in which they ended; `alone` is one of them.
        verdicts: By name of the level, one per run.
    """

    program: Program
    skipped: str | None = None
    fault: str | None = None
    runs: dict[str, list[Run]] = field(default_factory=dict)
    verdicts: dict[str, list[Verdict]] = field(default_factory=dict)
    left_out: list[str] = field(default_factory=list)

    def cell(self, level: str) -> str:
        """Return the table's cell for a level."""
        verdicts = self.verdicts.get(level)
        if not verdicts:
            return "left out" if level in self.left_out else ""
        harmed = sum(bool(one.harm) for one in verdicts)
        flawed = sum(bool(one.flaws) for one in verdicts)
        of_all = f" {{}}/{len(verdicts)}" if len(verdicts) > 1 else ""
        if harmed:
            return "HARM" + of_all.format(harmed)
        if flawed:
            return "FLAW" + of_all.format(flawed)
        return "ok" + of_all.format(len(verdicts))

    def alone(self) -> str:
        """Return the table's cell for the runs without profiling."""
        if self.skipped:
            return "skipped"
        if self.fault:
            return "FAULT"
        runs = self.runs.get("alone", [])
        return status_name(runs[0].status) if runs else "left out"


@dataclass
class Outcome:
    """All results of a harm test."""

    rows: list[Row]
    versions: dict[str, str]
    seconds: float = 0.0

    def count(self, what: str) -> int:
        """Return the number of runs with `harm` or `flaws`, or that are `good`."""
        verdicts = [one for row in self.rows for level in row.verdicts.values() for one in level]
        return sum(one.is_good if what == "good" else bool(getattr(one, what)) for one in verdicts)

    def closing(self) -> str:
        """Return the last line: the totals."""
        faults = sum(row.fault is not None for row in self.rows)
        skipped = sum(row.skipped is not None for row in self.rows)
        left_out = sum(len(row.left_out) for row in self.rows)
        return (
            f"{len(self.rows)} programs: {self.count('good')} recorded runs ok, "
            f"{self.count('harm')} harmed, {self.count('flaws')} with a flawed recording. "
            f"{faults} programs faulty, {skipped} skipped, {left_out} runs left out. "
            f"{self.seconds:.0f} s"
        )

    def status(self) -> int:
        """Return the exit status: 1 for harm or a flaw, 2 for faulty or left-out programs."""
        if self.count("harm") or self.count("flaws"):
            return 1
        return 2 if any(row.fault or row.left_out for row in self.rows) else 0


def table(rows: Sequence[Row]) -> list[list[str]]:
    """Return the table's lines, the heading first."""
    levels = [name for name in LEVELS if any(row.cell(name) for row in rows)]
    lines = [["program", "alone", *levels]]
    lines += [[row.program.name, row.alone(), *(row.cell(name) for name in levels)] for row in rows]
    return lines


def details(rows: Iterable[Row]) -> list[str]:
    """Return a line for each result other than `ok`."""
    lines = []
    for row in rows:
        name = row.program.name
        if row.skipped:
            lines.append(f"{name}: skipped: {row.skipped}")
        if row.fault:
            lines.append(f"{name}: FAULT of the program: {row.fault}")
        for level, verdicts in row.verdicts.items():
            said = dict.fromkeys(text for one in verdicts for text in _said(one))
            lines += [f"{name} at {level}: {text}" for text in said]
        if row.left_out:
            lines.append(f"{name}: left out (time limit): {', '.join(row.left_out)}")
    return lines


def _said(verdict: Verdict) -> list[str]:
    texts = [f"HARM {text}" for text in verdict.harm] + [f"FLAW {text}" for text in verdict.flaws]
    return texts + [f"note {text}" for text in verdict.notes]


def as_text(outcome: Outcome) -> str:
    """Return the table, the details, the versions and the closing line."""
    lines = table(outcome.rows)
    widths = [max(len(line[column]) for line in lines) for column in range(len(lines[0]))]
    shown = [
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    ]
    versions = ", ".join(f"{name} {version}" for name, version in outcome.versions.items())
    parts = ["\n".join(shown), "\n".join(details(outcome.rows)), versions, outcome.closing()]
    return "\n\n".join(part for part in parts if part)


def as_markdown(outcome: Outcome) -> str:
    """Return the same as Markdown for docs/harm.md."""
    heading, *lines = table(outcome.rows)
    cells = [heading, ["---"] * len(heading), *lines]
    shown = "\n".join(f"| {' | '.join(line)} |" for line in cells)
    said = "\n".join(f"- {line}" for line in details(outcome.rows))
    versions = ", ".join(f"{name} {version}" for name, version in outcome.versions.items())
    parts = [f"Run with {versions}.", shown, said, outcome.closing()]
    return "\n\n".join(part for part in parts if part)


def write_markdown(path: Path, outcome: Outcome) -> None:
    """Write the table between the page's two markers; create the page if it does not exist.

    Raises:
        ValueError: The page has no markers.
    """
    page = path.read_text() if path.exists() else f"{BEGIN}\n{END}\n"
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"{path} has no lines {BEGIN} and {END}")
    path.write_text(f"{before}{BEGIN}\n\n{as_markdown(outcome)}\n\n{END}{after}")


def as_json(outcome: Outcome) -> str:
    """Return all runs with their details, without their output."""
    rows = [
        {
            "program": row.program.name,
            "command": row.program.words,
            "skipped": row.skipped,
            "fault": row.fault,
            "left_out": row.left_out,
            "runs": [
                _run_facts(level, run, number, row.verdicts.get(level))
                for level, runs in row.runs.items()
                for number, run in enumerate(runs)
            ],
        }
        for row in outcome.rows
    ]
    facts = {"versions": outcome.versions, "seconds": outcome.seconds, "programs": rows}
    return json.dumps({**facts, "closing": outcome.closing()}, indent=1)


def _run_facts(level: str, run: Run, number: int, verdicts: list[Verdict] | None) -> dict[str, Any]:
    return {
        "level": level,
        "status": run.status,
        "seconds": round(run.seconds, 3),
        "told_kernels": run.told("kernels"),
        "recording": None if run.recording is None else asdict(run.recording),
        "verdict": None if verdicts is None else asdict(verdicts[number]),
    }


def versions() -> dict[str, str]:
    """Return the versions of hardware and software."""
    import warpline

    commit = _said_by("git", "-C", str(ROOT), "rev-parse", "--short", "HEAD")
    found = {"warpline": f"{warpline.__version__} {commit}".strip()}
    query = "--query-gpu=name,driver_version"
    gpu = _said_by("nvidia-smi", query, "--format=csv,noheader").splitlines()
    found["GPU and driver"] = f"{len(gpu)} x {gpu[0]}" if gpu else "none"
    compiler = find_nvcc()
    release = (
        re.search(r"release (\S+),", _said_by(str(compiler), "--version")) if compiler else None
    )
    found["CUDA compiler"] = release.group(1) if release else "none"
    found["Python"] = platform.python_version()
    for name in _PACKAGES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found


def _said_by(*command: str) -> str:
    try:
        done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=30)
    except OSError:
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


def progress(text: str) -> None:
    """Print the progress."""
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()
