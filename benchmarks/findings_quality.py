"""What the findings said would be saved, beside what was saved: the table of docs/findings.md.

usage: findings_quality.py FOLDER [FOLDER ...]

A folder holds pairs NAME.bad.EXT and NAME.fixed.EXT; of several ranks NAME.bad.rank0.EXT and so
on, which are opened together. For each pair the first finding about one fault of the bad program
(or, without one, the first generic one) is printed with the predicted step, its bounds, and the
step of the repaired program; then what the repaired programs still have.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import warpline
from warpline.result import Diagnosis, Finding

SUFFIXES = (".sqlite", ".json.gz", ".warpline")


def files_of(folder: Path, name: str) -> list[Path]:
    """Return the file of a program, or of all its ranks."""
    return sorted(
        path
        for path in folder.iterdir()
        if path.name.startswith(f"{name}.") and path.name.endswith(SUFFIXES)
    )


def first_finding(diagnosis: Diagnosis) -> Finding | None:
    """Return the finding that is to be followed first: about one fault before generic ones."""
    priced = [item for item in diagnosis.findings if item.saving_ns is not None]
    return min(priced, key=lambda item: item.is_generic, default=None)


def pair_line(name: str, bad: Diagnosis, fixed: Diagnosis, seconds: float) -> str:
    """Return what was predicted for a pair beside what was true."""
    found = first_finding(bad)
    if found is None or bad.replay is None or fixed.replay is None:
        return f"{name:16} nothing was predicted"
    step, truth = bad.replay.step_ns, fixed.replay.step_ns
    savings = (found.saving_high_ns or 0, found.saving_ns or 0, found.saving_low_ns or 0)
    low, central, high = (step - saving for saving in savings)
    bounds = f"{low / 1e6:.2f} to {high / 1e6:.2f}"
    inside = "" if low <= truth <= high else "  truth outside"
    return (
        f"{name:16} {found.rule:22} {step / 1e6:7.2f} {central / 1e6:9.2f} {bounds:>15}"
        f" {truth / 1e6:8.2f} {central / truth - 1:+6.0%} {(high - low) / step:6.0%}"
        f" {bad.replay.error_ratio:7.2%} {bad.replay.unexplained_ratio:7.2%} {seconds:5.1f}{inside}"
    )


def print_pairs(folder: Path) -> None:
    """Print the pairs of a folder, and what the repaired programs still have."""
    print(f"\n{folder}")
    print(
        f"{'program':16} {'first finding':22} {'bad ms':>7} {'predicted':>9} {'bounds':>15}"
        f" {'repaired':>8} {'error':>6} {'width':>6} {'replay':>7} {'unexpl.':>7} {'s':>5}"
    )
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
        print(pair_line(name, before, after, seconds))
        found = (f"{x.rule} ({x.severity})" for x in after.findings if x.severity != "info")
        remaining.append(f"{name:16} {', '.join(found) or 'nothing'}")
    print("\nleft in the repaired programs")
    print("\n".join(remaining))


def main() -> None:
    """Print the pairs of each folder."""
    for folder in map(Path, sys.argv[1:]):
        print_pairs(folder)


if __name__ == "__main__":
    main()
