"""Estimated savings of the findings compared with measured ones: the table of docs/findings.md.

usage: findings_quality.py DIRECTORY [DIRECTORY ...]

A directory contains pairs NAME.bad.EXT and NAME.fixed.EXT. With several ranks, the files are named
NAME.bad.rank0.EXT and so on, and are opened together. For each pair, this prints the first finding
about a specific problem of the bad program (or else the first generic one) with the predicted step,
its bounds, and the step of the fixed program, all without profiling. That step is estimated from
the recording, unless the directory has a file measured.json: {"NAME": MILLISECONDS, ...}. The
remaining findings of the fixed programs follow.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import warpline
from warpline.result import Diagnosis, Finding

SUFFIXES = (".sqlite", ".json.gz", ".warpline")


def files_of(folder: Path, name: str) -> list[Path]:
    """Return the files of a program: one per rank."""
    return sorted(
        path
        for path in folder.iterdir()
        if path.name.startswith(f"{name}.") and path.name.endswith(SUFFIXES)
    )


def first_finding(diagnosis: Diagnosis) -> Finding | None:
    """Return the finding to act on first: specific problems before generic ones."""
    priced = [item for item in diagnosis.findings if item.saving_ns is not None]
    return min(priced, key=lambda item: item.is_generic, default=None)


def step_ns(diagnosis: Diagnosis) -> int:
    """Return the step without profiling; 0 if nothing was simulated."""
    recorded = diagnosis.replay.step_ns if diagnosis.replay else 0
    return diagnosis.steps.unprofiled_ns or recorded


def pair_line(
    name: str, bad: Diagnosis, fixed: Diagnosis, seconds: float, measured_ms: float | None
) -> str:
    """Return the row with prediction and measurement for a pair."""
    found = first_finding(bad)
    if found is None or bad.replay is None or fixed.replay is None:
        return f"{name:16} no prediction"
    step = step_ns(bad)
    truth = step_ns(fixed) if measured_ms is None else round(measured_ms * 1e6)
    low, central, high = (
        ns or 0
        for ns in (
            found.predicted_step_low_ns,
            found.predicted_step_ns,
            found.predicted_step_high_ns,
        )
    )
    bounds = f"{low / 1e6:.2f} to {high / 1e6:.2f}"
    inside = "" if low <= truth <= high else "  truth outside"
    return (
        f"{name:16} {found.rule:22} {step / 1e6:7.2f} {central / 1e6:9.2f} {bounds:>15}"
        f" {truth / 1e6:8.2f} {central / truth - 1:+6.0%} {(high - low) / max(central, 1):6.0%}"
        f" {bad.replay.error_ratio:7.2%} {bad.replay.unexplained_ratio:7.2%} {seconds:5.1f}{inside}"
    )


def print_pairs(folder: Path) -> None:
    """Print the pairs of a directory, and the remaining findings of the fixed programs."""
    print(f"\n{folder}")
    print(
        f"{'program':16} {'first finding':22} {'bad ms':>7} {'predicted':>9} {'bounds':>15}"
        f" {'repaired':>8} {'error':>6} {'width':>6} {'replay':>7} {'unexpl.':>7} {'s':>5}"
    )
    known = folder / "measured.json"
    measured = json.loads(known.read_text()) if known.exists() else {}
    names = sorted({path.name.split(".bad.")[0] for path in folder.glob("*.bad.*")})
    remaining = []
    for name in names:
        bad, fixed = files_of(folder, f"{name}.bad"), files_of(folder, f"{name}.fixed")
        if not bad or not fixed:
            continue
        began = time.perf_counter()
        before = warpline.analyze(warpline.open(*bad))
        seconds = time.perf_counter() - began
        after = warpline.analyze(warpline.open(*fixed))
        print(pair_line(name, before, after, seconds, measured.get(name)))
        found = (f"{x.rule} ({x.severity})" for x in after.findings if x.severity != "info")
        remaining.append(f"{name:16} {', '.join(found) or 'nothing'}")
    print("\nremaining findings of the fixed programs")
    print("\n".join(remaining))


def main() -> None:
    """Print the pairs of each directory."""
    for folder in map(Path, sys.argv[1:]):
        print_pairs(folder)


if __name__ == "__main__":
    main()
